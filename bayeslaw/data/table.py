"""Tables of logged losses: read once, named and scaled on the way in, and checked whole."""

from __future__ import annotations

import hashlib
import json
import numbers
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.units import unit_of
from bayeslaw.data.query import where

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
    "P": {"p": 1, "parallel_size": 1, "parallel_streams": 1, "n_streams": 1, "num_streams": 1},
    "r": {"replay": 1, "replay_share": 1, "replay_ratio": 1, "replay_pct": 0.01, "replay_percent": 0.01},
    "ptpp": {"pretrain_tpp": 1, "pretraining_tokens_per_parameter": 1},
    "atpp": {"adaptation_tokens_per_parameter": 1},
    "run": {"run_id": 1, "run_name": 1},
    "domain": {"val_set": 1, "val_domain": 1, "eval_domain": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """Logged losses, one row each, under the names and units of bayeslaw.

    Attributes
    ----------
    frame : DataFrame
        Column `loss` (nats/token, or what the column `unit` names) and covariates such as N, D (tokens), r (share), ptpp;
        optionally `run`, `domain`, `loss_se`, `flops`, `step` and anything else. The index is the row's number in the file, from
        1 below the header.
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

    @property
    def unit(self) -> str:
        """What the losses are in; see `bayeslaw.core.units`."""
        return unit_of(self.frame, self.name)

    def __len__(self) -> int:
        return len(self.frame)


def read_runs(
    source: str | Path | pd.DataFrame,
    condition: str | None = None,
    *,
    strict: bool = True,
    aliases: Mapping[str, Mapping[str, float]] | None = None,
    text: Collection[str] = (),
) -> Runs:
    """Read a table of logged losses.

    Parameters
    ----------
    source : path or DataFrame
        A file ending in .csv, .tsv, .parquet, .jsonl or .json (objects, one a line or all in one list), or a table in memory.
    condition : str, optional
        Keep only rows that meet it, as in `Runs.where`.
    strict : bool
        Refuse cells that hold no number; False leaves them to `check`, which lists them with all other faults.
    aliases : mapping, optional
        Columns of numbers that a table of another kind has besides, with their other names and scales, as in `ALIASES`.
    text : collection of str
        Columns of names that it has besides.

    Raises
    ------
    TableError, BayeslawError
        If the file can't be read, two columns mean the same, a cell of a numeric column holds no number, or losses are in several
        units.
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
    known = ALIASES | {ours: dict(names) for ours, names in (aliases or {}).items()}
    frame, conversions = _named(frame, name, known)
    frame, unread = _numeric(frame, set(known), _TEXT | set(text))
    if unread and strict:
        raise TableError(unread, name)
    unit_of(frame, name)
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
    read = [json.loads(line, object_pairs_hook=json_object) for line in lines]
    rows = read[0] if text.startswith("[") else read
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError('each line must be an object such as {"N": 1e9, "loss": 2.5}')
    return pd.DataFrame(rows)


def json_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; of two values under one key Python would silently keep the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"an object gives {next(k for k in keys if keys.count(k) > 1)!r} twice")
    return made


def _named(frame: pd.DataFrame, name: str, known: Mapping[str, Mapping[str, float]]) -> tuple[pd.DataFrame, list[str]]:
    """Give columns our names and remember their scale; two columns of one meaning are refused."""
    meanings: dict[str, tuple[str, float]] = {}
    for ours, aliases in known.items():
        meanings |= {alias: (ours, factor) for alias, factor in aliases.items()} | {ours.lower(): (ours, 1.0)}
    targets: dict[str, str] = {}
    renamed, conversions, factors = [], [], dict[str, float]()
    frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
    for column in frame.columns:
        key = re.sub(r"\s+", "_", column.strip().lower())
        if re.sub(r"\.\d+$", "", column) in targets.values():  # how pandas reads a second column of one name
            key = re.sub(r"\.\d+$", "", key)
        ours, factor = meanings.get(key, (column.strip(), 1.0))
        if ours.lower() in meanings and column.strip() in known:
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


_TEXT = {"run", "domain", "checkpoint", "unit"}
_NOTHING = {"nan", "na", "null", "none"}


def _numeric(frame: pd.DataFrame, known: set[str], text: set[str]) -> tuple[pd.DataFrame, list[Fault]]:
    """Turn columns of numbers into numbers; a stray text in a column of numbers is a fault, other columns stay text."""
    faults, known = [], known - text
    for column in frame:
        if column in text:
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
