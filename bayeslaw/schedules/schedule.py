"""Learning-rate schedules, and the two areas under them that decide a training loss (Tissue et al. 2024, Wang et al. 2025).

    S1(t) = sum_{i<=t} eta_i,     S2(t) = sum_{i<=t} m_i,     m_i = memory m_{i-1} + (eta_{i-1} - eta_i)

S1 is how far training has come, S2 how much of it was annealing. The double sum of the papers, over all earlier changes of the rate
weighted by memory^(i-k), is the first-order filter m; it needs one pass and goes on from one phase into the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import lfilter

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, whole_number

MEMORY = 0.999  # lambda of the papers
HIGHEST = 1.0  # a larger rate is a mistake of unit
MOST_STEPS = 100_000_000  # more are tokens, or seconds since 1970
DECAYS = ("linear", "cosine", "sqrt", "exponential")


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step of one phase.

    Attributes
    ----------
    rates : array (T,)
        Rates of steps 1 to T.
    name : str
    """

    rates: Array
    name: str = "schedule"

    def __post_init__(self) -> None:
        if self.rates.ndim != 1 or not self.rates.size:
            raise BayeslawError(f"{self.name} has no steps.")
        if (bad := np.flatnonzero(~np.isfinite(self.rates))).size:
            raise BayeslawError(f"{self.name}: the learning rate of step {bad[0] + 1} is missing or not finite.")
        if (bad := np.flatnonzero(self.rates < 0)).size:
            raise BayeslawError(f"{self.name}: the learning rate of step {bad[0] + 1} is {self.rates[bad[0]]:g}, below 0.")
        if (bad := np.flatnonzero(self.rates > HIGHEST)).size:
            raise BayeslawError(
                f"{self.name}: the learning rate of step {bad[0] + 1} is {self.rates[bad[0]]:g}. Rates lie far below 1: is it in "
                "units of 1e-4, or in percent?"
            )
        if not self.rates.max() > 0:
            raise BayeslawError(f"{self.name}: the learning rate is 0 throughout.")

    def __len__(self) -> int:
        return int(self.rates.size)

    @property
    def peak(self) -> float:
        """The highest rate."""
        return float(self.rates.max())


@dataclass(frozen=True)
class State:
    """Where training stands after some steps: last rate, areas S1 and S2, momentum m of the annealing."""

    rate: float
    S1: float = 0.0
    S2: float = 0.0
    momentum: float = 0.0


@dataclass(frozen=True)
class Areas:
    """Areas after each step of a phase, arrays (T,), those of earlier phases included, and the last rate."""

    S1: Array
    S2: Array
    momentum: Array
    rate: float

    @property
    def end(self) -> State:
        """Where the phase leaves off."""
        return State(self.rate, float(self.S1[-1]), float(self.S2[-1]), float(self.momentum[-1]))


def areas(
    schedule: Schedule | ArrayLike,
    before: State | None = None,
    *,
    memory: float = MEMORY,
    power: float = 0.0,
    weight: float = 1.0,
) -> Areas:
    """Forward and annealing area after each step of a phase, in one pass.

    Parameters
    ----------
    schedule : Schedule or array (T,)
        Rates of the steps.
    before : State, optional
        Where the earlier phases left off. Without it this is the first phase, whose warm-up is no annealing: rises before the
        first fall count nothing, as in Tissue et al. Give State(rate=0) to count them.
    memory : float
        lambda: how much of a change of the rate is still felt one step later.
    power : float
        epsilon of the LR-weighted area, S2 = sum m_i eta_i^epsilon (Wang et al. 2025, eq. 9); 0 for eq. 1.
    weight : float
        What a step counts, for a phase whose batches are larger: tokens of its steps over those of the reference.
    """
    if not 0 <= memory < 1:
        raise BayeslawError(f"memory is {memory:g}; it must lie in [0, 1).")
    if not (math.isfinite(power) and power >= 0):
        raise BayeslawError(f"power is {power:g}; it must be 0 or more.")
    if not (math.isfinite(weight) and weight > 0):
        raise BayeslawError(f"weight is {weight:g}; it must be positive.")
    rates = schedule.rates if isinstance(schedule, Schedule) else Schedule(np.asarray(schedule, dtype=np.float64)).rates
    start = before if before is not None else State(float(rates[0]))
    falls = -np.diff(rates, prepend=start.rate)
    if before is None:
        down = np.flatnonzero(falls > 0)
        falls[: down[0] if down.size else falls.size] = 0.0
    momentum, _ = lfilter([1.0], [1.0, -memory], falls, zi=[memory * start.momentum])
    felt = momentum * rates**power if power else momentum
    return Areas(start.S1 + weight * np.cumsum(rates), start.S2 + weight * np.cumsum(felt), momentum, float(rates[-1]))


