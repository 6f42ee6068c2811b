"""What laws of training dynamics err by when a run goes on: shares of the changes that they forecast.

    log loss(t) = log L(t) + run effect(t) + a [log L(t) - log L_same(t)] + b [log L_same(t) - log L(now)]

L is the law, and L_same what it says if the rate stays as it is now, so the first bracket is what coming changes of the rate do
to the loss and the second what going on does. a and b are normal with mean 0, and their standard deviations, log-normal over
trainings, were learnt from runs that were watched by fits to other runs of the same training: `python benchmarks/watching.py`,
which scores each training by what the others teach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeslaw.core.arrays import Array


@dataclass(frozen=True)
class ChangeErrors:
    """Shares of forecast changes by which laws err: medians over trainings, and standard deviations of their logarithms.

    Attributes
    ----------
    rate, rate_spread : float
        Median and spread of the share of what coming changes of the rate do.
    course, course_spread : float
        Median and spread of the share of what going on at the present rate does.
    """

    rate: float
    rate_spread: float
    course: float
    course_spread: float

    def draw(self, rate: Array, course: Array, rng: np.random.Generator) -> Array:
        """Return errors of log losses (S, n), one path for each draw.

        Parameters
        ----------
        rate, course : arrays (S, n)
            Forecast changes of the log loss: by coming changes of the rate, and at the present rate.
        rng : Generator
        """
        size = (len(rate), 1)
        shares = [
            np.exp(np.log(median) + spread * rng.standard_normal(size)) * rng.standard_normal(size)
            for median, spread in ((self.rate, self.rate_spread), (self.course, self.course_spread))
        ]
        return np.asarray(shares[0] * rate + shares[1] * course)


LEARNT = ChangeErrors(rate=0.33, rate_spread=0.7, course=0.09, course_spread=0.7)
