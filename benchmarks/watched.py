"""Runs that are watched in benchmarks/watching.py: by fits to other runs of the same training, with losses that end a log in turn.

A `Training` is a model on a data set. The memory of its annealing areas is chosen by forecasts of left-out runs among those that
a fit sees: a run that is then watched has no part in them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from tables import ROOT, SHARED

import bayeslaw
from bayeslaw.data.curves import read_curves
from bayeslaw.data.table import Runs
from bayeslaw.dynamics import monitor
from bayeslaw.dynamics.follow import Follower
from bayeslaw.dynamics.memory import MEMORIES, left_out_squares
from bayeslaw.forecasting.forecast import forecast_selections
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import Schedule, logged

SEEN = ("cosine_24000", "constant_24000", "wsdcon_9")
WARMUP, BEGIN, BEGIN_TRAINER, EVERY = 2_160, 400, 100, 25


@dataclass(frozen=True)
class Case:
    """A run that is watched by a fit to others, and the table that its losses are in."""

    fit: Fit
    table: pd.DataFrame
    run: str
    schedule: Schedule
    column: str = "loss"
    domain: str | None = None
    reading: dict[str, Any] = field(default_factory=dict)

    @property
    def losses(self) -> pd.DataFrame:
        """The run's rows with losses."""
        return self.table[(self.table["run"] == self.run) & self.table[self.column].notna()]

    def asked(self, most: int) -> list[int]:
        """Steps from a third of the run on at which it is asked: each logged one, or evenly spaced ones."""
        steps = self.losses["step"].to_numpy(np.int64)
        steps = steps[(steps >= len(self.schedule) / 3) & (steps < len(self.schedule))]
        return [int(s) for s in steps[np.unique(np.linspace(0, steps.size - 1, min(steps.size, most)).round().astype(int))]]

    def until(self, step: int) -> bayeslaw.data.Curves:
        """The curves as they were at a step of the run."""
        return read_curves(self.table[(self.table["run"] != self.run) | (self.table["step"] <= step)], **self.reading)


@dataclass(frozen=True)
class Training:
    """Cases of one training; trainings of the same `group` are not learnt from for one another."""

    name: str
    group: str
    cases: Callable[[], Iterator[Case]]


def best(squares: pd.DataFrame) -> float:
    """The memory whose left-out runs are forecast best, of squares with a column for each run."""
    errors = squares.mean(axis=1)
    return float(errors.index[int(errors.to_numpy().argmin())])


def by_memory(source: pd.DataFrame, law: str, domain: str | None = None, where: str | None = None, **reading: Any) -> pd.DataFrame:
    """Squares of errors of left-out runs: a row for each memory, a column for each run."""
    law_ = bayeslaw.load_law(law)
    rows = {m: left_out_squares(read_curves(source, memory=m, **reading).runs(domain).where(where).frame, law_) for m in MEMORIES}
    return pd.DataFrame(rows).T


def schedules() -> Iterator[Case]:
    """The six unseen curves of the 100M model, by a fit to the three."""
    table = pd.read_csv(SHARED / "lr_schedules_100m.csv").rename(columns={"schedule": "run"})
    seen = table[table["run"].isin(SEEN)]
    reading: dict[str, Any] = {"warmup": WARMUP, "memory": best(by_memory(seen, "annealing", warmup=WARMUP))}
    fit = bayeslaw.fit("annealing", read_curves(seen, **reading).runs(), noise="normal-drift", progress=False)
    for run in [r for r in table["run"].unique() if r not in SEEN]:
        own = table[table["run"] == run]
        schedule = logged(own["step"].to_numpy(np.int64), own["lr"], warmup=WARMUP, name=run)
        yield Case(fit, own, run, schedule, reading=reading)


def tinycpt(domain: str) -> Iterator[Case]:
    """Every adaptation without replay, by fits to all other runs."""
    table = pd.read_csv(ROOT / "data" / "tinycpt" / "curves.csv")
    table = table[(table["phase"] == "pretrain") | (table["r"] == 0)]
    where = f"S1 > 0 and (phase == 'adapt' or step >= {BEGIN})"
    runs = list(table.loc[table["phase"] == "adapt", "run"].unique())
    others = [table[table["run"] != run] for run in runs]
    with ProcessPoolExecutor(2) as pool:
        squares = list(pool.map(partial(by_memory, law="cpt-dynamics", domain=domain, where=where), others))
    for run, errors in zip(runs, squares, strict=True):
        reading: dict[str, Any] = {"memory": best(errors)}
        curves = read_curves(table, **reading)
        frame = curves.runs(domain).where(where).frame
        fit = bayeslaw.fit("cpt-dynamics", frame[frame["run"] != run], noise="normal-drift", progress=False)
        yield Case(fit, table, run, curves.schedule(run), f"{domain}_loss", domain, reading)


