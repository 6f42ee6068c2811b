"""Tables of logged losses: read once, named and scaled on the way in, and checked whole."""

from __future__ import annotations

import hashlib
import json
import numbers
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.errors import BayeslawError, Fault, TableError, nearest, shortened
from bayeslaw.filters import where
from bayeslaw.laws import Covariate, Law

# Other names under which the columns are logged, lower case, and what brings them to our units.
ALIASES: dict[str, dict[str, float]] = {
    "loss": {"val_loss": 1, "valid_loss": 1, "validation_loss": 1, "eval_loss": 1, "eval/loss": 1, "val/loss": 1, "test_loss": 1},
    "N": {
        "n": 1, "params": 1, "n_params": 1, "num_params": 1, "parameters": 1, "num_parameters": 1, "model_size": 1,
        "params_m": 1e6, "n_millions": 1e6, "params_b": 1e9, "n_billions": 1e9,
    },
    "D": {
        "d": 1, "tokens": 1, "n_tokens": 1, "num_tokens": 1, "train_tokens": 1, "adaptation_tokens": 1,
        "tokens_m": 1e6, "tokens_b": 1e9, "d_billions": 1e9,
    },
    "U": {"u": 1, "unique_tokens": 1, "n_unique_tokens": 1, "unique_tokens_m": 1e6, "unique_tokens_b": 1e9},
    "r": {"replay": 1, "replay_share": 1, "replay_ratio": 1, "replay_pct": 0.01, "replay_percent": 0.01},
    "ptpp": {"pretrain_tpp": 1, "pretraining_tokens_per_parameter": 1},
    "atpp": {"adaptation_tokens_per_parameter": 1},
    "run": {"run_id": 1, "run_name": 1},
    "domain": {"val_set": 1, "val_domain": 1, "eval_domain": 1},
}  # fmt: skip
LOSS_SUPPORT = (0.0, 15.0)


@dataclass(frozen=True)
class Runs:
    """Logged losses, one row each, under the names and units of bayeslaw.

    Attributes
    ----------
    frame : DataFrame
        Column `loss` (nats/token) and covariates such as N, D (tokens), r (share), ptpp; optionally `run`, `domain`,
        `loss_se`, `flops`, `step` and anything else. The index is the row's number in the file, from 1 below the header.
    name : str
        Where it came from.
    conversions : tuple of str
        What was renamed or scaled on the way in.
    unread : tuple of Fault
        Cells that hold no number where one is wanted; they are missing values in `frame`.
    """

    frame: pd.DataFrame
    name: str = "runs"
    conversions: tuple[str, ...] = ()
    unread: tuple[Fault, ...] = ()

    def where(self, condition: str | None) -> Runs:
        """The rows that meet a condition such as ``ptpp <= 31 and domain == 'target'``."""
        return self if not condition else replace(self, frame=where(self.frame, condition))

    def __len__(self) -> int:
        return len(self.frame)


def read_runs(source: str | Path | pd.DataFrame, condition: str | None = None, *, strict: bool = True) -> Runs:
    """Read a table of logged losses.

    Parameters
    ----------
    source : path or DataFrame
        A file ending in .csv, .tsv, .parquet, .jsonl or .json (objects, one a line or all in one list), or a table in memory.
    condition : str, optional
        Keep only rows that meet it, as in `Runs.where`.
    strict : bool
        Refuse cells that hold no number; False leaves them to `check`, which lists them with all other faults.

    Raises
    ------
    TableError, BayeslawError
        If the file can't be read, two columns mean the same, or a cell of a numeric column holds no number.
    """
    if isinstance(source, pd.DataFrame):
        frame, name = source.copy(), "the table"
    else:
        frame, name = _read(Path(source)), Path(source).name
    if named := [n for n in frame.index.names if n not in (None, "row", *frame.columns)]:
        frame = frame.reset_index(level=named)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    if not len(frame):
        raise BayeslawError(f"{name} has no rows.")
    frame, conversions = _named(frame, name)
    frame, unread = _numeric(frame)
    if unread and strict:
        raise TableError(unread, name)
    runs = Runs(frame, name, tuple(conversions), tuple(unread))
    if "D" not in runs.frame and {"atpp", "N"} <= set(runs.frame):
        frame = runs.frame.assign(D=runs.frame["atpp"] * runs.frame["N"])
        runs = replace(runs, frame=frame, conversions=(*runs.conversions, "D = atpp x N"))
    return runs.where(condition)


