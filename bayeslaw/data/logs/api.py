"""Losses from where people log them: exports and logs of several kinds as one table of runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened
from bayeslaw.core.units import unit
from bayeslaw.data.logs.assemble import rows
from bayeslaw.data.logs.cells import Marks, numbers
from bayeslaw.data.logs.columns import TEXT, Meanings, key, meanings
from bayeslaw.data.logs.json_logs import last_step, place, read_json
from bayeslaw.data.logs.log import Log, counted
from bayeslaw.data.logs.mapping import KINDS, Mapped, constants, mapping, read_mapping
from bayeslaw.data.logs.merge import LOSS, RESUMED, Entries, fault, merged, refuse
from bayeslaw.data.logs.tensorboard import is_event_file, read_events
from bayeslaw.data.logs.text import read_text
from bayeslaw.data.table import Runs, read_runs

NAN = ("drop",)
SPLITS = {"train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev"}  # what a loss may be of


@dataclass(frozen=True)
class Imported:
    """What was read out of logs.

    Attributes
    ----------
    runs : Runs
        One row a loss, under our names and units: run, step, domain, loss, lr, N, D, …, as far as they are known.
    remarks : tuple of str
        What was taken for granted, put together or left out, with counts.
    """

    runs: Runs
    remarks: tuple[str, ...]


def import_runs(
    sources: str | Path | Sequence[str | Path],
    *,
    kind: str | None = None,
    map: str | Path | Mapping[str, Any] | None = None,  # noqa: A002
    losses: str | Mapping[str, str | None] | Collection[str] | None = None,
    domains: str | Collection[str] | None = None,
    resumed: str | None = None,
    nan: str | None = None,
    curves: bool = False,
    loss_unit: str | None = None,
    **values: Any,
) -> Imported:
    """Read losses from logs.

    Parameters
    ----------
    sources : path or sequence of paths
        Files, or folders with event files of TensorBoard or with trainer_state.json.
    kind : {'wandb', 'tensorboard', 'trainer', 'jsonl', 'wide', 'table'}, optional
        What they are; found out by what they hold unless given.
    map : path or mapping, optional
        What can't be told by the names of columns; see `imports_map.read_mapping`.
    losses : str, collection or mapping, optional
        The columns of validation losses, or these with the domain of each; found by their names unless given.
    domains : str or collection of str, optional
        Domains to keep; all unless given.
    resumed : {'last', 'first'}, optional
        Where a run logs two values for a step: the later log holds, from the step at which it takes up, or the earlier one. They
        are refused unless it is given.
    nan : {'drop'}, optional
        Leave out evaluations that logged NaN or infinity. They are refused unless it is given.
    curves : bool
        Keep rows that have a learning rate and no loss, for `read_curves`.
    loss_unit : str, optional
        What the losses are in, nats/token unless told; see `bayeslaw.core.units`.
    **values
        What all runs have in common: N, ptpp, r, tokens_per_step (D is step x tokens_per_step) and others of
        `imports_map.CONSTANTS`.

    Raises
    ------
    TableError
        With every fault, by row.
    BayeslawError
        If a file can't be read, may be of several kinds, or an argument can't be used.
    """
    losses = [losses] if isinstance(losses, str) else losses
    domains = [domains] if isinstance(domains, str) else domains
    told = Mapped() if map is None else mapping(map) if isinstance(map, Mapping) else read_mapping(map)
    for name, value, known in (("from", kind, KINDS), ("resumed", resumed, RESUMED), ("nan", nan, NAN)):
        if value is not None and value not in known:
            raise BayeslawError(f"{name} is {value!r}; it is {' or '.join(known)}.{nearest(str(value), known)}")
    if losses:
        told = replace(told, losses=dict(losses) if isinstance(losses, Mapping) else dict.fromkeys(losses))
        if None in told.losses.values() and len(told.losses) > 1:
            raise BayeslawError("Several columns of losses need a domain each, such as --loss eval/web=web --loss eval/code=code.")
    told = replace(told, loss_unit=told.loss_unit if loss_unit is None else unit(loss_unit))
    told = replace(told, constants={**told.constants, **constants(values, "what is given for all runs")})
    logs = _in_order(read_logs([sources] if isinstance(sources, (str, Path)) else list(sources), kind or told.kind, told))
    frame, remarks = rows(merged(_entries(logs, told), resumed), told, domains, drop=nan == "drop", curves=curves)
    made = read_runs(frame)
    return Imported(made, (*remarks, *(f"read: {c}" for c in made.conversions)))


def read_logs(sources: Sequence[str | Path], kind: str | None, told: Mapped) -> list[Log]:
    """The logs in files and folders, each as what it is.

    Raises
    ------
    BayeslawError
        If there is no such file, or nothing in a folder that is known.
    """
    if not sources:
        raise BayeslawError("Give a file or folder to import.")
    found: list[tuple[Path, str | None, str]] = []
    for source in map(Path, sources):
        if not source.exists():
            raise BayeslawError(f"There is no file or folder {source}.")
        found += _inside(source, kind) if source.is_dir() else [(source, kind, "")]
    seen: set[Path] = set()
    for path, _, _ in found:
        if path.resolve() in seen:
            raise BayeslawError(f"{path} is given twice.")
        seen.add(path.resolve())
    paths = [path for path, _, _ in found]
    names = _apart([path.name for path in paths], paths)
    logs = [
        _read(path, known, run, told, name if name != path.name else None)
        for (path, known, run), name in zip(found, names, strict=True)
    ]
    runs = _apart([log.run for log in logs], [_place(path, log) for path, log in zip(paths, logs, strict=True)])
    return [replace(log, run=run) for log, run in zip(logs, runs, strict=True)]


def _place(path: Path, log: Log) -> Path:
    """What a log's run is called by if no column names it: a file without its ending, or a folder."""
    match log.kind:
        case "tensorboard":
            return path.parent
        case "trainer":
            return place(path)
        case _:
            return path.with_suffix("")


