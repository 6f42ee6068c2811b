"""The command watch, which follows the log of a running run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.cli.recipes import rate_files, recipe_of
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd

    from bayeslaw.data.curves import Curves
    from bayeslaw.data.logs.growing import GrowingLog
    from bayeslaw.dynamics.follow import Follower, Refit
    from bayeslaw.dynamics.monitor import Watch
    from bayeslaw.schedules.areas import Phase, Point
    from bayeslaw.schedules.schedule import Schedule

LEAST_WAIT = 0.05  # seconds between two looks at the log, at least


def watch(
    log: Annotated[
        Path, Argument(help="The log of the run, a file or folder that `bayeslaw import` reads. It need not exist yet.")
    ],
    fit: Annotated[
        Path,
        Option(help="A fit of a law of training dynamics to other runs, which may include this one; best with noise normal-drift."),
    ],
    schedule: Annotated[str, Option(help=f"Learning rates of the run's whole phase, past and planned: {options.SCHEDULES}.")],
    target: Annotated[float | None, Option(help="The loss to be reached, in the unit of the fit.")] = None,
    once: Annotated[bool, Option("--once", help="Forecast once from the log as it is now, without following it.")] = False,
    every: Annotated[float, Option(help="Seconds between two looks at the log.")] = 1.0,
    run: Annotated[str | None, Option("--run", help="The run, if the log has several.")] = None,
    domain: Annotated[str | None, Option(help="The domain of the fit's losses, if the log has several.")] = None,
    kind: Annotated[
        str | None,
        Option(help=f"Kind of the log: {options.LOG_KINDS}; by default it is recognised."),
    ] = None,
    column: options.Columns = None,
    loss: Annotated[str | None, Option(help="The column of losses; by default found by its name.")] = None,
    set_: Annotated[
        list[str] | None, Option("--set", help="A covariate of the run that the law needs, such as N=410e6 or r=0.25. Repeatable.")
    ] = None,
    *,
    begin: options.Beginning,
    refit: Annotated[
        bool | None,
        Option(
            "--refit/--no-refit",
            help="Fit the law again, in another process, if the run's losses change the fit too much for weighting its draws. "
            "The default without --once.",
        ),
    ] = None,
    discrepancy: Annotated[
        Literal["learned", "none"], Option(help="Whether to include the errors that laws have had on other trainings.")
    ] = "learned",
    output: options.TableFile = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Follow the log of a running run: forecast its final loss, whether it reaches a target, and what going on would gain.

    The command ends with the schedule, or with Ctrl-C. For an adaptation, say where it starts: --curves FILE --from RUN[@STEP],
    --pretrain SCHEDULE or --open.
    """
    from bayeslaw.core.intervals import check_probability
    from bayeslaw.data.logs.growing import GrowingLog
    from bayeslaw.data.logs.mapping import constants
    from bayeslaw.data.schedule_text import assumptions
    from bayeslaw.dynamics.memory import memory_of, require_batch
    from bayeslaw.dynamics.monitor import check_arguments
    from bayeslaw.posterior.fit import require_single_fit

    options.check_outputs("A forecast", output, plot, [fit, log, begin.curves, *rate_files(schedule, begin.pretrain)])
    check_probability(ci)
    if not LEAST_WAIT <= every < float("inf"):
        raise BayeslawError(f"--every {every:g}: give seconds, at least {LEAST_WAIT:g}.", code="out-of-range")
    rates = bayeslaw.data.parse_schedule(schedule)
    posterior = require_single_fit(bayeslaw.load_fit(fit), "A run under way")
    check_arguments(posterior, rates, seed, discrepancy, target)
    memory = memory_of([posterior], begin.memory)
    require_batch([posterior], 0.0)  # before a log is waited for, of whose steps each counts 1
    if begin.stated:
        recipe, notes = recipe_of([posterior], begin, schedule)
        start: Point | None = recipe.point
    else:
        options.check_used("--curves FILE --from RUN[@STEP]", warmup=begin.warmup)
        notes, start = assumptions(schedule), None
    shared = constants(options.pairs_of("--set", set_, "NAME=VALUE, such as N=410e6"), "--set")
    growing = GrowingLog(log, kind=kind, columns=options.columns_of(column), losses=loss, **shared)
    asked = {"domain": domain, "target": target, "discrepancy": discrepancy, "seed": seed, "force": force}
    following = _Following(
        log=growing, fit=posterior, schedule=rates, start=start, memory=memory, run=run, asked=asked, refit=refit,
        output=output, plot=plot, ci=ci, notes=notes,
    )  # fmt: skip
    if once:
        return following.answer(settled=True)
    return Answer(updates=following.answers(every))