def _read(path: Path) -> pd.DataFrame:
    readers = {".csv": ",", ".tsv": "\t", ".parquet": None, ".jsonl": None, ".json": None}
    if path.suffix.lower() not in readers:
        raise BayeslawError(f"{path.name}: a table of runs ends in {', '.join(readers)}; {path.suffix or 'no ending'} is not one.")
    if not path.is_file():
        raise BayeslawError(f"There is no file {path}.")
    try:
        match path.suffix.lower():
            case ".parquet":
                return pd.read_parquet(path)
            case ".jsonl" | ".json":
                return _records(path)
            case suffix:
                if b"\0" in path.read_bytes():  # UTF-16, which may pass for UTF-8
                    raise ValueError("it holds NUL bytes: save it as UTF-8 text")
                frame = pd.read_csv(
                    path, sep=readers[suffix], dtype=object, keep_default_na=False, na_values=[""], skipinitialspace=True
                )
                if not isinstance(frame.index, pd.RangeIndex):
                    raise ValueError("its rows have more cells than its header has names (commas inside numbers?)")
                return frame
    except (ValueError, OSError, ImportError, RecursionError) as error:
        raise BayeslawError(f"{path.name} can't be read as a {path.suffix} table: {str(error).strip()}.") from None


def _records(path: Path) -> pd.DataFrame:
    """JSON objects, one a line or all in one list."""
    text = path.read_text(encoding="utf-8-sig").strip()
    lines = [text] if text.startswith("[") else [line for line in text.split("\n") if line.strip()]
    read = [json.loads(line, object_pairs_hook=_object) for line in lines]
    rows = read[0] if text.startswith("[") else read
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError('each line must be an object such as {"N": 1e9, "loss": 2.5}')
    return pd.DataFrame(rows)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; of two values under one key Python would silently keep the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"an object gives {next(k for k in keys if keys.count(k) > 1)!r} twice")
    return made


