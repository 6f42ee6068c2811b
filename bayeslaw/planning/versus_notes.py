"""What to keep in mind about a comparison of two recipes (`planning.versus`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.text import compact, percent
from bayeslaw.core.units import per
from bayeslaw.forecasting.stack import Posterior, laws_of
from bayeslaw.planning.arguments import logged, outside_note
from bayeslaw.planning.optimum import corner_note
from bayeslaw.planning.recipe_paths import REACH, STEP, ComputePath, Recipe
from bayeslaw.planning.stages import sparse_notes

RISING = 0.05  # share of draws and settings at which a loss rises with compute from which a note says so
Followed = tuple[tuple[ComputePath, ComputePath], Array]
"""The paths of both recipes, and the compute (n,) of the settings that lie on them."""


def notes_of(
    fits: tuple[Posterior, Posterior],
    recipes: Sequence[tuple[Recipe, Recipe]],
    followed: Sequence[Followed],
    table: pd.DataFrame,
    times: Array,
    shared: float,
) -> tuple[str, ...]:
    """Return what to keep in mind about a comparison.

    Parameters
    ----------
    fits : tuple of Fit or Stack
        Fits of recipes A and B; the same one where two levels of it are compared.
    recipes : sequence of (Recipe, Recipe)
        A and B at each group of settings.
    followed : sequence
        See `Followed`.
    table : DataFrame
        A row for each comparison; with A_N and B_N, the median best N, along compute.
    times : array (2, S, n)
        How many times the other's compute B and A need.
    shared : float
        The correlation of what the two laws err.
    """
    a, b = recipes[-1]
    erring = any(error is not None for r in (a, b) for error in r.errors)
    notes = _of_fits(*fits, shared, erring)
    if (corner := max(own.corner for own in followed[-1][0])) > 0:
        notes.append(corner_note(corner))
    if (least := float((times == 0).mean())) > 0:
        least_share = f"1/{REACH:,.0f} of the other's compute"
        notes.append(f"in {percent(least)} of draws a recipe needs less than {least_share}; its multiplier counts as 0")
    notes += [*_far(recipes), *_cut_short((a.name, b.name), followed, times), *_rising((a.name, b.name), followed)]
    return (*notes, *_sizes_outside(*fits, table))


def _of_fits(first: Posterior, second: Posterior, shared: float, erring: bool) -> list[str]:
    """Return notes on what two fits share, and on their errors."""
    notes = sparse_notes(laws_of((first, second)))
    if first is not second:
        tables = []
        for posterior in (first, second):
            sources = [source for fit, _ in posterior.selections for source in fit.sources]
            named = (source.name + (f" where {source.where}" if source.where else "") for source in sources)
            tables.append(" and ".join(dict.fromkeys(named)))
        data = "the same validation set" + (" and tokenizer" if per(first.unit) == "token" else "")
        notes.append(f"losses compare only on {data}, which can't be checked here: A's rows are {tables[0]}, B's are {tables[1]}")
        digests = [{fit.info.get("data_sha256") for fit, _ in posterior.selections} for posterior in (first, second)]
        if digests[0] & digests[1] - {None}:
            notes.append("both fits have the same rows, whose noise they share; it is counted as if they had rows of their own")
    elif not erring:
        notes.append("both recipes are of one fit: their draws are joint, so that what they share cancels")
    if shared and not erring:
        notes.append(f"no law here has an error beyond its runs, so that the shared error of {shared:g} counts for nothing")
    if erring:
        part = "independent, which makes the widest intervals" if not shared else f"correlated by {shared:g}"
        notes.append(f"what the two laws err beyond their runs is {part} (shared error)")
    return notes


def _far(recipes: Sequence[tuple[Recipe, Recipe]]) -> list[str]:
    """Return notes on settings other than compute that lie outside the runs, of which the column `outside` says nothing."""
    places = dict.fromkeys((r.name, r.outside) for pair in recipes for r in pair)
    return [f"settings of {name}, besides compute, lie {place}" for name, place in places if place != "inside"]


def _sizes_outside(first: Posterior, second: Posterior, table: pd.DataFrame) -> list[str]:
    """Return notes on best sizes outside the runs, which the column `outside` does not tell, since it is of compute."""
    notes = list[str]()
    for name, posterior in (("A", first), ("B", second)):
        if f"{name}_N" in table:
            notes += outside_note(f"the best N of {name}", table[f"{name}_N"], logged(posterior.selections, "N"))
    return notes


def _rising(names: tuple[str, str], followed: Sequence[Followed]) -> list[str]:
    """Return a note where losses rise with compute, as forgetting does: no compute is then needed for another's loss."""
    texts = []
    for side, name in enumerate(names):
        rises = []
        for paths, flops in followed:
            own = paths[side]
            at = np.minimum(own.at(np.log(flops)), own.log_c.size - 2)
            rises.append((own.loss[:, at + 1] > own.loss[:, at]).ravel())
        if (share := float(np.concatenate(rises).mean())) > RISING:
            texts.append(f"that of {name} in {share:.0%}")
    where = (
        "of draws and settings, as forgetting makes them and, far beyond the runs, errors of laws: `multiplier`, `never` and "
        "`wasted` say nothing there"
    )
    return [f"losses rise with compute, {' and '.join(texts)} {where}"] if texts else []


def _cut_short(names: tuple[str, str], followed: Sequence[Followed], times: Array) -> list[str]:
    """Return notes where a recipe's compute is not searched as far as `REACH`, since the supports of its laws end before.

    Parameters
    ----------
    names, followed
        As for `_rising`.
    times : array (2, S, n)
        How many times the other's compute B and A need.
    """
    notes = list[str]()
    for side, name in enumerate(names):
        if not (np.isinf(times[1 - side]) | (times[1 - side] == 0)).any():
            continue
        ends = []
        for paths, flops in followed:
            own, wanted = paths[side].log_c, np.log([flops.min() / REACH, flops.max() * REACH])
            ends += [end for end, short in ((own[0], own[0] > wanted[0] + STEP), (own[-1], own[-1] < wanted[1] - STEP)) if short]
        if ends:
            shown = " and ".join(dict.fromkeys(compact(math.exp(end), 2) for end in sorted(ends)))
            notes.append(
                f"compute of {name} is searched to {shown} FLOPs alone, where the supports of its laws end, and not {REACH:,.0f} "
                "times as far: beyond, its multiplier counts as inf or 0"
            )
    return notes
