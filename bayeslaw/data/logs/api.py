"""Import of losses from the places where people log them: exports and logs of several kinds as one table of runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import scaled
from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened
from bayeslaw.core.files import as_path, files_below, readable
from bayeslaw.core.text import counted, listed
from bayeslaw.core.units import NATS, PERPLEXITY, convert_table, unit
from bayeslaw.data.columns import AMOUNTS, TEXT, amount, columns_there, key, our_name
from bayeslaw.data.logs.assemble import rows
from bayeslaw.data.logs.cells import ambiguous_steps, numbers
from bayeslaw.data.logs.json_logs import is_json, last_step, read_json, run_folder
from bayeslaw.data.logs.kept import Keep, kept_notes, kept_values, with_kept, with_values
from bayeslaw.data.logs.log import BY_KIND, LOGGER_STEPS, SPLIT, Log, Meanings, meanings, step_columns, with_settings
from bayeslaw.data.logs.mapping import KINDS, LogMap, constants, mapping, read_mapping, with_columns, with_losses
from bayeslaw.data.logs.merge import LOSS, RESUMED, Entries, fault, loss_columns, merged, refuse
from bayeslaw.data.logs.mlflow import is_store, read_store
from bayeslaw.data.logs.printed import is_printed, read_printed
from bayeslaw.data.logs.tensorboard import is_event_file, read_events
from bayeslaw.data.logs.text import decoded, read_text
from bayeslaw.data.starter import advice, guesses, names_loss, option
from bayeslaw.data.table import Runs, read_runs

JSON = re.compile(r"\s*(?:\{|\[\s*(?:[\[{\]]|$))")  # of objects, whole or cut off; logs may begin with [2026-01-31]
NAN = ("drop",)
BESIDE = (".csv", ".jsonl", ".parquet", ".tsv")  # endings of files that may hold losses too where a folder is read for other logs
SPLITS = {"train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev"}


@dataclass(frozen=True, eq=False)
class Imported:
    """Losses read from logs, under our names and units, and notes that count what was assumed, combined or left out.

    Examples
    --------
    >>> imported = bayeslaw.import_runs("runs.csv", kind="table")
    >>> imported.runs.unit, len(imported.notes) > 0
    ('nats/token', True)
    """

    runs: Runs
    notes: tuple[str, ...]


def import_runs(
    sources: str | Path | Sequence[str | Path],
    *,
    kind: str | None = None,
    map: str | Path | Mapping[str, Any] | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    losses: str | Mapping[str, str | None] | Collection[str] | None = None,
    domains: str | Collection[str] | None = None,
    keep: Keep = (),
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
        Files, or folders with event files of TensorBoard, with runs of MLflow or with trainer_state.json.
    kind : {'wandb', 'tensorboard', 'mlflow', 'trainer', 'jsonl', 'text', 'wide', 'table'}, optional
        The kind of all sources; by default inferred from their contents.
    map : path or mapping, optional
        The meanings of columns that their names do not show; see `bayeslaw.data.logs.mapping.read_mapping`.
    columns : mapping, optional
        The same for single columns, as in `read_runs`: ``{"N": "model_size_M:M", "loss": "val/perplexity:perplexity"}``.
    losses : str, collection or mapping, optional
        The columns of validation losses, or these with the domain of each; by default found by their names.
    domains : str or collection of str, optional
        Domains to keep; by default all.
    keep : str, collection of str or mapping, optional
        Further columns to keep as they are, such as 'config.optimizer', of which a run has one value; or
        ``{"optimizer": "config.optimizer"}``, by the names that they get. Parameters may vary by them, as in
        ``fit(…, by={"E": "optimizer"})``.
    resumed : {'last', 'first'}, optional
        Which value counts where a run logs two for a step: the later log's, from the step at which the run was resumed, or the
        earlier log's. Such runs are refused by default.
    nan : {'drop'}, optional
        Leave out evaluations that logged NaN or infinity. They are refused by default.
    curves : bool
        Keep rows that have a learning rate and no loss, for `read_curves`.
    loss_unit : str, optional
        The unit of the losses, by default nats/token; see `bayeslaw.core.units`. Perplexities are converted to nats/token.
    **values
        Values of all runs: N, ptpp, r, tokens_per_step (D is step x tokens_per_step) and others of
        `bayeslaw.data.logs.mapping.CONSTANTS`; and eval_interval, the steps between evaluations, for printed lines that name none.

    Raises
    ------
    BayeslawError
        If a file can't be read or may be of several kinds, or an argument can't be used; TableError with every fault, by row.

    Examples
    --------
    >>> imported = bayeslaw.import_runs("runs.csv", kind="table", ptpp=20)
    >>> sorted(imported.runs.frame)
    ['D', 'N', 'loss', 'ptpp', 'run']
    """
    domains = [domains] if isinstance(domains, str) else domains
    given = LogMap() if map is None else mapping(map) if isinstance(map, Mapping) else read_mapping(map)
    for name, value, known in (("The kind of log", kind, KINDS), ("resumed", resumed, RESUMED), ("nan", nan, NAN)):
        if value is not None and value not in known:
            message = f"{name} is {value!r}; it must be {' or '.join(known)}.{nearest(str(value), known)}"
            raise BayeslawError(message, code="unknown-option")
    if named := _with_domains(() if losses is None else losses):
        if columns and "loss" in columns:
            column = f"--column loss={columns['loss']} (columns={{'loss': {columns['loss']!r}}})"
            message = f"{column} and --loss {', '.join(named)} (losses={losses!r}) both name the losses: give one."
            raise BayeslawError(message, code="ambiguous-losses")
        given = with_losses(given, named)
    given = with_kept(with_columns(given, columns or {}), keep)
    given = given if loss_unit is None else replace(given, loss_unit=unit(loss_unit))
    given = replace(given, constants={**given.constants, **constants(values, "the values of all runs")})
    if isinstance(sources, (str, Path, pd.DataFrame)) or not isinstance(sources, Iterable):
        sources = [sources]
    paths = [as_path(source, "A log") for source in sources]
    logs = _in_order(_read_all(paths, kind or given.kind, given))
    unread = list[Fault]()
    try:
        entries = _entries(logs, given, unread)
        frame, notes = rows(merged(entries, resumed), given, domains, drop=nan == "drop", curves=curves)
    except BayeslawError as error:
        if not unread:
            raise
        unread += [f for f in (error.faults if isinstance(error, TableError) else ()) if f.row not in {u.row for u in unread}]
    if unread:
        raise TableError(sorted(unread, key=lambda f: f.row or 0), logs[0].name if len(logs) == 1 else "the log")
    frame = with_values(frame, entries.kept, given.rename)
    notes += kept_notes(frame, given.kept)
    notes += [note for path in paths if (note := _left_in(path, [log.name for log in logs]))]
    runs = read_runs(frame)
    if runs.unit == PERPLEXITY:
        runs = replace(runs, frame=convert_table(runs.frame, NATS))
        notes.append(f"losses are perplexities in the log; their logarithm, in {NATS}, is written")
    return Imported(runs, (*notes, *(f"read: {c}" for c in runs.conversions)))


