"""Columns of tables and logs: our names, the other names under which they are logged, and the factors to our units.

To add an alias, write it in lower case, with its factor, into `RUNS`, `CURVES` or `LOGS`. Tables of runs know the names of the
first and of `SETTINGS`, tables of training curves those of the first two, and logs of training programs those of all three.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Literal, get_args

from bayeslaw.core.errors import BayeslawError, kind_of, nearest
from bayeslaw.core.text import listed, number
from bayeslaw.core.units import RATIOS, UNITS, unit

Kind = Literal["runs", "curves", "logs"]
KINDS: tuple[Kind, ...] = get_args(Kind)

RUNS: dict[str, dict[str, float]] = {
    "loss": {"val_loss": 1, "valid_loss": 1, "validation_loss": 1, "eval_loss": 1, "eval/loss": 1, "val/loss": 1, "test_loss": 1},
    "N": {
        "params": 1, "n_params": 1, "num_params": 1, "parameters": 1, "num_parameters": 1, "parameter_count": 1, "model_size": 1,
        "params_m": 1e6, "n_millions": 1e6, "params_b": 1e9, "n_billions": 1e9,
    },
    "D": {
        "tokens": 1, "n_tokens": 1, "num_tokens": 1, "train_tokens": 1, "adaptation_tokens": 1,
        "tokens_m": 1e6, "tokens_b": 1e9, "d_billions": 1e9,
    },
    "U": {"unique_tokens": 1, "n_unique_tokens": 1, "unique_tokens_m": 1e6, "unique_tokens_b": 1e9},
    "P": {"parallel_size": 1, "parallel_streams": 1, "n_streams": 1, "num_streams": 1},
    "r": {"replay": 1, "replay_share": 1, "replay_ratio": 1, "replay_pct": 0.01, "replay_percent": 0.01},
    "base_loss": {"initial_loss": 1},
    "ptpp": {"pretrain_tpp": 1, "pretraining_tokens_per_parameter": 1},
    "atpp": {"adaptation_tokens_per_parameter": 1},
    "pretrain_tokens": {
        "pretraining_tokens": 1, "pretrain_tokens_m": 1e6, "pretraining_tokens_m": 1e6, "pretrain_tokens_b": 1e9,
        "pretraining_tokens_b": 1e9,
    },
    "run": {"run_id": 1, "run_name": 1},
    "domain": {"val_set": 1, "val_domain": 1, "eval_domain": 1},
}  # fmt: skip
# Covariates of few laws, whose columns hold anything in tables for others.
SETTINGS: dict[str, dict[str, float]] = {"lr": {"learning_rate": 1}}
CURVES: dict[str, dict[str, float]] = {
    "step": {"steps": 1, "global_step": 1, "train/global_step": 1, "iteration": 1, "iter": 1},
    "lr": {"learning_rate": 1, "train/learning_rate": 1, "train/lr": 1, "eta": 1},
    "batch": {"tokens_per_step": 1, "tokens_per_iter": 1, "batch_tokens": 1, "batch_size_tokens": 1, "batch_size_in_tokens": 1},
    "parent_step": {"branch_step": 1, "from_step": 1},
}
LOGS: dict[str, dict[str, float]] = {
    "step": {  # in order of preference, where a log has several
        "steps": 1, "global_step": 1, "train/global_step": 1, "trainer/global_step": 1, "train/step": 1, "iteration": 1,
        "iterations": 1, "iter": 1, "update": 1, "num_updates": 1, "time/batch": 1,
    },
    "D": {
        "train/tokens": 1, "tokens_seen": 1, "train/tokens_seen": 1, "total_tokens": 1, "consumed_tokens": 1,
        "num_input_tokens_seen": 1, "train/num_input_tokens_seen": 1, "throughput/total_tokens": 1, "n_tokens_seen": 1,
        "time/token": 1, "metrics/throughput/total_tokens": 1,
    },
    "N": {"model/num_parameters": 1, "total_params": 1, "num_params_m": 1e6, "metrics/parameter_count": 1},
    "run": {"name": 1},
    "lr": {
        "optim/lr": 1, "optimizer/lr": 1, "lr-adamw": 1, "lr-adamw/pg1": 1, "lr/group0": 1, "learning-rate": 1,
        "learning-rate/learning-rate": 1,
        "optim/learning_rate": 1, "optim/learning_rate_group0": 1, "optim/lr_(group_0)": 1, "lr-decoupledadamw/group0": 1,
    },
}  # fmt: skip

# Names of a column that in tables of runs names these only where it can, by the rows: see `bayeslaw.data.run_names`. In order.
NAMES_OF_RUNS = ("name", "experiment")

# Columns that hold names instead of numbers.
TEXT: dict[Kind, tuple[str, ...]] = {"runs": ("run", "domain", "checkpoint", "unit")}
TEXT["curves"] = TEXT["logs"] = (*TEXT["runs"], "phase", "parent")
OF_SEQUENCES = ("batch_size", "global_batch_size", "bs")  # batches that mostly count sequences, which curves can't have
# Names that mean something else in many logs: the time left, a batch's number, the file written last, train or eval.
AMBIGUOUS = ("eta", "batch", "checkpoint", "phase")
# Columns whose cells may be written with a unit, such as 410M or 1.4B, or 25%, and the letters of these units.
AMOUNTS = {"N": "kMBT", "D": "kMBT", "U": "kMBT", "pretrain_tokens": "kMBT", "r": "%"}
LOSSES = ("loss", "base_loss")  # columns whose units are those of losses
MOST_NAMES = 20  # of columns that an error lists
_SETTING = re.compile(r"^(config|hparams|hyperparameters|params)[./]")


def resolve(column: str, kind: Kind = "runs") -> tuple[str, float] | None:
    """Return our name for a column, and the factor that brings its numbers to our unit; None for a column that we do not know.

    Case and blanks do not matter. Curves and logs are read more carefully, since most of their columns mean nothing to a law:
    letters such as N are taken only as they are written. In logs `AMBIGUOUS` names are never taken, losses and steps are left to
    `bayeslaw.data.logs.log`, because a log may have several, and a prefix such as `config.` is ignored.
    """
    known, name = _KNOWN[kind], key(column)
    if kind == "curves" and len(name) == 1 and column.strip() != name.upper():
        return None  # n counts many things
    if kind != "logs":
        return known.get(name)
    bare = _SETTING.sub("", name)
    meaning = known.get(name) or known.get(bare)
    if meaning is None or bare in AMBIGUOUS or (len(bare) == 1 and column.strip()[-1] != meaning[0]):
        return None
    return meaning


def our_name(column: str, kind: Kind = "runs") -> str:
    """Return our name for a column, as `resolve` finds it, '' for one that we do not know."""
    return (resolve(column, kind) or ("",))[0]


def is_setting(column: str) -> bool:
    """Return whether a column of a log holds a setting of the run, by a prefix such as `config.`, and not what was logged."""
    return bool(_SETTING.match(key(column)))


def check_columns(columns: object) -> None:
    """Refuse an argument `columns` that is no mapping of our names to the user's."""
    if not isinstance(columns, Mapping):
        problem = f"columns names your columns by what we call them, such as {{'N': 'params'}}, not by {kind_of(columns)}."
        raise BayeslawError(problem, code="not-a-mapping")
    if wrong := [name for pair in columns.items() for name in pair if not isinstance(name, str)]:
        problem = f"columns names your columns by what we call them, both texts, such as {{'N': 'params'}}, not {wrong[0]!r}."
        raise BayeslawError(problem, code="not-a-text")


