"""What a law may miss where nobody has run: a smooth relative error, whose size the user states.

    log loss = law's + noise of a run + d(x),   d ~ GP(0, sd^2 exp(-|x - x'|^2 / 2)),   x = log covariates / LENGTH

The size is stated and not estimated, because a law that fits its runs says nothing about how far it errs outside them. The
process has mean zero and the same size everywhere, inside the runs too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from bayeslaw.core.errors import BayeslawError
from bayeslaw.laws.law import Law

STATED = (0.005, 0.01)  # relative sd at which summaries show an interval unless one is stated
LENGTH = 2.0  # e-folds of a covariate over which the error changes: it is much the same at twice the size, not at ten times
MOST = 0.5
# Waves that a draw of the process is made of. Each row's sd is exact with any number; with this many correlations are right to
# .02 up to three lengths, .07 beyond, in two covariates.
WAVES = 256


def read_discrepancy(value: str | float) -> float:
    """Read a relative standard deviation: 0.01, '0.01' or '1%'.

    Raises
    ------
    BayeslawError
        If it is no number or not between 0 and `MOST`.
    """
    text = str(value).strip()
    try:
        sd = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        sd = float("nan")
    if not 0 <= sd <= MOST:
        raise BayeslawError(
            f"A discrepancy is a relative standard deviation between 0 and {MOST:g}, such as 0.01 or 1%; {text!r} is not."
        )
    return sd


def spread_name(sd: float) -> str:
    """How the spread with a stated discrepancy is called: 'discrepancy0.5%'."""
    return f"discrepancy{100 * sd:g}%"


def directions(law: Law) -> tuple[str, ...]:
    """The covariates in whose logarithms the error varies: all that span decades, but not D where the law has ptpp.

    There D are the tokens of an adaptation: what the law misses at a size and a stage is shared by the curve. Where a law has
    no ptpp, D is the budget that its forecasts leave the runs by.
    """
    apart = {"D"} if "ptpp" in law.covariates else set()
    return tuple(name for name, c in law.axes.items() if c.logarithmic and name not in apart)


class Discrepancy:
    """Draws of the process with sd 1, each one smooth function of the settings, whichever settings are asked for.

    A draw is a sum of waves with normal amplitudes; the waves are those of the squared exponential kernel (Rahimi and Recht
    2007), the same for all draws, so that memory does not grow with the number of settings.

    Parameters
    ----------
    law : Law
    size : int
        Number of draws S.
    entropy : tuple of int
        Seeds.
    """

    def __init__(self, law: Law, size: int, entropy: tuple[int, ...]) -> None:
        self.law, self.size, self.entropy = law, size, entropy

    @cached_property
    def _waves(self) -> NDArray[np.float64]:
        """Wave numbers (WAVES, covariates), evenly spread over the kernel's spectrum."""
        dimensions = len(directions(self.law))
        if not dimensions:
            return np.zeros((WAVES, 0))
        return np.asarray(ndtri(qmc.Sobol(dimensions, rng=0).random(WAVES)))

    @cached_property
    def _amplitudes(self) -> NDArray[np.float64]:
        normal: NDArray[np.float64] = np.random.default_rng(self.entropy).standard_normal((2 * WAVES, self.size))
        return normal / math.sqrt(WAVES)

    def at(self, covariates: Mapping[str, Any]) -> NDArray[np.float64]:
        """Values at settings.

        Parameters
        ----------
        covariates : mapping of covariate to array (n,)

        Returns
        -------
        array (n, S)
            To be multiplied by the stated sd; additions to log loss.
        """
        rows = np.size(next(iter(covariates.values())))
        x = np.empty((rows, len(directions(self.law))))
        for i, name in enumerate(directions(self.law)):
            least = self.law.covariates[name].support[0] or 1.0  # D = 0 lies where the first token does
            x[:, i] = np.log(np.maximum(covariates[name], least)) / LENGTH
        places, which = np.unique(x, axis=0, return_inverse=True) if x.size else (x[:1], np.zeros(rows, dtype=np.int64))
        phase = places @ self._waves.T
        values: NDArray[np.float64] = np.hstack([np.cos(phase), np.sin(phase)]) @ self._amplitudes
        return values[which.reshape(-1)]
