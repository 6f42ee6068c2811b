"""FLOPs of training, also in stages in which parts of the model are frozen, and of serving; the hours that they take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, holds_numbers, numbers, one_number
from bayeslaw.core.errors import BayeslawError, shown

PASS = 2.0  # FLOPs per parameter and token of one pass: forward, backward through activations, gradients of weights
FLOPS = 3 * PASS  # per parameter and token, where everything is trained
SERVED = PASS  # per parameter and token that the trained model reads or writes
HOUR = 3600.0  # seconds


@dataclass(frozen=True)
class Stage:
    """One stage of an adaptation: embeddings first, then some layers, then all by adapters, for example (Vo et al. 2024, table 4).

    Attributes
    ----------
    tokens : float
        Tokens, or their share of all stages: only proportions count in `per_token`.
    trainable, backward : float
        Shares of the parameters that are trained, and through which gradients of activations pass: those above the lowest trained
        layer. The second is 1 where embeddings, the first layer or adapters in all layers are trained.
    """

    tokens: float
    trainable: float = 1.0
    backward: float = 1.0

    def __post_init__(self) -> None:
        for name, given in (("tokens", self.tokens), ("trainable share", self.trainable), ("backward share", self.backward)):
            one_number(f"A stage's {name}", given, "0.4", finite=False)
        if not (math.isfinite(self.tokens) and self.tokens > 0):
            raise BayeslawError(f"A stage has a positive number or share of tokens, not {self.tokens:g}.", code="not-positive")
        for name, share in (("trainable", self.trainable), ("backward", self.backward)):
            if not 0 <= share <= 1:
                hint = f": is it a percentage? Write {share / 100:g}" if 1 < share <= 100 else ""
                raise BayeslawError(f"A stage's {name} share lies between 0 and 1, {share:g} does not{hint}.", code="not-a-share")

    @property
    def flops(self) -> float:
        """FLOPs per parameter and token."""
        return PASS * (1 + self.backward + self.trainable)


Stages = str | Sequence[Stage]


def _positive(name: str, values: ArrayLike, unit: str = "") -> Array:
    """Return values as floats, and refuse what is no number, or not positive and finite; the error has the first such value."""
    given = np.atleast_1d(np.asarray(values))
    wrong = given if not holds_numbers(given) else given[~(np.isfinite(given) & (given > 0))]
    if wrong.size:
        value = f"{wrong[0]:g}" if holds_numbers(given) else repr(str(wrong.flat[0]))
        raise BayeslawError(f"{name} must be positive and finite, not {value}{unit}.", code="not-positive")
    return np.asarray(values, dtype=np.float64)


def stage_flops(N: float, D: float, trainable: float = 1.0, backward: float = 1.0) -> float:
    """Return the FLOPs of training a model of N parameters on D tokens with parts of it frozen.

    2 N D forward, 2 N D x backward for gradients of activations, 2 N D x trainable for gradients of weights: 6 N D where nothing
    is frozen. Attention's own FLOPs, the optimiser's and recomputed activations are not counted.

    Parameters
    ----------
    N, D, trainable, backward : float
        The shares are those of `Stage`. N and D that are not positive and shares outside [0, 1] raise BayeslawError.

    Examples
    --------
    >>> bool(np.isclose(bayeslaw.core.stage_flops(1e9, 1e10, trainable=0.5), 5e19))
    True
    """
    _positive("N", N)
    _positive("D", D)
    return N * D * Stage(D, trainable, backward).flops


def life_flops(N: ArrayLike, D: ArrayLike, served: ArrayLike = 0.0) -> Array:
    """Return the FLOPs of a model's whole life: 6 N D for training and 2 N for each served token (Sardana et al. 2024, eq. 3).

    Parameters
    ----------
    N, D, served : arrays that broadcast
        Parameters, training tokens, and tokens that users' requests and answers have together. N and D that are not positive, and
        served tokens below 0, raise BayeslawError.

    Examples
    --------
    >>> print(f"{bayeslaw.core.life_flops(7e9, 1.24e12, served=2e12):.4g}")
    8.008e+22
    """
    numbers("served", served, "2e12")
    n, d, tokens = _positive("N", N), _positive("D", D), np.asarray(served, dtype=np.float64)
    if not (tokens >= 0).all():
        raise BayeslawError(f"Served tokens must be 0 or more, not {tokens.min():g}.", code="negative-amount")
    return np.asarray(FLOPS * n * d + SERVED * n * tokens)


def device_hours(flops: ArrayLike, peak: ArrayLike, utilisation: ArrayLike) -> Array:
    """Return the hours in which one device does some FLOPs.

    Parameters
    ----------
    flops, peak, utilisation : arrays that broadcast
        The peak in FLOP/s, and the share of it that is reached. A peak that is not positive, and a utilisation outside (0, 1],
        raise BayeslawError.

    Examples
    --------
    >>> float(bayeslaw.core.device_hours(3.6e18, peak=1e15, utilisation=0.5))
    2.0
    """
    if ((given := numbers("flops", flops, "3.6e18")) < 0).any():
        raise BayeslawError(f"FLOPs must be 0 or more, not {given.min():g}.", code="negative-amount")
    numbers("utilisation", utilisation, "0.5")
    peaks, share = _positive("A device's peak", peak, " FLOP/s"), np.asarray(utilisation, dtype=np.float64)
    if not ((share > 0) & (share <= 1)).all():
        wrong = float(share[~((share > 0) & (share <= 1))].flat[0])
        hint = f": is it a percentage? Write {wrong / 100:g}" if 1 < wrong <= 100 else ""
        raise BayeslawError(f"A utilisation lies above 0 and is at most 1, {wrong:g} does not{hint}.", code="not-a-share")
    return np.asarray(np.asarray(flops, dtype=np.float64) / (peaks * share * HOUR))


def stages_of(given: Stages) -> tuple[Stage, ...]:
    """Read stages written as '0.4:0.034,0.33:0.5': tokens (or their share), trainable share and, if given, backward share."""
    if not isinstance(given, str):
        if not isinstance(given, (list, tuple)) or not all(isinstance(stage, Stage) for stage in given):
            message = f"Stages are a text such as '0.4:0.034,0.6:0.5' or a list of bayeslaw.core.flops.Stage, not {shown(given)}."
            raise BayeslawError(message, code="unreadable-stages")
        stages = tuple(given)
    else:
        try:
            numbers = [[float(number) for number in stage.split(":")] for stage in given.split(",")]
        except ValueError:
            numbers = [[]]
        if any(not 2 <= len(stage) <= 3 for stage in numbers):
            message = f"Stages {given!r} are not of the form TOKENS:TRAINABLE, such as 3.9e9:0.034,3.2e9:0.5,2.6e9:0.046."
            raise BayeslawError(message, code="unreadable-stages")
        stages = tuple(Stage(*stage) for stage in numbers)
    if not stages:
        raise BayeslawError("An adaptation has at least one stage.", code="no-stages")
    return stages


def per_token(stages: Stages | None) -> float:
    """Return the mean FLOPs per parameter and token over all stages; 6 for None, where everything is trained."""
    if stages is None:
        return FLOPS
    of_each = stages_of(stages)
    return sum(stage.tokens * stage.flops for stage in of_each) / sum(stage.tokens for stage in of_each)
