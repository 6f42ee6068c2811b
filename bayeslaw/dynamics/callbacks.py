"""Forecasts inside a training program: a callback for Hugging Face's Trainer and one for PyTorch Lightning.

Both are thin. They hand every logged validation loss to `RunForecasts`, log what it returns beside the loss, and stop the training
only if they are asked to. transformers and lightning are imported when a callback is made.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, as_mapping
from bayeslaw.core.intervals import check_probability, interval_names, quantiles
from bayeslaw.data.logs.curves import log_curves
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.follow import Follower, Refit
from bayeslaw.dynamics.memory import memory_of, power_of, require_batch
from bayeslaw.dynamics.monitor import Discrepancy, Watch
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import Phase, Point, require_start
from bayeslaw.schedules.schedule import Schedule

BEFORE = "forecast/"  # the names of what is logged


class RunForecasts:
    """Forecasts of one run, by the losses that a training program hands over.

    Parameters
    ----------
    fit, schedule
        As for `watch`: a fit to other runs, and the learning rates of the whole phase.
    run : str or int
        The run's name.
    target : float, optional
        The loss to be reached.
    stop_reached, stop_hopeless : float, optional
        Stop once the loss is at the target already with this probability, such as .99, or reaches it by the end with at most this
        one, such as .01. Without them nothing is stopped.
    start, settings : Point and dict, optional
        The state of the training before the phase, which is then an adaptation; and values that the law needs of the run, such as
        N or r.
    memory : float, optional
        lambda of the annealing area, if the fit is to a table that doesn't say it.
    discrepancy, refit, ci_prob, seed
        As for `Follower`, by default no refits, which would take time from the training; probability of the intervals; and seed.

    Attributes
    ----------
    watched : Watch or None
        The last forecast.

    Examples
    --------
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> forecasts = bayeslaw.dynamics.RunForecasts(bayeslaw.load_fit("annealing.nc"), schedule, target=3.8)
    >>> sorted(forecasts.add(2000, 4.1))[:3]
    ['forecast/diverged', 'forecast/final', 'forecast/final_eti90_lb']
    """

    def __init__(
        self,
        fit: Fit,
        schedule: Schedule,
        *,
        run: str | int = "running",
        target: float | None = None,
        stop_reached: float | None = None,
        stop_hopeless: float | None = None,
        start: Point | None = None,
        settings: dict[str, float] | None = None,
        memory: float | None = None,
        discrepancy: Discrepancy = "learned",
        refit: Refit = "never",
        ci_prob: float = 0.9,
        seed: int = 0,
    ) -> None:
        if target is None and (stop_reached is not None or stop_hopeless is not None):
            raise BayeslawError("Stopping is by the probability of a target: give the target loss too.", code="no-target")
        require_start(start)
        check_probability(ci_prob)  # before the training, as all else: later there are warnings alone
        for name, share in (("stop_reached", stop_reached), ("stop_hopeless", stop_hopeless)):
            if share is not None and not (isinstance(share, Real) and 0 <= share <= 1):
                raise BayeslawError(f"{name} is a probability from 0 to 1, such as .99, not {share!r}.", code="not-a-probability")
        self.follower = Follower(fit, str(run), schedule, target=target, discrepancy=discrepancy, refit=refit, seed=seed)
        self.memory, self.power = memory_of([fit], memory), power_of([fit])
        require_batch([fit], 0.0)  # before the training: areas of its losses count steps
        self.start, self.settings, self.ci_prob = start, as_mapping(settings, "{'N': 1e9}"), ci_prob
        self.stop_reached, self.stop_hopeless = stop_reached, stop_hopeless
        self.watched: Watch | None = None
        self._rows: dict[int, dict[str, float]] = {}

    def __repr__(self) -> str:
        return f"<RunForecasts: {repr(self.watched)[1:-1] if self.watched else self.follower.waiting}>"

    def rate(self, step: int, rate: float) -> None:
        """Note a logged learning rate, which is compared with the schedule's."""
        self._rows.setdefault(step, {})["lr"] = rate

    def add(self, step: int, loss: float) -> dict[str, float]:
        """Return the forecast's numbers, by name, after one more loss; none where nothing can be forecast, which a warning says.

        Nothing is raised: a training does not end because it can't be forecast.
        """
        try:
            at, loss = float(step), float(loss)
        except (TypeError, ValueError):
            problem = f"its step {step!r} or its loss {loss!r} is no number"
            warnings.warn(f"No forecast of the running run: {problem}", RuntimeWarning, stacklevel=2)
            return {}
        if not at.is_integer():
            warnings.warn(f"No forecast of the running run: its step {step!r} is no whole number", RuntimeWarning, stacklevel=2)
            return {}
        step = int(at)
        self._rows = {at: row for at, row in self._rows.items() if at <= step}  # a run that was resumed logs its steps again
        row, schedule = self._rows.setdefault(step, {}), self.follower.schedule
        if math.isfinite(loss) and loss <= 0:
            warnings.warn(f"No forecast of the running run: its loss at step {step:,} is {loss:g}", RuntimeWarning, stacklevel=2)
            return {}
        row["loss"] = loss
        if step >= len(schedule):
            if step > len(schedule):
                problem = f"its step {step:,} lies after the last of its schedule, {len(schedule):,}"
                warnings.warn(f"No forecast of the running run: {problem}", RuntimeWarning, stacklevel=2)
            return {}
        nothing, name = {"loss": math.nan, "lr": math.nan}, self.follower.run
        frame = pd.DataFrame([{"run": name, "step": float(at), **nothing, **row} for at, row in self._rows.items()])
        frame["loss"] = frame["loss"].where(np.isfinite(frame["loss"]))
        try:
            phase: Phase = "pretrain" if self.start is None else "adapt"
            curves = log_curves(
                Runs(frame.assign(**self.settings), "the run"), schedule, self.start, phase=phase, memory=self.memory,
                power=self.power,
            )  # fmt: skip
            self.watched = self.follower.update(curves)
        except BayeslawError as error:
            warnings.warn(f"No forecast of the running run: {error}", RuntimeWarning, stacklevel=2)
            return {}
        if self.diverged:
            problem = f"The loss at step {step:,} is {loss:g}: the forecast is by those before, as if the run had not diverged"
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        return self._numbers(self.watched)

    @property
    def diverged(self) -> bool:
        """Whether the last loss is not finite."""
        losses = [row["loss"] for _, row in sorted(self._rows.items()) if "loss" in row]
        return bool(losses) and not math.isfinite(losses[-1])

    def _numbers(self, watched: Watch) -> dict[str, float]:
        low, high = interval_names("eti", self.ci_prob)
        numbers: dict[str, float] = {}
        for name, draws in (("final", watched.final), ("gain", watched.gain)):
            numbers |= dict(zip((name, f"{name}_{low}", f"{name}_{high}"), map(float, quantiles(draws, self.ci_prob)), strict=True))
        if watched.target is not None:
            numbers["reached"] = float(watched.reached[-1])
        numbers |= {"left_band": float(watched.left is not None), "reliable": float(watched.reliable)}
        numbers["diverged"] = float(self.diverged)
        return {BEFORE + name: value for name, value in numbers.items()}

    @property
    def stop(self) -> str:
        """Why the training should end, as far as the caller asked for it; empty if it should go on."""
        watched = self.watched
        if watched is None or watched.target is None or not watched.reliable:
            return ""
        now, end = float(watched.reached[0]), float(watched.reached[-1])
        if self.stop_reached is not None and now >= self.stop_reached:
            return f"the loss is at the target {watched.target:g} with probability {now:.0%}"
        if self.stop_hopeless is not None and end <= self.stop_hopeless:
            return f"the target {watched.target:g} is reached by the end with probability {end:.1%} only"
        return ""


