"""Event files of TensorBoard: records with checksums, each an event in the wire format of protocol buffers.

A record is its length (8 bytes, little-endian), the masked CRC-32C of these bytes, the event, and the masked CRC-32C of the event.
We read the fields wall_time (1), step (2) and summary (5) of an event; tag (1), simple_value (2) and tensor (8) of a summary's
values; and dtype (1), shape (2), tensor_content (4), float_val (5), double_val (6), int_val (7) and int64_val (10) of a tensor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.columns import key, resolve
from bayeslaw.data.logs.log import Log, counted, domain_of, listed

_MASK = 0xA282EAD8
_HEADER = 12
Value = int | bytes


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C, rotated by 15 bits and shifted by a constant, as records store it."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def is_event_file(path: Path) -> bool:
    """Whether a file begins with a record's length and that length's checksum."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
    return len(head) == _HEADER and masked_crc(head[:8]) == struct.unpack("<I", head[8:])[0]


def records(data: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield the records of an event file, and the byte at which each ends.

    Raises
    ------
    BayeslawError
        If a checksum is wrong. A last record that is cut off is left out.
    """
    at, number = 0, 0
    while at + _HEADER <= len(data):
        number += 1
        if masked_crc(data[at : at + 8]) != struct.unpack_from("<I", data, at + 8)[0]:
            message = f"{name}: the checksum of the length of record {number} (byte {at:,}) is wrong: the file is damaged."
            raise BayeslawError(message, code="wrong-checksum")
        (length,) = struct.unpack_from("<Q", data, at)
        start, end = at + _HEADER, at + _HEADER + length
        if end + 4 > len(data):
            return
        record = data[start:end]
        if masked_crc(record) != struct.unpack_from("<I", data, end)[0]:
            message = f"{name}: the checksum of record {number} (byte {at:,}) is wrong: the file is damaged."
            raise BayeslawError(message, code="wrong-checksum")
        at = end + 4
        yield record, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number takes more than 10 bytes")


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and value of each field of a message: varints as signed integers, the others as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            integer, at = _varint(data, at)
            yield number, _signed(integer)
            continue
        if wire == 2:
            length, at = _varint(data, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"field {number} has wire type {wire}")
        if at + length > len(data):
            raise ValueError(f"field {number} ends beyond its message")
        yield number, data[at : at + length]
        at += length


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def scalars(record: bytes) -> Iterator[tuple[int, float, str, float | None]]:
    """Yield step, time, tag and number of each value of an event; the number is None where there is not exactly one."""
    step, time, summaries = 0, 0.0, list[bytes]()
    for number, value in fields(record):
        if number == 1 and isinstance(value, bytes):
            (time,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in fields(summary):
            if number == 1 and isinstance(value, bytes):
                yield step, time, *_value(value)


def _value(data: bytes) -> tuple[str, float | None]:
    """Return the tag and number of a summary's value."""
    tag, scalar = "", None
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", errors="replace")
        elif number == 2 and isinstance(value, bytes):
            (scalar,) = struct.unpack("<f", value)
        elif number == 8 and isinstance(value, bytes):
            scalar = _tensor(value)
    return tag, scalar


# By the dtype of a tensor: NumPy's type in tensor_content, and the field of single values.
_DTYPES = {1: ("<f4", 5), 2: ("<f8", 6), 3: ("<i4", 7), 9: ("<i8", 10)}


def _tensor(data: bytes) -> float | None:
    """Return the one number of a tensor; None if it holds several, or no numbers."""
    dtype, content, sizes = 0, b"", list[int]()
    listed: dict[int, list[float]] = {5: [], 6: [], 7: [], 10: []}
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 2 and isinstance(value, bytes):
            dims = [dim for n, dim in fields(value) if n == 2 and isinstance(dim, bytes)]
            sizes = [size for dim in dims for n, size in fields(dim) if n == 1 and isinstance(size, int)]
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in listed:
            listed[number] += _numbers(number, value)
    if dtype not in _DTYPES or np.prod(sizes, dtype=np.float64) != 1:
        return None
    values = list(np.frombuffer(content, dtype=_DTYPES[dtype][0])) if content else listed[_DTYPES[dtype][1]]
    return float(values[0]) if len(values) == 1 else None


def _numbers(number: int, value: Value) -> list[float]:
    """Return the values of a repeated field, packed or one by one."""
    if isinstance(value, int):
        return [float(value)]
    if number in (5, 6):
        return [float(v) for v in np.frombuffer(value, dtype="<f4" if number == 5 else "<f8")]
    integers, at = list[float](), 0
    while at < len(value):
        integer, at = _varint(value, at)
        integers.append(float(_signed(integer)))
    return integers


def read_events(path: Path, name: str, run: str, losses: set[str], columns: set[str]) -> Log:
    """Read an event file.

    Parameters
    ----------
    path : path
    name, run : str
        The file's name in messages, and the name of its run.
    losses, columns : set of str
        Tags of losses and of covariates to read besides those known by their names.

    Raises
    ------
    BayeslawError
        If it is damaged, or not an event file.
    """
    data = path.read_bytes()
    rows, other, no_scalars = list[tuple[int, int, float, str, float]](), dict[str, int](), dict[str, int]()
    number = end = 0
    try:
        for number, (record, end) in enumerate(records(data, name), 1):  # noqa: B007
            for step, time, tag, value in scalars(record):
                if value is None:
                    no_scalars[tag] = no_scalars.get(tag, 0) + 1
                elif tag in losses or domain_of(tag) is not None or key(tag) == "loss":
                    rows.append((number, step, time, tag, value if np.isfinite(value) else np.inf))
                elif tag in columns or resolve(tag, "logs") is not None:
                    rows.append((number, step, time, tag, value))
                else:
                    other[tag] = other.get(tag, 0) + 1
    except (ValueError, IndexError, struct.error) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"{name}: record {number + 1} is not an event: {error}.", code="not-an-event") from None
    if number == 0:
        raise BayeslawError(f"{name} is not an event file of TensorBoard, or it is empty.", code="no-rows")
    notes = []
    if cut := len(data) - end:
        notes.append(f"{name}: the last {counted(cut, 'byte')} are an incomplete record and are left out")
    for tags, what in ((other, "other scalars"), (no_scalars, "values that are not scalars")):
        if tags:
            notes.append(f"{name}: {sum(tags.values()):,} {what} are not used ({listed(list(tags), 4)})")
    return Log(name, "tensorboard", _events(rows), run, "step", notes=tuple(notes))


def _events(rows: list[tuple[int, int, float, str, float]]) -> pd.DataFrame:
    """Return one row for each event and one column for each tag, nan where an event lacks it."""
    records = np.array([row[0] for row in rows], dtype=np.int64)
    columns = {
        "step": np.array([row[1] for row in rows], dtype=np.float64),
        "_time": np.array([row[2] for row in rows], dtype=np.float64),
    }
    tags = np.array([row[3] for row in rows], dtype=object)
    values = np.array([row[4] for row in rows], dtype=np.float64)
    for tag in dict.fromkeys(tags):
        columns[str(tag)] = np.where(tags == tag, values, np.nan)
    return pd.DataFrame(columns, index=pd.Index(records, name="row"))
