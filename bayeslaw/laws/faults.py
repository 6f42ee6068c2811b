"""Faults of a card: all of them at once, each with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bayeslaw.core.errors import CardError
from bayeslaw.laws.law import LocatedError


class Faults:
    """Faults of a card, collected so that a person sees all of them at once; a part with a fault is left out."""

    def __init__(self) -> None:
        self.found: list[LocatedError] = []

    def of[Part](self, part: Callable[..., Part], *given: Any, **options: Any) -> Part | None:
        """Return a part of the card, or None where it has a fault."""
        try:
            return part(*given, **options)
        except LocatedError as error:
            self.found.append(error)
            return None

    def each[Part](self, part: Callable[[str, Any], Part], table: Mapping[str, Any]) -> dict[str, Part]:
        """Return the parts of a table by name, without those that have a fault."""
        parts = {name: self.of(part, name, value) for name, value in table.items()}
        return {name: item for name, item in parts.items() if item is not None}


def all_faults(faults: Sequence[LocatedError], text: str, origin: str) -> CardError:
    """Return the error that names every fault with its line; it has the code of the first.

    Parameters
    ----------
    faults : sequence of LocatedError
    text, origin : str
        The card, and what errors call it.
    """
    lines = [_line(text, fault.section, fault.key) for fault in faults]
    if len(faults) == 1:
        where = f"{origin}, line {lines[0]}" if lines[0] else origin
        return CardError(f"{where}: {faults[0]}", code=faults[0].code, faults=faults)
    shown = [f"  line {line}: {fault}" if line else f"  {fault}" for line, fault in zip(lines, faults, strict=True)]
    return CardError("\n".join([f"{origin} has {len(faults)} faults:", *shown]), code=faults[0].code, faults=faults)


def _line(text: str, section: str, key: str) -> int | None:
    """Return the line (from 1) of a key in a section of a TOML text, else that of the section, or None where neither is written."""
    current, first = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            current = header.group(1).replace('"', "").strip()
            if current in (section, f"{section}.{key}"):
                first = first or number
        elif current == section and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line) and key:
            return number
    return first
