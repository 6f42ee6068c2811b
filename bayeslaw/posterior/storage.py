"""Whether a file of draws is what was written: told before HDF5 reads it, and of everything in it afterwards."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import xarray as xr

from bayeslaw.core.errors import FitError

MARK = b"bayeslaw"


def seal(path: Path) -> None:
    """Append a mark and a digest of all bytes before it, which HDF5 doesn't look at."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(MARK + digest)


def check_seal(path: Path) -> None:
    """Refuse a file whose bytes are not those that were sealed, since damaged ones can keep HDF5 busy for ever.

    A file that ends where HDF5 says it does has no seal: another program has saved it. It passes, and `contents_sha256` looks
    into it.
    """
    content = path.read_bytes()
    end = _hdf5_end(content)
    if end is None or len(content) <= end:
        return
    if content[end:] != MARK + hashlib.sha256(content[:end]).digest():
        raise FitError(f"{path.name} can't be read as a fit: it is damaged or no NetCDF file (its bytes are not those written).")


def _hdf5_end(content: bytes) -> int | None:
    """Where an HDF5 file ends, by its superblock; None where it has none that is known."""
    if len(content) < 48 or not content.startswith(b"\x89HDF\r\n\x1a\n"):
        return None
    where = {0: 40, 1: 44, 2: 28, 3: 28}.get(content[8])
    return None if where is None else int.from_bytes(content[where : where + 8], "little")


def check_size(path: Path) -> None:
    """Refuse a file whose arrays are far larger than itself: compressed or never written, they would fill the memory."""
    import h5py

    size = 0

    def count(_: str, item: object) -> None:
        nonlocal size
        size += item.nbytes if isinstance(item, h5py.Dataset) else 0

    with h5py.File(path, "r") as file:
        file.visititems(count)
    if size > 2 * path.stat().st_size + 10_000_000:
        raise FitError(f"{path.name} is no fit: its arrays would take {size / 1e9:.3g} GB, many times the file's own size.")


def contents_sha256(tree: xr.DataTree) -> str:
    """Digest of all that a file holds, what is said of the draws included: statistics, settings, checks, names of runs."""
    digest = hashlib.sha256()
    for name in sorted(str(k) for k in tree.attrs if k != "contents_sha256"):
        digest.update(f"{name}={tree.attrs[name]}\n".encode())
    for group in sorted(map(str, tree.children)):
        part = tree[group].to_dataset()
        for name in sorted(map(str, part.variables)):
            values = np.asarray(part[name].values)
            digest.update(f"{group}/{name} {part[name].dims} {values.shape}\n".encode())
            if values.dtype.kind in "fiub":
                digest.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
            else:
                digest.update("\x00".join(map(str, values.ravel())).encode())
    return digest.hexdigest()
