"""Medians and equal-tailed intervals of draws; names of columns give the interval's kind and probability."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import write_as_share

Method = Literal["linear", "nearest"]


LEAST = 1e-6  # of the probability of an interval, and of that of its complement: draws can't show less


def check_probability(prob: float) -> None:
    """Refuse an interval probability outside (0, 1), or so near to its ends that no draws can show it."""
    if not isinstance(prob, Real):
        raise BayeslawError(f"An interval's probability is a number between 0 and 1, not {prob!r}.", code="not-a-probability")
    if 0 < prob < 1 and not LEAST <= prob <= 1 - LEAST:
        message = f"An interval's probability must lie between {LEAST:f} and {1 - LEAST:f}, {prob!r} does not."
        raise BayeslawError(message, code="not-a-probability")
    if not 0 < prob < 1:
        message = f"An interval's probability lies between 0 and 1, {prob:g} does not{write_as_share(prob)}."
        raise BayeslawError(message, code="not-a-probability")


def interval_names(kind: str, prob: float) -> tuple[str, str]:
    """Return the column names of an interval's ends: ('eti90_lb', 'eti90_ub')."""
    check_probability(prob)
    percent = f"{prob * 100:.12g}"  # 90 for 0.9, and all digits of 0.999999
    return f"{kind}{percent}_lb", f"{kind}{percent}_ub"


def tails(ci_prob: float) -> list[float]:
    """Return the probabilities of the median and of an equal-tailed interval's ends."""
    check_probability(ci_prob)
    return [0.5, 0.5 - ci_prob / 2, 0.5 + ci_prob / 2]


def quantiles(draws: ArrayLike, ci_prob: float, *, axis: int | None = None, method: Method = "linear") -> Array:
    """Return the median, the lower and the upper end of the equal-tailed interval of draws, an array (3, …).

    Parameters
    ----------
    draws, ci_prob, axis : array, float, int
        The axis is that of the draws; without it all values are draws of one quantity.
    method : {'linear', 'nearest'}
        NumPy's; 'nearest' where draws may be infinite and can't be interpolated.
    """
    return np.asarray(np.quantile(np.asarray(draws), tails(ci_prob), axis=axis, method=method))


def open_quantiles(draws: Array, ci_prob: float) -> Array:
    """Return the median and the ends of an interval of draws that may be infinite or 0, an array (3, n).

    The interval is equal-tailed. Where one end is infinite or 0, it bounds nothing, and the other end has the tails of both: an
    equal-tailed interval would hold more than `ci_prob` there. Where both are, there is no bound.

    Parameters
    ----------
    draws : array (S, n) of numbers of 0 or more
    ci_prob : float
    """
    middle, low, high = quantiles(draws, ci_prob, axis=0, method="nearest")
    least, most = np.quantile(draws, [1 - ci_prob, ci_prob], axis=0, method="nearest")
    below, above = low == 0, np.isinf(high)
    return np.stack([middle, np.where(above & ~below, least, low), np.where(below & ~above, most, high)])


def columns(draws: ArrayLike, ci_prob: float, name: str = "", *, method: Method = "linear") -> dict[str, Array]:
    """Return the median and equal-tailed interval of draws as columns: latent_median, latent_eti90_lb, latent_eti90_ub.

    Parameters
    ----------
    draws : array (S, n)
    ci_prob, name, method
        The name is that of the quantity, such as 'latent', or empty: median, eti90_lb, eti90_ub. The others are as in `quantiles`.
    """
    keys = (f"{name}_{end}".removeprefix("_") for end in ("median", *interval_names("eti", ci_prob)))
    return dict(zip(keys, quantiles(draws, ci_prob, axis=0, method=method), strict=True))


def rows(draws: Mapping[str, ArrayLike], ci_prob: float, *, method: Method = "linear") -> pd.DataFrame:
    """Return a table with a row for each quantity and the columns median, eti90_lb and eti90_ub.

    Parameters
    ----------
    draws : mapping of quantity to array (S,)
    ci_prob, method
        As in `quantiles`.
    """
    values = {name: quantiles(v, ci_prob, method=method) for name, v in draws.items()}
    return pd.DataFrame(values, index=["median", *interval_names("eti", ci_prob)]).T.rename_axis("quantity")
