"""Learning-rate schedules, and the two areas under them that decide a training loss (Tissue et al. 2024, Wang et al. 2025).

    S1(t) = sum_{i<=t} eta_i,     S2(t) = sum_{i<=t} m_i,     m_i = memory m_{i-1} + (eta_{i-1} - eta_i)

S1 measures how far training has come, and S2 its annealing. The double sum of the papers, over all earlier changes of the rate
weighted by memory^(i-k), equals the first-order filter m, which needs one pass and continues from one phase into the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index, numbers, one_number
from bayeslaw.core.errors import BayeslawError, shortened, whole_number

MEMORY = 0.999  # lambda of the papers
HIGHEST = 1.0  # a larger rate must be in another unit
ROUNDING = 1e-6  # share of the highest rate by which one may lie below 0 and count as 0: so end logs of rates that fall to 0
MOST_STEPS = 100_000_000  # larger numbers are tokens, or seconds since 1970
DECAYS = ("linear", "cosine", "sqrt", "exponential")


@dataclass(frozen=True, eq=False)
class Schedule:
    """The learning rate of every step of one phase.

    Attributes
    ----------
    rates : array (T,)
        Rates of steps 1 to T. Those below 0 by less than a millionth of the highest are 0.

    Examples
    --------
    >>> schedule = bayeslaw.schedules.Schedule(np.array([1e-3, 5e-4]))
    >>> len(schedule), schedule.peak
    (2, 0.001)
    """

    rates: Array
    name: str = "schedule"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", numbers(f"The rate of each step of {self.name}", self.rates, "[1e-3, 5e-4]"))
        if self.rates.ndim != 1:
            message = f"{self.name} has an array of rates with {self.rates.ndim} axes: give one rate for each step."
            raise BayeslawError(message, code="several-axes")
        if not self.rates.size:
            raise BayeslawError(f"{self.name} has no steps.", code="no-steps")
        if (bad := np.flatnonzero(~np.isfinite(self.rates))).size:
            raise BayeslawError(f"{self.name}: the learning rate of step {bad[0] + 1} is missing or not finite.", code="no-rate")
        below = self.rates < 0
        object.__setattr__(self, "rates", np.where(below & (self.rates > -ROUNDING * self.rates.max()), 0.0, self.rates))
        if (bad := np.flatnonzero(self.rates < 0)).size:
            message = f"{self.name}: the learning rate of step {bad[0] + 1} is {self.rates[bad[0]]:g}, below 0."
            raise BayeslawError(message, code="negative-rate")
        if (bad := np.flatnonzero(self.rates > HIGHEST)).size:
            given = f"{self.name}: the learning rate of step {bad[0] + 1} is {self.rates[bad[0]]:g}."
            raise BayeslawError(f"{given} Rates lie far below 1: is it in units of 1e-4, or in percent?", code="high-rate")
        if not self.rates.max() > 0:
            raise BayeslawError(f"{self.name}: the learning rate is 0 throughout.", code="zero-rate")

    def __len__(self) -> int:
        return int(self.rates.size)

    def steps_at(self, at: ArrayLike) -> Index:
        """Return steps as an array (n,); those that the schedule does not have are refused. Step 0 is before its first."""
        steps = _list_of_numbers("at", at, "[100, 200]")
        if (wrong := steps[~((steps >= 0) & (steps <= len(self)) & (steps % 1 == 0))]).size:
            raise BayeslawError(f"{self.name} has steps 0 to {len(self)}; there is no step {wrong[0]:g}.", code="no-such-step")
        return steps.astype(np.int64)

    @property
    def peak(self) -> float:
        """The highest rate."""
        return float(self.rates.max())


@dataclass(frozen=True)
class State:
    """The state of training after some steps: last rate, areas S1 and S2, momentum m of the annealing."""

    rate: float
    S1: float = 0.0
    S2: float = 0.0
    momentum: float = 0.0


@dataclass(frozen=True, eq=False)
class Areas:
    """Areas after each step of a phase, arrays (T,) to which earlier phases are added, and the last rate."""

    S1: Array
    S2: Array
    momentum: Array
    rate: float

    @property
    def end(self) -> State:
        """The state at the end of the phase."""
        return State(self.rate, float(self.S1[-1]), float(self.S2[-1]), float(self.momentum[-1]))


def require_schedule(given: object, what: str = "A schedule") -> None:
    """Refuse what is no `Schedule`, such as its text or an array of rates. `what` is the subject of the error message."""
    if not isinstance(given, Schedule):
        wanted = "what bayeslaw.data.parse_schedule makes of a text, or bayeslaw.schedules.Schedule of an array of rates"
        raise BayeslawError(f"{what} is {wanted}, not {shortened(repr(given))}.", code="not-a-schedule")


def _list_of_numbers(name: str, given: ArrayLike, example: str) -> Array:
    """Return a number or a list of numbers as an array (n,); arrays of several axes are refused."""
    values = numbers(name, given, example)
    if values.ndim != 1:
        raise BayeslawError(f"{name} has {values.ndim} axes: give a list of numbers, such as {example}.", code="several-axes")
    return values


def _check_range(fine: bool, message: str) -> None:
    if not fine:
        raise BayeslawError(message, code="out-of-range")


def areas(
    schedule: Schedule | ArrayLike, before: State | None = None, *, memory: float = MEMORY, power: float = 0.0, weight: float = 1.0
) -> Areas:
    """Return the forward and annealing area after each step of a phase.

    Parameters
    ----------
    schedule : Schedule or array (T,)
    before : State, optional
        The state at the end of the earlier phases. Without it this is the first phase, whose warm-up is no annealing: rises before
        the first fall are not counted, as in Tissue et al. Give State(rate=0) to count them.
    memory : float
        lambda, the share of a change's momentum that is left one step later.
    power : float
        epsilon of the LR-weighted area, S2 = sum m_i eta_i^epsilon (Wang et al. 2025, eq. 9); 0 for eq. 1.
    weight : float
        The weight of a step, for a phase with larger batches: tokens of its steps over those of the reference.
    """
    for given, value, example in (("memory", memory, "0.999"), ("power", power, "0.1"), ("weight", weight, "1")):
        one_number(given, value, example, finite=False)
    _check_range(0 <= memory < 1, f"memory is {memory:g}; it must lie in [0, 1).")
    _check_range(0 <= power < math.inf, f"power is {power:g}; it must be 0 or more.")
    _check_range(0 < weight < math.inf, f"weight is {weight:g}; it must be positive.")
    rates = (schedule if isinstance(schedule, Schedule) else Schedule(numbers("schedule", schedule, "[1e-3, 5e-4]"))).rates
    start = before if before is not None else State(float(rates[0]))
    falls = -np.diff(rates, prepend=start.rate)
    if before is None:
        down = np.flatnonzero(falls > 0)
        falls[: down[0] if down.size else falls.size] = 0.0
    from scipy.signal import lfilter  # slow to import, and few commands need schedules

    momentum, _ = lfilter([1.0], [1.0, -memory], falls, zi=[memory * start.momentum])
    annealing = momentum * rates**power if power else momentum
    return Areas(start.S1 + weight * np.cumsum(rates), start.S2 + weight * np.cumsum(annealing), momentum, float(rates[-1]))


def _shaped(
    name: str, shape: Callable[[Array], Array], steps: int, peak: float, warmup: int, start: float, final: float = 0.0
) -> Schedule:
    """Return a linear warm-up from `start` to `peak`, then `peak` times the shape of the share of later steps done, in (0, 1]."""
    steps = whole_number("steps", steps, 1, MOST_STEPS)
    warmup = whole_number("warmup", warmup, 0)
    for given, value, example in (("peak", peak, "3e-4"), ("start", start, "0"), ("final", final, "0.1")):
        one_number(given, value, example, finite=False)
    if warmup >= steps:
        raise BayeslawError(f"A warm-up of {warmup} steps does not fit into {steps}.", code="long-warmup")
    _check_range(0 < peak <= HIGHEST, f"peak is {peak:g}; a highest learning rate lies in (0, {HIGHEST:g}], such as 3e-4.")
    _check_range(0 <= start <= peak, f"start is {start:g}; a warm-up begins between 0 and the peak of {peak:g}.")
    _check_range(0 <= final <= 1, f"final is {final:g}; it is a share of the peak, in [0, 1].")
    rise = start + (peak - start) * np.arange(1, warmup + 1) / max(warmup, 1)
    return Schedule(np.concatenate([rise, peak * shape(np.arange(1, steps - warmup + 1) / (steps - warmup))]), name)


def constant(steps: int, peak: float, *, warmup: int = 0, start: float = 0.0) -> Schedule:
    """Return a constant rate after a linear warm-up.

    Parameters
    ----------
    steps, warmup : int
        The numbers of all steps and of steps of the warm-up, whose last step has the highest rate.
    peak, start : float
        The highest rate, and the rate at which the warm-up starts.

    Examples
    --------
    >>> bayeslaw.schedules.constant(4, 1e-3, warmup=2).rates
    array([0.0005, 0.001 , 0.001 , 0.001 ])
    """
    return _shaped("constant", np.ones_like, steps, peak, warmup, start)


def _decayed(share: Array, final: float, how: str) -> Array:
    """Return a fall from 1 to `final` as the share goes from 0 to 1."""
    match how:
        case "linear":
            return 1 - (1 - final) * share
        case "cosine":
            return final + (1 - final) * (1 + np.cos(np.pi * share)) / 2
        case "sqrt":
            return 1 - (1 - final) * np.sqrt(share)
        case "exponential":
            _check_range(final > 0, "An exponential decay can't end at 0; give final=0.1 or so.")
            return np.asarray(final**share, dtype=np.float64)
    raise BayeslawError(f"There is no decay {how!r}; choose {', '.join(DECAYS)}.", code="unknown-decay")


def linear(steps: int, peak: float, *, final: float = 0.0, warmup: int = 0, start: float = 0.0) -> Schedule:
    """Return a linear decay to `final` times the peak.

    Parameters
    ----------
    steps, peak, warmup, start
        As in `constant`.
    final : float
        The last rate as a share of the peak.

    Examples
    --------
    >>> bayeslaw.schedules.linear(4, 1e-3).rates
    array([0.00075, 0.0005 , 0.00025, 0.     ])
    """
    return _shaped("linear", lambda share: _decayed(share, final, "linear"), steps, peak, warmup, start, final)


def cosine(steps: int, peak: float, *, final: float = 0.1, warmup: int = 0, start: float = 0.0) -> Schedule:
    """Return half a cosine down to `final` times the peak (Loshchilov and Hutter 2016).

    Parameters
    ----------
    steps, peak, final, warmup, start
        As in `linear`.

    Examples
    --------
    >>> len(bayeslaw.schedules.cosine(1000, 1e-3, warmup=100))
    1000
    """
    return _shaped("cosine", lambda share: _decayed(share, final, "cosine"), steps, peak, warmup, start, final)


def wsd(
    steps: int, peak: float, *, decay: float = 0.2, final: float = 0.1, shape: str = "linear", warmup: int = 0, start: float = 0.0
) -> Schedule:
    """Return a warm-up, a stable rate and a decay (WSD, Hu et al. 2024).

    Parameters
    ----------
    steps, peak, final, warmup, start
        As in `linear`.
    decay : float
        The share of all steps over which the rate decays.
    shape : {'linear', 'cosine', 'sqrt', 'exponential'}
        The shape of the decay.

    Examples
    --------
    >>> bayeslaw.schedules.wsd(5, 1.0, decay=0.4, final=0.2).rates
    array([1. , 1. , 1. , 0.6, 0.2])
    """

    def stable_and_decay(share: Array) -> Array:
        one_number("decay", decay, "0.2", finite=False)
        meaning = f"decay is {decay:g}; it is the share of all steps over which the rate falls"
        of_steps = f": for {decay:g} of {steps:,} steps give {decay / steps:.3g}" if 1 < decay < steps else ", in (0, 1]"
        _check_range(0 < decay <= 1, f"{meaning}{of_steps}.")
        left = f"{meaning}, and {warmup:,} of {steps:,} steps are warm-up: it is at most {1 - warmup / steps:.3g}."
        _check_range(decay <= (steps - warmup) / steps, left)
        length = max(round(decay * steps), 1)
        falling = np.clip((np.arange(1, share.size + 1) - (share.size - length)) / length, 0.0, 1.0)
        return _decayed(falling, final, shape)

    return _shaped("wsd", stable_and_decay, steps, peak, warmup, start, final)


def multistep(
    steps: int, peak: float, *, at: float | Sequence[float] = (0.8, 0.9), factor: float = 0.316, warmup: int = 0, start: float = 0.0
) -> Schedule:
    """Return a rate that is multiplied by a factor at some steps.

    Parameters
    ----------
    steps, peak, warmup, start
        As in `constant`.
    at, factor : float or sequence of float, float
        When the rate falls, as increasing shares of all steps, and by which factor.

    Examples
    --------
    >>> bayeslaw.schedules.multistep(4, 1.0, at=(0.5,), factor=0.5).rates
    array([1. , 1. , 0.5, 0.5])
    """

    def falls(share: Array) -> Array:
        shares = _list_of_numbers("at", at, "(0.8, 0.9)")
        message = f"at is {shares.tolist()}; give increasing shares of all steps between 0 and 1, such as 0.8, 0.9."
        _check_range(bool(((shares > 0) & (shares < 1)).all() and (np.diff(shares) >= 0).all()), message)
        one_number("factor", factor, "0.316", finite=False)
        _check_range(0 < factor <= 1, f"factor is {factor:g}; it must lie in (0, 1].")
        places = np.round(shares * steps, 6)  # .7 of 90 steps would be 62.99999999999999
        passed = np.searchsorted(places, np.arange(warmup + 1, warmup + share.size + 1), side="left")
        return np.asarray(factor ** passed.astype(np.float64))

    return _shaped("multistep", falls, steps, peak, warmup, start)


def inverse_sqrt(steps: int, peak: float, *, warmup: int, start: float = 0.0) -> Schedule:
    """Return a rate that falls with the square root of the step, from the peak at the end of the warm-up.

    Parameters
    ----------
    steps, peak, warmup, start
        As in `constant`; there must be a warm-up.

    Examples
    --------
    >>> float(bayeslaw.schedules.inverse_sqrt(16, 1.0, warmup=4).rates[-1])
    0.5
    """

    def root(share: Array) -> Array:
        if warmup < 1:
            raise BayeslawError("inverse_sqrt falls as sqrt(warmup / step): give a warmup of 1 or more.", code="no-warmup")
        return np.asarray(np.sqrt(warmup / (warmup + np.arange(1.0, share.size + 1))))

    return _shaped("inverse_sqrt", root, steps, peak, warmup, start)


def joined(*phases: Schedule) -> Schedule:
    """Return phases on the same data as one schedule, one after the other.

    Examples
    --------
    >>> bayeslaw.schedules.joined(bayeslaw.schedules.constant(2, 0.5), bayeslaw.schedules.linear(2, 0.4)).rates
    array([0.5, 0.5, 0.2, 0. ])
    """
    if not phases:
        raise BayeslawError("Give at least one schedule to join.", code="no-schedule")
    for phase in phases:
        require_schedule(phase, "Schedules are joined as joined(first, second); each")
    return Schedule(np.concatenate([phase.rates for phase in phases]), " + ".join(phase.name for phase in phases))


def logged(step: ArrayLike, lr: ArrayLike, *, warmup: int = 0, name: str = "logged") -> Schedule:
    """Return the rate of every step by linear interpolation between logged ones.

    Parameters
    ----------
    step, lr : array
        Increasing whole numbers, and the rate at these steps. A rate that is missing, negative or above 1 raises BayeslawError.
    warmup : int
        Steps of a linear warm-up from 0 before the first logged step; the steps between have the first logged rate.
    name : str

    Examples
    --------
    >>> bayeslaw.schedules.logged([2, 4], [0.2, 0.4]).rates
    array([0.2, 0.2, 0.3, 0.4])
    """
    steps, rates = numbers("step", step, "[100, 200]"), numbers("lr", lr, "[3e-4, 2e-4]")
    if steps.ndim != 1 or not steps.size or steps.shape != rates.shape:
        raise BayeslawError(f"{name}: there are {steps.size} steps and {rates.size} rates.", code="unequal-lengths")
    if not np.isfinite(steps).all() or (steps != np.round(steps)).any() or steps[0] < 0:
        raise BayeslawError(f"{name}: steps must be whole numbers from 0.", code="not-a-whole-number")
    if steps[-1] > MOST_STEPS:
        raise BayeslawError(f"{name}: step {steps[-1]:g} is too high; are these tokens, or times?", code="too-many-steps")
    if (bad := np.flatnonzero(np.diff(steps) <= 0)).size:
        i = int(bad[0])
        message = f"{name}: steps must increase, and {steps[i + 1]:g} follows {steps[i]:g}. Was the run resumed?"
        raise BayeslawError(message, code="decreasing-steps")
    Schedule(rates, name)  # so that errors name a logged rate, not one between
    warmup = whole_number("warmup", warmup, 0)
    if warmup > steps[0]:
        raise BayeslawError(f"{name}: a warm-up of {warmup} steps goes past the first logged, {steps[0]:g}.", code="long-warmup")
    every = np.arange(1, int(steps[-1]) + 1, dtype=np.float64)
    between = np.interp(every, steps, rates)
    between[:warmup] = rates[0] * every[:warmup] / max(warmup, 1)
    return Schedule(between, name)