def _apart(names: list[str], places: list[Path]) -> list[str]:
    """Names, those of several places each with as many folders before it as tell them apart."""
    made, parts = list(names), [place.absolute().parts for place in places]
    for name in {*names} - {""}:
        same = [i for i, other in enumerate(names) if other == name]
        several, depth = len({parts[i] for i in same}), name.count("/") + 1
        while several > len({made[i] for i in same}):
            depth += 1
            for i in same:
                made[i] = "/".join(parts[i][-depth:])
    return made


def _inside(folder: Path, kind: str | None) -> list[tuple[Path, str | None, str]]:
    """Logs in a folder: event files, a run for each folder that has some, or trainer_state.json."""
    events = sorted(p for p in folder.rglob("*") if p.is_file() and "tfevents" in p.name)
    states = sorted(folder.rglob("trainer_state.json"))
    if kind == "tensorboard" or (kind is None and events and not states):
        runs = {p: p.parent.relative_to(folder).as_posix() for p in events}
        found: list[tuple[Path, str | None, str]] = [
            (p, "tensorboard", folder.absolute().name if run == "." else run) for p, run in runs.items()
        ]
    elif kind == "trainer" or (kind is None and states and not events):
        found = [(p, "trainer", "") for p in states]
    elif events and states:
        raise BayeslawError(
            f"{folder} has event files of TensorBoard and trainer_state.json: say --from tensorboard or --from trainer."
        )
    else:
        found = []
    if not found:
        what = {"tensorboard": "event files of TensorBoard", "trainer": "trainer_state.json"}.get(
            kind or "", "logs that are known in a folder"
        )
        raise BayeslawError(f"{folder} has no {what}; name its files.")
    return found


def _read(path: Path, kind: str | None, run: str, told: Mapped, called: str | None) -> Log:
    try:
        if kind == "tensorboard" or (kind is None and ("tfevents" in path.name or is_event_file(path))):
            return read_events(path, run or path.absolute().parent.name, {*told.losses}, {*told.columns}, called)
        with path.open("rb") as file:
            head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
        if kind in ("trainer", "jsonl") or (kind is None and head[:1] in (b"{", b"[")):
            return read_json(path, kind, called)
        return read_text(path, kind, told.delimiter, {*told.columns, *told.losses}, called)
    except OSError as error:
        raise BayeslawError(f"{path} can't be read: {error}.") from None