def _with_domains(losses: object) -> dict[str, str | None]:
    """Return the columns of losses that the user names, each with its domain, None for the one column without."""
    if not isinstance(losses, Iterable):
        message = f"losses names the columns of losses, such as 'val_loss' or {{'eval/web': 'web'}}, not {losses!r}."
        raise BayeslawError(message, code="not-a-text")
    columns = [losses] if isinstance(losses, str) else losses
    named = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
    if None in named.values() and len(named) > 1:
        message = "Several columns of losses need a domain each, such as --loss eval/web=web (losses={'eval/web': 'web', …})."
        raise BayeslawError(message, code="missing-domain")
    return named


# --- files and folders ------------------------------------------------------------------------------------------------------


def _read_all(sources: Sequence[Path], kind: str | None, given: LogMap) -> list[Log]:
    """Read the logs in files and folders."""
    if not sources:
        raise BayeslawError("Give a file or folder to import.", code="no-source")
    files, of_stores = list[tuple[Path, str | None, str]](), list[Log]()
    for source in sources:
        if not source.exists():
            raise BayeslawError(f"There is no file or folder {source}.", code="no-such-file")
        if kind in (None, "mlflow") and is_store(source):
            of_stores += read_store(source, given.named)
        else:
            files += _inside(source, kind) if source.is_dir() else [(source, kind, "")]
    return [*of_stores, *_of_files(files, given)]


