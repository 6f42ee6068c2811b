"""Mapping files: what a person says of logs whose columns can't be told by name (TOML)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.units import unit

KINDS = ("wandb", "tensorboard", "trainer", "jsonl", "wide", "table")
UNITS = {"1": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "%": 0.01}
# What columns may be made of, and what may be said once for a run or for all.
COLUMNS = (
    "run", "domain", "step", "lr", "N", "D", "U", "P", "r", "ptpp", "atpp", "batch", "loss_se", "flops", "checkpoint",
    "phase", "parent", "parent_step", "seed", "bytes_per_token", "characters_per_token",
)  # fmt: skip
CONSTANTS = (
    "N", "D", "U", "P", "r", "ptpp", "atpp", "tokens_per_step", "lr", "checkpoint", "phase", "parent", "parent_step", "seed",
    "bytes_per_token", "characters_per_token",
)  # fmt: skip
WORDS = ("checkpoint", "phase", "parent")
_TOP = ("from", "columns", "losses", "constants", "runs", "rename", "delimiter", "decimal", "thousands", "loss_unit")


@dataclass(frozen=True)
class Mapped:
    """What a mapping file says.

    Attributes
    ----------
    kind : str or None
        One of `KINDS`.
    columns : mapping
        Column of the log to our name and factor.
    losses : mapping
        Column of losses to its domain, None where there is one of no name.
    constants : mapping
        Values of every run.
    runs : mapping
        Values of one run, by its name.
    rename : mapping
        Run's name in the log to the one that it gets.
    delimiter, decimal, thousands : str or None
        Of text tables; found out unless given.
    loss_unit : str or None
        Unit of the losses, nats/token unless given.
    """

    kind: str | None = None
    columns: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    losses: Mapping[str, str | None] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    loss_unit: str | None = None


def read_mapping(path: str | Path) -> Mapped:
    """Read a mapping file.

    ::

        from = "table"                      # what the log is, if it can't be told
        delimiter = ";"
        decimal = ","
        thousands = "."
        loss_unit = "nats/token"
        [columns]                           # ours = theirs
        run = "Name"
        N = { column = "Params", unit = "M" }
        [losses]                            # domain = theirs; or loss = "…" under [columns]
        pile = "xent (pile)"
        [constants]                         # of every run
        ptpp = 20
        tokens_per_step = 524288
        [runs."run-a"]                      # of one run
        N = 410e6
        [rename]                            # theirs = ours
        "Run-A" = "run-a"

    Raises
    ------
    BayeslawError
        If it can't be read or says something that is not understood.
    """
    path = Path(path)
    if not path.is_file():
        raise BayeslawError(f"There is no mapping file {path}.")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise BayeslawError(f"{path.name} can't be read as TOML: {error}.") from None
    return mapping(given, path.name)


def mapping(given: Mapping[str, Any], name: str = "the mapping") -> Mapped:
    """Check what a mapping says; see `read_mapping`."""
    _known(name, given, _TOP)
    for part in ("columns", "losses", "constants", "runs", "rename"):
        if not isinstance(given.get(part, {}), Mapping):
            raise BayeslawError(f"{name}: [{part}] is a table of NAME = VALUE.")
    kind = given.get("from")
    if kind is not None and kind not in KINDS:
        raise BayeslawError(f"{name}: from is {kind!r}; it is one of {', '.join(KINDS)}.{nearest(str(kind), KINDS)}")
    for mark in ("delimiter", "decimal", "thousands"):
        if mark in given and not (isinstance(given[mark], str) and len(given[mark]) == 1):
            raise BayeslawError(f"{name}: {mark} is one character, not {given[mark]!r}.")
    if (mark := given.get("delimiter", ",")) in ('"', "\r", "\n", " "):
        raise BayeslawError(f"{name}: delimiter {mark!r} can't part cells: it is a sign such as ',', ';' or '\\t'.")
    if "decimal" in given and given["decimal"] == given.get("thousands"):
        raise BayeslawError(f"{name}: decimal and thousands are both {given['thousands']!r}.")
    columns, losses = _columns(given, name)
    runs = {}
    for run, values in given.get("runs", {}).items():
        if not isinstance(values, Mapping):
            raise BayeslawError(f'{name}: [runs."{run}"] is a table of NAME = VALUE.')
        runs[run] = constants(values, f'{name}, [runs."{run}"]')
    for old, new in given.get("rename", {}).items():
        if not isinstance(new, str) or not new.strip():
            raise BayeslawError(f"{name}: [rename] {old!r} gives no name: {new!r}.")
    of = unit(given["loss_unit"]) if "loss_unit" in given else None
    return Mapped(
        kind, columns, losses, constants(given.get("constants", {}), f"{name}, [constants]"), runs, dict(given.get("rename", {})),
        given.get("delimiter"), given.get("decimal"), given.get("thousands"), of,
    )  # fmt: skip


def constants(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Values that are said once: numbers, or texts of names."""
    _known(name, given, CONSTANTS)
    made: dict[str, Any] = {}
    for ours, value in given.items():
        if ours in WORDS:
            made[ours] = str(value)
            continue
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise BayeslawError(f"{name}: {ours} is a number such as 410e6, not {value!r}.")
        made[ours] = number
    return made


def _columns(given: Mapping[str, Any], name: str) -> tuple[dict[str, tuple[str, float]], dict[str, str | None]]:
    columns: dict[str, tuple[str, float]] = {}
    losses: dict[str, str | None] = {}
    where = f"{name}, [columns]"
    _known(where, given.get("columns", {}), (*COLUMNS, "loss"))
    for ours, value in given.get("columns", {}).items():
        column, factor = _column(value, f"{where} {ours}")
        if column in columns or column in losses:
            raise BayeslawError(f"{where}: column {column!r} is given two meanings.")
        if ours == "loss":
            losses[column] = None
            if factor != 1:
                raise BayeslawError(f"{where}: a loss has no unit there; say loss_unit.")
        else:
            columns[column] = (ours, factor)
    for domain, value in given.get("losses", {}).items():
        column, factor = _column(value, f"{name}, [losses] {domain}")
        if factor != 1:
            raise BayeslawError(f"{name}, [losses]: a loss has no unit there; say loss_unit.")
        if column in columns or column in losses:
            raise BayeslawError(f"{name}, [losses]: column {column!r} is given two meanings.")
        losses[column] = str(domain)
    if None in losses.values() and len(losses) > 1:
        raise BayeslawError(f"{name}: give the losses either as loss under [columns] or, one for each domain, under [losses].")
    return columns, losses


def _column(value: Any, where: str) -> tuple[str, float]:
    if isinstance(value, str) and value:
        return value, 1.0
    if isinstance(value, Mapping) and isinstance(value.get("column"), str) and set(value) <= {"column", "unit"}:
        unit = str(value.get("unit", "1"))
        if unit in UNITS:
            return value["column"], UNITS[unit]
        raise BayeslawError(f"{where}: unit {unit!r} is not among {', '.join(UNITS)}.{nearest(unit, UNITS)}")
    raise BayeslawError(f'{where} is "COLUMN" or {{ column = "COLUMN", unit = "M" }}, not {value!r}.')


def _known(where: str, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for one in given:
        if one not in names:
            raise BayeslawError(f"{where}: {one!r} is not understood; there are {', '.join(names)}.{nearest(one, names)}")