def named(ours: str, text: str, columns: Collection[str]) -> tuple[str, float, str]:
    """Return the column of a table that a text such as 'model_size_M:M' names, its factor, and of losses the unit, '' for none.

    Parameters
    ----------
    ours, text : str
        Our name of the column, and what the user calls it: COLUMN or COLUMN:UNIT, where the unit is K, M, B, T, % or a factor such
        as 1e6; of losses and base losses it is one of `bayeslaw.core.units.UNITS`.
    columns : collection of str
        The columns of the table.

    Examples
    --------
    >>> from bayeslaw.data.columns import named
    >>> named("N", "model_size_M:M", ["model_size_M", "loss"])
    ('model_size_M', 1000000.0, '')
    """
    by_name = {column.strip(): column for column in columns}
    if text.strip() in by_name:
        return by_name[text.strip()], 1.0, ""
    column, scale = parted(ours, text)
    if column in by_name:
        return by_name[column], 1.0 if ours in LOSSES else factor(scale), unit(scale) if ours in LOSSES else ""
    column, sign, scale = text.rpartition(":")
    if sign and column.strip() in by_name:
        known = UNITS if ours in LOSSES else () if ours in TEXT["curves"] else ("K", "M", "B", "T", "%", "a factor such as 1e6")
        message = f"{ours}={text!r}: {scale!r} is no unit of {ours}, which {f'has {", ".join(known)}' if known else 'holds names'}."
        raise BayeslawError(message, code="unknown-unit")
    wanted = parted(ours, text)[0]
    turned = f" Our name goes before the table's: {wanted}={ours} (in Python columns={{{wanted!r}: {ours!r}}})."
    hint = turned if ours in by_name and resolve(wanted) else nearest(wanted, columns)
    message = f"There is no column {wanted!r} to be {ours}; there are {columns_there(columns)}.{hint}"
    raise BayeslawError(message, code="missing-column")


