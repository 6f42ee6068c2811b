"""A fit made again: its rows as a table, joined by others, with the settings it was made with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, FitError, TableError
from bayeslaw.core.units import NATS, agree
from bayeslaw.data.observations import STEP, Nesting, clock_of, run_codes
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import base_rows, check, mixed_domains
from bayeslaw.inference.batch import Task
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.pooling import level
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.fit import Fit

SAME = 1e-9  # relative difference of equal numbers that were written as text in between

VARY = "fit all of them anew with parameters that vary by it (bayeslaw fit --by E=domain)"
LEAST_DRAWS = 400  # from which tail probabilities and covariances are worked out


def require_single_fit(fit: object, what: str) -> Fit:
    """Refuse what is not a single fit, such as a stack."""
    if not isinstance(fit, Fit):
        raise FitError(
            f"{what} takes the fit of one law, not a {type(fit).__name__.lower()}: give a fit written by `bayeslaw fit`, and "
            "weigh the laws again by `bayeslaw compare` with all runs."
        )
    return fit


def require_draws(fit: Fit, what: str) -> None:
    """Refuse draws that are too few, or not all finite, for what is worked out from them."""
    draws = fit.draws
    if (size := next(iter(draws.values())).size) < LEAST_DRAWS:
        raise FitError(f"{what} needs at least {LEAST_DRAWS} posterior draws and the fit has {size}: fit with more --draws.")
    for name, values in draws.items():
        if bad := int((~np.isfinite(values)).sum()):
            raise FitError(f"{what} needs finite draws, and {bad} of {size} draws of {name} are not.")


def refit_task(fit: Fit, runs: Runs, seed: int | None = None) -> Task:
    """The same fit to another table: law, priors, noise, what varies and the sampler's settings are the fit's.

    Parameters
    ----------
    fit : Fit
    runs : Runs
    seed : int, optional
        The fit's unless given.
    """
    law = parse_card(fit.info["card"])
    law = law.with_priors({name: Prior.from_card(fit.info["priors"][name]) for name in law.parameters})
    if fit.observed.clock_column == "D":  # whatever new rows have besides
        runs = replace(runs, frame=runs.frame.drop(columns=STEP, errors="ignore"))
    same = {"noise": fit.noise.choice(fit.observed), "noise_by": fit.info["noise_by"], "by": dict(fit.info["by"])}
    return Task(law, runs, same | dict(fit.info["settings"]) | {"seed": int(fit.info["seed"]) if seed is None else seed})


def rows_of(fit: Fit) -> Runs:
    """The rows that a fit was made from, as a table that gives the same observations; base checkpoints after the others.

    Every row has its run and its checkpoint by name, as the fit took them; columns that it has no use for are gone.
    """
    seen = fit.observed
    columns: dict[str, Any] = {name: seen.covariates[name] for name in fit.law.measured}
    columns |= {name: _labels(fit, name) for name in fit.law.levels}
    columns["loss"] = seen.loss
    if seen.unit != NATS:
        columns["unit"] = np.full(seen.loss.size, seen.unit, dtype=object)
    if seen.clock_column:
        columns[seen.clock_column] = seen.clock
    if seen.se.size:
        columns["loss_se"] = seen.se * seen.loss
    columns["run"] = np.array(seen.run_names, dtype=object)[seen.run]
    columns["checkpoint"] = np.array(seen.checkpoint_names, dtype=object)[seen.checkpoint[seen.run]]
    if seen.group_names and seen.group_column not in columns:
        columns[seen.group_column] = np.array(seen.group_names, dtype=object)[seen.group[seen.run]]
    frame = pd.DataFrame(columns, index=pd.Index(seen.rows, name="row")).sort_index()
    if len(seen.base):
        first = int(frame.index.max()) + 1
        frame = pd.concat([frame, seen.base.set_axis(pd.RangeIndex(first, first + len(seen.base), name="row"))])
    return Runs(frame, str(fit.info["data"]), tuple(fit.info["conversions"]))


def _labels(fit: Fit, column: str) -> NDArray[Any]:
    """The values of a column by which parameters vary."""
    seen, levels = fit.observed, fit.law.levels[column]
    if column == seen.group_column:  # whose groups are called '15.0' where the levels are called '15'
        names = [name if name in levels else float(name) for name in seen.group_names]
        return np.array(names, dtype=object)[seen.group[seen.run]]
    of = {value: name for name, (c, value) in fit.law.indicators.items() if c == column}
    code = np.argmax([seen.covariates[of[value]] for value in levels], axis=0)
    return np.array(levels, dtype=object)[code]


def join_runs(fit: Fit, new: Runs) -> Runs:
    """The rows of a fit and new ones in one table.

    Rows of a run that the fit knows join that run. Where the fit knows no errors of its losses and the new rows have some, its own
    count as 0.

    Raises
    ------
    TableError, BayeslawError
        With the rows of the new table that can't join: faults of theirs, rows that are in the fit already, and runs that
        are called like one of the fit's but have another N, checkpoint or group of noise.
    """
    agree(fit.observed.unit, new.frame, new.name)
    if "loss_se" not in new.frame and fit.observed.se.size:
        raise BayeslawError(
            f"{new.name} has no column loss_se, and the fit knows the errors of its losses: give the new rows', 0 where nil."
        )
    told = [_told_by(fit), _told_by_columns(fit, new.frame)]
    if fit.noise.checkpoint_effect and told[0] != told[1]:
        raise BayeslawError(
            f"Runs of one checkpoint share its luck; the fit tells checkpoints by {told[0]} and {new.name} by {told[1]}: "
            f"give the new rows the column{'s' * (told[0] != 'checkpoint')} {told[0]} as the fit has them."
        )
    old, faults = rows_of(fit), check(new, fit.law, to_fit=False)
    if "loss" not in new.frame:
        faults.append(Fault(None, "loss", "", "column loss is missing", "give the losses that came back"))
    if faults:
        raise TableError(faults, new.name)
    logged = new.frame[~base_rows(new.frame, fit.law)]
    Nesting.of(logged, fit.law, fit.info["noise_by"])  # names rows as the new table has them
    fit.observed.groups_of(logged)
    if fit.observed.clock_column:
        clock_of(logged, fit.observed.clock_column)
    both = _side_by_side(fit, old, new)
    shift = int(old.frame.index.max())
    if faults := [replace(f, row=f.row - shift) for f in check(both, fit.law) if f.row is not None and f.row > shift]:
        raise TableError(faults, new.name)
    if faults := [*_clashes(fit, old.frame, new.frame), *_twice(fit, old.frame, new.frame)]:
        raise TableError(sorted(faults, key=lambda f: f.row or 0), new.name)
    if mixed := mixed_domains(both.frame, fit.law, VARY):
        raise BayeslawError(f"{new.name}: with the fit's rows, {mixed}.")
    return both


def _side_by_side(fit: Fit, old: Runs, new: Runs) -> Runs:
    """Both tables, rows of the new one numbered from the last of the old one on."""
    frame = new.frame.set_axis(pd.Index(new.frame.index + int(old.frame.index.max()), name="row"))
    base = base_rows(frame, fit.law)
    code, names = run_codes(frame)
    nested = Nesting.of(frame[~base], fit.law)
    checkpoint = pd.Series(np.array(nested.checkpoint_names, dtype=object)[nested.checkpoint], index=frame.index[~base])
    if "checkpoint" in frame:
        empty = frame.loc[~base, "checkpoint"].isna()
        own = pd.Series([f"of run {name}" for name in np.array(names, dtype=object)[code]], index=frame.index)
        checkpoint = checkpoint.mask(empty, own[~base])
    of = dict(zip(fit.observed.run_names, np.array(fit.observed.checkpoint_names)[fit.observed.checkpoint], strict=True))
    run = pd.Series(np.array(names, dtype=object)[code], index=frame.index)
    checkpoint = run[~base].map(of).astype(object).fillna(checkpoint)  # a run that goes on has the checkpoint that it had
    frame = frame.assign(run=run, checkpoint=checkpoint.reindex(frame.index))  # base checkpoints have no place in the fit
    return stack_runs(old, replace(new, frame=frame))


def stack_runs(old: Runs, new: Runs) -> Runs:
    """Rows of a fit and others in its unit, with numbers and with runs and checkpoints of their own, in one table."""
    frame = pd.concat([old.frame, new.frame])
    if "unit" in frame:  # one of the two may do without the column, and has losses in the same unit
        frame["unit"] = old.unit
    if "loss_se" in new.frame and "loss_se" not in old.frame:
        frame["loss_se"] = frame["loss_se"].mask(frame.index.isin(old.frame.index), 0.0)
    return Runs(frame, f"{old.name} and {new.name}", (*old.conversions, *new.conversions))


def _clashes(fit: Fit, old: pd.DataFrame, new: pd.DataFrame) -> list[Fault]:
    """New rows whose run is called like one of the fit's and can't be it."""
    faults, first = [], old.groupby("run", sort=False).first()
    group = fit.info["noise_by"]
    same = [
        c
        for c in ("N", *(["checkpoint"] if _told_by(fit) == "checkpoint" else []), *([group] if group else []))
        if c in first and c in new
    ]
    for column in same if "run" in new else []:
        known = new["run"].map(first[column])
        for row in new.index[known.notna() & new[column].notna()]:
            here, there = new.at[row, column], known[row]
            if here != there and str(here) != str(there):
                shown = [f"{v:g}" if isinstance(v, (int, float)) else repr(v) for v in (there, here)]
                problem = f"run {new.at[row, 'run']!r} has {column} {shown[0]} in the fit and {shown[1]} here"
                faults.append(Fault(int(row), column, str(here), problem, "give a run that differs an id of its own"))
    return faults


def _told_by(fit: Fit) -> str:
    """By which columns a fit tells checkpoints; 'run' where each run has its own."""
    seen = fit.observed
    names = np.array(seen.checkpoint_names)[seen.checkpoint]
    if {"N", "ptpp"} <= set(fit.law.covariates):
        stages = zip(*(seen.covariates[c][seen.starts[:-1]] for c in ("N", "ptpp")), names, strict=True)
        rest = {name.removeprefix(f"N {n:g}, ptpp {ptpp:g}").split(" ")[0] for n, ptpp, name in stages}
        return {"": "N, ptpp", ",": "N, ptpp, seed"}.get("".join(rest), "checkpoint")
    return "run" if seen.checkpoint_names == seen.run_names else "checkpoint"


def _told_by_columns(fit: Fit, frame: pd.DataFrame) -> str:
    if "checkpoint" in frame:
        return "checkpoint"
    if {"N", "ptpp"} <= set(fit.law.covariates):
        return "N, ptpp, seed" if "seed" in frame else "N, ptpp"
    return "run"


def _twice(fit: Fit, old: pd.DataFrame, new: pd.DataFrame) -> list[Fault]:
    """New rows that the fit has: the same setting of the same run, or without a run the same setting and loss."""
    settings = [c for c in dict.fromkeys((*fit.law.measured, *filter(None, [fit.observed.clock_column]))) if c in new]
    alone = old["run"] == [f"row {i}" for i in old.index]
    of_run = dict(list(old.groupby("run", sort=False)))
    runs = new["run"].tolist() if "run" in new else [None] * len(new)
    faults = []
    for row, run in zip(new.index.tolist(), runs, strict=True):
        named = isinstance(run, str)
        rows = of_run.get(run, old[:0]) if named else old[alone | old["run"].isna()]
        base = {*fit.law.onset} <= {*new} and all(new.at[row, name] == 0 for name in fit.law.onset)
        idle = fit.law.idle_at_base if base else ()
        columns = [c for c in settings if c not in idle] + ([] if named else ["loss"])
        for column in fit.law.levels:
            rows = rows[rows[column].map(level) == level(new.at[row, column])]
        there, here = rows[columns].to_numpy(np.float64), new.loc[row, columns].to_numpy(np.float64)
        if np.isclose(there, here, rtol=SAME, atol=0, equal_nan=True).all(axis=1).any():
            whose = f"run {run!r}" if named else "a row without a run"
            at = ", ".join(f"{c} = {value:g}" for c, value in zip(columns, here.tolist(), strict=True))
            suggestion = "remove the row, or give a run made again an id of its own"
            faults.append(Fault(int(row), "run", str(run) if named else "", f"the fit has {whose} with {at} already", suggestion))
    return faults
