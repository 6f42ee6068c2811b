"""The measured loss of the base checkpoint from which a run was adapted, as a column of the run's rows.

Who adapts a checkpoint owns it, and can measure its losses before any adaptation. Laws with the covariate `base_loss` start there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import Fault
from bayeslaw.core.text import settings_text

BASE_LOSS = "base_loss"
MODEL = ("N", "ptpp", "seed")  # tell checkpoints apart where no column names them
NAMED = ("checkpoint", *MODEL)
# Relative difference above which two losses are not of one checkpoint, unless their known errors explain it: four times as much
# as losses of seeds differ by on tinycpt.
SPREAD = 0.02
# Base loss over a loss of the source above which it is asked about: perplexities of losses above 2.2 nats are higher.
MOST_FALL = 4.0
ROUNDED = 0.05  # largest relative difference of N and ptpp that may be one of digits, such as 1.4B for 1,414,647,808


def with_base_loss(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of runs with the column `base_loss`: for each row the mean loss at D = 0 of its checkpoint, on its domain.

    In a table that has the column only empty cells are filled. The table is returned as it is if it has no rows at D = 0.
    Checkpoints are told apart by the column `checkpoint`, and without one by N, ptpp and seed; a table without checkpoint and ptpp
    is returned as it is, because N is the same for checkpoints of several lengths of pre-training. Where a checkpoint has no row at
    D = 0 the loss is missing.
    """
    if not {"D", "loss"} <= set(frame) or not {"checkpoint", "ptpp"} & set(frame) or not (base := frame["D"] == 0).any():
        return frame
    if BASE_LOSS in frame and (not holds_numbers(frame[BASE_LOSS]) or frame[BASE_LOSS].notna().all()):
        return frame
    measured = frame["loss"].where(base).groupby(_checkpoints(frame)).transform("mean")
    return frame.assign(**{BASE_LOSS: frame[BASE_LOSS].fillna(measured) if BASE_LOSS in frame else measured})


def base_loss_faults(frame: pd.DataFrame, of_source: bool) -> Iterator[Fault]:
    """Find base losses that contradict each other, or the losses after adaptation.

    Parameters
    ----------
    frame : DataFrame
        As `with_base_loss` returns it; without numbers in D, loss or base_loss there are no faults.
    of_source : bool
        Whether the losses are of the source domain, which adaptation hardly lowers.
    """
    if any(name not in frame or not holds_numbers(frame[name]) for name in ("D", "loss", BASE_LOSS)):
        return
    base, loss = frame[BASE_LOSS], frame["loss"]
    known = np.isfinite(base) & (base > 0) & np.isfinite(loss) & (loss > 0)
    start, ratio = known & (frame["D"] == 0), base.where(known) / loss
    errors = pd.to_numeric(frame["loss_se"], errors="coerce").fillna(0.0) if "loss_se" in frame else 0.0
    allowed = (SPREAD * loss).clip(lower=3 * errors)
    for row in frame.index[start & (abs(base - loss) > allowed)]:
        problem = f"the loss at D = 0 is {loss[row]:.5g}, and the base loss of its checkpoint {base[row]:.5g}"
        suggestion = "tell checkpoints apart by a column checkpoint, correct the wrong loss, or leave out this row"
        yield Fault(int(row), BASE_LOSS, f"{base[row]:g}", problem, suggestion, "contradicting-base-losses")
    checkpoints = _checkpoints(frame)
    least = loss.where(start).groupby(checkpoints).transform("min")
    for row in frame.index[start & (loss - least > allowed) & (abs(base - loss) <= SPREAD * loss)]:
        problem = f"the loss at D = 0 is {loss[row]:.5g}, and that in another row of its checkpoint {least[row]:.5g}"
        suggestion = "tell checkpoints apart by a column checkpoint, correct the wrong loss, or leave out a row"
        yield Fault(int(row), "loss", f"{loss[row]:g}", problem, suggestion, "contradicting-base-losses")
    measured, spread = (values.where(start).groupby(checkpoints).transform("mean") for values in (loss, allowed))
    for row in frame.index[known & ~start & (abs(base - measured) > spread)]:
        problem = f"base_loss is {base[row]:.5g}, and the loss of its checkpoint at D = 0 {measured[row]:.5g}"
        suggestion = "tell checkpoints apart by a column checkpoint, or correct the wrong one"
        yield Fault(int(row), BASE_LOSS, f"{base[row]:g}", problem, suggestion, "contradicting-base-losses")
    if "run" in frame:
        first = base.where(known).groupby([frame[name] for name in _with_domain(frame, ["run"])]).transform("first")
        for row in frame.index[known & (abs(base / first - 1) > SPREAD)]:
            problem = f"base_loss {base[row]:.5g} is another than in the first row of its run, {first[row]:.5g}"
            suggestion = "a run adapts one checkpoint: correct the wrong one, or give each run its own name"
            yield Fault(int(row), BASE_LOSS, f"{base[row]:g}", problem, suggestion, "contradicting-base-losses")
    for row in frame.index[known & ~start & (ratio > MOST_FALL) & of_source]:
        problem = f"base_loss {base[row]:g} is {ratio[row]:.1f} times the loss after adaptation: is it a perplexity?"
        suggestion = (
            "give it in the unit of the losses, or with its own: --column base_loss=COLUMN:perplexity (in Python in columns)"
        )
        yield Fault(int(row), BASE_LOSS, f"{base[row]:g}", problem, suggestion, "base-loss-in-another-unit")


def in_words(model: Mapping[str, Any]) -> str:
    """A model in words: N = 1e+08, ptpp = 20."""
    known = {column: model[column] for column in NAMED if column in model and pd.notna(model[column])}
    return settings_text(known, 4)


def near_checkpoint(bases: pd.DataFrame, model: Mapping[str, Any]) -> str:
    """Return N and ptpp of the checkpoint that is nearly a model, in words; '' if none is, or the model's checkpoint has a name.

    Parameters
    ----------
    bases : DataFrame
        A row for each known checkpoint, or several.
    model : mapping
        N and ptpp of a model whose base loss is not known.
    """
    names = ["N", "ptpp"]
    known = all(name in model and name in bases and holds_numbers(bases[name]) for name in names)
    if not known or pd.notna(model.get("checkpoint")):
        return ""
    off = (bases[names] / [model[name] for name in names] - 1).abs().max(axis=1)
    near = off[(off > 0) & (off < ROUNDED)]
    nearest = bases.loc[near.sort_values().index, names].head(1).to_dict("records")
    return settings_text(nearest[0], 10) if nearest else ""


def _checkpoints(frame: pd.DataFrame) -> pd.Series:
    """Return a number for each checkpoint and domain, a Series by row; nan in rows whose checkpoint a table does not name.

    Runs without a seed are of one checkpoint, as in `Nesting`.
    """
    names = ["checkpoint"] if "checkpoint" in frame else [name for name in MODEL if name in frame]
    if not (keys := _with_domain(frame, names)):
        return pd.Series(frame.index, index=frame.index)
    numbers = frame.groupby(keys, sort=False, dropna=False).ngroup()
    return numbers.where(frame["checkpoint"].notna()) if "checkpoint" in frame else numbers


def _with_domain(frame: pd.DataFrame, names: list[str]) -> list[str]:
    """Return these columns, and the domain where a table has several."""
    return [*names, *(["domain"] if "domain" in frame else [])]
