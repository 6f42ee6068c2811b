"""The measured loss of the base checkpoint from which a run was adapted, as a column of the run's rows.

Who adapts a checkpoint owns it, and can measure its losses before any adaptation. Laws with the covariate `base_loss` start there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import Fault

BASE_LOSS = "base_loss"
MODEL = ("N", "ptpp", "seed")  # tell checkpoints apart where no column names them
NAMED = ("checkpoint", *MODEL)
# Relative difference above which two losses are not of one checkpoint, unless their known errors explain it: four times as much
# as losses of seeds differ by on tinycpt.
SPREAD = 0.02
# Base loss over a loss of the source above which it is asked about: perplexities of losses above 2.2 nats are higher.
MOST_FALL = 4.0


def with_base_loss(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of runs with the column `base_loss`: for each row the mean loss at D = 0 of its checkpoint, on its domain.

    In a table that has the column only empty cells are filled. The table is returned as it is if it has no rows at D = 0.
    Checkpoints are told apart by the column `checkpoint`, and without one by N, ptpp and seed; a table without checkpoint and ptpp
    is returned as it is, because N is the same for checkpoints of several lengths of pre-training. Where a checkpoint has no row at
    D = 0 the loss is missing.
    """
    if not {"D", "loss"} <= set(frame) or not {"checkpoint", "ptpp"} & set(frame) or not (base := frame["D"] == 0).any():
        return frame
    if BASE_LOSS in frame and (frame[BASE_LOSS].dtype.kind not in "fiu" or frame[BASE_LOSS].notna().all()):
        return frame
    keys = _with_domain(frame, _checkpoint_columns(frame))
    found = frame[keys].join(frame[base].groupby(keys)["loss"].mean().rename(BASE_LOSS), on=keys)[BASE_LOSS]
    return frame.assign(**{BASE_LOSS: frame[BASE_LOSS].fillna(found) if BASE_LOSS in frame else found})


def base_loss_faults(frame: pd.DataFrame, of_source: bool) -> Iterator[Fault]:
    """Find base losses that contradict each other, or the losses after adaptation.

    Parameters
    ----------
    frame : DataFrame
        As `with_base_loss` returns it; without numbers in D, loss or base_loss there are no faults.
    of_source : bool
        Whether the losses are of the source domain, which adaptation hardly lowers.
    """
    if any(name not in frame or frame[name].dtype.kind not in "fiu" for name in ("D", "loss", BASE_LOSS)):
        return
    base, loss = frame[BASE_LOSS], frame["loss"]
    known = np.isfinite(base) & (base > 0) & np.isfinite(loss) & (loss > 0)
    start, ratio = known & (frame["D"] == 0), base.where(known) / loss
    errors = pd.to_numeric(frame["loss_se"], errors="coerce").fillna(0.0) if "loss_se" in frame else 0.0
    for row in frame.index[start & (abs(base - loss) > np.maximum(SPREAD * loss, 3 * errors))]:
        problem = f"the loss at D = 0 is {loss[row]:.5g}, and the base loss of its checkpoint {base[row]:.5g}"
        suggestion = "tell checkpoints apart by a column checkpoint, correct the wrong loss, or leave out this row"
        yield Fault(int(row), BASE_LOSS, f"{base[row]:g}", problem, suggestion, "contradicting-base-losses")
    names = _with_domain(frame, _checkpoint_columns(frame))
    least = loss[start].groupby([frame[name] for name in names]).transform("min") if names else loss[start]
    least = least.reindex(frame.index)  # rows of a table may stand in any order
    apart = loss - least > np.maximum(SPREAD * loss, 3 * errors)
    for row in frame.index[apart & (abs(base - loss) <= SPREAD * loss)]:
        problem = f"the loss at D = 0 is {loss[row]:.5g}, and that in another row of its checkpoint {least[row]:.5g}"
        suggestion = "tell checkpoints apart by a column checkpoint, correct the wrong loss, or leave out a row"
        yield Fault(int(row), "loss", f"{loss[row]:g}", problem, suggestion, "contradicting-base-losses")
    if names:
        rows = frame.loc[start, names].assign(measured=loss, allowed=np.maximum(SPREAD * loss, 3 * errors))
        of_base = frame[names].join(rows.groupby(names).mean(), on=names)
        off = (base - of_base["measured"]).abs() > of_base["allowed"]
        for row in frame.index[known & ~start & off]:
            measured = of_base.loc[row, "measured"]
            problem = f"base_loss is {base[row]:.5g}, and the loss of its checkpoint at D = 0 {measured:.5g}"
            suggestion = "tell checkpoints apart by a column checkpoint, or correct the wrong one"
            yield Fault(int(row), BASE_LOSS, f"{base[row]:g}", problem, suggestion, "contradicting-base-losses")
    if "run" in frame:
        first = base[known].groupby([frame[name] for name in _with_domain(frame, ["run"])]).transform("first")
        for row in first.index[abs(base[first.index] / first - 1) > SPREAD]:
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
    return ", ".join(f"{k} = {v:.4g}" if isinstance(v, (int, float)) else f"{k} = {v}" for k, v in known.items())


def _checkpoint_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that tell the checkpoints of a table apart."""
    return ["checkpoint"] if "checkpoint" in frame else [name for name in MODEL if name in frame]


def _with_domain(frame: pd.DataFrame, names: list[str]) -> list[str]:
    """Return these columns, and the domain where a table has several."""
    return [*names, *(["domain"] if "domain" in frame else [])]
