"""Event files of TensorBoard: records with checksums, each an event in the wire format of protocol buffers.

A record is its length (8 bytes, little-endian), the masked CRC-32C of these, the event, and the masked CRC-32C of that. Of an event
the fields wall_time (1), step (2) and summary (5) are read; of a summary's values tag (1), simple_value (2) and tensor (8); of a
tensor dtype (1), shape (2), tensor_content (4), float_val (5), double_val (6), int_val (7) and int64_val (10).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.logs.columns import covariate_of, domain_of, key
from bayeslaw.data.logs.log import Log, counted

_MASK = 0xA282EAD8
_HEADER = 12
Value = int | float | bytes


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated by 15 bits and shifted by a constant, as records have it."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def is_event_file(path: Path) -> bool:
    """Whether a file begins with a record's length and its checksum."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
    return len(head) == _HEADER and masked_crc(head[:8]) == struct.unpack("<I", head[8:])[0]


def records(data: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """The records of an event file, and where each ends.

    Raises
    ------
    BayeslawError
        If a checksum is wrong; a last record that is cut off ends the file.
    """
    at, number = 0, 0
    while at + _HEADER <= len(data):
        number += 1
        if masked_crc(data[at : at + 8]) != struct.unpack_from("<I", data, at + 8)[0]:
            raise BayeslawError(
                f"{name}: the checksum of the length of record {number} (byte {at:,}) is wrong: the file is damaged."
            )
        (length,) = struct.unpack_from("<Q", data, at)
        start, end = at + _HEADER, at + _HEADER + length
        if end + 4 > len(data):
            return
        record = data[start:end]
        if masked_crc(record) != struct.unpack_from("<I", data, end)[0]:
            raise BayeslawError(f"{name}: the checksum of record {number} (byte {at:,}) is wrong: the file is damaged.")
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
            raise ValueError("a number goes on for more than 10 bytes")


def fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field of a message: varints as integers, the others as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == 2:
            length, at = _varint(data, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"field {number} has wire type {wire}")
        if at + length > len(data):
            raise ValueError(f"field {number} ends beyond its message")
        yield number, wire, data[at : at + length]
        at += length


# dtype of a tensor: NumPy's type in tensor_content, the field of its values, and their type there.
_DTYPES = {1: ("<f4", 5, "<f4"), 2: ("<f8", 6, "<f8"), 3: ("<i4", 7, ""), 9: ("<i8", 10, "")}


def _tensor(data: bytes) -> float | None:
    """The one number of a tensor; None if it holds several, or no numbers."""
    dtype, content, listed, sizes = 0, b"", {5: list[float](), 6: list[float](), 7: list[float](), 10: list[float]()}, list[int]()
    for number, wire, value in fields(data):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 2 and isinstance(value, bytes):
            sizes = [
                s
                for n, w, dim in fields(value)
                if n == 2 and isinstance(dim, bytes)
                for k, _, s in fields(dim)
                if k == 1 and isinstance(s, int)
            ]
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in listed:
            listed[number] += _numbers(number, wire, value)
    if dtype not in _DTYPES or np.prod(sizes, dtype=np.float64) != 1:
        return None
    values = list(np.frombuffer(content, dtype=_DTYPES[dtype][0])) if content else listed[_DTYPES[dtype][1]]
    return float(values[0]) if len(values) == 1 else None


def _numbers(number: int, wire: int, value: Value) -> list[float]:
    """Values of a repeated field, packed or one by one."""
    if isinstance(value, bytes):
        if number in (5, 6):
            return [float(v) for v in np.frombuffer(value, dtype="<f4" if number == 5 else "<f8")]
        found, at = list[float](), 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(float(_signed(one)))
        return found
    return [float(_signed(int(value)))]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def scalars(record: bytes) -> Iterator[tuple[int, float, str, float | None]]:
    """Step, time, tag and number of each value of an event; None where it is no single number."""
    step, time, summaries = 0, 0.0, list[bytes]()
    for number, wire, value in fields(record):
        if number == 1 and wire == 1 and isinstance(value, bytes):
            (time,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = _signed(value)
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, _, value in fields(summary):
            if number == 1 and isinstance(value, bytes):
                tag, found = _value(value)
                yield step, time, tag, found


def _value(data: bytes) -> tuple[str, float | None]:
    tag, found = "", None
    for number, wire, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", errors="replace")
        elif number == 2 and wire == 5 and isinstance(value, bytes):
            (found,) = struct.unpack("<f", value)
        elif number == 8 and isinstance(value, bytes):
            found = _tensor(value)
    return tag, found


def read_events(path: Path, run: str, losses: set[str], columns: set[str], called: str | None = None) -> Log:
    """Read an event file.

    Parameters
    ----------
    path : path
    run : str
        What its run is called.
    losses, columns : set of str
        Tags of losses and of covariates to take besides those whose names tell what they are.
    called : str, optional
        The file's name, with its folder unless given.

    Raises
    ------
    BayeslawError
        If it is damaged, or no event file.
    """
    data, name = path.read_bytes(), called or f"{path.parent.name}/{path.name}"
    rows, other, no_numbers = list[tuple[int, int, float, str, float]](), dict[str, int](), dict[str, int]()
    number = end = 0
    try:
        for number, (record, end) in enumerate(records(data, name), 1):  # noqa: B007
            for step, time, tag, value in scalars(record):
                if value is None:
                    no_numbers[tag] = no_numbers.get(tag, 0) + 1
                elif tag in losses or domain_of(tag) is not None or key(tag) == "loss":
                    rows.append((number, step, time, tag, value if np.isfinite(value) else np.inf))
                elif tag in columns or covariate_of(tag) is not None:
                    rows.append((number, step, time, tag, value))
                else:
                    other[tag] = other.get(tag, 0) + 1
    except (ValueError, IndexError, struct.error) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"{name}: record {number + 1} is no event: {error}.") from None
    if number == 0:
        raise BayeslawError(f"{name} is no event file of TensorBoard, or is empty.")
    remarks = []
    if cut := len(data) - end:
        remarks.append(f"{name}: the last {counted(cut, 'byte')} are a record cut off and are left out")
    for tags, what in ((other, "other scalars"), (no_numbers, "values that are no scalars")):
        if tags:
            shown = ", ".join(list(tags)[:4]) + (", …" if len(tags) > 4 else "")
            remarks.append(f"{name}: {sum(tags.values()):,} {what} not taken ({shown})")
    return Log(name, "tensorboard", _events(rows), run, "step", remarks=tuple(remarks))


def _events(rows: list[tuple[int, int, float, str, float]]) -> pd.DataFrame:
    """One row an event, one column a tag; what an event lacks is nan."""
    records = np.array([row[0] for row in rows], dtype=np.int64)
    made = {
        "step": np.array([row[1] for row in rows], dtype=np.float64),
        "_time": np.array([row[2] for row in rows], dtype=np.float64),
    }
    tags = np.array([row[3] for row in rows], dtype=object)
    values = np.array([row[4] for row in rows], dtype=np.float64)
    for tag in dict.fromkeys(tags):
        made[str(tag)] = np.where(tags == tag, values, np.nan)
    return pd.DataFrame(made, index=pd.Index(records, name="row"))
