"""Which columns of an unknown table probably are ours, as options `--column` and an argument `columns` for an error to end with."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.text import SUFFIXES, listed, number
from bayeslaw.core.units import PERPLEXITY
from bayeslaw.data.columns import MOST_NAMES, TEXT, did_you_mean, has_meaning, our_name

_LOSS = "loss nll xent ce entropy ppl perplexity bpb bpc"
_TRAINING = {"train", "training"}
_SPLIT = "val valid validation eval evaluation test dev heldout"
# Words, without a plural s, that no column of a meaning has in its name, and those that it has: one of each text. Of several
# ways to be a column of a meaning the first that a table has is taken.
_WORDS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "loss": ("train training std se stderr min max z aux", ((_SPLIT, _LOSS), (_LOSS,))),
    "N": (
        "token per trainable lora path vocab hidden batch",
        (("total n num", "param parameter"), ("param parameter nparam numparam",), ("model", "size")),
    ),
    "D": (
        "per vocab batch unique length len seq sec second step param parameter pretrain pretraining tokenizer loss new sample eval "
        "val",
        (("train training total seen", "token tok"), ("token tok",)),
    ),
    "loss_se": ("train training", (("loss", "se stderr"), ("loss", "standard", "error"))),
    "U": ("", (("unique", "token tok"),)),
    "r": ("token loss", (("replay",),)),
    "ptpp": ("", (("ptpp",), ("pretrain pretraining", "tpp"), ("pretrain pretraining", "token tok", "per"))),
    "run": (
        "time runtime step model dataset",
        (("run experiment exp trial", "name id"), ("run experiment exp trial",), ("name id",)),
    ),
    "accuracy": ("train training std se stderr min max loss", ((_SPLIT, "acc accuracy"), ("acc accuracy",))),
    "items": ("per token loss", (("n num total", "item question example sample"), ("item question example sample",))),
    "lr": ("min minimum final end warmup decay scale factor", (("peak max", "lr"), ("learning", "rate"), ("lr",))),
    "batch": ("per", (("batch", "token tok"),)),
    "step": ("per token time", (("step iteration iter update",),)),
}
_UNITS = {
    "k": "K", "thousand": "K", "m": "M", "mm": "M", "mio": "M", "million": "M", "b": "B", "bn": "B", "billion": "B", "t": "T",
    "trillion": "T", "pct": "%", "percent": "%",
}  # fmt: skip
_LOSS_UNITS = {"ppl": PERPLEXITY, "perplexity": PERPLEXITY, "bpb": "bits/byte", "bpc": "bits/character"}
_OF_RUN = re.compile(r".+ - \S*loss")  # a column of a chart, 'big - eval/loss'
IMPORT = "read it by `bayeslaw import` (in Python bayeslaw.import_runs)."
SAME_LOSS = 1e-3  # relative difference up to which losses of two columns are of one evaluation
LEAST_RATIO = 0.01  # tokens per parameter below which a guessed unit of N is dropped
_LEAST_FLOPS = 1e13  # of the compute of a training, which a column C or compute may have in another unit, or not at all
_SMALLEST = 1e5  # of numbers of parameters and tokens; smaller ones are in another unit


def guesses(frame: pd.DataFrame, wanted: Collection[str]) -> dict[str, str]:
    """Return for each of our names the column that is probably meant, as 'COLUMN' or 'COLUMN:UNIT', where there is one.

    Parameters
    ----------
    frame, wanted : DataFrame and names of ours
        Columns that we know by their names as another's are not considered, and covariates must be numbers.

    Examples
    --------
    >>> from bayeslaw.data.starter import guesses
    >>> guesses(pd.DataFrame({"config.model.n_params_M": [124.0], "val/perplexity": [20.1]}), ["loss", "N", "D"])
    {'loss': 'val/perplexity:perplexity', 'N': 'config.model.n_params_M:M'}
    """
    guessed: dict[str, str] = {}
    free = {str(c): _words(str(c)) for c in frame if str(c) not in wanted}
    for ours in wanted:
        if candidates := next(_candidates(frame, ours, free), {}):
            column, guessed[ours] = next(iter(candidates.items()))
            if ours not in TEXT["curves"]:
                free.pop(column)
    if guessed.get("loss", "").endswith(f":{PERPLEXITY}"):
        guessed.pop("loss_se", None)  # errors of losses are no errors of their perplexities
    column, _, unit = guessed.get("N", "").rpartition(":")
    if (
        column in frame
        and not {*_words(column)} & _UNITS.keys()
        and _tokens(frame, guessed) < LEAST_RATIO * _median(frame, column, unit)
    ):
        guessed["N"] = column  # by a unit that its numbers alone suggest, no model would have seen enough tokens
    return guessed


def _candidates(frame: pd.DataFrame, ours: str, free: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """Yield, for each way to be a column of ours, the columns that may be it, with 'COLUMN' or 'COLUMN:UNIT' for each.

    Columns that have its name in logs, such as config.N, or its letter and a unit, such as N_M, come first.
    """
    none, ways = _WORDS.get(ours, ("", ()))
    own = {c: words for c, words in free.items() if has_meaning(c, ours) or not has_meaning(c)}
    of_logs = [c for c in own if our_name(c, "logs") == ours]
    lettered = [c for c, words in own.items() if _is_letter_with_unit(c, words, ours)]
    for columns in (of_logs, lettered, *([c for c, words in own.items() if _fits(words, none, way)] for way in ways)):
        candidates = dict[str, str]()
        for column in columns:
            words = own[column]
            if ours in TEXT["curves"]:
                candidates[column] = column
            elif _with_suffix(frame[column]).notna().any() and _numbers(frame[column]).size:
                candidates[column] = column  # its cells have their units
            elif (values := _numbers(frame[column])).size:
                candidates[column] = f"{column}:{_unit(ours, words, values)}".removesuffix(":")
        if candidates:
            yield candidates


def _is_letter_with_unit(column: str, words: list[str], ours: str) -> bool:
    """Whether a column is called by our letter and a unit alone, such as N_M, D (B) or D_billions; n counts many things."""
    letter, *unit = words or [""]
    own = ours in ("N", "D", "U") and column.strip().startswith(ours) and letter == ours.lower()
    return own and len(unit) == 1 and _UNITS.get(unit[0], "%") != "%"


def several_losses(frame: pd.DataFrame, missing: Collection[str]) -> list[str]:
    """Return the columns that may each be the missing loss, as `guesses` writes them, where there are several."""
    free = {str(c): _words(str(c)) for c in frame if str(c) not in missing}
    candidates = next(_candidates(frame, "loss", free), {}) if "loss" in missing else {}
    return list(candidates.values()) if len(candidates) > 1 else []


def _tokens(frame: pd.DataFrame, guessed: Mapping[str, str]) -> float:
    """Return the median number of tokens of a table, in the unit that was found; nan where it has none."""
    column, _, unit = guessed.get("D", "D").partition(":")
    return _median(frame, column, unit) if column in frame else math.nan


def _median(frame: pd.DataFrame, column: str, unit: str) -> float:
    values = _numbers(frame[column])
    return float(np.median(values)) * SUFFIXES.get(unit.lower(), 1.0) if values.size else math.nan


def to_guess(frame: pd.DataFrame, missing: Collection[str]) -> list[str]:
    """Return missing columns and those that a table may well have under another name, though no law needs them."""
    return [*missing, *(name for name in ("run", "loss_se") if name not in frame and name not in missing)]


def advice(frame: pd.DataFrame, missing: Collection[str], reader: str = "read_runs") -> str:
    """Return what to do about missing columns: options that name those that are probably meant, or how to name one.

    Parameters
    ----------
    frame, missing
    reader : str
        The function that takes names of columns in Python.
    """
    if "log_history" in frame:
        return f"This is a log of Hugging Face's Trainer: {IMPORT}"
    if several := several_losses(frame, missing):
        if reader == "read_runs" and all(map(_OF_RUN.match, several)):
            return f"This is a chart of Weights & Biases, with a column for each run: {IMPORT}"
        way = f"{option('loss', several[0])} (in Python {reader}(…, columns={{'loss': {several[0]!r}}}))"
        may = f"{listed(several, MOST_NAMES)} may each be the loss by their names"
        choose = f"{may}, and a law is fitted to one: choose it, as by {way}."
        others = [ours for ours in missing if ours != "loss"]
        return f"{choose}\n{advice(frame, others, reader)}" if others else choose
    guessed = guesses(frame, to_guess(frame, missing))
    unknown = {str(c): _words(str(c)) for c in frame if not has_meaning(str(c))}
    losses = [c for c, words in unknown.items() if _TRAINING.isdisjoint(words)]  # those of training batches are none
    no_losses = [c for c, words in unknown.items() if "loss" not in words]
    hints = "".join(did_you_mean(ours, losses if "loss" in ours else no_losses) for ours in missing if ours not in guessed)
    if not guessed.keys() & {*missing}:
        first = next(iter(missing))
        way = f"--column {first}=COLUMN (in Python {reader}(…, columns={{{first!r}: 'COLUMN'}}))"
        return f"If a column has another name, add {way}.{hints}{_tokens_from(frame, missing, reader)}"
    shown = " ".join(option(ours, text) for ours, text in guessed.items())
    left = [ours for ours in missing if ours not in guessed]
    more = f"\nNothing looks like {', '.join(left)}.{hints}{_tokens_from(frame, left, reader)}" if left else ""
    both = f"{shown}\n  in Python: {reader}(…, columns={guessed!r})"
    return f"By their names and numbers, these columns may be meant; look at each, and add:\n  {both}{more}"


def _tokens_from(frame: pd.DataFrame, missing: Collection[str], reader: str) -> str:
    """Return how a table's columns of tokens per parameter, FLOPs or steps give its missing tokens; '' where it has none."""
    numbers = {str(c): _words(str(c)) for c in frame if "D" in missing and _numbers(frame[c]).size}
    for c, words in numbers.items():
        if {"pretrain", "pretraining"}.isdisjoint(words) and (
            "tpp" in words or ({"token", "per"} <= {*words} and "param" in c.lower())
        ):
            text = f"{option('atpp', c)} (in Python {reader}(…, columns={{'atpp': {c!r}}}))"
            return f" If {c} has tokens per parameter, add {text}: D is then {c} x N."
    for c, words in numbers.items():
        if not {"per", "sec", "second"}.isdisjoint(words):
            continue
        compute = (c.strip() == "C" or "compute" in words) and np.median(_numbers(frame[c])) >= _LEAST_FLOPS
        if compute or "flop" in words:
            return f" If {c} has 6 N D of the whole run, give the table a column D, in pandas df['D'] = df[{c!r}] / (6 * df['N'])."
    if any(our_name(c, "curves") == "step" for c in numbers):
        way = "`bayeslaw import --set tokens_per_step=524288`, with yours (in Python import_runs(…, tokens_per_step=524288))"
        return f" D is step x tokens per step: {way}, makes a table with D."
    return ""


