"""Successive forecasts of a run whose log grows (`monitor`), with what has to be kept from one to the next.

Intervals stay as they were stated when a loss came. Where the run's losses change the fit too much for its draws to be weighted,
the law is fitted again to the fit's rows and the run's so far, in a process of its own while updates go on.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Literal, get_args

import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.executors import Result
from bayeslaw.data.curves import Curves
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.monitor import Discrepancy, Watch, check_arguments, rows_for, watch
from bayeslaw.inference.batch import fit_many
from bayeslaw.inference.refit import join_runs, refit_task
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import Schedule

Refit = Literal["background", "wait", "never"]
GROWN = 1.1  # by which a run's losses must have become more for another refit, which would tell little otherwise
EVERY = 60.0  # seconds from the end of one refit to the next, at least


class Follower:
    """Successive forecasts of one run.

    Parameters
    ----------
    fit, run, schedule, domain, target, discrepancy, seed, force
        As for `watch`.
    refit : {'background', 'wait', 'never'}
        Whether the law is fitted again where draws can't be weighted: in another process, while the updates go on with the old fit;
        before the update returns; or not at all.
    every : float
        Seconds between refits, at least.

    Attributes
    ----------
    refits : int
        How many fits have been made.

    Examples
    --------
    >>> curves = bayeslaw.data.read_curves("running.csv", warmup=100)
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> follower = bayeslaw.dynamics.Follower(bayeslaw.load_fit("annealing.nc"), "now", schedule, refit="never")
    >>> follower.update(curves).step
    2000
    """

    def __init__(
        self,
        fit: Fit,
        run: str,
        schedule: Schedule,
        *,
        domain: str | None = None,
        target: float | None = None,
        discrepancy: Discrepancy = "learned",
        refit: Refit = "background",
        every: float = EVERY,
        seed: int = 0,
        force: bool = False,
    ) -> None:
        if refit not in get_args(Refit):
            raise BayeslawError(f"refit is {refit!r}; it must be {', '.join(get_args(Refit))}.", code="unknown-option")
        check_arguments(fit, schedule, seed, discrepancy, target)  # before a log is waited for
        self.fit, self.run, self.schedule, self.domain, self.target = fit, run, schedule, domain, target
        self.discrepancy, self.refit, self.every, self.seed, self.force = discrepancy, refit, every, seed, force
        self.refits = 0
        self._failed: bool | None = None  # of the checks, which are made once
        self._begin()

    def __repr__(self) -> str:
        at = f"step {self._step:,} of {len(self.schedule):,} of {self.run!r}" if self._step >= 0 else self.waiting
        return f"<Follower: {at}, by {self.fit.name}>"

    @property
    def waiting(self) -> str:
        """What is followed before its first loss, in words."""
        return f"no loss yet of {self.run!r}, whose schedule has {len(self.schedule):,} steps"

    def _begin(self) -> None:
        self._current, self._step, self._ended, self._refitted = self.fit, -1, 0.0, 0
        self._stated: dict[int, tuple[float, float]] = {}
        self._task: _Background | None = None
        self._problem = ""

    def update(self, curves: Curves) -> Watch:
        """Return the forecast by curves in which the run's log has grown.

        A log that ends at an earlier step than before, or has other losses at steps that it had before, was replaced, or its run
        was resumed at an earlier step: everything starts anew.
        """
        notes, logged = list[str](), curves.logged(self.run, self.domain)
        step, losses = int(logged["step"].max()), {*zip(logged["step"], logged["loss"], strict=True)}
        changed = [at for at, (loss, _) in sorted(self._stated.items()) if (at, loss) not in losses]
        if changed or step < self._step:
            what = f"ends at step {step:,} and has been at step {self._step:,}"
            if step >= self._step:
                what = f"no longer has the loss that it had at step {changed[0]:,}"
            notes.append(
                f"the log {what}: it was replaced, or the run was resumed from an earlier step; everything before counts as "
                "not seen"
            )
            self._begin()
        self._step = step
        self._adopt()
        watched = self._watch(curves)
        self._keep(watched)
        if not watched.reliable and self._may_refit(curves):
            self._task = _Background(self.fit, rows_for(self.fit, curves, self.run, self.schedule, self.domain))
            if self.refit == "wait":
                self._task.thread.join()
                self._adopt()
                watched = self._watch(curves)
        stated = pd.DataFrame([(s, *v) for s, v in sorted(self._stated.items())], columns=["step", "loss", "pit"])
        if self._task is not None:
            notes.append("the law is being fitted again, with this run among the runs")
        if self._problem:
            notes.append(self._problem)
        return replace(watched, stated=stated, notes=(*watched.notes, *notes))

    def _watch(self, curves: Curves) -> Watch:
        watched = watch(
            self._current, curves, self.run, self.schedule, domain=self.domain, target=self.target, seed=self.seed,
            discrepancy=self.discrepancy, force=self.force, check=self._failed is None,
        )  # fmt: skip
        self._failed = watched.failed if self._failed is None else self._failed
        return replace(watched, failed=self._failed)

    def _keep(self, watched: Watch) -> None:
        """Keep what was stated of each loss before it came, the first time that it is known.

        Of a log with many losses others may be used now among those that were known before: they were not judged, and stay so.
        """
        last = max(self._stated, default=-1)
        for step, loss, pit in watched.stated.itertuples(index=False):
            if step > last:
                self._stated[int(step)] = (float(loss), float(pit))

    def _may_refit(self, curves: Curves) -> bool:
        """Whether a refit is allowed now: none is going on or has failed, and the run has grown since the last."""
        rows = len(curves.logged(self.run, self.domain))
        if self.refit == "never" or self._task is not None or self._problem or rows < GROWN * self._refitted:
            return False
        if self.refit == "background" and self.refits and time.monotonic() - self._ended < self.every:
            return False
        self._refitted = rows
        return True

    def _adopt(self) -> None:
        """Go on with the fit that has been made again, if it has and passed its checks."""
        if self._task is None or self._task.result is None:
            return
        result, self._task, self._ended = self._task.result, None, time.monotonic()
        self.refits += 1
        if result.value is not None and (result.value.passed or self.force):
            self._current = result.value
        else:
            why = result.error or "checks of its sampling failed"
            self._problem = f"the law could not be fitted again ({why}): the intervals are those of the fit that was given"


class _Background:
    """A fit that is being made: to the rows of a fit, and those of a run so far."""

    def __init__(self, fit: Fit, rows: Runs) -> None:
        self.result: Result[Fit] | None = None
        self.thread = threading.Thread(target=self._work, args=(fit, rows), daemon=True)
        self.thread.start()

    def _work(self, fit: Fit, rows: Runs) -> None:
        try:
            task = refit_task(fit, join_runs(fit, rows))
            result = fit_many([task], executor="processes:1", progress=False)[0]
        except Exception as error:  # a thread has nobody to raise it to
            result = Result.failed(0, "fit", str(error))
        self.result = result