def trainer_callback(forecasts: RunForecasts, loss: str = "eval_loss") -> Any:
    """Return a callback for Hugging Face's Trainer, which adds forecasts to every log of a validation loss.

    Parameters
    ----------
    forecasts : RunForecasts
    loss : str
        The name under which the Trainer logs the loss; of one of several data sets it is eval_NAME_loss.

    Returns
    -------
    transformers.TrainerCallback
        Give it to the Trainer's `callbacks`: the numbers join `state.log_history`. Call its method `first_in(trainer)` for the
        reporters (TensorBoard, Weights & Biases) to have them too, since they come before other callbacks.

    Raises
    ------
    BayeslawError
        If transformers is not installed ('not-installed').

    Examples
    --------
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> forecasts = bayeslaw.dynamics.RunForecasts(bayeslaw.load_fit("annealing.nc"), schedule)
    >>> try:
    ...     callbacks = [bayeslaw.dynamics.trainer_callback(forecasts)]
    ... except bayeslaw.BayeslawError:  # the package is not installed
    ...     callbacks = []
    """
    base = _installed("transformers", "trainer").TrainerCallback
    expected, others = _ExpectedLoss(loss), set[str]()

    class Forecasting(base):  # type: ignore[misc, valid-type]
        def first_in(self, trainer: Any) -> None:
            """Move the callback before all others of a trainer."""
            callbacks = trainer.callback_handler.callbacks
            callbacks[:] = [self, *(other for other in callbacks if other is not self)]

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> Any:
            logs = {} if logs is None else logs
            if "learning_rate" in logs:
                forecasts.rate(state.global_step, float(logs["learning_rate"]))
            losses = [name for name in logs if name.startswith("eval") and name.endswith("loss")]
            if loss in logs:
                expected.missing = False
                numbers = forecasts.add(state.global_step, float(logs[loss]))
                logs.update(numbers)
                state.log_history[-1].update(numbers)
                if forecasts.stop:
                    control.should_training_stop = True
            elif others & {*losses}:  # one of the second evaluation: of several data sets each has logs of its own
                expected.warn([*others])
            others.update(losses)
            return control

    return Forecasting()