def _in_order(logs: list[Log]) -> list[Log]:
    """Logs in the order in which they were written, as far as they tell: events by their time, histories by their last step."""
    place = {"tensorboard": lambda log: float(log.frame["_time"].min()) if len(log.frame) else 0.0, "trainer": last_step}
    kinds = {log.kind for log in logs}
    return sorted(logs, key=place[logs[0].kind]) if len(kinds) == 1 and kinds <= set(place) else logs


def _entries(logs: list[Log], told: Mapped) -> Entries:
    """Entries of all logs under our names, in numbers."""
    parts, remarks, faults = list[pd.DataFrame](), list[str](), list[Fault]()
    counts: dict[str, tuple[bool, str]] = {}
    splits: dict[str, dict[str, str]] = {}
    for column in (*told.columns, *told.losses):
        if not any(column in log.frame for log in logs):
            known = list(dict.fromkeys(str(c) for log in logs for c in log.frame))
            raise BayeslawError(f"No log has a column {column!r}.{nearest(column, known)}")
    for log in logs:
        marks = Marks(told.decimal, told.thousands) if log.kind in ("wandb", "wide", "table") else Marks(".", ",")
        meant = _meant(log, told)
        _one_split(log, meant, splits)
        part, said, wrong = _named(log, meant, marks, len(logs) > 1)
        remarks += [*log.remarks, *said]
        faults += wrong
        for run in part["run"].dropna().unique():
            by_logger, name = counts.setdefault(run, (meant.by_logger, log.name))
            if by_logger != meant.by_logger:
                raise BayeslawError(
                    f"run {shortened(repr(run))} is in {name} and {log.name}, and one counts steps by the logger: name the "
                    "column of the trainer's steps in both, or import one."
                )
        parts.append(part)
    if faults:
        raise TableError(faults, logs[0].name if len(logs) == 1 else "the log")
    frame = pd.concat(_same_domains(parts), ignore_index=True).astype({"_name": "category"})
    return Entries(_runs_named(frame, told), tuple(dict.fromkeys(remarks)))


def _one_split(log: Log, meant: Meanings, known: dict[str, dict[str, str]]) -> None:
    """Refuse losses of several splits, told apart by a column that is not taken; `known` are those of the logs before it."""
    some = log.frame[list(meant.losses)].notna().any(axis=1)
    for column in meant.other if meant.losses else ():
        words = {v.strip().lower(): v.strip() for v in log.frame.loc[some, column] if isinstance(v, str)}
        words.pop("", None)
        if not words or not words.keys() <= SPLITS:
            continue
        if len(found := known.setdefault(column, {}) | words) > 1:
            raise BayeslawError(
                f"{log.name}: column {column!r} says that losses of {', '.join(map(repr, meant.losses))} are of "
                f"{' and of '.join(found.values())}, and a table of runs holds validation losses alone. Say [columns] domain = "
                f'"{column}" in a mapping file and the domain to keep (--domain {[*found.values()][-1]}), or leave the rows of one '
                "in the file."
            )
        known[column] = found


