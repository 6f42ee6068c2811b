"""Build the three byte corpora of tinycpt from pinned wheels.

Source domain: the Python files of six pure-Python packages. Target domain: the C++ headers of one package. Second target
domain (`docs`): the English documentation strings of one. Wheels are archives with a fixed content for a fixed version,
so everyone who runs this gets the same bytes; `corpora.json` has their digests. No text is
committed.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
CACHE = HERE / ".cache"

PACKAGES = {
    "source": {
        "Django": "6.1.3",
        "networkx": "3.7",
        "Twisted": "26.10.0",
        "ansible-core": "2.21.5",
        "sphinx": "9.2.0",
        "sympy": "1.14.0",
    },
    "target": {"nvidia-cuda-cccl": "13.3.5.0.6"},
    "docs": {"botocore": "1.44.5"},
}
SUFFIXES = {"source": (".py",), "target": (".h", ".cuh", ".hpp", ".inl"), "docs": ("service-2.json.gz",)}
VALIDATION_SHARE = 0.04
SHORTEST_BLOCK = 80  # characters; shorter repeated paragraphs (`return self`) are ordinary code, longer ones are boilerplate


def wheels(packages: dict[str, str]) -> list[Path]:
    """Download the named wheels once, without their dependencies, and return their paths."""
    CACHE.mkdir(exist_ok=True)
    paths = []
    for name, version in packages.items():
        stem = name.replace("-", "_").lower() + "-" + version
        files = [p for p in CACHE.glob("*.whl") if p.name.lower().startswith(stem)]
        if not files:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--dest", str(CACHE)]
            platform = ["--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_17_x86_64"]
            subprocess.run([*command, *platform, f"{name}=={version}"], check=True)
            files = [p for p in CACHE.glob("*.whl") if p.name.lower().startswith(stem)]
        paths.extend(files)
    return paths


def documentation(value: Any) -> Iterator[str]:
    """Yield the documentation strings of a service description, without their HTML tags."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        if key == "documentation" and isinstance(inner, str):
            yield " ".join(html.unescape(re.sub(r"<[^>]+>", " ", inner)).split())
        else:
            yield from documentation(inner)


def texts(packages: dict[str, str], suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the files with these suffixes, in a fixed order."""
    for path in wheels(packages):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(suffixes):
                    content = archive.read(name)
                    if name.endswith(".json.gz"):
                        text = "\n\n".join(documentation(json.loads(gzip.decompress(content))))
                    else:
                        text = content.decode("utf-8", errors="ignore")
                    yield f"{path.name}/{name}", text


def without_repeats(files: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Drop every long paragraph seen before in any file: licence headers, vendored copies, generated tables."""
    seen: set[bytes] = set()
    for name, text in files:
        kept = []
        for block in text.split("\n\n"):
            if len(block) >= SHORTEST_BLOCK:
                digest = hashlib.blake2b(" ".join(block.split()).encode(), digest_size=12).digest()
                if digest in seen:
                    continue
                seen.add(digest)
            kept.append(block)
        joined = "\n\n".join(kept).strip()
        if len(joined) >= 4 * SHORTEST_BLOCK:
            yield name, joined + "\n\n"


def build(domain: str) -> dict[str, NDArray[np.uint8]]:
    """Return {"train": bytes, "validation": bytes} of a domain, split by file before anything is tokenised."""
    parts: dict[str, list[bytes]] = {"train": [], "validation": []}
    for name, text in without_repeats(texts(PACKAGES[domain], SUFFIXES[domain])):
        draw = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") / 2**64
        parts["validation" if draw < VALIDATION_SHARE else "train"].append(text.encode())
    # Files of one package are next to each other; after a fixed shuffle every stretch of the corpus is representative.
    order = np.random.default_rng(0)
    for blocks in parts.values():
        order.shuffle(blocks)
    return {split: np.frombuffer(b"".join(blocks), dtype=np.uint8) for split, blocks in parts.items()}


def load() -> dict[str, dict[str, NDArray[np.uint8]]]:
    """Return the corpora of all domains, checked against `corpora.json`; a domain that is not in it is added."""
    path = HERE / "corpora.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    corpora = {}
    for domain in PACKAGES:
        corpora[domain] = splits = build(domain)
        digests = {split: {"bytes": int(a.size), "sha256": hashlib.sha256(a.tobytes()).hexdigest()} for split, a in splits.items()}
        record = {"packages": PACKAGES[domain], **digests}
        if domain not in known:
            known[domain] = record
            path.write_text(json.dumps(known, indent=2) + "\n")
        elif known[domain] != record:
            raise SystemExit(f"The corpus {domain} differs from {path.name}: {record} instead of {known[domain]}")
    return corpora


if __name__ == "__main__":
    for domain, splits in load().items():
        print(domain, {split: f"{a.size / 1e6:.1f} MB" for split, a in splits.items()})
