"""Types of arrays that several packages name, numbers as users give them, and a choice, sums and a mean that they share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, shown

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def holds_numbers(values: Any) -> bool:
    """Whether an array or a column holds numbers, which truth values are not."""
    return values.dtype.kind in "fiu"


def numbers(name: str, given: Any, example: str) -> Array:
    """Return a number, or a list or an array of numbers, as an array of one axis at least; texts and all else are refused.

    Parameters
    ----------
    name, given, example : str, object, str
        The error calls the numbers by their name and shows the example.
    """
    try:
        values = np.atleast_1d(np.asarray(given))
    except ValueError:  # lists of unequal lengths
        values = np.array([None])
    if values.dtype == object and all(isinstance(value, Real) for value in values.flat):
        values = values.astype(np.float64)
    if not holds_numbers(values):
        problem = f"{name} must be a number, or a list or an array of numbers, such as {example}, not {shown(given)}."
        raise BayeslawError(problem, code="not-numbers")
    return values.astype(np.float64, copy=False)


def scaled(values: Any, factor: Array | float) -> Array:
    """Return values (n,) in another unit, to 15 significant figures: 8.2 millions are 8200000, and not 8199999.999999999.

    Parameters
    ----------
    values : array or Series (n,)
    factor : float or array (n,)
        What a unit of the values is in the other one; values whose factor is 1 stay as they are.
    """
    exact, same = np.asarray(values, dtype=np.float64), np.equal(factor, 1.0)
    if same.all():
        return exact
    with np.errstate(over="ignore"):
        products, places = np.unique(exact * factor, return_inverse=True)  # many rows repeat a size
    rounded = np.array([float(f"{product:.15g}") for product in products.tolist()], dtype=np.float64)
    return np.where(same, exact, rounded[places])


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array through which its numbers can't be changed."""
    view = values.view()
    view.flags.writeable = False
    return view


def one_number(name: str, given: Any, example: str, *, finite: bool = True) -> float:
    """Return one number; texts, truth values and all else are refused.

    Parameters
    ----------
    name, given, example : str, object, str
        The error calls the number by its name and shows the example.
    finite : bool
        Also refuse nan and infinite numbers, which the caller may have a better word for.
    """
    if isinstance(given, bool) or not isinstance(given, Real) or (finite and not math.isfinite(given)):
        raise BayeslawError(f"{name} must be a finite number, such as {example}, not {given!r}.", code="not-a-number")
    return float(given)


def common_shape(values: Mapping[str, Array]) -> tuple[int, ...]:
    """Return the shape to which arrays by name broadcast; unequal lengths are refused."""
    try:
        return np.broadcast_shapes(*(array.shape for array in values.values()))
    except ValueError:
        sizes = ", ".join(f"{array.size:,} of {name}" for name, array in values.items())
        problem = f"There are values of unequal numbers: {sizes}. Give equally many of each, or one for all"
        raise BayeslawError(f"{problem}.", code="unequal-lengths") from None


def sums_by(values: Array, code: Index) -> Array:
    """Return sums over the rows of one code along the last axis, array (..., R), such as those of a run.

    Parameters
    ----------
    values : array (..., n)
    code : int array (n,)
        0 to R - 1, ascending, each at least once.
    """
    return np.asarray(np.add.reduceat(values, np.flatnonzero(np.diff(code, prepend=-1)), axis=-1))


def evenly(size: int, most: int) -> Index:
    """Return at most `most` evenly spaced numbers of 0 to size - 1, from the first to the last; all if there are no more."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64))


def mean_of_largest(values: Array, share: float) -> Array:
    """Return the mean of the largest values along the last axis, the conditional value at risk (CVaR).

    Parameters
    ----------
    values : array (..., S)
    share : float
        How many of the S values count, between 0 and 1; one at least.
    """
    size = values.shape[-1]
    count = max(1, math.ceil(share * size * (1 - 1e-9)))  # .07 of 100 draws are 7.000000000000001
    return np.asarray(np.partition(values, size - count, axis=-1)[..., size - count :].mean(axis=-1))