def _of_files(files: list[tuple[Path, str | None, str]], given: LogMap) -> list[Log]:
    """Read the logs in files, with the kind and run of each."""
    paths = [path for path, _, _ in files]
    seen = set[Path]()
    for path in paths:
        if (resolved := path.resolve()) in seen:
            raise BayeslawError(f"{path} is given twice.", code="file-twice")
        seen.add(resolved)
    in_folders = [path.name == "trainer_state.json" or "tfevents" in path.name for path in paths]  # their names say little
    names = [f"{p.absolute().parent.name}/{p.name}" if folder else p.name for p, folder in zip(paths, in_folders, strict=True)]
    names = [readable(name) for name in _distinct(names, paths)]
    logs = [_read(path, name, known, run, given) for (path, known, run), name in zip(files, names, strict=True)]
    named_by = {"tensorboard": lambda path: path.parent, "trainer": run_folder}  # a run that no column names; else the file's stem
    of_runs = [
        log.folder or named_by.get(log.kind, lambda p: p.with_suffix(""))(path.absolute())
        for path, log in zip(paths, logs, strict=True)
    ]
    runs = [readable(run) for run in _distinct([log.run for log in logs], of_runs)]
    return _with_settings([replace(log, run=run) for log, run in zip(logs, runs, strict=True)], of_runs, given)


def _with_settings(logs: list[Log], folders: list[Path], given: LogMap) -> list[Log]:
    """Add the settings of runs to their entries; those in a folder without entries are of the run in the folder above it."""
    entries = {folder for log, folder in zip(logs, folders, strict=True) if len(log.frame)}
    settings = dict[Path, dict[str, object]]()
    for log, folder in zip(logs, folders, strict=True):
        settings.setdefault(folder if folder in entries else folder.parent, {}).update(log.settings)
    named, read = given.named, list[Log]()
    for log, folder in zip(logs, folders, strict=True):
        if len(log.frame):
            read.append(with_settings(log, settings.get(folder, {}), named))
        elif not log.settings or entries.isdisjoint((folder, folder.parent)):
            read.append(log)
    return read


def _inside(folder: Path, kind: str | None) -> list[tuple[Path, str | None, str]]:
    """Return the logs in a folder, their kinds and runs: event files, a run for each folder with some, or trainer_state.json."""
    files = files_below(folder)
    events = [path for path in files if "tfevents" in path.name]
    states = [path for path in files if path.name == "trainer_state.json"]
    if kind is None and events and states:
        both = f"{folder} has event files of TensorBoard and trainer_state.json"
        message = f"{both}: choose one, tensorboard or trainer, by {BY_KIND}."
        raise BayeslawError(message, code="ambiguous-folder")
    if events and kind in (None, "tensorboard"):
        runs = [path.parent.relative_to(folder).as_posix() for path in events]
        return [(p, "tensorboard", folder.absolute().name if run == "." else run) for p, run in zip(events, runs, strict=True)]
    if states and kind in (None, "trainer"):
        return [(path, "trainer", "") for path in states]
    wanted = {"tensorboard": "event files of TensorBoard", "trainer": "trainer_state.json", "mlflow": "runs of MLflow"}
    missing = wanted.get(kind or "", "event files of TensorBoard, no runs of MLflow and no trainer_state.json")
    ending = next((end for end in (".jsonl", ".csv", ".tsv", ".json", ".parquet", ".log") if any(folder.glob(f"*{end}"))), ".jsonl")
    raise BayeslawError(f"{folder} has no {missing}; name its files, such as {folder}/*{ending}.", code="no-logs")


