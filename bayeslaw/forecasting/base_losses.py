"""Measured losses of base checkpoints that a fit knows, for settings that leave them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.base_loss import BASE_LOSS, MODEL, NAMED, SPREAD, in_words, near_checkpoint
from bayeslaw.data.observations import Observations
from bayeslaw.posterior.diagnostics import Check

MODEL_TOLERANCE = 1e-6  # relative difference within which N and ptpp are of one model
SHOWN = 3  # models that an error names
# Relative difference by which a checkpoint may be worse than one with no larger N and ptpp: on the sources of the tinycpt sweeps at
# most 2%, and more where only one of the two is annealed.
DISORDER = 0.05
BY_COLUMN = f"a column {BASE_LOSS} of the table"


def with_known_base_losses(name: str, fitted: Sequence[Observations], frame: pd.DataFrame, way: str = BY_COLUMN) -> pd.DataFrame:
    """Return settings or rows with the column `base_loss`, as the rows of a fit have it for the same checkpoints.

    In a table that has the column only empty cells are filled, and those of checkpoints that the fit does not know stay empty.
    For laws without the covariate the table is returned as it is.

    Parameters
    ----------
    name : str
        Name of the law or stack, in errors.
    fitted : sequence of Observations
        What each law is fitted to.
    frame : DataFrame
        Settings or rows, unchecked.
    way : str
        How to give the loss of a checkpoint that the fits don't know, in errors.

    Raises
    ------
    BayeslawError
        If there is no such column and no row of the fits is of a model ('unknown-base-loss'), or checkpoints with different losses
        are of it ('several-base-losses').
    """
    names = [column for column in NAMED if column in frame]
    given = frame[BASE_LOSS] if BASE_LOSS in frame else pd.Series(np.nan, frame.index)
    empty = given.isna()
    if not names or not empty.any() or not any(BASE_LOSS in observed.covariates for observed in fitted):
        return frame
    models = [*frame.loc[empty, names].itertuples(index=False, name=None)]
    known = {model: base_loss_of(name, fitted, dict(zip(names, model, strict=True))) for model in dict.fromkeys(models)}
    without = [dict(zip(names, model, strict=True)) for model, loss in known.items() if loss is None]
    unknown = [in_words(model) for model in without]
    if unknown and BASE_LOSS not in frame:
        more = f"; and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise unknown_base_loss(name, "; ".join(unknown[:SHOWN]) + more, way, near_model(fitted, without[0]))
    filled = pd.Series([known[model] for model in models], frame.index[empty], dtype=np.float64)
    return frame.assign(**{BASE_LOSS: given.where(~empty, filled)})


def base_loss_of(name: str, fitted: Sequence[Observations], model: Mapping[str, Any]) -> float | None:
    """Return the mean measured loss of the base checkpoint of a model; None where no row is of it.

    Rows at D = 0 count before the column `base_loss` of other rows.

    Parameters
    ----------
    name, fitted
        As in `with_known_base_losses`.
    model : mapping
        What tells it: some of N, ptpp, seed and checkpoint. Others don't matter.
    """
    for frame in _measured(fitted):
        same = np.ones(len(frame), dtype=bool)
        for column in (column for column in NAMED if column in model and column in frame):
            same &= _equal(frame[column], model[column])
        if same.any():
            losses = frame.loc[same, BASE_LOSS].astype(float)
            if losses.max() > (1 + SPREAD) * losses.min():
                problem = f"Checkpoints of {in_words(model)} have losses from {losses.min():.4g} to {losses.max():.4g} at D = 0"
                absent = [c for c in ("N", "ptpp") if c not in model and any(c in observed.covariates for observed in fitted)]
                too = f"give {' and '.join(absent)} too, or " if absent else ""
                advice = f"{too}give the {BASE_LOSS} at which {name} starts, or a table with the column checkpoint"
                raise BayeslawError(f"{problem}: {advice}.", code="several-base-losses")
            return float(losses.mean())
    return None


def base_loss_check(observed: Observations, covariates: Mapping[str, Any]) -> Check | None:
    """Return a concern where base losses contradict those of the fitted checkpoints; None where none does.

    A checkpoint with more parameters and PTPP than a fitted one should not be much worse than it, and one with fewer not much
    better.

    Parameters
    ----------
    observed : Observations
        What the law is fitted to.
    covariates : mapping of covariate to array (n,)
        Those of the settings.
    """
    names = [name for name in ("N", "ptpp") if name in observed.covariates]
    if BASE_LOSS not in observed.covariates or not names:
        return None
    columns = [*names, BASE_LOSS]
    known = pd.concat(frame[columns] for frame in _measured([observed])).drop_duplicates(ignore_index=True)
    stated = pd.DataFrame({name: covariates[name] for name in columns}).drop_duplicates(ignore_index=True)
    ratio = known[names].to_numpy() / stated[names].to_numpy()[:, None]  # (settings, known checkpoints, names)
    loss = known[BASE_LOSS].to_numpy() / stated[BASE_LOSS].to_numpy()[:, None]
    same = (np.abs(ratio - 1) <= MODEL_TOLERANCE).all(axis=-1)
    above = (ratio <= 1 + MODEL_TOLERANCE).all(axis=-1) & (loss < 1 / (1 + DISORDER))
    below = (ratio >= 1 - MODEL_TOLERANCE).all(axis=-1) & (loss > 1 + DISORDER)
    wrong = (above | below) & ~(same & (np.abs(loss - 1) <= DISORDER)).any(axis=1, keepdims=True)
    if not (rows := np.flatnonzero(wrong.any(axis=1))).size:
        return None
    first = int(rows[0])
    worst = int(np.where(wrong[first], np.abs(loss[first] - 1), -1.0).argmax())
    of, other = stated.to_dict("records")[first], known.to_dict("records")[worst]
    model, its = (in_words({name: row[name] for name in names}) for row in (of, other))
    side, more = ("above", "larger") if above[first, worst] else ("below", "smaller")
    whose = "this model among the runs" if same[first, worst] else f"{its}, which has no {more} {' or '.join(names)}"
    text = f"base_loss {of[BASE_LOSS]:.4g} of {model} lies {side} {other[BASE_LOSS]:.4g}, that of {whose}"
    rest = f", and {rows.size - 1} more like it" if rows.size > 1 else ""
    advice = "Make sure that it is of this checkpoint, of the fitted domain and in the unit of the runs"
    return Check("base_loss", False, text + rest, "model", stated.loc[rows].reset_index(drop=True), advice)


def near_model(fitted: Sequence[Observations], model: Mapping[str, Any]) -> str:
    """Return N and ptpp of the checkpoint that the fits know and that is nearly a model, in words, or ''."""
    return next((near for frame in _measured(fitted) if (near := near_checkpoint(frame, model))), "")


def unknown_base_loss(name: str, models: str, way: str, near: str) -> BayeslawError:
    """The error for models of which no row was measured before adaptation.

    Parameters
    ----------
    name, models, way, near : str
        The law or stack, the models in words, how to give their losses, and `near_model`.
    """
    known = f"write {near} if that checkpoint, whose loss is known, is meant, or " if near else ""
    return BayeslawError(
        f"{name} starts at the measured loss of the base checkpoint, and no row with D = 0 is of this model ({models}): "
        f"{known}give that loss ({way}). For a checkpoint that is not trained yet, give a forecast of it, or use a law that does "
        "not need it.",
        code="unknown-base-loss",
    )


def _measured(fitted: Sequence[Observations]) -> Iterator[pd.DataFrame]:
    """Yield tables with a column `base_loss` and what tells their models apart, rows at D = 0 first."""
    yield from (observed.base for observed in fitted if BASE_LOSS in observed.base and len(observed.base))
    for observed in fitted:
        if BASE_LOSS in observed.covariates:
            columns = {name: observed.covariates[name] for name in (*MODEL, BASE_LOSS) if name in observed.covariates}
            names = np.array(observed.checkpoint_names)[observed.checkpoint[observed.run]]
            yield pd.DataFrame(columns).assign(checkpoint=names)


def _equal(column: pd.Series, value: Any) -> Any:
    if pd.isna(value):
        return np.ones(len(column), dtype=bool)
    if holds_numbers(column) and isinstance(value, (int, float)):
        return np.isclose(column.astype(float), value, rtol=MODEL_TOLERANCE, atol=0.0)
    return (column.astype(str) == str(value)).to_numpy()