def _named(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Give columns our names and remember their scale; two columns of one meaning are refused."""
    meanings: dict[str, tuple[str, float]] = {}
    for ours, aliases in ALIASES.items():
        meanings |= {alias: (ours, factor) for alias, factor in aliases.items()} | {ours.lower(): (ours, 1.0)}
    targets: dict[str, str] = {}
    renamed, conversions, factors = [], [], dict[str, float]()
    frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
    for column in frame.columns:
        key = re.sub(r"\s+", "_", column.strip().lower())
        if re.sub(r"\.\d+$", "", column) in targets.values():  # how pandas reads a second column of one name
            key = re.sub(r"\.\d+$", "", key)
        ours, factor = meanings.get(key, (column.strip(), 1.0))
        if ours.lower() in meanings and column.strip() in ALIASES:
            ours, factor = column.strip(), 1.0
        if ours in targets:
            raise TableError(
                [Fault(None, column, "", f"columns {targets[ours]!r} and {column!r} both mean {ours}", "keep one")], name
            )
        targets[ours] = column
        renamed.append(ours)
        if ours != column or factor != 1:
            conversions.append(f"{ours} = {column}" + (f" x {factor:g}" if factor != 1 else ""))
        if factor != 1:
            factors[ours] = factor
    frame = frame.set_axis(renamed, axis=1)
    for ours, factor in factors.items():
        values = _numbers(frame[ours])
        frame[ours] = values.mul(factor).astype(object).where(values.notna(), frame[ours])
    return frame, conversions


def _numbers(cells: pd.Series) -> pd.Series:
    """Cells as floats, nan where a cell holds no number; whole numbers too large for a float are infinite."""
    if cells.dtype.kind in "fiu":
        return cells.astype(np.float64)

    def number(cell: object) -> float:
        if not isinstance(cell, (str, numbers.Real, Decimal)) or (isinstance(cell, str) and "_" in cell):
            return np.nan
        try:
            return float(cell)
        except OverflowError:
            return np.inf
        except (ValueError, TypeError):
            return np.nan

    return pd.Series([number(cell) for cell in cells], index=cells.index, dtype=np.float64)


_TEXT = {"run", "domain", "checkpoint"}
_NOTHING = {"nan", "na", "null", "none"}


def _numeric(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[Fault]]:
    """Turn columns of numbers into numbers; a stray text in a column of numbers is a fault, other columns stay text."""
    faults, known = [], set(ALIASES) - _TEXT
    for column in frame:
        if column in _TEXT:
            frame[column], broken = _labels(frame[column])
            faults += broken
            continue
        values = _numbers(frame[column])
        if column in known and frame[column].dtype.kind not in "fiu":  # True is a number to Python, but no loss
            values = values.mask(np.array([isinstance(cell, (bool, np.bool_)) for cell in frame[column]], dtype=bool))
        bad = values.isna() & frame[column].notna() & ~frame[column].astype(str).str.strip().str.lower().isin(_NOTHING)
        if not bad.any():
            frame[column] = values
        elif column in known or bad.sum() < 0.5 * frame[column].notna().sum():
            for row in frame.index[bad]:
                value = str(frame.at[row, column])
                problem = f"{column} {shortened(repr(value))} is not a number"
                faults.append(Fault(int(row), str(column), value, problem, "remove the row or mend the cell"))
            frame[column] = values
    return frame, faults


def _labels(cells: pd.Series) -> tuple[pd.Series, list[Fault]]:
    """Names of runs, domains or checkpoints without the blanks around them; what stands for nothing in logs names nothing."""
    column, (codes, texts) = str(cells.name), pd.factorize(cells.astype(str))
    names = [str(text).strip() for text in texts]
    labels = np.array([*(None if name.lower() in _NOTHING | {""} else name for name in names), None], dtype=object)[codes]
    labels[cells.isna()] = None
    torn = {name for name in names if "\n" in name or "\r" in name}
    faults = [
        Fault(
            int(row),
            column,
            str(label),
            f"{column} {shortened(repr(label))} goes over several lines",
            "rows may have been swallowed by a quote that isn't closed",
        )
        for row, label in zip(cells.index, labels, strict=True)
        if label in torn
    ]
    return pd.Series(labels, index=cells.index, dtype=object), faults


def check(runs: Runs, law: Law, *, to_fit: bool = True) -> list[Fault]:
    """List every fault of a table for a law: missing columns, impossible values, what the law can't be fitted to.

    Parameters
    ----------
    to_fit : bool
        Also require a loss and enough different values of each covariate; False for a table of settings to forecast.

    Returns
    -------
    list of Fault
        Empty where the table is sound.
    """
    frame = complete(runs.frame, law)
    columns = [*(["loss"] if to_fit else []), *law.measured, *law.levels]
    given = [str(c) for c in frame if c not in law.indicators]
    faults = [
        Fault(
            None,
            c,
            "",
            f"column {c} is missing",
            f"{law.name} needs {', '.join(columns)}; there are {', '.join(given)}.{nearest(c, given)}",
        )
        for c in columns
        if c not in frame
    ]
    for name in columns:
        if name in frame and name not in law.levels and frame[name].dtype.kind not in "fiu":
            faults.append(Fault(None, name, "", f"column {name} holds no numbers", f"{law.name} needs them there"))
            frame = frame.drop(columns=name)
    base = base_rows(frame, law)
    only_base = bool(base.all())
    if to_fit and only_base:
        faults.append(Fault(None, "D", "0", "every row is a base checkpoint (D = 0)", "add rows logged during adaptation"))
    if to_fit and "loss" in frame:
        faults += _check_loss(frame)
    for column, known in law.levels.items():
        if column in frame:
            faults += _check_level(frame, column, known)
    for name, covariate in law.measured.items():
        if name in frame:
            faults += _check_covariate(frame[~base], covariate)
            values = frame.loc[~base, name].dropna().unique()
            if to_fit and len(values) < covariate.at_least and not only_base:
                shown = ", ".join(f"{v:g}" for v in values)
                problem = (
                    f"{name} has {len(values)} value(s) ({shown}) and {law.name} needs at least {covariate.at_least} different ones"
                )
                faults.append(Fault(None, name, shown, problem, "log runs at another, or fit a law without it"))
    if to_fit and "N" in law.covariates and not any(f.column == "N" for f in faults):
        faults += _check_sizes(frame)
    unread = {(f.row, f.column): f for f in runs.unread if f.row in runs.frame.index}
    faults = [*unread.values(), *(f for f in faults if (f.row, f.column) not in unread)]
    return sorted(faults, key=lambda f: (f.row is not None, f.row or 0))


def _check_level(frame: pd.DataFrame, column: str, known: tuple[str, ...]) -> Iterable[Fault]:
    values = frame[column].map(level, na_action="ignore")
    for row in frame.index[~values.isin(known)]:
        value = "" if pd.isna(values[row]) else str(values[row])
        problem = f"{column} {value!r} is not among {', '.join(known)}" if value else f"{column} is missing"
        yield Fault(int(row), column, value, problem, "the law has parameters for those only")


def level(value: object) -> str:
    """How a value of a column is called by which parameters vary."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def base_rows(frame: pd.DataFrame, law: Law) -> pd.Series:
    """Which rows are base checkpoints (D = 0) that the law, infinite there, can't describe."""
    if "D" in frame and "D" in law.covariates and law.covariates["D"].support[0] > 0:
        return frame["D"] == 0
    return pd.Series(False, index=frame.index)


def mixed_domains(frame: pd.DataFrame, law: Law) -> str:
    """What is wrong with a table whose losses come from several validation domains, none of them a covariate; or nothing."""
    if "domain" not in frame or "domain" in {*law.covariates, *law.levels, *(p.by for p in law.parameters.values())}:
        return ""
    domains = [str(d) for d in frame["domain"].dropna().unique()]
    if len(domains) < 2:
        return ""
    shown = ", ".join(domains[:5]) + (", …" if len(domains) > 5 else "")
    return (
        f"its losses are of {len(domains)} domains ({shown}) and {law.name} describes one; "
        f"""choose with --where "domain == '{domains[0]}'" or runs.where(…)"""
    )


def complete(frame: pd.DataFrame, law: Law) -> pd.DataFrame:
    """The table with the law's indicators, and empty cells of base checkpoints (D = 0) filled where the law does not look at them.

    Nothing has been replayed at D = 0, so logs leave r empty there. The cells get the median of the other rows, a value of
    no consequence: only columns that the law's loss does not depend on at D = 0 are touched.
    """
    given = {c: frame[c].map(level, na_action="ignore") for c in law.levels if c in frame}
    marks = {name: (given[c] == value).astype(np.float64) for name, (c, value) in law.indicators.items() if c in given}
    frame = frame.assign(**marks) if marks else frame
    for name in sorted(law.idle_at_base & set(frame)):
        empty = (frame["D"] == 0) & frame[name].isna() if "D" in frame else pd.Series(False, index=frame.index)
        if empty.any() and frame[name].dtype.kind in "fiu":
            others = frame.loc[frame["D"] != 0, name].median()
            low, high = law.covariates[name].support
            frame = frame.assign(**{name: frame[name].mask(empty, others if np.isfinite(others) else min(max(low, 0.5), high))})
    return frame


def _rows(frame: pd.DataFrame, column: str, bad: pd.Series, problem: str, mend: str) -> Iterable[Fault]:
    for row, number in zip(frame.index[bad], frame.loc[bad, column].to_numpy(dtype=np.float64), strict=True):
        value = f"{number:g}"
        yield Fault(int(row), column, value, problem.format(value=value), mend)


def _check_loss(frame: pd.DataFrame) -> list[Fault]:
    loss = frame["loss"]
    faults = [*_rows(frame, "loss", loss.isna(), "loss is missing or not a number", "remove the row")]
    faults += _rows(frame, "loss", np.isinf(loss), "loss {value} is infinite: the run diverged", "remove the row")
    faults += _rows(frame, "loss", loss <= 0, "loss {value} is not positive", "losses are in nats/token")
    if "loss_se" in frame:
        faults += _check_error(frame)
    high = (loss > LOSS_SUPPORT[1]) & np.isfinite(loss)
    return faults + list(
        _rows(frame, "loss", high, "loss {value} is above 15 nats/token: is it a perplexity?", "take its logarithm")
    )


def _check_error(frame: pd.DataFrame) -> list[Fault]:
    if frame["loss_se"].dtype.kind not in "fiu":
        return [Fault(None, "loss_se", "", "column loss_se holds no numbers", "give standard errors in nats/token")]
    error = frame["loss_se"]
    faults = list(_rows(frame, "loss_se", ~np.isfinite(error), "loss_se is missing or not finite", "0 where it is nil"))
    faults += _rows(frame, "loss_se", error < 0, "loss_se {value} is negative", "give a standard error in nats/token")
    large = np.isfinite(error) & (error > 0.5 * frame["loss"])
    return faults + list(_rows(frame, "loss_se", large, "loss_se {value} is more than half of the loss", "is it in nats/token?"))


def _check_sizes(frame: pd.DataFrame) -> Iterable[Fault]:
    """A run has one model size: rows of several under one name would be given one luck."""
    if "run" not in frame or "N" not in frame:
        return
    for run, sizes in frame.groupby("run", sort=False)["N"]:
        if len(found := sizes.dropna().unique()) > 1:
            shown = ", ".join(f"{n:g}" for n in found[:3]) + (", …" if len(found) > 3 else "")
            problem = f"run {shortened(repr(run))} has rows of {len(found)} model sizes (N = {shown})"
            yield Fault(int(sizes.index[0]), "run", str(run), problem, "give each run a name of its own")


def _check_covariate(frame: pd.DataFrame, covariate: Covariate) -> list[Fault]:
    name, values = covariate.name, frame[covariate.name]
    low, high = covariate.support
    faults = list(_rows(frame, name, values.isna(), f"{name} is missing", "fill it in or remove the row"))
    outside = f"{name} {{value}} is outside [{low:g}, {high:g}]"
    guesses = {"N": (": is it in billions?", "give the number of parameters"), "r": (": is it a percentage?", "divide by 100")}
    question, mend = guesses.get(name, ("", f"unit: {covariate.unit}"))
    if name == "D":
        question, mend = ": is it in billions?", "give the number of tokens"
    below, above = values < low, values > high
    if name == "r":
        faults += _rows(frame, name, above, outside + question, mend)
        return faults + list(_rows(frame, name, below, outside, "a share lies between 0 and 1"))
    positive = below & (values > 0)
    faults += _rows(frame, name, positive, outside + question, mend)
    faults += _rows(frame, name, below & (values <= 0), outside, f"{name} must be positive" if low > 0 else mend)
    return faults + list(_rows(frame, name, above, outside, mend))


def data_sha256(frame: pd.DataFrame, columns: Sequence[str]) -> str:
    """Digest of the named columns' values and order."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(column.encode())
        values = frame[column]
        if values.dtype.kind in "fiu":
            digest.update(np.ascontiguousarray(values.to_numpy(dtype=np.float64)).tobytes())
        else:
            digest.update("\x00".join(map(str, values)).encode())
    return digest.hexdigest()