def _warmed(shape: Array, peak: float, warmup: int, start: float) -> Array:
    """Rates `peak` times a shape (T - warmup,) after a linear warm-up from `start`, whose last step has the peak."""
    rise = start + (peak - start) * np.arange(1, warmup + 1) / max(warmup, 1)
    return np.concatenate([rise, peak * shape])


def _along(steps: int, peak: float, warmup: int, start: float, final: float = 0.0) -> Array:
    """How far each step after the warm-up has come on its way to the last, in (0, 1]; the arguments checked."""
    whole_number("steps", steps, 1)
    whole_number("warmup", warmup, 0)
    if warmup >= steps:
        raise BayeslawError(f"A warm-up of {warmup} steps does not fit into {steps}.")
    if not 0 < peak <= HIGHEST:
        raise BayeslawError(f"peak is {peak:g}; a highest learning rate lies in (0, {HIGHEST:g}], such as 3e-4.")
    if not 0 <= start <= peak:
        raise BayeslawError(f"start is {start:g}; a warm-up begins between 0 and the peak of {peak:g}.")
    if not 0 <= final <= 1:
        raise BayeslawError(f"final is {final:g}; it is a share of the peak, in [0, 1].")
    return np.arange(1, steps - warmup + 1) / (steps - warmup)


def constant(steps: int, peak: float, *, warmup: int = 0, start: float = 0.0) -> Schedule:
    """A constant rate after a linear warm-up from `start`."""
    along = _along(steps, peak, warmup, start)
    return Schedule(_warmed(np.ones_like(along), peak, warmup, start), "constant")


def _decayed(along: Array, final: float, how: str) -> Array:
    """From 1 to `final` as `along` goes from 0 to 1."""
    match how:
        case "linear":
            return 1 - (1 - final) * along
        case "cosine":
            return final + (1 - final) * (1 + np.cos(np.pi * along)) / 2
        case "sqrt":
            return 1 - (1 - final) * np.sqrt(along)
        case "exponential":
            if not final > 0:
                raise BayeslawError("An exponential decay can't end at 0; give final=0.1 or so.")
            return np.asarray(final**along, dtype=np.float64)
    raise BayeslawError(f"There is no decay {how!r}; choose {', '.join(DECAYS)}.")


def linear(steps: int, peak: float, *, final: float = 0.0, warmup: int = 0, start: float = 0.0) -> Schedule:
    """A straight fall to `final` times the peak."""
    along = _along(steps, peak, warmup, start, final)
    return Schedule(_warmed(_decayed(along, final, "linear"), peak, warmup, start), "linear")


def cosine(steps: int, peak: float, *, final: float = 0.1, warmup: int = 0, start: float = 0.0) -> Schedule:
    """Half a cosine down to `final` times the peak (Loshchilov and Hutter 2016)."""
    along = _along(steps, peak, warmup, start, final)
    return Schedule(_warmed(_decayed(along, final, "cosine"), peak, warmup, start), "cosine")


def wsd(
    steps: int,
    peak: float,
    *,
    decay: float = 0.2,
    final: float = 0.1,
    shape: str = "linear",
    warmup: int = 0,
    start: float = 0.0,
) -> Schedule:
    """Warm-up, a stable rate, and a decay to `final` times the peak over the last share `decay` of all steps (Hu et al. 2024)."""
    along = _along(steps, peak, warmup, start, final)
    if not 0 < decay <= (steps - warmup) / steps:
        raise BayeslawError(f"decay is {decay:g}; it is the share of all steps over which the rate falls, after the warm-up.")
    length = max(round(decay * steps), 1)
    falling = np.clip((np.arange(1, along.size + 1) - (along.size - length)) / length, 0.0, 1.0)
    return Schedule(_warmed(_decayed(falling, final, shape), peak, warmup, start), "wsd")