def columns_there(columns: Iterable[Hashable]) -> str:
    """Return the names of a table's columns, of many the first."""
    return listed(list(map(str, columns)), MOST_NAMES)


def parted(ours: str, text: str) -> tuple[str, str]:
    """Return the column and the unit in a text such as 'model_size_M:M', the whole text and '' if it ends in no unit.

    Parameters
    ----------
    ours, text
        As in `named`.
    """
    column, sign, scale = (part.strip() for part in text.rpartition(":"))
    if not sign or not column or ours in TEXT["curves"]:
        return text.strip(), ""
    try:
        known = bool(unit(scale)) if ours in LOSSES else 0 < factor(scale) < math.inf
    except BayeslawError:
        known = False
    return (column, scale) if known else (text.strip(), "")


def factor(scale: str) -> float:
    """Return the factor that a unit such as M or %, or a number such as 1e6, stands for; nan for what is neither."""
    if scale.strip() == "%":
        return 0.01
    for text in (scale, f"1{scale.strip()}"):
        try:
            return number(text)
        except ValueError:
            continue
    return math.nan


def did_you_mean(name: str, given: Iterable[str]) -> str:
    """Return ' Did you mean X?' for the column that is probably meant by a name, or ''.

    A name with a meaning is never taken for a column with another: N is no `run`, and ptpp no `step`.
    """
    given, meaning = list(given), next((known for kind in KINDS if (known := resolve(name, kind))), None)
    if meaning is None:
        return nearest(name, given, 0.6)
    if meaning[0] in given:
        return f" Did you mean {meaning[0]!r}?"
    aliases = {alias: ours for table in (RUNS, CURVES) for ours, names in table.items() for alias in (ours, *names)}
    aliases |= dict.fromkeys(OF_SEQUENCES, "batch")
    own = [name, *(alias for alias, ours in aliases.items() if ours == meaning[0])]
    unknown = [column for column in given if not has_meaning(column) or has_meaning(column, meaning[0])]
    near = (nearest(alias, unknown, 0.7 if len(alias) > 2 else 1.0) for alias in own)
    return next((text for text in near if text), "")


def has_meaning(column: str, ours: str | None = None) -> bool:
    """Return whether we know what a column of this name holds in any kind of table, or that it is the one we call `ours`."""
    known = {meaning[0] for kind in KINDS if (meaning := resolve(column, kind))}
    return ours in known if ours is not None else bool(known) or key(column) in {*TEXT["curves"], *AMBIGUOUS}


def of_unknown_meaning(column: str) -> bool:
    """Return whether nothing makes the cells of a column numbers by its name alone; a seed is a number that names a run."""
    return not has_meaning(column) or key(column) == "seed"


def amount(ours: str, cell: object) -> tuple[object, float]:
    """Return the digits and the factor of a cell such as '410M' in one of `AMOUNTS`; any other cell as it is, and nan."""
    if ours not in AMOUNTS or not isinstance(cell, str):
        return cell, math.nan
    written = re.fullmatch(rf"([\d.,]+)\s*([{AMOUNTS[ours]}])", cell.strip(), re.IGNORECASE)
    return (cell, math.nan) if written is None else (written[1], factor(written[2]))


def key(column: str) -> str:
    """Return a column's name as names are compared: lower case, `_` for blanks, none around it."""
    return re.sub(r"\s+", "_", column.strip().lower())


def numeric(kind: Kind) -> set[str]:
    """Return our names of the columns that must hold numbers in a table of this kind."""
    return {ours for ours, _ in _KNOWN[kind].values()} - set(TEXT[kind]) - (set(SETTINGS) if kind == "runs" else set())


def _known(kind: Kind) -> dict[str, tuple[str, float]]:
    known: dict[str, tuple[str, float]] = {}
    for table in {"runs": (RUNS, SETTINGS), "curves": (RUNS, CURVES), "logs": (RUNS, CURVES, LOGS)}[kind]:
        for ours, aliases in table.items():
            known |= {name: (ours, float(factor)) for name, factor in ({ours.lower(): 1.0} | aliases).items()}
    if kind != "logs":
        return known
    own = {name: (name, 1.0) for name in (*TEXT["logs"], "loss_se", "flops", "seed", *RATIOS.values())}
    return {name: meaning for name, meaning in known.items() if meaning[0] not in ("loss", "step")} | own


_KNOWN: dict[Kind, dict[str, tuple[str, float]]] = {"runs": _known("runs"), "curves": _known("curves"), "logs": _known("logs")}
