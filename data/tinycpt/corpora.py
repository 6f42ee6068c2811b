"""Build the byte corpora of a sweep from the pinned packages named in `sweeps.py`.

Wheels and source archives have a fixed content for a fixed version, so everyone who runs this gets the same bytes;
`corpora.json` in the sweep's folder has their digests. No text is committed.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np
from numpy.typing import NDArray
from pip._internal.models.index import PyPI
from sweeps import SWEEPS, Corpus, Sweep

VALIDATION_SHARE = 0.04
SHORTEST_BLOCK = 80  # characters; shorter repeated paragraphs (`return self`) are ordinary code, longer ones are boilerplate


def write(path: Path, content: bytes | str) -> None:
    """Write under a temporary name, then rename: a killed run leaves no half file."""
    temporary = path.with_name(path.name + f".{os.getpid()}.tmp")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    temporary.replace(path)


def wheel(name: str, version: str, cache: Path) -> Path:
    """Download a wheel once, without its dependencies, and return its path."""
    stem = name.replace("-", "_").lower() + "-" + version
    files = [p for p in cache.glob("*.whl") if p.name.lower().startswith(stem)]
    if not files:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--dest", str(cache)]
        platform = ["--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_17_x86_64"]
        subprocess.run([*command, *platform, f"{name}=={version}"], check=True)
        files = [p for p in cache.glob("*.whl") if p.name.lower().startswith(stem)]
    return files[0]


def sdist(name: str, version: str, cache: Path) -> Path:
    """Download a source archive once from pip's index and return its path; `pip download` would run its setup code."""
    path = cache / f"{name.replace('-', '_')}-{version}.tar.gz"
    if not path.exists():
        page = f"{os.environ.get('PIP_INDEX_URL', PyPI.simple_url).rstrip('/')}/{name}/"
        request = urllib.request.Request(page, headers={"Accept": "application/vnd.pypi.simple.v1+json"})  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            files = {file["filename"]: file for file in json.load(answer)["files"]}
        with urllib.request.urlopen(urljoin(page, files[path.name]["url"])) as answer:  # noqa: S310
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != files[path.name]["hashes"]["sha256"]:
            raise SystemExit(f"{path.name} was not downloaded completely; run again.")
        write(path, content)
    return path


def members(path: Path, pattern: str, longest: int | None) -> dict[str, bytes]:
    """Return {name: content} of the files of an archive that match the pattern and are not too long."""
    limit = longest or sys.maxsize
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel_archive:
            infos = [i for i in wheel_archive.infolist() if re.search(pattern, i.filename) and i.file_size <= limit]
            return {info.filename: wheel_archive.read(info) for info in infos}
    contents = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if re.search(pattern, member.name) and member.size <= limit and (file := archive.extractfile(member)):
                contents[member.name] = file.read()
    return contents


def documentation(value: Any) -> Iterator[str]:
    """Yield the documentation strings of a service description, without their HTML tags."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        if key == "documentation" and isinstance(inner, str):
            yield " ".join(html.unescape(re.sub(r"<[^>]+>", " ", inner)).split())
        else:
            yield from documentation(inner)


def texts(corpus: Corpus, cache: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the files of a corpus in a fixed order."""
    cache.mkdir(exist_ok=True)
    for package, version in corpus.packages.items():
        path = (sdist if corpus.sdists else wheel)(package, version, cache)
        for name, content in sorted(members(path, corpus.files, corpus.longest).items()):
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


def build(corpus: Corpus, cache: Path) -> dict[str, NDArray[np.uint8]]:
    """Return {"train": bytes, "validation": bytes} of a corpus, split by file before anything is tokenised."""
    parts: dict[str, list[bytes]] = {"train": [], "validation": []}
    for name, text in without_repeats(texts(corpus, cache)):
        draw = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") / 2**64
        parts["validation" if draw < VALIDATION_SHARE else "train"].append(text.encode())
    # Files of one package are next to each other; after a fixed shuffle every stretch of the corpus is representative.
    order = np.random.default_rng(0)
    for blocks in parts.values():
        order.shuffle(blocks)
    return {split: np.frombuffer(b"".join(blocks), dtype=np.uint8) for split, blocks in parts.items()}


def load(sweep: Sweep) -> dict[str, dict[str, NDArray[np.uint8]]]:
    """Return all corpora of a sweep, checked against its `corpora.json`; a domain that is not in it is added."""
    path = sweep.folder / "corpora.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    corpora = {}
    for domain, corpus in sweep.corpora.items():
        corpora[domain] = splits = build(corpus, sweep.cache)
        digests = {split: {"bytes": int(a.size), "sha256": hashlib.sha256(a.tobytes()).hexdigest()} for split, a in splits.items()}
        record = {"packages": corpus.packages, **digests}
        if domain not in known:
            known[domain] = record
            write(path, json.dumps(known, indent=2) + "\n")
        elif known[domain] != record:
            raise SystemExit(f"The corpus {domain} differs from {path.name}: {record} instead of {known[domain]}")
    return corpora


if __name__ == "__main__":
    for sweep in SWEEPS.values():
        for domain, splits in load(sweep).items():
            print(sweep.name, domain, {split: f"{a.size / 1e6:.1f} MB" for split, a in splits.items()})
