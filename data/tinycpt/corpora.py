"""Build the two byte corpora of tinycpt from pinned wheels.

Source domain: the Python files of six pure-Python packages. Target domain: the C++ headers of one package. Wheels are
archives with a fixed content for a fixed version, so everyone who runs this gets the same bytes; `corpora.json` keeps
the digests to prove it. Nothing of the text is committed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
CACHE = HERE / ".cache"

SOURCE = {
    "Django": "6.1.3",
    "networkx": "3.7",
    "Twisted": "26.10.0",
    "ansible-core": "2.21.5",
    "sphinx": "9.2.0",
    "sympy": "1.14.0",
}
TARGET = {"nvidia-cuda-cccl": "13.3.5.0.6"}
SUFFIXES = {"source": (".py",), "target": (".h", ".cuh", ".hpp", ".inl")}
VALIDATION_SHARE = 0.04
SHORTEST_BLOCK = 80  # characters; shorter repeated paragraphs (`return self`) are ordinary code, longer ones are boilerplate


def wheels(packages: dict[str, str]) -> list[Path]:
    """Download the named wheels once, without their dependencies, and return their paths."""
    CACHE.mkdir(exist_ok=True)
    paths = []
    for name, version in packages.items():
        stem = name.replace("-", "_").lower() + "-" + version
        found = [p for p in CACHE.glob("*.whl") if p.name.lower().startswith(stem)]
        if not found:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--dest", str(CACHE)]
            platform = ["--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_17_x86_64"]
            subprocess.run([*command, *platform, f"{name}=={version}"], check=True)
            found = [p for p in CACHE.glob("*.whl") if p.name.lower().startswith(stem)]
        paths.extend(found)
    return paths


def texts(packages: dict[str, str], suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the files with these suffixes, in a fixed order."""
    for path in wheels(packages):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(suffixes):
                    yield f"{path.name}/{name}", archive.read(name).decode("utf-8", errors="ignore")


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
    packages = SOURCE if domain == "source" else TARGET
    parts: dict[str, list[bytes]] = {"train": [], "validation": []}
    for name, text in without_repeats(texts(packages, SUFFIXES[domain])):
        draw = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") / 2**64
        parts["validation" if draw < VALIDATION_SHARE else "train"].append(text.encode())
    # Files of one package stand together; a fixed shuffle keeps any stretch of the corpus representative.
    order = np.random.default_rng(0)
    for blocks in parts.values():
        order.shuffle(blocks)
    return {split: np.frombuffer(b"".join(blocks), dtype=np.uint8) for split, blocks in parts.items()}


def load() -> dict[str, dict[str, NDArray[np.uint8]]]:
    """Both domains; checked against `corpora.json` where that file exists, and written to it where it does not."""
    corpora = {domain: build(domain) for domain in ("source", "target")}
    record = {
        domain: {
            "packages": SOURCE if domain == "source" else TARGET,
            **{split: {"bytes": int(a.size), "sha256": hashlib.sha256(a.tobytes()).hexdigest()} for split, a in splits.items()},
        }
        for domain, splits in corpora.items()
    }
    path = HERE / "corpora.json"
    if path.exists():
        known = json.loads(path.read_text())
        if known != record:
            raise SystemExit(f"The corpora differ from {path.name}: {record} instead of {known}")
    else:
        path.write_text(json.dumps(record, indent=2) + "\n")
    return corpora


if __name__ == "__main__":
    for domain, splits in load().items():
        print(domain, {split: f"{a.size / 1e6:.1f} MB" for split, a in splits.items()})