def _same_domains(parts: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Columns of losses of one domain under one name, however logs spell it: Pile, pile."""
    names: dict[str, str] = {}
    return [part.rename(columns=lambda c: names.setdefault(c.lower(), c) if c.startswith(LOSS) else c) for part in parts]


def _meant(log: Log, told: Mapped) -> Meanings:
    """What a log's columns mean; steps of an export of Weights & Biases are its own unless they are the trainer's by name."""
    columns = [str(c) for c in log.frame if c != "_time"]
    losses = {c: d for c, d in told.losses.items() if c in columns} or log.losses
    made = meanings(columns, log.name, step=log.step, given=told.columns, losses=losses, bare_loss=log.bare_loss)
    own = log.kind == "wandb" and made.step not in (None, *told.columns) and key(str(made.step)) == "step"
    return replace(made, by_logger=made.by_logger or own)


def _named(log: Log, meant: Meanings, marks: Marks, several: bool) -> tuple[pd.DataFrame, list[str], list[Fault]]:
    """A log's entries under our names, in numbers."""
    remarks, faults = list[str](), list[Fault]()
    made = pd.DataFrame({"_name": log.name, "_row": log.frame.index.to_numpy()}, index=log.frame.index)
    columns = {c: (f"{LOSS}{d or ''}", 1.0) for c, d in meant.losses.items()} | dict(meant.covariates)
    if meant.step is not None:
        columns[meant.step] = ("step", 1.0)
    for column, (ours, factor) in columns.items():
        cells = log.frame[column]
        if ours in TEXT:
            made[ours] = cells.map(lambda v: None if v is None or v != v or not str(v).strip() else _word(v))
            continue
        values, wrong, separated = numbers(cells, ours.split(":")[0], marks)
        made[ours] = values * factor
        faults += [replace(f, column=column, problem=(f"{log.name}: " if several else "") + f.problem) for f in wrong]
        if separated:
            remarks.append(f"{log.name}: separators of thousands taken out of {counted(separated, 'cell')} of {column!r}")
        if factor != 1 or (ours.lower() != key(column) and not ours.startswith(LOSS)):
            remarks.append(f"{log.name}: {ours} = {column}" + (f" x {factor:g}" if factor != 1 else ""))
    remarks += _said(log, meant)
    if "run" not in made and meant.step is None and log.kind in ("table", "jsonl"):
        made["run"] = [f"{log.run}:{row}" for row in log.frame.index]
        remarks.append(f"{log.name}: no column names runs and none counts steps; every row is taken for a run")
    elif "run" not in made:
        made["run"] = log.run
        if log.kind in ("table", "jsonl", "wandb"):
            remarks.append(f"{log.name}: no column names runs; it is taken for one, {log.run!r}")
    return made, remarks, faults


def _word(value: object) -> str:
    """A name; of a number all its digits, so that two runs stay two."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else str(float(value))
    return str(value).strip()


def _said(log: Log, meant: Meanings) -> list[str]:
    remarks = []
    names = ", ".join(f"{c} ({d})" if d else c for c, d in meant.losses.items())
    if meant.losses and log.kind != "wide":
        remarks.append(f"{log.name}: losses are {names}")
    other = [c for c in meant.other if not c.startswith("_")]
    if other:
        shown = ", ".join(map(repr, other[:6])) + (", …" if len(other) > 6 else "")
        remarks.append(f"{log.name}: {counted(len(other), 'column')} not taken ({shown})")
    if meant.other_losses:
        shown = ", ".join(meant.other_losses[:6]) + (", …" if len(meant.other_losses) > 6 else "")
        remarks.append(f"{log.name}: by their names no validation losses, and not taken: {shown} (--loss takes what you name)")
    if meant.by_logger:
        remarks.append(f"{log.name}: steps ({meant.step}) are the logger's own count, which need not be the trainer's")
    return remarks


def _runs_named(frame: pd.DataFrame, told: Mapped) -> pd.DataFrame:
    """Entries with the names of their runs as they are to be; names that differ by case alone are refused."""
    missing = np.flatnonzero(frame["run"].isna().to_numpy()).tolist()
    refuse(frame, (fault(frame, i, "run", "", "run is missing", "name it, or remove the row") for i in missing))
    known = set(frame["run"])
    for old in told.rename:
        if old not in known:
            raise BayeslawError(f"The mapping renames run {old!r}, and there is none.{nearest(old, known)}")
    frame = frame.assign(run=frame["run"].map(lambda r: told.rename.get(r, r)))
    for column, suggestion in (("run", 'say [rename] "{0}" = "{1}" in a mapping file'), ("domain", "write {0} as {1}")):
        names: dict[str, str] = {}
        for name in frame[column].dropna().unique() if column in frame else ():
            like = re.sub(r"\s+", " ", name.strip().lower())
            if (other := names.setdefault(like, name)) != name:
                at = int(np.flatnonzero((frame[column] == name).to_numpy())[0])
                problem = f"{column}s {other!r} and {name!r} differ by case or blanks alone"
                suggested = f"if they are one, {suggestion.format(name, other)}; else give one another name"
                refuse(frame, [fault(frame, at, column, name, problem, suggested)])
    return frame
