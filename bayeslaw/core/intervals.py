"""Medians and equal-tailed intervals of draws, whose columns say the interval's kind and probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError

Method = Literal["linear", "nearest"]


def check_probability(prob: float) -> None:
    """Refuse an interval probability outside (0, 1)."""
    if not 0 < prob < 1:
        hint = f": write {prob / 100:g} for {prob:g}%" if 1 < prob < 100 else ""
        raise BayeslawError(f"The probability of an interval lies between 0 and 1, {prob:g} does not{hint}.")


def interval_names(kind: str, prob: float) -> tuple[str, str]:
    """Column names of an interval's ends: ('eti90_lo', 'eti90_hi')."""
    return f"{kind}{prob * 100:g}_lo", f"{kind}{prob * 100:g}_hi"


def tails(ci_prob: float) -> list[float]:
    """Probabilities of the median and of an equal-tailed interval's ends."""
    check_probability(ci_prob)
    return [0.5, 0.5 - ci_prob / 2, 0.5 + ci_prob / 2]


def quantiles(draws: ArrayLike, ci_prob: float, *, axis: int | None = None, method: Method = "linear") -> Array:
    """Median and equal-tailed interval of draws, array (3, …): those along an axis, or all of them.

    `method` is NumPy's; 'nearest' where draws may be infinite, between which there is no line.
    """
    return np.asarray(np.quantile(np.asarray(draws), tails(ci_prob), axis=axis, method=method))


def columns(draws: ArrayLike, ci_prob: float, name: str, *, method: Method = "linear") -> dict[str, Array]:
    """Median and equal-tailed interval of draws (S, n) as columns: of `latent` latent_median, latent_eti90_lo, latent_eti90_hi."""
    keys = (f"{name}_median", *(f"{name}_{end}" for end in interval_names("eti", ci_prob)))
    return dict(zip(keys, quantiles(draws, ci_prob, axis=0, method=method), strict=True))


def rows(draws: Mapping[str, ArrayLike], ci_prob: float, *, method: Method = "linear") -> pd.DataFrame:
    """Median and equal-tailed interval of quantities with draws (S,): a row for each, columns median, eti90_lo and eti90_hi."""
    values = {name: quantiles(v, ci_prob, method=method) for name, v in draws.items()}
    return pd.DataFrame(values, index=["median", *interval_names("eti", ci_prob)]).T.rename_axis("quantity")