@dataclass
class _Following:
    """A log that is followed, and how its forecasts are shown."""

    log: GrowingLog
    fit: Any
    schedule: Schedule
    start: Point | None  # where an adaptation begins; None for a pre-training
    memory: float
    run: str | None
    asked: dict[str, Any]
    refit: bool | None
    output: Path | None
    plot: Path | None
    ci: float
    notes: list[str]  # to be shown beside the next forecast
    follower: Follower | None = None
    logged: int = 0  # the last step with a loss, which may lie after the schedule
    state: tuple[Any, ...] = ()  # the losses as last read, and whether the run has diverged
    last: Watch | None = None
    problem: str = ""  # the last one that was shown
    shown_notes: set[str] = field(default_factory=set)

    def answers(self, every: float) -> Iterator[Answer]:
        """Yield an answer for each new loss, until the schedule ends."""
        known: tuple[Any, ...] = ()
        while True:
            curves = self.look(settled=False)
            if curves is None:
                if self.log.problem not in ("", self.problem):
                    self.problem = self.log.problem
                    yield Answer([(f"waiting: {self.problem}", False)])
            elif self.logged >= len(self.schedule):
                yield self.end(curves)
                return
            elif self.state != known:
                known = self.state
                yield self.forecast(curves)
            time.sleep(every)

    def answer(self, *, settled: bool) -> Answer:
        """Return the one answer to the log as it is."""
        curves = self.look(settled=settled)
        assert curves is not None  # else an error was raised
        return self.end(curves) if self.logged >= len(self.schedule) else self.forecast(curves, once=True)

    def look(self, *, settled: bool) -> Curves | None:
        """Return the log as curves, if it has changed and can be read."""
        from bayeslaw.core.units import check_unit
        from bayeslaw.data.logs.curves import log_curves
        from bayeslaw.dynamics.memory import power_of

        imported = self.log.read(settled=settled)
        if imported is None:
            return None
        if "step" not in imported.runs.frame:
            message = f"{imported.runs.name} logs no steps, by which schedules count: log or name them (--column step=COLUMN)."
            raise BayeslawError(message, code="no-steps")
        check_unit(self.fit.unit, imported.runs.frame, imported.runs.name)
        self.notes += [note for note in imported.notes if "was resumed" in note and note not in self.shown_notes]
        self.logged = self._last_step(imported.runs.frame)
        losses = imported.runs.frame.dropna(subset="loss")
        self.state = (*losses["step"], *losses["loss"], self.log.diverged)
        try:
            phase: Phase = "pretrain" if self.start is None else "adapt"
            return log_curves(
                imported.runs, self.schedule, self.start, run=self.run, phase=phase, memory=self.memory, power=power_of([self.fit])
            )
        except BayeslawError as error:
            if error.code != "no-loss" or settled:
                raise
            self.log.problem = f"{error}"
            return None

    def forecast(self, curves: Curves, *, once: bool = False) -> Answer:
        """Return the forecast by the log so far."""
        from bayeslaw.dynamics.follow import Follower

        if self.follower is None:
            name = curves.run_names[0]
            asked = bool(self.refit) if once else self.refit is not False
            how: Refit = "never" if not asked else "wait" if once else "background"
            self.follower = Follower(self.fit, name, self.schedule, refit=how, **self.asked)
        watched = self.last = self.follower.update(curves)
        answer, table = Answer(), watched.table(self.ci)
        answer.note(self.notes)
        self.shown_notes, self.notes = {*self.shown_notes, *self.notes}, []
        logged = curves.logged(watched.run, self.asked["domain"])
        answer.save_picture(self.plot, lambda ax: bayeslaw.plots.plot_watch(watched, ax, logged=logged, ci_prob=self.ci))
        if self.log.diverged:
            answer.say("THE RUN HAS DIVERGED: its last losses are not finite. The forecast is by those before, as if it had not")
        answer.say(watched.summary(self.ci))
        answer.results |= self._numbers(watched) | {"table": table}
        if self.output is not None:
            answer.save_table("table", table, self.output, f"{len(table)} rows")
        return answer

    def _numbers(self, watched: Watch) -> dict[str, Any]:
        from bayeslaw.core.intervals import rows

        numbers = rows({"final": watched.final, "loss": watched.loss[:, -1], "gain": watched.gain}, self.ci)
        return {
            "run": watched.run, "step": watched.step, "end": int(watched.steps[-1]), "summary": numbers,
            "reached": None if watched.target is None else float(watched.reached[-1]), "left_band": watched.left,
            "reliable": watched.reliable, "pareto_k": watched.pareto_k, "diverged": self.log.diverged,
            "checks_failed": watched.failed,
        }  # fmt: skip

    def end(self, curves: Curves) -> Answer:
        """Return what the run came to, beside what was last stated of it."""
        from bayeslaw.core.intervals import quantiles
        from bayeslaw.dynamics.monitor import require_one_domain

        name = curves.run_names[0]
        logged = curves.logged(name, self.asked["domain"])
        require_one_domain(logged, name, self.fit.law)
        final, answer = float(logged["loss"].iloc[-1]), Answer()
        answer.note(self.notes)
        at = int(logged["step"].max())
        of = "" if at == len(self.schedule) else f", the last that was logged before it, at step {at:,}"
        answer.say(f"{name} has ended at step {len(self.schedule):,} with a loss of {final:.4f}{of}")
        if (target := self.asked["target"]) is not None:
            answer.say(f"target {target:g} was {'reached' if final <= target else 'not reached'}, by this loss as logged")
        if self.logged > len(self.schedule):
            answer.say(f"the log goes on to step {self.logged:,}: what comes after the end of the schedule is left out")
        answer.results |= {"run": name, "step": len(self.schedule), "ended": True, "loss": final}
        if self.last is not None:
            _, low, high = quantiles(self.last.final, self.ci)
            answer.say(
                f"at step {self.last.step:,}, {low:.4f} to {high:.4f} was stated ({self.ci * 100:g}% equal-tailed, as logged): "
                f"the loss lies {'inside' if low <= final <= high else 'outside'}"
            )
        return answer

    def _last_step(self, frame: pd.DataFrame) -> int:
        """The last step with a loss of the run that is followed."""
        own = frame["loss"].notna()
        for column, name in (("run", self.run), ("domain", self.asked["domain"])):
            if name is not None and column in frame:
                own &= frame[column] == name
        return int(frame.loc[own, "step"].max()) if own.any() and "step" in frame else 0