def lightning_callback(forecasts: RunForecasts, loss: str = "val_loss") -> Any:
    """Return a callback for PyTorch Lightning, which logs forecasts after every validation.

    Parameters
    ----------
    forecasts : RunForecasts
    loss : str
        The name under which the module logs its validation loss, in `validation_step`: what the module's own
        `on_validation_epoch_end` logs, a callback sees only at the next validation.

    Returns
    -------
    lightning.pytorch.Callback

    Raises
    ------
    BayeslawError
        If lightning is not installed ('not-installed').

    Examples
    --------
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> forecasts = bayeslaw.dynamics.RunForecasts(bayeslaw.load_fit("annealing.nc"), schedule)
    >>> try:
    ...     callbacks = [bayeslaw.dynamics.lightning_callback(forecasts)]
    ... except bayeslaw.BayeslawError:  # the package is not installed
    ...     callbacks = []
    """
    base = _installed("lightning.pytorch", "lightning").Callback
    expected = _ExpectedLoss(loss)

    class Forecasting(base):  # type: ignore[misc, valid-type]
        def on_validation_epoch_end(self, trainer: Any, module: Any) -> None:
            if trainer.sanity_checking or trainer.global_step == 0:
                return
            if loss not in trainer.callback_metrics:
                late = "what the module's own on_validation_epoch_end logs comes after the callback: log it in validation_step"
                expected.warn([*trainer.callback_metrics], late)
                return
            expected.missing = False
            rates = [group["lr"] for optimizer in trainer.optimizers for group in optimizer.param_groups]
            if rates:
                forecasts.rate(trainer.global_step, float(rates[0]))
            numbers = forecasts.add(trainer.global_step, float(trainer.callback_metrics[loss]))
            module.log_dict(numbers)
            if forecasts.stop:
                trainer.should_stop = True

    return Forecasting()


class _ExpectedLoss:
    """Warns once of a training that logs no loss under the expected name, of which nothing would be forecast."""

    def __init__(self, loss: str) -> None:
        self.loss, self.missing = loss, True

    def warn(self, names: Sequence[str], why: str = "") -> None:
        if self.missing:
            known = sorted(map(str, names))
            example = next((name for name in known if "loss" in name), "val_loss")
            message = (
                f"No forecast of the running run: it logs no {self.loss!r}; the names logged are {', '.join(known) or 'none'}. "
                f"Give the loss's name, such as loss={example!r}{'; ' * bool(why)}{why}."
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        self.missing = False


def _installed(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        message = f"The callback needs the package {package}: install bayeslaw[{extra}], or {package}."
        raise BayeslawError(message, code="not-installed") from None
