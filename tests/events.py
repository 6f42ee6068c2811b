"""A writer of TensorBoard's event files, independent of the package's reader."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path


def crc32c(data: bytes) -> int:
    """Compute the CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(value: int) -> bytes:
    out = b""
    value %= 2**64
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, data: bytes | str | int) -> bytes:
    """Return a field: a varint, or bytes with their length."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def simple(tag: str, value: float) -> bytes:
    """Return a scalar as the first version of the summary writer stores it."""
    return field(1, tag) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, value: float, form: str = "float_val") -> bytes:
    """Return a scalar as the second version stores it: a tensor without a shape."""
    match form:
        case "float_val":
            body = field(1, 1) + field(2, b"") + field(5, struct.pack("<f", value))
        case "double_content":
            body = field(1, 2) + field(2, b"") + field(4, struct.pack("<d", value))
        case "unpacked":
            body = field(1, 1) + b"\x2d" + struct.pack("<f", value)
        case _:
            body = field(1, 9) + field(10, varint(int(value)))
    return field(1, tag) + field(8, body)


def event(step: int, time: float, *values: bytes) -> bytes:
    head = b"\x09" + struct.pack("<d", time) + (field(2, step) if step else b"")
    return head + field(5, b"".join(field(1, v) for v in values))


def write(path: Path, events: Iterable[bytes], cut: int = 0) -> Path:
    """Write an event file: the version, then the events, without the last `cut` bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = record(b"\x09" + struct.pack("<d", 1.0) + field(3, "brain.Event:2")) + b"".join(map(record, events))
    path.write_bytes(whole[: len(whole) - cut])
    return path


def settings(values: dict[str, float | str | bool]) -> bytes:
    """Return a run's hyperparameters as the plugin for them stores them: in the metadata of a value without a number."""
    entries = b""
    for name, value in values.items():
        match value:
            case bool():
                body = field(4, int(value))
            case str():
                body = field(3, value)
            case _:
                body = b"\x11" + struct.pack("<d", value)
        entries += field(1, field(1, name) + field(2, body))
    plugin = field(1, field(1, "hparams") + field(2, field(3, entries)))
    return field(1, "_hparams_/session_start_info") + field(9, plugin)