def multistep(
    steps: int,
    peak: float,
    *,
    at: Sequence[float] = (0.8, 0.9),
    factor: float = 0.316,
    warmup: int = 0,
    start: float = 0.0,
) -> Schedule:
    """A rate that is multiplied by `factor` at each of some shares of all steps."""
    along = _along(steps, peak, warmup, start)
    if any(not 0 < share < 1 for share in at) or list(at) != sorted(at):
        raise BayeslawError(f"at is {list(at)}; give rising shares of all steps between 0 and 1, such as 0.8, 0.9.")
    if not 0 < factor <= 1:
        raise BayeslawError(f"factor is {factor:g}; it must lie in (0, 1].")
    passed = np.searchsorted(np.asarray(at) * steps, np.arange(warmup + 1, warmup + along.size + 1), side="left")
    return Schedule(_warmed(factor ** passed.astype(np.float64), peak, warmup, start), "multistep")


def inverse_sqrt(steps: int, peak: float, *, warmup: int, start: float = 0.0) -> Schedule:
    """A fall with the root of the step, from the peak at the end of the warm-up."""
    along = _along(steps, peak, warmup, start)
    if warmup < 1:
        raise BayeslawError("inverse_sqrt falls with the root of steps over warm-up steps: give a warmup of 1 or more.")
    return Schedule(_warmed(np.sqrt(warmup / (warmup + np.arange(1.0, along.size + 1))), peak, warmup, start), "inverse_sqrt")


def joined(*phases: Schedule) -> Schedule:
    """Phases one after another on the same data, as one schedule."""
    if not phases:
        raise BayeslawError("Give at least one schedule to join.")
    return Schedule(np.concatenate([phase.rates for phase in phases]), " + ".join(phase.name for phase in phases))


def logged(step: ArrayLike, lr: ArrayLike, *, warmup: int = 0, name: str = "logged") -> Schedule:
    """The rate of every step from those logged at some: straight lines between them.

    Parameters
    ----------
    step : whole numbers, increasing
    lr : array
        The rate at these steps.
    warmup : int
        Steps of a linear warm-up from 0 that came before the first logged step, if that is later; the steps between have the
        first logged rate.

    Raises
    ------
    BayeslawError
        If steps don't increase, a rate is missing, negative or above 1, or the warm-up reaches past the first logged step.
    """
    steps, rates = np.asarray(step, dtype=np.float64), np.asarray(lr, dtype=np.float64)
    if steps.ndim != 1 or not steps.size or steps.shape != rates.shape:
        raise BayeslawError(f"{name}: there are {steps.size} steps and {rates.size} rates.")
    if not np.isfinite(steps).all() or (steps != np.round(steps)).any() or steps[0] < 0:
        raise BayeslawError(f"{name}: steps must be whole numbers from 0.")
    if steps[-1] > MOST_STEPS:
        raise BayeslawError(f"{name}: step {steps[-1]:g} is more than a training has; are these tokens, or times?")
    if (bad := np.flatnonzero(np.diff(steps) <= 0)).size:
        i = int(bad[0])
        raise BayeslawError(f"{name}: steps must increase, and {steps[i + 1]:g} follows {steps[i]:g}. Was the run resumed?")
    Schedule(rates, name)  # what is wrong with a logged rate is said of it, not of one between
    whole_number("warmup", warmup, 0)
    if warmup > max(steps[0], 0):
        raise BayeslawError(f"{name}: a warm-up of {warmup} steps reaches past the first logged step, {steps[0]:g}.")
    every = np.arange(1, int(steps[-1]) + 1, dtype=np.float64)
    if not every.size:
        raise BayeslawError(f"{name}: it ends at step 0.")
    between = np.interp(every, steps, rates)
    if warmup:
        between[:warmup] = rates[0] * every[:warmup] / warmup
    return Schedule(between, name)