def _left_in(folder: Path, read: Sequence[str]) -> str:
    """Say which tables and logs lie in a folder beside the kind of log that was read of it; '' where there are none."""
    beside = [path.name for path in sorted(folder.glob("*")) if path.suffix.lower() in BESIDE and path.name not in read]
    if not beside:
        return ""
    are = f"{counted(len(beside), 'other file')} of {folder} {'is' if len(beside) == 1 else 'are'} not read, such as {beside[0]}"
    return f"{are}: name {'it' if len(beside) == 1 else 'them'} too if the losses belong together"


def _read(path: Path, name: str, kind: str | None, run: str, given: LogMap) -> Log:
    try:
        if kind == "tensorboard" or (kind is None and ("tfevents" in path.name or is_event_file(path))):
            return read_events(path, name, run or path.absolute().parent.name, {*given.losses}, given.covariates)
        if path.suffix == ".wandb":
            message = f"{name} is the binary file in which Weights & Biases keeps a run: export its history, as CSV or JSON lines."
            raise BayeslawError(message, code="not-an-export")
        if path.suffix.lower() == ".parquet":
            return read_text(path, name, kind, given.delimiter, {*given.columns, *given.losses})
        text = decoded(path, name)
        if kind == "text" or (kind is None and not given.delimiter and not is_json(text) and is_printed(text)):
            return read_printed(text, name, path.stem, given.constants.get("eval_interval"))
        if kind in ("trainer", "jsonl") or (kind is None and JSON.match(text)):
            return read_json(path, name, kind)
        return read_text(path, name, kind, given.delimiter, {*given.columns, *given.losses})
    except OSError as error:
        raise BayeslawError(f"{path} can't be read: {error}.", code="unreadable-file") from None


def _distinct(names: list[str], paths: list[Path]) -> list[str]:
    """Put as many folders before equal names of different paths as make them differ."""
    distinct, parts = list(names), [path.absolute().parts for path in paths]
    for name in {*names} - {""}:
        same = [i for i, other in enumerate(names) if other == name]
        several, depth = len({parts[i] for i in same}), name.count("/") + 1
        while several > len({distinct[i] for i in same}):
            depth += 1
            for i in same:
                distinct[i] = "/".join(parts[i][-depth:])
    return distinct


def _in_order(logs: list[Log]) -> list[Log]:
    """Sort logs by the order in which they were written, where known: events by their time, histories by their last step."""
    place = {"tensorboard": lambda log: float(log.frame["_time"].min()) if len(log.frame) else 0.0, "trainer": last_step}
    kinds = {log.kind for log in logs}
    return sorted(logs, key=place[logs[0].kind]) if len(kinds) == 1 and kinds <= set(place) else logs


# --- entries under our names ------------------------------------------------------------------------------------------------


