"""Kinds of random numbers, which stand in the seeds of generators beside the seeds that a user gives."""

from __future__ import annotations

from enum import IntEnum


class NoiseLevel(IntEnum):
    """What a random number of the noise is of, which follows the seeds of a noise's caller; a code of a row or a run follows it."""

    POINT = 0
    RUN = 1
    CHECKPOINT = 2
    EXCESS = 3
    """The one-sided effect of a run."""
    PATH = 4
    """The OU effect of a run: a moment follows the code of the run."""
    COUNT = 5
    """The share of a row's counted items."""


class PriorStream(IntEnum):
    """Draws from priors: a seed stands before the number alone."""

    CHECKED = 1
    """With which a new fit compares its posterior."""
    ASKED = 2
    """Of `Fit.prior_draws`."""


class Stream(IntEnum):
    """Kinds of random numbers: each use has one of its own, so that draws for one purpose are independent of those for another.

    Numbers from 0 to 5 are those of `NoiseLevel`. A new use takes a new number.
    Four numbers are shared, since results in the documentation depend on them; the seeds around them differ.
    """

    RANDOM_DESIGN = 0
    """Random orders of candidates, with which a choice of runs is compared: a seed stands before the number alone."""

    DISCREPANCY = 10
    """The discrepancy that a user states for a forecast."""
    MEMBER = 11
    """A fit of a stack: this number plus its place, in front of the other kinds."""
    LEARNT_EFFECT = 12
    """Effects of runs and checkpoints of the fit, given their losses."""
    SIMULATED = 13
    """Draws from which a look-ahead simulates runs, and the noise of these runs."""
    SECOND_POSTERIOR = 13
    """The sampling of the posterior with an error of the law, and its coefficients: the seed of the fit stands before it alone."""
    ERROR = 14
    """The learnt error of a law in forecasts, allocations and mixtures."""
    AHEAD = 15
    """The effect of a run under way, ahead of its last checkpoint."""
    PAIRED = 15
    """Which draw of the first fit of a chain goes with which of the second: this number comes second, that of AHEAD third."""
    LAST = 16
    """The noise of the last evaluation of a run under way."""
    CHANGE_ERROR = 17
    """What the law errs by where the learning rate of a run under way changes."""
    REPLICATED = 18
    """Replicated losses of the fitted rows."""
    NEW_GROUP = 19
    """Parameters of groups that no fitted row has."""
    EXPLORED_ERROR = 20
    """The learnt error of a law in the explorer's page."""
    EXPLORED_FIT = 30
    """The second fit of the explorer's page: this number plus its place, as for the third."""
    NEXT_RUN_ERROR = 21
    """The learnt error of a law for a planned run."""
    RUN_DISTANCE = 22
    """How far new runs lie from a law of training dynamics."""
    TUNING_DISTANCE = 23
    """How far best values at a setting lie from the law's: the number of the tuned covariate follows."""
    PLANNED = 70
    """Effects and noise of a planned run, and errors of base losses."""
    RECIPE_ERROR = 81
    """The learnt errors of laws of the first of two recipes; the second has the next number."""
    RECIPE_NOISE = 83
    """The noise of the next runs of the first of two recipes; the second has the next number."""
    NEW_RUN = 90
    """The search for a mixture, and the noise of a run with it: no letters follow."""
    AMOUNT = 90
    """Uncertain amounts of a whole life: the letters of the amount's name follow."""
    THIRD_SAMPLE = 91
    """The third sampling of a posterior: the seed of the fit stands before it alone."""
