"""Event files of TensorBoard: records with checksums, each an event in the wire format of protocol buffers.

A record is its length (8 bytes, little-endian), the masked CRC-32C of these bytes, the event, and the masked CRC-32C of the event.
The numbers of fields are those of TensorFlow's event.proto, summary.proto, tensor.proto and tensor_shape.proto.
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

import google_crc32c
import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted, listed
from bayeslaw.data.columns import key, resolve
from bayeslaw.data.logs.log import SPLIT, Log, domain_of

_MASK = 0xA282EAD8
_HEADER = 12
# By the dtype of a tensor: NumPy's type in tensor_content, and the field of single values.
_DTYPES = {1: ("<f4", 5), 2: ("<f8", 6), 3: ("<i4", 7), 9: ("<i8", 10)}
_HPARAMS = "_hparams_/session_start_info"
_RESULTS = "hparam/"  # before metrics that the plugin of hyperparameters shows: they have no step
_SPLIT = re.compile(rf"(?<![a-z])(?:(?P<training>train(?:ing)?)|{SPLIT})(?![a-z])", re.IGNORECASE)
_OF_FOLDER = re.compile(rf"^(?P<of>.*?)[_-]?(?:(?P<training>train(?:ing)?)|{SPLIT})$", re.IGNORECASE)


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
    """Yield the records of an event file, and the byte at which each ends; a last record that is cut off is left out."""
    at, number = 0, 0

    def check(start: int, end: int, part: str = "") -> None:
        if masked_crc(data[start:end]) != struct.unpack_from("<I", data, end)[0]:
            message = f"{name}: the checksum of {part}record {number} (byte {at:,}) is wrong: the file is damaged."
            raise BayeslawError(message, code="wrong-checksum")

    while at + _HEADER <= len(data):
        number += 1
        check(at, at + 8, "the length of ")
        start = at + _HEADER
        end = start + struct.unpack_from("<Q", data, at)[0]
        if end + 4 > len(data):
            return
        check(start, end)
        at = end + 4
        yield data[start:end], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a signed number of variable length, and the byte after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - (1 << 64) if value >= 1 << 63 else value, at
    raise ValueError("a number takes more than 10 bytes")


def _message(data: bytes) -> tuple[dict[int, list[int]], dict[int, list[bytes]]]:
    """Return the fields of a message by their numbers: integers, and values of any other type as bytes."""
    integers, others, at = defaultdict[int, list[int]](list), defaultdict[int, list[bytes]](list), 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            integer, at = _varint(data, at)
            integers[number].append(integer)
            continue
        if wire not in (1, 2, 5):
            raise ValueError(f"field {number} has wire type {wire}")
        length, at = _varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
        if not 0 <= length <= len(data) - at:
            raise ValueError(f"field {number} ends beyond its message")
        others[number].append(data[at : at + length])
        at += length
    return integers, others


def _at(message: bytes, *path: int) -> list[bytes]:
    """Return the values at a path of field numbers: those of the last field of all messages in the fields before it."""
    values = [message]
    for number in path:
        values = [value for inner in values for value in _message(inner)[1][number]]
    return values


def scalars(record: bytes) -> Iterator[tuple[int, float, str, float | None]]:
    """Yield step, time, tag and number of each value of an event; the number is None where there is not exactly one."""
    integers, event = _message(record)
    step = integers[2][-1] if integers[2] else 0
    time = struct.unpack("<d", event[1][-1])[0] if event[1] else 0.0
    for data in _at(record, 5, 1):  # summary, its values
        _, value = _message(data)
        scalar = struct.unpack("<f", value[2][-1])[0] if value[2] else _tensor(value[8][-1]) if value[8] else None
        yield step, time, value[1][-1].decode("utf-8", errors="replace") if value[1] else "", scalar


def _tensor(data: bytes) -> float | None:
    """Return the one number of a tensor; None if it holds several, or no numbers."""
    integers, tensor = _message(data)
    sizes = [size for dim in _at(data, 2, 2) for size in _message(dim)[0][1]]  # of the dimensions of its shape
    form, field = _DTYPES.get(integers[1][-1] if integers[1] else 0, ("", 0))
    if not form or np.prod(sizes, dtype=np.float64) != 1:
        return None
    if content := b"".join(tensor[4] or (tensor[field] if field in (5, 6) else [])):
        values = np.frombuffer(content, dtype=form).tolist()
    else:
        values = integers[field]
        for packed in tensor[field]:
            at = 0
            while at < len(packed):
                integer, at = _varint(packed, at)
                values.append(integer)
    return float(values[0]) if len(values) == 1 else None


def hyperparameters(record: bytes) -> dict[str, object]:
    """Return the hyperparameters of a run from the event that TensorBoard's plugin for them writes, as `hparams.NAME`.

    Numbers and texts are returned, None for all else. The numbers of fields are those of the plugin's plugin_data.proto and of
    google.protobuf.Value.
    """
    settings: dict[str, object] = {}
    # Summary, values, metadata, data of the plugin, their content, the start of a session, and the pairs of its hyperparameters.
    for pair in _at(record, 5, 1, 9, 1, 2, 3, 1):
        _, entry = _message(pair)
        _, value = _message(entry[2][-1] if entry[2] else b"")
        number = struct.unpack("<d", value[2][-1])[0] if value[2] else None
        setting = value[3][-1].decode("utf-8", errors="replace") if value[3] else number
        settings[f"hparams.{entry[1][-1].decode('utf-8', errors='replace')}"] = setting
    return settings


def read_events(path: Path, name: str, run: str, losses: set[str], columns: set[str]) -> Log:
    """Read an event file, and refuse a damaged one.

    Parameters
    ----------
    path, name, run : Path, str and str
    losses, columns : set of str
        Tags of losses and of covariates to read besides those known by their names.
    """
    data = path.read_bytes()
    rows, other, no_scalars = list[tuple[int, int, float, str, float]](), Counter[str](), Counter[str]()
    settings, unread = dict[str, object](), dict[str, float]()
    number = end = 0
    try:
        for number, (record, end) in enumerate(records(data, name), 1):  # noqa: B007
            for step, time, tag, value in scalars(record):
                if tag == _HPARAMS:
                    settings |= hyperparameters(record)
                elif value is None:
                    no_scalars[tag] += 1
                elif tag in losses or (not tag.startswith(_RESULTS) and (domain_of(tag) is not None or key(tag) == "loss")):
                    rows.append((number, step, time, tag, value if np.isfinite(value) else np.inf))
                elif tag in columns or resolve(tag, "logs") is not None:
                    rows.append((number, step, time, tag, value))
                else:
                    other[tag] += 1
                    unread[tag] = value
    except (ValueError, IndexError, struct.error) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"{name}: record {number + 1} is not an event: {error}.", code="not-an-event") from None
    if number == 0:
        raise BayeslawError(f"{name} is not an event file of TensorBoard, or it is empty.", code="no-rows")
    notes = []
    if cut := len(data) - end:
        notes.append(f"{name}: the last {counted(cut, 'byte')} are an incomplete record and are left out")
    for tags, shown in ((other, "other scalars"), (no_scalars, "values that are not scalars")):
        if tags:
            notes.append(f"{name}: {tags.total():,} {shown} are not used ({listed(list(tags), 4)})")
    bare = {tag for *_, tag, _ in rows if (key(tag) == "loss" or tag in losses) and not _SPLIT.search(tag)}
    run, folder, training = _of_split(path.absolute().parent, run, bare)
    if training:
        unread |= {tag: value for *_, tag, value in rows if tag in bare}
        rows = [row for row in rows if row[3] not in bare]
        notes.append(f"{name}: {listed(sorted(bare))} has losses of training batches by its folder, and is not used")
    elif folder is not None:
        notes.append(f"{name}: {listed(sorted(bare))} has validation losses of run {run!r} by its folder")
    return Log(name, "tensorboard", _events(rows), run, "step", notes=tuple(notes), settings=settings, folder=folder, unread=unread)


def _of_split(folder: Path, run: str, bare: Collection[str]) -> tuple[str, Path | None, bool]:
    """Return run, its folder and whether losses are of training, where tags name no split and a folder does.

    Programs write one tag for both splits into two folders: `Loss` into run/Loss_train and run/Loss_val, or into run/train and
    run/validation.
    """
    if not bare or not (match := _OF_FOLDER.match(folder.name)):
        return run, None, False
    if match["training"]:
        return run, None, True
    of_tag = match["of"] in ("", *bare)
    base = folder.parent if of_tag else folder.parent / match["of"]
    if of_tag and base.name in bare:
        base = base.parent
    above = run.split("/")[: len(base.parts) - len(folder.parts) or None]
    return "/".join([*above[:-1], base.name] if not of_tag else above) or base.name, base, False


def _events(rows: list[tuple[int, int, float, str, float]]) -> pd.DataFrame:
    """Return one row for each value and one column for each tag, nan in the rows of other tags."""
    long = pd.DataFrame(rows, columns=["row", "step", "_time", "tag", "value"]).astype(
        {"step": float, "_time": float, "value": float}
    )
    columns = {tag: long["value"].where(long["tag"] == tag) for tag in long["tag"].unique()}
    return long[["step", "_time"]].assign(**columns).set_index(pd.Index(long["row"], dtype=np.int64))