def _entries(logs: list[Log], given: LogMap, unread: list[Fault]) -> Entries:
    """Return the entries of all logs under our names, in numbers; faults of cells that hold none are added to `unread`."""
    parts, notes = list[pd.DataFrame](), list[str]()
    of_logs: dict[str, dict[str, None]] = {}  # each note once, with the logs that it is about
    counts: dict[str, tuple[bool, str]] = {}
    splits: dict[str, dict[str, str]] = {}
    used = set[str]()
    for column in (*given.columns, *given.losses):
        if not any(column in log.frame for log in logs):
            known = list(dict.fromkeys(str(c) for log in logs for c in log.frame))
            raise BayeslawError(f"No log has a column {column!r}.{nearest(column, known)}", code="missing-column")
    for log in logs:
        marks = (given.decimal, given.thousands)
        if log.kind not in ("wandb", "wide", "table") and not (log.kind in ("jsonl", "text") and any(marks)):
            marks = (".", ",")  # as programs write numbers
        meaning = _meanings(log, given)
        used |= {*meaning.losses}
        _check_one_split(log, meaning, splits)
        meaning = replace(meaning, other=tuple(c for c in meaning.other if c not in given.kept))
        part, read, wrong = _renamed(log, meaning, marks, len(logs) > 1)
        for note in (*log.notes, *read):
            of_logs.setdefault(note.removeprefix(f"{log.name}: "), {})[log.name] = None
        unread += wrong
        for run in part["run"].dropna().unique():
            by_logger, name = counts.setdefault(run, (meaning.by_logger, log.name))
            if by_logger != meaning.by_logger:
                raise BayeslawError(
                    f"run {shortened(repr(run))} is in {name} and {log.name}, and one of them has the logger's steps: name the "
                    "column of the trainer's steps in both, or import one.",
                    code="two-counts-of-steps",
                )
        parts.append(part)
    kept = kept_values(logs, [part["run"] for part in parts], given.kept)
    domains: dict[str, str] = {}  # one spelling for each: Pile, pile
    parts = [p.rename(columns=lambda c: domains.setdefault(c.lower(), c) if c.startswith(LOSS) else c) for p in parts]
    frame = pd.concat(parts, ignore_index=True).astype({"_name": "category"})
    for text, names in ((text, [*of]) for text, of in of_logs.items()):
        some = f"{len(names)} of {len(logs)} logs ({listed(names, 3)})" if len(names) < len(logs) else f"{len(logs)} logs"
        notes.append(f"{names[0] if len(names) == 1 else some}: {text}")
    if "eval_interval" in given.constants and all(log.kind != "text" for log in logs):
        notes.append("eval_interval is not used: it is for lines that programs print (kind text), and other logs name their steps")
    notes += _not_found(frame, logs, given, used)
    return Entries(_with_run_names(frame, given), tuple(notes), kept=kept)


def _not_found(frame: pd.DataFrame, logs: list[Log], given: LogMap, used: Collection[str]) -> list[str]:
    """Refuse logs without losses, and note which columns may be sizes and tokens where no name shows it."""
    known = {*frame, *given.constants, *(name for values in given.runs.values() for name in values)}
    wanted = [*(["N"] if "N" not in known else []), *(["D"] if known.isdisjoint(("D", "tokens_per_step", "batch", "atpp")) else [])]
    raw = pd.concat([log.frame for log in logs], ignore_index=True) if len(logs) > 1 else logs[0].frame
    unread = pd.DataFrame([log.unread for log in logs if log.unread])
    raw = pd.concat([raw, unread[[c for c in unread if c not in raw]]], ignore_index=True)
    raw = raw[[c for c in raw if c not in (*given.covariates, "_time")]]
    if not loss_columns(frame):
        names = logs[0].name if len(logs) == 1 else f"{len(logs)} logs"
        training = next((str(c) for c in raw if re.search("train.*loss|^loss$", key(str(c)))), None)
        add = f"--loss {shlex.quote(training or '')} (losses={training!r})"
        of_batches = f" {training} has losses of training batches, which are read only if you add {add}."
        raise BayeslawError(
            f"{names}: no column is a validation loss by its name, such as eval/loss or val_loss; there are {columns_there(raw)}. "
            f"{advice(raw, ['loss', *wanted], 'import_runs')}{of_batches if training else ''}",
            code="no-loss",
        )
    guessed = guesses(raw.drop(columns=[c for c in used if c in raw]), wanted)
    return [
        f"no column is {ours} by its name; if {text.partition(':')[0]} is, add {option(ours, text)}"
        for ours, text in guessed.items()
    ]


def _meanings(log: Log, given: LogMap) -> Meanings:
    """Return what a log's columns mean; steps of an export of Weights & Biases are its own unless their name is the trainer's."""
    log = replace(log, losses={c: d for c, d in given.losses.items() if c in log.frame} or log.losses)
    numeric = {c: ours for c in map(str, log.frame) if (ours := our_name(c, "logs")) and ours not in TEXT["logs"]}
    words = {c for c, ours in numeric.items() if not _some_number(log.frame[c], ours)}
    meaning = meanings(log, given.columns, words=words)
    if log.step is None and meaning.step not in (None, *given.columns):
        step = _step_of(log.frame, list(meaning.losses), str(meaning.step))
        meaning = meanings(log, given.columns, words=words, step=step)
    own = log.kind == "wandb" and meaning.step not in (None, *given.columns) and key(str(meaning.step)) == "step"
    return replace(meaning, by_logger=meaning.by_logger or own)


