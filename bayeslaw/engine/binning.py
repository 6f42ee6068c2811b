"""Fewer rows for the likelihood: rows of a run at (nearly) the same settings become a count, a mean and a scatter.

With normal noise these are sufficient statistics of k log losses of one run at one setting,

    sum_i (y_i - mu)^2 = k (mean - mu)^2 + sum_i (y_i - mean)^2,

so the posterior is the same. Neighbouring points of a curve may also be put into bins; mu is then taken at the bin's mean setting,
and `Compressed.shift` is the resulting error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.notes import TableNote
from bayeslaw.data.observations import Observations
from bayeslaw.laws.law import Law

WIDEST = 0.5  # largest width of a bin, in e-folds
MANY_ROWS, WIDTH = 20_000, 0.02  # rows from which on bins are proposed, and their width


@dataclass(frozen=True, eq=False)
class Compressed:
    """Observations of fewer rows (n): means of log loss, and of the logarithms of covariates that span decades.

    `count` (n,) are the points in each row, `scatter` (R,) each run's sum of squares of points around the means of their rows, and
    `row` (points,) the row of each point.
    """

    observed: Observations
    count: Array
    scatter: Array
    row: Index

    def shift(self, law: Law, draws: Mapping[str, Array], whole: Observations) -> float:
        """The largest difference between the mean of the points' expected log losses and the one at their row's setting."""
        largest = 0.0
        for i in range(next(iter(draws.values())).size):
            draw = {name: values[i : i + 1] for name, values in draws.items()}
            points, rows = (law.outcome.to_scale(law.predict(draw, o.covariates)[0]) for o in (whole, self.observed))
            largest = max(largest, float(np.abs(np.bincount(self.row, points) / self.count - rows).max()))
        return largest


def compress(law: Law, observed: Observations, width: float | None = None) -> Compressed:
    """Put points of one run at the same setting into one row; points with known standard errors stay as they are.

    Parameters
    ----------
    law, observed : Law, Observations
    width : float, optional
        Also put points into bins of this width, in e-folds of every covariate that spans decades.
    """
    if width is not None and not 0 < width <= WIDEST:
        raise BayeslawError(f"The width of a bin lies between 0 and {WIDEST:g} e-folds, {width:g} does not.", code="bad-bin-width")
    points = observed.response.size
    unchanged = Compressed(observed, np.ones(points), np.zeros(observed.runs), np.arange(points))
    if observed.se.size:
        if width is not None:
            problem = f"Points with known standard errors (column {observed.outcome.error}) can't be put into bins: leave bins out."
            raise BayeslawError(problem, code="bins-with-errors")
        return unchanged
    code = observed.run
    for name, values in observed.covariates.items():
        cells = values
        if width is not None and law.covariates[name].logarithmic:
            with np.errstate(divide="ignore"):  # D = 0 has a bin of its own
                cells = np.floor(np.log(values) / width)
        _, part = np.unique(cells, return_inverse=True)
        _, code = np.unique(code * (part.max() + 1) + part, return_inverse=True)
    if (rows := int(code.max()) + 1) == points:
        return unchanged
    _, first, row = np.unique(code, return_index=True, return_inverse=True)
    count = np.bincount(row).astype(np.float64)

    def mean(values: Array) -> Array:
        means: Array = np.bincount(row, values) / count
        return np.where(count == 1, values[first], means)

    def middle(name: str, values: Array) -> Array:
        low, high = np.minimum.reduceat(values[order], starts), np.maximum.reduceat(values[order], starts)
        if not law.covariates[name].logarithmic:
            return np.where(low == high, low, mean(values))
        return np.where(low == high, low, np.exp(mean(np.log(np.maximum(values, 1e-300)))))

    order = np.argsort(row, kind="stable")
    starts = np.searchsorted(row[order], np.arange(rows))
    response = mean(observed.response)
    scatter = np.bincount(observed.run, (observed.response - response[row]) ** 2, observed.runs)
    fewer = replace(
        observed,
        covariates={name: middle(name, values) for name, values in observed.covariates.items()},
        response=response,
        run=observed.run[first],
        rows=observed.rows[first],
    )
    return Compressed(fewer, count, scatter, row.astype(np.int64))


def bins_notes(law: Law, observed: Observations) -> list[TableNote]:
    """Return the note that bins would leave far fewer rows of a large table, for fits whose noise allows bins; or none."""
    rows = 0 if observed.se.size else compress(law, observed).count.size
    if rows <= MANY_ROWS or 2 * (binned := compress(law, observed, WIDTH).count.size) > rows:
        return []
    text = f"a fit of {rows:,} rows takes minutes; bins of {WIDTH:g} e-folds, of neighbouring points of a run, leave {binned:,}"
    advice = f"Give --bins {WIDTH:g} (bins={WIDTH:g}): the check `bins` then says how far that moves expected {law.outcome.plural}"
    return [TableNote("many_rows", text, advice, "note")]
