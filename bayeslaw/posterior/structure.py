"""What the file of a fit may consist of, checked before anything in it is read, and the reading.

HDF5 follows links and storage to other files, and hangs on cycles of links; xarray rescales values by attributes. None of that is
in a file that was written by `storage`, so that a file with any of it is refused. What is left is so plain that we read it
by h5py alone, which is faster than xarray.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

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
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


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


def read_groups(path: Path) -> xr.DataTree:
    """Read a file that `check_structure` accepts into memory, as `xarray.open_datatree` would."""
    import h5py

    groups: dict[str, xr.Dataset] = {}
    with h5py.File(path, "r") as file:
        pending: list[tuple[h5py.Group, str]] = [(file, "/")]
        for group, place in pending:
            items = {name: group[name] for name in group}
            groups[place] = _dataset(group, {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)})
            pending += [(item, f"{place.rstrip('/')}/{name}") for name, item in items.items() if isinstance(item, h5py.Group)]
    return xr.DataTree.from_dict(groups)


def _dataset(group: h5py.Group, items: dict[str, h5py.Dataset]) -> xr.Dataset:
    """Return the variables of a group, with its attributes."""
    import h5py

    variables, coordinates = {}, set[str]()
    for name, item in items.items():
        attributes = {key: item.attrs[key] for key in item.attrs}
        if str(_plain(attributes.get("NAME", ""))).startswith(NO_VARIABLE):
            continue
        lists = attributes.get("DIMENSION_LIST", ())
        dims = (name,) if "CLASS" in attributes else tuple(group.file[of[0]].name.rpartition("/")[2] for of in lists)
        values = np.asarray(item.asstr()[()]).astype(str) if h5py.check_string_dtype(item.dtype) else item[()]
        variables[name] = dims, values.astype(bool) if _plain(attributes.get("dtype")) == "bool" else values
        coordinates |= set(str(_plain(attributes.get("coordinates", ""))).split())
    attributes = {name: _plain(group.attrs[name]) for name in group.attrs if name != "_NCProperties"}
    coordinates |= set(str(attributes.pop("coordinates", "")).split())
    return xr.Dataset(variables, attrs=attributes).set_coords(coordinates & variables.keys())


def _plain(value: Any) -> Any:
    """The value of an attribute, which NetCDF may keep as an array of one, and texts as bytes."""
    value = value[0] if np.shape(value) == (1,) else value
    return value.decode() if isinstance(value, bytes) else value