def names_loss(column: str) -> bool:
    """Return whether a column's name says that it holds losses, in any unit, which are not of training."""
    none, ways = _WORDS["loss"]
    return any(_fits(_words(column), none, way) for way in ways)


def losses_elsewhere(frame: pd.DataFrame, missing: pd.Series, column: str) -> str:
    """Return how to fill missing losses from another column that has losses in most of these rows; '' where there is none.

    A column that differs from the losses where both have numbers, as that of another domain does, is none.

    Parameters
    ----------
    frame, missing : DataFrame and bool Series
        The table, and its rows without a loss.
    column : str
        The name of the column `loss` in the user's table.
    """
    rows = frame.drop(columns="loss")[missing]
    other, _, unit = guesses(rows, ["loss"]).get("loss", "").partition(":")
    if other not in rows or 2 * (count := _numbers(rows[other]).size) < len(rows):
        return ""
    both = pd.to_numeric(frame[other], errors="coerce").where(~missing)
    if unit in ("", PERPLEXITY) and (abs((np.log(both) if unit else both) / frame["loss"] - 1) > SAME_LOSS).any():
        return ""
    values = f"np.log(df[{other!r}])" if unit == PERPLEXITY else f"df[{other!r}]"
    there = f"{other} has {unit or 'number'}s".replace("perplexitys", "perplexities")
    convert = "" if unit in ("", PERPLEXITY) else f", converted from {unit}"
    way = f"df[{column!r}] = df[{column!r}].fillna({values})"
    where = f"{there} in {count} of these {len(rows)} rows"
    return f"{where}; if they are of the same validation set, fill the gaps in pandas{convert}: {way}"


