"""Mapping files (TOML): the meanings of columns, and values of runs, that the names in a log do not show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bayeslaw.core.errors import BayeslawError, nearest, shortened
from bayeslaw.core.files import own_path
from bayeslaw.core.text import number, percent_hint
from bayeslaw.core.toml import parse_toml
from bayeslaw.core.units import NATS, unit
from bayeslaw.data.columns import check_columns, factor, parted

KINDS = ("wandb", "tensorboard", "mlflow", "trainer", "jsonl", "text", "wide", "table")
# What columns may be made of, and what may be given once for a run or for all.
CONSTANTS = (
    "N", "D", "U", "P", "r", "ptpp", "atpp", "pretrain_tokens", "tokens_per_step", "lr", "checkpoint", "phase", "parent",
    "parent_step", "seed", "bytes_per_token", "characters_per_token",
)  # fmt: skip
READING = ("eval_interval",)  # what tells how to read the logs, and is no value of a run
COLUMNS = ("run", "domain", "step", "batch", "loss_se", "flops", *(c for c in CONSTANTS if c != "tokens_per_step"))
WORDS = ("checkpoint", "phase", "parent")
_TOP = ("from", "columns", "losses", "constants", "runs", "rename", "delimiter", "decimal", "thousands", "loss_unit")


@dataclass(frozen=True)
class LogMap:
    """The contents of a mapping file; None for what is inferred from the log.

    Attributes
    ----------
    columns, losses : mapping
        Column of the log to our name and factor, or to the domain of its losses, None for one without a name.
    constants, runs : mapping
        Values of every run, and of one run by its name.
    rename : mapping
        A run's name in the log to its new name.
    kept : mapping
        Column of the log that is kept as it is to its name in the table.
    loss_unit, column_unit : str, optional
        The unit of all losses, and that which a column of losses is given with; None for nats/token.
    """

    kind: str | None = None
    columns: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    losses: Mapping[str, str | None] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    loss_unit: str | None = None
    column_unit: str | None = None

    @property
    def covariates(self) -> set[str]:
        """The columns, but for those of losses, that the user names."""
        return {*self.columns, *self.kept}

    @property
    def named(self) -> set[str]:
        """All columns that the user names."""
        return {*self.covariates, *self.losses}

    @property
    def unit(self) -> str | None:
        """The unit of the losses; None for nats/token."""
        return self.loss_unit or self.column_unit


def read_mapping(path: str | Path) -> LogMap:
    """Read a mapping file, such as those of docs/howto/losses.md.

    It gives `from` (the kind of log), `delimiter`, `decimal`, `thousands` and `loss_unit`, and tables: [columns], our name = the
    log's or { column = "Params", unit = "M" }; [losses], domain = column; [constants], values of every run; [runs.NAME], those of
    one run; and [rename], the log's name of a run = the new one.
    """
    path = own_path(path)
    if not path.is_file():
        raise BayeslawError(f"There is no mapping file {path}.", code="no-such-file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise BayeslawError(f"{path.name} can't be read as TOML: {error}.", code="unreadable-mapping") from None
    return mapping(parse_toml(text, path.name), path.name)


def mapping(given: Mapping[str, Any], name: str = "the mapping") -> LogMap:
    """Check the contents of a mapping; see `read_mapping`."""
    _check_names(name, given, _TOP)
    for part in ("columns", "losses", "constants", "runs", "rename"):
        _check_names(f"{name}: [{part}]", given.get(part, {}))
    kind = given.get("from")
    if kind is not None and kind not in KINDS:
        message = f"{name}: from is {kind!r}; it must be one of {', '.join(KINDS)}.{nearest(str(kind), KINDS)}"
        raise BayeslawError(message, code="unknown-kind")
    marks = {mark: given.get(mark) for mark in ("delimiter", "decimal", "thousands")}
    for mark, sign in marks.items():
        if sign is not None and not (isinstance(sign, str) and len(sign) == 1):
            raise BayeslawError(f"{name}: {mark} must be one character, not {sign!r}.", code="not-one-character")
    if marks["delimiter"] in ('"', "\r", "\n", " "):
        message = f"{name}: delimiter {marks['delimiter']!r} can't separate cells: give a sign such as ',', ';' or '\\t'."
        raise BayeslawError(message, code="unusable-delimiter")
    if marks["decimal"] is not None and marks["decimal"] == marks["thousands"]:
        raise BayeslawError(f"{name}: decimal and thousands are both {marks['decimal']!r}.", code="equal-marks")
    columns, losses, column_unit = _columns(given, name)
    runs = {run: constants(values, f'{name}, [runs."{run}"]', CONSTANTS) for run, values in given.get("runs", {}).items()}
    for old, new in given.get("rename", {}).items():
        if not isinstance(new, str) or not new.strip():
            raise BayeslawError(f"{name}: [rename] {old!r} must be a name, not {new!r}.", code="not-a-name")
    loss_unit = unit(given["loss_unit"]) if "loss_unit" in given else None
    if loss_unit is not None and column_unit not in (None, loss_unit):
        raise BayeslawError(f"{name}: loss_unit is {loss_unit}, and a column of losses is in {column_unit}.", code="two-units")
    every = constants(given.get("constants", {}), f"{name}, [constants]")
    renamed = dict(given.get("rename", {}))
    return LogMap(kind, columns, losses, every, runs, renamed, {}, **marks, loss_unit=loss_unit, column_unit=column_unit)


def constants(given: Mapping[str, Any], name: str, known: tuple[str, ...] = (*CONSTANTS, *READING)) -> dict[str, Any]:
    """Check values of runs: numbers, or texts for the columns in `WORDS`.

    Parameters
    ----------
    given : mapping
    name : str
        Name of the mapping, for messages.
    known : tuple of str
        The names that it may have.
    """
    _check_names(name, given, known)
    values: dict[str, Any] = {}
    for ours, value in given.items():
        if ours in WORDS:
            values[ours] = str(value)
            continue
        try:
            amount = math.nan if isinstance(value, bool) else number(value) if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            amount = math.nan
        if not math.isfinite(amount):
            shown = shortened(repr(value))
            message = f"{name}: {ours} must be a number such as 410M, not {shown}.{percent_hint(value)}"
            raise BayeslawError(message, code="not-a-number")
        values[ours] = amount
    return values


def _check_names(where: str, given: Any, known: tuple[str, ...] | None = None) -> None:
    """Refuse what is no table, or has other names than those known."""
    if not isinstance(given, Mapping):
        raise BayeslawError(f"{where} must be a table of NAME = VALUE.", code="not-a-table")
    if known is None:
        return
    for name in given:
        if name not in known:
            message = f"{where}: there is no {name!r}; known are {', '.join(known)}.{nearest(name, known)}"
            raise BayeslawError(message, code="unknown-name")


def with_columns(given: LogMap, columns: Mapping[str, str]) -> LogMap:
    """Return a mapping with further columns, which replace its own of the same meaning.

    Parameters
    ----------
    given, columns : LogMap and mapping
        Our names with texts such as 'model_size_M:M'; see `bayeslaw.data.columns.named`.
    """
    check_columns(columns)
    parts = {ours: parted(ours, text) for ours, text in columns.items()}
    entries = {ours: {"column": column, **({"unit": of} if of else {})} for ours, (column, of) in parts.items()}
    more = mapping({"columns": entries}, "--column")
    kept = {c: meaning for c, meaning in given.columns.items() if c not in more.columns and meaning[0] not in columns}
    given = with_losses(given, more.losses, more.column_unit) if more.losses else given
    return replace(given, columns=kept | dict(more.columns))


def with_losses(given: LogMap, losses: Mapping[str, str | None], column_unit: str | None = None) -> LogMap:
    """Return a mapping with other columns of losses, which need not be in the unit that its own were given with.

    Parameters
    ----------
    given, losses, column_unit : LogMap, mapping and str, optional
        A unit of the new columns replaces the unit of all losses.
    """
    loss_unit = given.loss_unit if column_unit is None else None
    return replace(given, losses=losses, loss_unit=loss_unit, column_unit=column_unit)


def _columns(given: Mapping[str, Any], name: str) -> tuple[dict[str, tuple[str, float]], dict[str, str | None], str | None]:
    """Return the columns of covariates, those of losses, and the unit of the losses if they give one."""
    columns, losses, units = dict[str, tuple[str, float]](), dict[str, str | None](), set[str]()
    _check_names(f"{name}, [columns]", given.get("columns", {}), (*COLUMNS, "loss"))
    entries = [("columns", ours, value) for ours, value in given.get("columns", {}).items()]
    entries += [("losses", domain, value) for domain, value in given.get("losses", {}).items()]
    for part, ours, value in entries:
        of_loss = part == "losses" or ours == "loss"
        column, scale = _column(value, f"{name}, [{part}] {ours}", of_loss)
        if column in columns or column in losses:
            raise BayeslawError(f"{name}, [{part}]: column {column!r} is given two meanings.", code="two-meanings")
        if not of_loss:
            columns[column] = (ours, factor(scale))
            continue
        losses[column] = None if part == "columns" else str(ours)
        units.add(unit(scale))
    if None in losses.values() and len(losses) > 1:
        message = f"{name}: give the losses either as loss under [columns] or, one for each domain, under [losses]."
        raise BayeslawError(message, code="ambiguous-losses")
    if len(units) > 1:
        raise BayeslawError(f"{name}: its losses are in {' and '.join(sorted(units))}; import them one by one.", code="two-units")
    return columns, losses, next(iter(units - {NATS}), None)


def _column(value: Any, where: str, of_loss: bool) -> tuple[str, str]:
    """Return the column and its unit: 1 where that is ours."""
    if isinstance(value, str) and value:
        return value, NATS if of_loss else "1"
    if isinstance(value, Mapping) and isinstance(value.get("column"), str) and set(value) <= {"column", "unit"}:
        scale = str(value.get("unit", NATS if of_loss else "1"))
        if of_loss or 0 < factor(scale) < math.inf:
            return value["column"], scale
        raise BayeslawError(f"{where}: unit {scale!r} is none of K, M, B, T, % or a factor such as 1e6.", code="unknown-unit")
    raise BayeslawError(f'{where} must be "COLUMN" or {{ column = "COLUMN", unit = "M" }}, not {value!r}.', code="not-a-column")