def _step_of(frame: pd.DataFrame, losses: list[str], first: str) -> str:
    """Return of the trainer's counts of steps the first with a value in each row with a loss; `first` if none is such."""
    counts = [c for c in step_columns(map(str, frame)) if key(c) not in LOGGER_STEPS]
    logged = frame.loc[frame[losses].notna().any(axis=1), counts].notna().all()
    return next((c for c in counts if logged[c]), first)


def _some_number(cells: pd.Series, ours: str) -> bool:
    """Whether a column holds a number, or an amount such as 410M."""
    logged = [amount(ours, cell)[0] for cell in cells.dropna().iloc[:100]]
    return not logged or bool(numbers(pd.Series(logged, dtype=object), ours, ".", ",")[0].notna().any())


def _check_one_split(log: Log, meaning: Meanings, known: dict[str, dict[str, str]]) -> None:
    """Refuse losses of several splits, distinguished by a column that is not used; `known` are those of the logs before it."""
    some = log.frame[list(meaning.losses)].notna().any(axis=1)
    for column in meaning.other if meaning.losses else ():
        words = {v.strip().lower(): v.strip() for v in log.frame.loc[some, column] if isinstance(v, str)}
        words.pop("", None)
        if not words or not words.keys() <= SPLITS:
            continue
        if len(splits := known.setdefault(column, {}) | words) > 1:
            raise BayeslawError(
                f"{log.name}: by column {column!r}, losses of {', '.join(map(repr, meaning.losses))} are of "
                f"{' and of '.join(splits.values())}, and a table of runs holds validation losses alone. Write [columns] domain = "
                f'"{column}" in a mapping file and name the domain to keep (--domain {[*splits.values()][-1]}, domains=), or leave '
                "only the rows of one in the file.",
                code="several-splits",
            )
        known[column] = splits


def _renamed(
    log: Log, meaning: Meanings, marks: tuple[str | None, str | None], several: bool
) -> tuple[pd.DataFrame, list[str], list[Fault]]:
    """Return a log's entries under our names, in numbers, with notes, which begin with the log's name, and faults."""
    notes, faults = list[str](), list[Fault]()
    frame = pd.DataFrame({"_name": log.name, "_row": log.frame.index.to_numpy()}, index=log.frame.index)
    columns = {c: (f"{LOSS}{d or ''}", 1.0) for c, d in meaning.losses.items()} | dict(meaning.covariates)
    if meaning.step is not None:
        columns[meaning.step] = ("step", meaning.step_factor)
    for column, (ours, factor) in columns.items():
        cells = log.frame[column]
        if ours in TEXT["logs"]:
            frame[ours] = cells.map(lambda v: None if v is None or v != v or not str(v).strip() else _word(v))
            continue
        own = np.array(np.nan)
        if ours in AMOUNTS and len(cells):  # a cell such as 410M has its unit, whatever the column's is
            digits, factors = zip(*(amount(ours, cell) for cell in cells), strict=True)
            cells, own = pd.Series(digits, index=cells.index, dtype=cells.dtype), np.array(factors, dtype=np.float64)
        values, wrong, separated = numbers(cells, ours.split(":")[0], *marks)
        wrong += ambiguous_steps(cells) if ours == "step" and factor == 1 and not any(marks) else []
        frame[ours] = scaled(values, np.where(np.isfinite(own), own, factor))
        faults += [replace(f, column=column, problem=(f"{log.name}: " if several else "") + f.problem) for f in wrong]
        if separated:
            notes.append(f"{log.name}: separators of thousands removed from {counted(separated, 'cell')} of {column!r}")
        if factor != 1 or (ours.lower() != key(column) and not ours.startswith(LOSS)):
            notes.append(f"{log.name}: {ours} = {column}" + (f" x {factor:g}" if factor != 1 else ""))
    notes += _notes(log, meaning)
    if "run" not in frame and meaning.step is None and log.kind in ("table", "jsonl"):
        frame["run"] = [f"{log.run}:{row}" for row in log.frame.index]
        notes.append(f"{log.name}: no column names runs and none counts steps; every row is read as a run")
    elif "run" not in frame:
        frame["run"] = log.run
        if log.kind in ("table", "jsonl", "wandb"):
            as_run = "a log is read as one run, named after its file" if several else f"the log is read as one run, {log.run!r}"
            notes.append(f"{log.name}: no column names runs; {as_run}")
    return frame, notes, faults