def option(ours: str, text: str) -> str:
    """Return the option `--column` for our name of a column and a text of `guesses`, as a shell reads it."""
    return f"--column {shlex.quote(f'{ours}={text}')}"


def _words(column: str) -> list[str]:
    """Return the words in a column's name: config.model.nParams_M has config, model, n, param and m; MLflow's `params.` is none."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"^params[./]", "", column))
    parted = re.sub(r"bits?[\W_]*per[\W_]*(b|c)(?:yte|har(?:acter)?)s?\b", r"bp\1", parted, flags=re.IGNORECASE)
    return [word if len(word) < 4 else re.sub(r"(?<!s)s$", "", word) for word in re.findall(r"[a-z]+", parted.lower())]


def _fits(words: list[str], none: str, way: tuple[str, ...]) -> bool:
    return {*words}.isdisjoint(none.split()) and all(not {*words}.isdisjoint(some.split()) for some in way)


def _numbers(cells: pd.Series) -> Array:
    """Return the finite numbers of a column, none if most of its cells hold no numbers."""
    values = pd.to_numeric(cells, errors="coerce").fillna(_with_suffix(cells)).to_numpy(dtype=np.float64)
    finite = values[np.isfinite(values)]
    return finite if finite.size > 0.5 * cells.notna().sum() else finite[:0]


def _with_suffix(cells: pd.Series) -> pd.Series:
    """Return the numbers of the cells that are written such as 410M, and nan for others."""

    def read(cell: object) -> float:
        try:
            return number(cell) if isinstance(cell, str) and cell.strip()[-1:].lower() in SUFFIXES else math.nan
        except ValueError:
            return math.nan

    return pd.Series([read(cell) for cell in cells], cells.index, dtype=np.float64)


def _unit(ours: str, words: list[str], values: Array) -> str:
    """Return the unit that a column's name gives, or for sizes and tokens its numbers; '' for ours."""
    if ours == "loss":
        return next((_LOSS_UNITS[word] for word in words if word in _LOSS_UNITS), "")
    if ours not in ("N", "D", "U", "r", "accuracy"):
        return ""
    share = ours in ("r", "accuracy")
    units = [_UNITS[word] for word in words if word in _UNITS and (_UNITS[word] == "%") == share]
    if units:
        return units[-1]
    if share:
        return "%" if values.max() > 1 else ""
    return "" if np.median(values) >= _SMALLEST else "M" if values.max() >= 100 else "B"
