"""The discrepancy of a law: a smooth relative error whose size the user states.

    log loss = law's + noise of a run + d(x),   d ~ GP(0, sd^2 exp(-|x - x'|^2 / 2)),   x = log covariates / LENGTH

The size is stated and not estimated: an error that is estimated, and learnt from the runs, is `noise.walk`. The process has mean
zero and the same size everywhere, inside the runs too.
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
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.noise.walk import directions, logarithms

STATED = (0.005, 0.01)  # relative sds whose intervals summaries show unless one is stated
LENGTH = 2.0  # length scale in e-folds of a covariate: the error is similar at twice the size, but not at ten times
MOST = 0.5  # largest relative sd
# Number of waves in a draw of the process. Each row's sd is exact with any number; in two covariates, correlations have errors of
# .02 up to three lengths and .07 beyond.
WAVES = 256


def read_discrepancy(value: str | float) -> float:
    """Return a relative standard deviation given as 0.01, '0.01' or '1%'; it must lie between 0 and `MOST`."""
    text = str(value).strip()
    try:
        sd = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        sd = float("nan")
    if not 0 <= sd <= MOST:
        raise BayeslawError(
            f"A discrepancy is none or a relative standard deviation between 0 and {MOST:g}, such as 0.01 or 1%; {text!r} is not.",
            code="not-a-discrepancy",
        )
    return sd


def read_choice(value: str | float | None) -> tuple[float | None, bool]:
    """Return the stated relative standard deviation, if one is, and whether errors that fits have learnt are used.

    They are by default, which is also called 'learned'; 'none' leaves them out.
    """
    choice = "learned" if value is None else str(value).strip()
    return (None, choice == "learned") if choice in ("learned", "none") else (read_discrepancy(choice), False)


def spread_name(sd: float, outcome: Outcome = LOSS) -> str:
    """Return the name of the spread with a stated discrepancy, such as 'discrepancy0.5%'; in percent where it is relative."""
    return f"discrepancy{100 * sd:g}%" if outcome.relative else f"discrepancy{sd:g}"


class StatedDiscrepancy:
    """`size` draws of the process with sd 1, by the seeds `entropy`; each draw is a smooth function of the settings.

    A draw is a sum of waves with normal amplitudes; the waves are those of the squared exponential kernel (Rahimi and Recht
    2007), the same for all draws, so that memory does not grow with the number of settings.
    """

    def __init__(self, law: Law, size: int, entropy: tuple[int, ...]) -> None:
        self.law, self.size, self.entropy = law, size, entropy

    @cached_property
    def _waves(self) -> NDArray[np.float64]:
        """Wave numbers (WAVES, covariates), evenly spread over the kernel's spectrum."""
        dimensions = len(directions(self.law))
        return np.asarray(ndtri(qmc.Sobol(dimensions, rng=0).random(WAVES))) if dimensions else np.zeros((WAVES, 0))

    @cached_property
    def _amplitudes(self) -> NDArray[np.float64]:
        return np.random.default_rng(self.entropy).standard_normal((2 * WAVES, self.size)) / math.sqrt(WAVES)

    def at(self, covariates: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return values (n, S) of the draws at settings (n,); times the stated sd, they are added to the log loss."""
        rows = np.size(next(iter(covariates.values())))
        x = logarithms(self.law, covariates) / LENGTH if directions(self.law) else np.empty((rows, 0))
        places, inverse = np.unique(x, axis=0, return_inverse=True) if x.size else (x[:1], np.zeros(rows, dtype=np.int64))
        phase = places @ self._waves.T
        values: NDArray[np.float64] = np.hstack([np.cos(phase), np.sin(phase)]) @ self._amplitudes
        return values[inverse.reshape(-1)]