def trainer(name: str) -> Iterator[Case]:
    """The longer runs of a tiny model (`watching_trainer.py`), by a fit to the short ones."""
    table = pd.read_csv(ROOT / "data" / "trainer" / "curves.csv").query(f"training == '{name}'").drop(columns="training")
    seen = table[table["schedule"].str.contains("steps=700")]
    where = f"step >= {BEGIN_TRAINER}"
    reading: dict[str, Any] = {"warmup": EVERY, "memory": best(by_memory(seen, "annealing", where=where, warmup=EVERY))}
    rows = read_curves(seen, **reading).runs().where(where)
    fit = bayeslaw.fit("annealing", rows, noise="normal-drift", progress=False)
    for run in [r for r in table["run"].unique() if r not in set(seen["run"])]:
        own = table[table["run"] == run]
        yield Case(fit, own, run, bayeslaw.data.parse_schedule(own["schedule"].iloc[0]), reading=reading)


def state(case: Case, step: int) -> dict[str, float]:
    """A forecast of the final log loss as if the law erred by nothing: its error and spread, and the changes that are forecast."""
    curves, last = case.until(step), len(case.schedule)
    watched = monitor.watch(case.fit, curves, case.run, case.schedule, domain=case.domain, force=True, check=False)
    final, ends = np.log(watched.final), np.array([watched.step, last])
    low, middle, high = np.quantile(final, [0.05, 0.5, 0.95])
    changes = []
    for schedule in (case.schedule, monitor.kept(case.schedule, watched.step)):
        ahead = Runs(monitor.settings_ahead(case.fit, curves, case.run, schedule, ends), case.run)
        expected = forecast_selections(case.fit.name, [(case.fit, monitor.some_draws(case.fit))], ahead, seed=0, learned=True)
        changes.append(float(np.median(np.diff(np.log(expected.expected(slice(None)).T), axis=1))))
    error = float(np.log(case.losses[case.column].iloc[-1]) - middle)
    return {"error": error, "sd": float(high - low) / 3.29, "rate": changes[0] - changes[1], "course": changes[1]}


def replay(case: Case, most: int, *, refit: bool) -> dict[str, Any]:
    """Replay a run's log, and return the scores of the forecasts of its final loss."""
    final = float(case.losses[case.column].iloc[-1])
    follower = Follower(case.fit, case.run, case.schedule, domain=case.domain, refit="wait" if refit else "never", force=True)
    inside, reliable, left = list[bool](), list[bool](), None
    widths, errors, times = list[float](), list[float](), list[float]()
    for step in case.asked(most):
        curves = case.until(step)
        refits, start = follower.refits, time.perf_counter()
        watched = follower.update(curves)
        if follower.refits == refits and inside:  # the first has the checks too
            times.append(time.perf_counter() - start)
        low, high = np.quantile(watched.final, [0.05, 0.95])
        inside.append(bool(low <= final <= high))
        widths.append(high - low)
        errors.append(abs(float(np.median(watched.final)) - final))
        reliable.append(watched.reliable)
        left = watched.left
    row = {
        "run": case.run, "asked": len(inside), "inside": np.mean(inside), "error": np.mean(errors), "width": np.mean(widths),
        "reliable": np.mean(reliable), "refits": follower.refits, "left": left or "", "median s": np.median(times),
        "max s": np.max(times),
    }  # fmt: skip
    print(row, file=sys.stderr, flush=True)
    return row


def trainings() -> Sequence[Training]:
    """Every training."""
    return (
        Training("100M", "100M", schedules),
        Training("tinycpt, target", "tinycpt", lambda: tinycpt("target")),
        Training("tinycpt, source", "tinycpt", lambda: tinycpt("source")),
        Training("trainer, code", "code", lambda: trainer("code")),
        Training("trainer, prose", "prose", lambda: trainer("prose")),
    )
