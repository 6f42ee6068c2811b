"""JSON files in which a changed byte is noticed: the last line has the SHA-256 of all that stands before it.

`head -n -2 FILE | sha256sum` prints the same digest. A signature, HMAC-SHA256 with a key that is kept elsewhere, stands in the line
above; it covers everything before it. The digest notices accidents and careless hands. Whoever means to deceive can write it anew:
only a digest that others have, or a key that others do not have, holds against that.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import as_path

CHANGED = "changed-file"
LEAST_KEY = 16  # bytes
LAST = 200  # bytes at the end of a file in which its last lines lie, and at its start in which its kind stands
_TAIL = re.compile(rb'(?:"hmac_sha256": "([0-9a-f]{64})",\n)?"sha256": "([0-9a-f]{64})"\n\}\n\Z')


@dataclass(frozen=True)
class Unsealed:
    """The content of a sealed file, its SHA-256, and whether its signature was verified with a key."""

    content: dict[str, Any]
    sha256: str
    signed: bool
    verified: bool


def read_key(path: str | Path | None) -> bytes | None:
    """Return the key in a file, all of its bytes, at least `LEAST_KEY`; None where no file is given."""
    if path is None:
        return None
    path = as_path(path, "A key")
    try:
        key = path.read_bytes()
    except OSError as error:
        raise BayeslawError(f"The key {path} can't be read: {error.strerror}.", code="unreadable-key") from None
    if len(key) < LEAST_KEY:
        raise BayeslawError(
            f"The key {path.name} has {len(key)} bytes, and a key needs {LEAST_KEY} or more: make one by "
            "`head -c 32 /dev/urandom > KEY`.",
            code="short-key",
        )
    return key


def seal(content: Mapping[str, Any], key: bytes | None = None) -> tuple[bytes, str]:
    """Return the bytes of a sealed file and its SHA-256.

    Parameters
    ----------
    content : mapping
        Plain values; a list of mappings is written with a line for each.
    key : bytes, optional
        Signs the content.

    Raises
    ------
    BayeslawError
        'not-text' if UTF-8 lacks a character of a text.
    """
    lines = "{\n" + "".join(f"{_text(name)}: {_value(value)},\n" for name, value in content.items())
    try:
        body = lines.encode()
    except UnicodeEncodeError:
        raise BayeslawError("A text has half a character, which UTF-8 lacks: correct names and notes.", code="not-text") from None
    if key is not None:
        body += f'"hmac_sha256": "{hmac.new(key, body, hashlib.sha256).hexdigest()}",\n'.encode()
    digest = hashlib.sha256(body).hexdigest()
    return body + f'"sha256": "{digest}"\n}}\n'.encode(), digest


def begins_as(data: bytes, kind: str) -> bool:
    """Whether the content of a file begins as `seal` begins a file of this kind."""
    return f'"{kind}"'.encode() in data[:LAST]


def unseal(path: Path, kind: str, what: str, key: bytes | None) -> Unsealed:
    """Read a sealed file.

    Parameters
    ----------
    path : Path
    kind, what : str
        The key that files of this kind have, and what errors call one, such as 'prediction'.
    key : bytes, optional
        With it the file must be signed by that key.

    Raises
    ------
    BayeslawError
        'changed-file' if a byte was changed; 'not-signed' or 'wrong-signature' with a key; 'not-a-<what>' for any other file.
    """
    if not path.is_file():
        raise BayeslawError(f"There is no file {path}.", code="no-such-file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BayeslawError(f"{path} can't be read: {error.strerror}.", code="unreadable-file") from None
    other = BayeslawError(f"{path.name} is no {what} that bayeslaw wrote.", code=f"not-a-{what}")
    start = max(len(data) - LAST, 0)
    end = _TAIL.search(data[start:])
    if end is None and b'"sha256"' not in data[start:] and not begins_as(data, kind):
        raise other
    if end is None or hashlib.sha256(data[: start + end.start(2) - len('"sha256": "')]).hexdigest() != end[2].decode():
        raise BayeslawError(
            f"{path.name} was changed after it was written: its SHA-256 is not the one in its last line. Use the original file. "
            "Editors and version control that change line endings change it too.",
            code=CHANGED,
        )
    if key is not None:
        _verify(path.name, data[: start + end.start()], end[1], key)
    try:
        content = json.loads(data, parse_constant=_refuse)
        if b"\\ud" in data.lower():  # half a character, which `seal` does not write, or a backslash before these letters
            _text(content).encode()
    except (ValueError, RecursionError):
        raise other from None
    if not isinstance(content, dict) or kind not in content:
        raise other
    return Unsealed(content, end[2].decode(), end[1] is not None, key is not None)


def _verify(name: str, body: bytes, signature: bytes | None, key: bytes) -> None:
    if signature is None:
        raise BayeslawError(f"{name} is not signed: read it without a key, or register with one (--key, key=).", code="not-signed")
    if not hmac.compare_digest(hmac.new(key, body, hashlib.sha256).hexdigest(), signature.decode()):
        raise BayeslawError(f"{name} is not signed with this key: it is of another key, or was changed.", code="wrong-signature")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(map(_text, value)) + "\n]"
    return _text(value)


def _refuse(name: str) -> float:
    raise ValueError(name)
