"""Checks of measured losses and other outcomes, and of their known standard errors, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import Fault
from bayeslaw.core.units import NATS, PERPLEXITY, in_nats, unit_of
from bayeslaw.data.starter import losses_elsewhere, option
from bayeslaw.laws.outcome import LOSS, Outcome

LOSS_SUPPORT = (1e-6, 15.0)  # nats per token
LEAVE_OUT = "remove the row, or leave such rows out by --where 'loss < 15' (in Python runs.where('loss < 15'))"


def cell_faults(frame: pd.DataFrame, column: str, bad: pd.Series, problem: str, suggestion: str, code: str) -> Iterable[Fault]:
    """Yield one fault for each row of a column of numbers where `bad` holds.

    Parameters
    ----------
    frame, column, bad, problem, suggestion, code
        As in `bayeslaw.core.errors.Fault`; `{value}` in the problem stands for the cell's value.
    """
    if not bad.any():
        return
    for row, number in zip(frame.index[bad], frame.loc[bad, column].to_numpy(dtype=np.float64), strict=True):
        value = "" if np.isnan(number) else f"{number:g}"
        yield Fault(int(row), column, value, problem.format(value=value), suggestion, code)


def check_loss(frame: pd.DataFrame, column: str = LOSS.name, unscaled: str = "", leave_out: str = LEAVE_OUT) -> list[Fault]:
    """List losses, and their known standard errors, that a language model can't have, judged in the table's unit.

    Parameters
    ----------
    frame : DataFrame
    column : str
        Column of the file, from which losses were read.
    unscaled : str
        The same if they were read as they are, so that it may be named in another unit.
    leave_out : str
        What to do about the loss of a run that diverged, and about a row without one.
    """
    loss, of = frame["loss"], unit_of(frame)
    if of == PERPLEXITY:
        problem = "losses are perplexities, and laws describe their logarithm"
        way = f"convert them by `bayeslaw convert --to {NATS}` (in Python bayeslaw.core.units.convert_table)"
        whole = Fault(None, "unit", of, problem, way, "perplexities")
        below = "a perplexity is 1 or more: are these losses in nats/token?"
        return [whole, *cell_faults(frame, "loss", loss < 1, "perplexity {value} is below 1", below, "perplexity-below-1")]
    elsewhere = losses_elsewhere(frame, loss.isna(), column) if loss.isna().any() else ""
    faults = [*cell_faults(frame, "loss", loss.isna(), "loss is missing or not a number", elsewhere or leave_out, "missing-loss")]
    diverged = "loss {value} is infinite: the run diverged"
    faults += cell_faults(frame, "loss", np.isinf(loss), diverged, leave_out, "infinite-loss")
    above = f"give losses in {of}, above 0: add back what was subtracted"
    if not (loss > 0).any():
        signs = f"change the sign of all, in pandas df[{column!r}] = -df[{column!r}]"
        above = f"give losses in {of}, above 0: if these are log likelihoods, {signs}"
    faults += cell_faults(frame, "loss", loss <= 0, "loss {value} is not positive", above, "loss-not-positive")
    if "loss_se" in frame:
        faults += check_error(frame, LOSS, of)
    low, high = LOSS_SUPPORT
    least, most = low / in_nats(of), high / in_nats(of)
    tiny = f"loss {{value}} is below {least:.3g} {of}, which no model reaches"
    faults += cell_faults(frame, "loss", (loss > 0) & (loss < least), tiny, "correct or remove the row", "loss-too-small")
    problem = f"loss {{value}} is above {most:.3g} {of}: is it a perplexity?"
    large = (loss > most) & np.isfinite(loss)
    way = f"take the logarithm of every perplexity, also of those below {most:.3g}{or_read(unscaled, PERPLEXITY, LOSS.name)}"
    way += f"; if the model had diverged, {leave_out}"
    return faults + list(cell_faults(frame, "loss", large, problem, way, "loss-too-large"))


def check_outcome(frame: pd.DataFrame, outcome: Outcome, column: str = "") -> list[Fault]:
    """List values that an outcome other than a loss can't have, and impossible standard errors of it.

    Parameters
    ----------
    frame, outcome : DataFrame, Outcome
    column : str
        Column of the file, from which it was read; by default that of its name.
    """
    name, values, remove = outcome.name, frame[outcome.name], "correct it or remove the row"
    if not holds_numbers(values):
        return []  # the column is reported as one without numbers
    faults = list(cell_faults(frame, name, values.isna(), f"{name} is missing or not a number", remove, "missing-value"))
    faults += cell_faults(frame, name, np.isinf(values), f"{name} is infinite", remove, "infinite-value")
    (low, high), finite = outcome.bounds, np.isfinite(values)
    ends = outcome.kind == "count"
    below, above = finite & ((values < low) if ends else (values <= low)), finite & ((values > high) if ends else (values >= high))
    at_end = (below & (values == low)) | (above & (values == high))
    limit = f"{name} {{value}} lies at a bound, which {name} can't reach"
    suggestion = "give it as a share of counted items (an outcome of kind count), which may be 0 or 1, or leave the row out"
    faults += cell_faults(frame, name, at_end, limit, suggestion, "at-a-bound")
    between = f"between {low:g} and {high:g}" if math.isfinite(high) else f"above {low:g}"
    outside, wrong = f"{name} {{value}} does not lie {between}", (below | above) & ~at_end
    answers = wrong & _right_answers(frame, outcome)
    problem = f"divide by {outcome.items}, if these are numbers of right answers"
    faults += cell_faults(frame, name, answers, outside, problem, "counted-answers")
    wrong &= ~answers
    percent = wrong & (values > 1) & (values <= 100) & (high == 1)
    question = "is it in percent? Divide by 100"
    if values[finite].median() > 1:  # all of them are, it seems
        question += or_read(column or name, "%", name)
    faults += cell_faults(frame, name, percent, outside, question, "percent")
    corrected = wrong & (values < 0) & (outcome.kind == "count") & (outcome.chance is not None)
    share = f"give the share of {outcome.items}: where chance was taken off, it is chance + (1 - chance) x {name}, in every row"
    faults += cell_faults(frame, name, corrected, outside, share, "out-of-bounds")
    faults += cell_faults(frame, name, wrong & ~percent & ~corrected, outside, remove, "out-of-bounds")
    if outcome.kind == "count" and outcome.items in frame and holds_numbers(frame[outcome.items]):
        faults += _check_items(frame, outcome, wrong)
    if outcome.error not in frame:
        return faults
    if outcome.kind == "count":
        problem = f"column {outcome.error} can't be used: the number of {outcome.items} says how exactly {name} is measured"
        return [*faults, Fault(None, outcome.error, "", problem, "leave the column out", "error-of-a-count")]
    return faults + check_error(frame, outcome, outcome.unit)


def _right_answers(frame: pd.DataFrame, outcome: Outcome) -> pd.Series:
    """Mark all rows if every outcome is a whole number of its items, and some are no percentages; none otherwise."""
    values, items = frame[outcome.name], frame.get(outcome.items)
    whole = outcome.kind == "count" and items is not None and holds_numbers(items)
    whole = whole and bool(((values == np.floor(values)) & (values <= items)).all()) and values.max() > 100
    return pd.Series(whole, index=frame.index)


def _check_items(frame: pd.DataFrame, outcome: Outcome, wrong: pd.Series) -> Iterable[Fault]:
    """Find rows whose outcome is no share of their number of items, up to rounding of the share or partial credit."""
    items, name = frame[outcome.items], outcome.name
    part = np.isfinite(items) & (items > 0) & (items != np.floor(items)) & ~wrong
    problem = f"{outcome.items} {{value}} is no whole number"
    return cell_faults(frame, outcome.items, part, problem, f"give the number of items of which {name} is a share", "not-whole")


def check_error(frame: pd.DataFrame, outcome: Outcome, unit: str) -> list[Fault]:
    """List impossible standard errors of losses or other outcomes; planned runs may have them without these.

    Parameters
    ----------
    frame, outcome
    unit : str
        Unit of the outcomes and their errors, for the texts; may be empty.
    """
    column, name, error, of = outcome.error, outcome.name, frame[outcome.error], f" in {unit}" if unit else ""
    if not holds_numbers(error):
        problem, suggestion = f"column {column} holds no numbers", f"give standard errors{of}"
        return [Fault(None, column, "", problem, suggestion, "column-without-numbers")]
    missing, negative = f"{column} is missing or not finite", f"{column} {{value}} is negative"
    faults = list(cell_faults(frame, column, ~np.isfinite(error), missing, "write 0 where there is no error", "missing-value"))
    faults += cell_faults(frame, column, error < 0, negative, f"give a standard error{of}", "negative-error")
    if name not in frame or not outcome.is_loss:
        return faults
    large, problem = np.isfinite(error) & (error > 0.5 * frame[name].abs()), f"{column} {{value}} is more than half of the {name}"
    return faults + list(cell_faults(frame, column, large, problem, f"is it a standard error{of}?", "error-too-large"))


def or_read(column: str, unit: str, ours: str) -> str:
    """Return how a column of a file is read in a unit instead, as the end of a sentence; '' without a column.

    Parameters
    ----------
    column, unit, ours : str
        The column of the file, the unit, and the name of the column here.
    """
    text = f"{column}:{unit}"
    return f", or read all so: {option(ours, text)} (columns={{{ours!r}: {text!r}}})" if column else ""
