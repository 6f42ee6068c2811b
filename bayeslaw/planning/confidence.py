"""What a confidence is by posterior draws: which of them are searched and which held out, and how many have to satisfy constraints.

A plan that is searched by some draws satisfies its constraints in more of these than in others. So one half of the draws is
searched, and the other half estimates the probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index, numbers
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import write_as_share

LEVELS = (0.5, 0.8, 0.9, 0.95)  # confidences of a frontier
RESOLVED = 10  # searched draws, at least, that a confidence must allow to violate a constraint
BLOCK = 50  # neighbouring draws that are searched, or held out, together


def confidences(confidence: float, levels: float | Sequence[float], draws: int) -> list[float]:
    """The confidences of a frontier, ascending: `levels` and the one that is asked for, each refused where draws can't resolve it.

    Parameters
    ----------
    confidence, levels
        As in `plan`.
    draws : int
        How many are searched.
    """
    every = [confidence, *numbers("levels", levels, "0.8 or (0.5, 0.9)").tolist()]
    for level in every:
        _check_confidence(level, draws)
    return sorted({*every})


def _check_confidence(confidence: float, draws: int) -> None:
    """Refuse a confidence outside (0, 1) or beyond what so many searched draws resolve."""
    if not isinstance(confidence, Real):
        raise BayeslawError(f"A confidence is a number such as 0.9, not {confidence!r}.", code="not-a-number")
    if not 0 < confidence < 1:
        message = f"A confidence must lie between 0 and 1, not at {confidence:g}{write_as_share(confidence)}."
        raise BayeslawError(message, code="no-probability")
    if confidence > 1 - RESOLVED / draws:
        raise BayeslawError(
            f"A confidence of {confidence:g} is beyond what {draws:,} searched draws resolve, at most {1 - RESOLVED / draws:g}. "
            "Fit with more draws.",
            code="confidence-not-resolved",
        )


def halves(size: int) -> tuple[Index, Index]:
    """The draws that are searched and those that are held out: alternate blocks of neighbours, so that both have every chain's."""
    draws = np.arange(size)
    searched = (draws // (BLOCK if size >= 2 * BLOCK else 1)) % 2 == 0
    return draws[searched], draws[~searched]


def enough(confidence: float, size: int) -> int:
    """The least number of so many draws that make up a confidence."""
    return math.ceil(confidence * size - 1e-9)


def probability_best(values: Array) -> Array:
    """The share of draws in which each of m choices has the least value, array (m,).

    Parameters
    ----------
    values : array (m, S)
        inf where a draw does not have the choice; draws that have none count for none, so that shares may add up to less than 1.
    """
    some = np.isfinite(values).any(axis=0)
    return np.asarray(np.bincount(values.argmin(axis=0)[some], minlength=len(values)) / values.shape[1])


def in_words(share: float, error: float) -> str:
    """Return a share of draws with its error as text."""
    return f"{share:.3f} (Monte Carlo standard error {error:.3f})"


def share_with_error(satisfied: NDArray[np.bool_], of_fit: Index) -> tuple[float, float]:
    """The share of draws (S,) that are true and its Monte Carlo error: that of blocks or, if larger, of independent draws.

    Draws of a stack come from its fits (`of_fit`, codes) in fixed numbers, so that what these differ by is no such error.
    """
    share = float(satisfied.mean())
    smooth = (satisfied.sum() + 1) / (satisfied.size + 2)
    error = math.sqrt(smooth * (1 - smooth) / satisfied.size)
    own = np.bincount(of_fit, satisfied) / np.maximum(np.bincount(of_fit), 1)
    blocks = [block.mean() for block in np.array_split(satisfied - own[of_fit], max(2, satisfied.size // BLOCK))]
    return share, max(error, float(np.std(blocks, ddof=1)) / math.sqrt(len(blocks)))