def _word(value: object) -> str:
    """Return a name; a number keeps all its digits, so that two runs stay two."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else str(float(value))
    return str(value).strip()


def _notes(log: Log, meaning: Meanings) -> list[str]:
    """Note which columns of a log are used, and which are not."""
    notes = []
    if meaning.losses and log.kind != "wide":
        losses = ", ".join(f"{c} ({d})" if d else c for c, d in meaning.losses.items())
        notes.append(f"{log.name}: losses are {losses}")
        if of_training := [c for c in meaning.losses if _beside_gradients(log.frame, c)]:
            notes.append(
                f"{log.name}: {listed(of_training)} stands in the rows of grad_norm, as trainers log the loss of training batches; "
                "laws describe validation losses"
            )
    if other := [repr(c) for c in sorted(meaning.other, key=lambda c: not names_loss(c)) if not c.startswith("_")]:
        notes.append(
            f"{log.name}: {counted(len(other), 'column')} not used ({listed(other)}); --keep (keep=) keeps columns as they are"
        )
    if meaning.other_losses:
        shown = listed(meaning.other_losses)
        notes.append(
            f"{log.name}: not used, since by their names they are no validation losses, or the least of several: {shown} "
            "(--loss or losses= names them)"
        )
    if meaning.by_logger:
        notes.append(f"{log.name}: steps ({meaning.step}) are the logger's own count, which need not be the trainer's")
    return notes


def _beside_gradients(frame: pd.DataFrame, loss: str) -> bool:
    """Whether most rows with a loss have a norm of gradients too, which are logged at training steps.

    A loss that its name says is of validation is none of training, though a program such as Weights & Biases logs both in one row.
    """
    if re.search(rf"(?<![a-z]){SPLIT}(?![a-z])", key(loss)):
        return False
    norms = [c for c in frame if re.search("grad.*norm", key(str(c)))]
    logged = frame[frame[loss].notna()]
    return bool(norms) and bool(logged[norms].notna().any(axis=1).mean() > 0.5)


def _with_run_names(frame: pd.DataFrame, given: LogMap) -> pd.DataFrame:
    """Rename runs as the mapping asks; names that differ only by case or blanks are refused."""
    missing = np.flatnonzero(frame["run"].isna().to_numpy()).tolist()
    refuse(frame, (fault(frame, i, "run", "", "run is missing", "name it, or remove the row", "missing-run") for i in missing))
    known = set(frame["run"])
    for old in given.rename:
        if old not in known:
            message = f"The mapping renames run {old!r}, and there is no such run.{nearest(old, known)}"
            raise BayeslawError(message, code="unknown-run")
    frame = frame.assign(run=frame["run"].map(lambda r: given.rename.get(r, r)))
    for column, suggestion in (("run", 'write [rename] "{0}" = "{1}" in a mapping file'), ("domain", "write {0} as {1}")):
        names: dict[str, str] = {}
        for name in frame[column].dropna().unique() if column in frame else ():
            spelling = re.sub(r"\s+", " ", name.strip().lower())
            if (other := names.setdefault(spelling, name)) != name:
                at = int(np.flatnonzero((frame[column] == name).to_numpy())[0])
                problem = f"{column}s {other!r} and {name!r} differ only by case or blanks"
                both = f"if they are one, {suggestion.format(name, other)}; otherwise give one another name"
                refuse(frame, [fault(frame, at, column, name, problem, both, "names-differ-by-case")])
    return frame
