"""What the file of a fit may consist of, checked before anything in it is read.

HDF5 follows links and storage to other files, and hangs on cycles of links; xarray rescales values by attributes. None of that is
in a file that was written by `storage`, so that a file with any of it is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslaw.core.errors import FitError, shortened

if TYPE_CHECKING:
    import h5py

GROUPS = frozenset({"posterior", "sample_stats", "observed_data", "constant_data", "extrapolation"})
MEMBER = re.compile(r"fit\d{1,4}")  # a fit of a stack
DEPTH = 3  # of a variable: in the group of a fit, which may be one of a stack
MOST = 10_000  # groups and variables together
ATTRIBUTES = frozenset(
    {
        "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "_Netcdf4Coordinates", "_Netcdf4Dimid",
        "_FillValue", "dtype", "coordinates",
    }
)  # fmt: skip
"""Attributes of variables that h5netcdf and xarray write; scale_factor, units and others would change the values read."""


def check_structure(path: Path) -> None:
    """Refuse an HDF5 file with links, repeated or external objects, unknown groups or attributes, or far larger than itself."""
    import h5py

    with h5py.File(path, "r") as file:
        ours = bool({"bayeslaw_format", "bayeslaw_stack"} & {*file.attrs})
        seen, size = {_address(file)}, 0
        pending: list[tuple[h5py.Group, str]] = [(file, "")]
        while pending:
            group, place = pending.pop()
            for name in group:
                where = f"{place}/{name}"
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise _refusal(path, f"{shortened(where)} is a link to elsewhere", "link-in-file")
                item = group[name]
                if (address := _address(item)) in seen:
                    raise _refusal(path, f"{shortened(where)} is the same object as another", "repeated-object")
                seen.add(address)
                depth = where.count("/")
                if len(seen) > MOST or depth > DEPTH:
                    raise _refusal(path, f"it has more than {MOST:,} objects or levels below {DEPTH}", "oversized-structure")
                if isinstance(item, h5py.Group):
                    if ours and not (name in GROUPS or (depth == 1 and MEMBER.fullmatch(name))):
                        raise _refusal(path, f"it has an unknown group {shortened(where)}", "unknown-group-in-file")
                    pending.append((item, where))
                else:
                    size += _size(path, item, where)
    if size > 2 * path.stat().st_size + 10_000_000:  # compressed or never written, they would fill the memory
        raise _refusal(path, f"its arrays would take {size / 1e9:.3g} GB, many times the file's own size", "oversized-arrays")


def _address(item: Any) -> tuple[int, int]:
    import h5py

    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


def _size(path: Path, item: Any, where: str) -> int:
    """Return the bytes of a variable after checks of its storage and attributes."""
    import h5py

    if not isinstance(item, h5py.Dataset):
        raise _refusal(path, f"{shortened(where)} is neither a group nor a variable", "unknown-object")
    if item.is_virtual or item.external:
        raise _refusal(path, f"the values of {shortened(where)} are in other files", "values-elsewhere")
    if unknown := sorted({*item.attrs} - ATTRIBUTES):
        raise _refusal(path, f"{shortened(where)} has an unknown attribute {shortened(unknown[0])}", "unknown-attribute")
    if "_FillValue" in item.attrs and not np.isnan(item.attrs["_FillValue"]).all():
        raise _refusal(path, f"{shortened(where)} has values that stand for none", "unknown-attribute")
    return int(item.nbytes)


def _refusal(path: Path, reason: str, code: str) -> FitError:
    return FitError(f"{path.name} can't be read as a fit: {reason}.", code=code)
