"""Refit a law with the settings of a fit: the fit's rows as a table, and new rows joined to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError
from bayeslaw.core.text import exact, settings_text
from bayeslaw.core.units import NATS, UNITS, check_unit
from bayeslaw.data.cells import without_numbers
from bayeslaw.data.curves import ABOUT_AREAS
from bayeslaw.data.observations import ROW_TOLERANCE, STEP, Nesting, clock_of, run_codes
from bayeslaw.data.table import Runs
from bayeslaw.data.tokenizers import check_loss_unit, check_tokenizer
from bayeslaw.data.validate import base_rows, check, mixed_domains, other_domain, repeat_faults, repeats
from bayeslaw.inference.batch import Task
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.outcome import LOSS
from bayeslaw.laws.pooling import stated_spreads
from bayeslaw.posterior.fit import Fit

VARY = "refit all of them with parameters that vary by it (bayeslaw fit --by E=domain, by={'E': 'domain'})"


def refit_task(fit: Fit, runs: Runs, seed: int | None = None) -> Task:
    """The task of fitting another table with the law, priors, noise, pooling and sampler settings of a fit.

    Parameters
    ----------
    fit, runs, seed
        The fit's seed unless given.
    """
    law = parse_card(fit.info["card"])
    law = law.with_priors({name: fit.law.in_formula[name].prior for name in law.parameters})
    if fit.observed.clock_column == "D":  # even where new rows have a column `step`
        runs = replace(runs, frame=runs.frame.drop(columns=STEP, errors="ignore"))
    options = {"noise": fit.noise.choice(fit.observed), "noise_by": fit.info["noise_by"], "by": dict(fit.info["by"])}
    if priors := {**fit.noise.priors, **stated_spreads(fit.law, law)}:
        options["priors"] = priors
    if asked := fit.info.get("discrepancy", {}).get("asked"):
        options["discrepancy"] = asked
    return Task(law, runs, options | dict(fit.info["settings"]) | {"seed": int(fit.info["seed"]) if seed is None else seed})


def rows_of(fit: Fit) -> Runs:
    """The rows of a fit as a table that gives the same observations, base checkpoints last.

    Every row names its run and its checkpoint as the fit took them. Columns that the fit did not use are absent.
    """
    seen = fit.observed
    columns: dict[str, Any] = {name: seen.covariates[name] for name in fit.law.measured}
    columns |= {name: _labels(fit, name) for name in fit.law.levels}
    outcome = fit.law.outcome
    columns[outcome.name] = seen.outcomes
    of_losses = seen.unit if outcome.is_loss else fit.info.get("loss_unit")
    if of_losses in UNITS and (of_losses != NATS or not outcome.is_loss):
        columns["unit"] = np.full(seen.outcomes.size, of_losses, dtype=object)
    if seen.clock_column:
        columns[seen.clock_column] = seen.clock
    if seen.se.size:
        columns[outcome.error] = seen.se / outcome.slope(seen.outcomes)
    columns["run"] = np.array(seen.run_names, dtype=object)[seen.run]
    columns["checkpoint"] = np.array(seen.checkpoint_names, dtype=object)[seen.checkpoint[seen.run]]
    if seen.group_names and seen.group_column not in columns:
        columns[seen.group_column] = np.array(seen.group_names, dtype=object)[seen.group_of_row]
    columns |= {name: np.full(seen.outcomes.size, length) for name, length in fit.token_length.items()}
    columns |= {name: np.full(seen.outcomes.size, fit.info[name]) for name in ABOUT_AREAS if name in fit.info}
    frame = pd.DataFrame(columns, index=pd.Index(seen.rows, name="row")).sort_index()
    if len(seen.base):
        first = int(frame.index.max()) + 1
        frame = pd.concat([frame, seen.base.set_axis(pd.RangeIndex(first, first + len(seen.base), name="row"))])
    return Runs(frame, str(fit.info["data"]), tuple(fit.info["conversions"]), duplicates="keep", sources=fit.sources)


def _labels(fit: Fit, column: str) -> NDArray[Any]:
    """Values of a column by which parameters vary."""
    seen, levels = fit.observed, fit.law.levels[column]
    if column == seen.group_column:  # its groups may be called '15.0' where the levels are called '15'
        names = [name if name in levels else float(name) for name in seen.group_names]
        return np.array(names, dtype=object)[seen.group_of_row]
    return np.array(levels, dtype=object)[fit.law.level_codes(column, seen.covariates)]


def join_runs(fit: Fit, new: Runs) -> Runs:
    """The rows of a fit and new rows in one table.

    New rows of a run of the fit join that run. Where only the new rows have standard errors of losses, those of the fit are 0.
    Refused are faulty rows, rows that are in the fit already, and runs with the name of one of the fit's but another N, checkpoint
    or noise group.
    """
    outcome = fit.law.outcome
    if outcome.is_loss:
        check_unit(fit.observed.unit, new.frame, new.name)
    check_loss_unit(fit.info.get("loss_unit", ""), new.frame, fit.law, new.name)
    check_tokenizer(fit.token_length, new.frame, fit.law, new.name)
    if outcome.error not in new.frame and fit.observed.se.size:
        raise BayeslawError(
            f"{new.name} has no column {outcome.error}, and the fit has standard errors: give those of the new rows, or 0.",
            code="no-loss-errors",
        )
    ours, theirs = _checkpoint_key(fit), _checkpoint_key_of_table(fit, new.frame)
    if fit.noise.checkpoint_effect and ours != theirs:
        raise BayeslawError(
            f"Runs of one checkpoint share an effect. The fit identifies checkpoints by {ours} and {new.name} by {theirs}: "
            f"give the new rows the column{'s' * (ours != 'checkpoint')} {ours} as the fit has them.",
            code="other-checkpoint-columns",
        )
    if new.duplicates == "drop":
        new = replace(new, frame=new.frame.drop(index=repeats(new.frame, fit.law).index))
    old, faults = rows_of(fit), check(new, fit.law, purpose="forecast")
    if new.duplicates == "refuse":
        faults += repeat_faults(new.frame, fit.law)
    if (name := outcome.name) not in new.frame:
        faults.append(Fault(None, name, "", f"column {name} is missing", "give that of the new runs", "missing-column"))
    elif not holds_numbers(new.frame[name]):
        faults += without_numbers(new.frame[name], fit.law.name)
    if faults:
        way = ": fit the old and the new rows in one table, for parameters of its own"
        raise TableError([replace(f, suggestion=f.suggestion + way * (f.code == "unknown-level")) for f in faults], new.name)
    logged = new.frame[~base_rows(new.frame, fit.law)]
    Nesting.of(logged, fit.law, fit.info["noise_by"])  # names rows as the new table has them
    fit.observed.groups_of(logged)
    if fit.observed.clock_column:
        clock_of(logged, fit.observed.clock_column)
    both = _merged(fit, old, new)
    shift = int(old.frame.index.max())
    if faults := [replace(f, row=f.row - shift) for f in check(both, fit.law) if f.row is not None and f.row > shift]:
        raise TableError(faults, new.name)
    if faults := [*_clashes(fit, old.frame, new.frame), *_repeated(fit, old.frame, new.frame)]:
        raise TableError(sorted(faults, key=lambda f: f.row or 0), new.name)
    if other := other_domain(new.frame, fit.law, str(fit.info.get("domain", "")), VARY):
        raise BayeslawError(f"{new.name}: {other}.", code="other-domain")
    if mixed := mixed_domains(both.frame, fit.law, VARY):  # of fits that don't know their domain, base checkpoints may
        raise BayeslawError(f"{new.name}: with the fit's rows, {mixed}.", code="mixed-domains")
    return both


def _merged(fit: Fit, old: Runs, new: Runs) -> Runs:
    """Both tables in one; rows of the new one are numbered on from the last of the old one."""
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
    return stack_runs(old, replace(new, frame=frame), fit.law.outcome.error)


def stack_runs(old: Runs, new: Runs, error: str = LOSS.error) -> Runs:
    """Rows of a fit and new rows of its unit, with row numbers, runs and checkpoints of their own, in one table.

    Parameters
    ----------
    old, new : Runs
    error : str
        The column of known errors: where only new rows have it, those of the fit are 0.
    """
    frame = pd.concat([old.frame, new.frame])
    if "unit" in frame:  # one of the two may lack the column; its losses are in the same unit
        frame["unit"] = old.unit
    if error in new.frame and error not in old.frame:
        frame[error] = frame[error].mask(frame.index.isin(old.frame.index), 0.0)
    name, conversions = f"{old.name} and {new.name}", (*old.conversions, *new.conversions)
    return Runs(frame, name, conversions, duplicates="keep", sources=(*old.sources, *new.sources))


def _clashes(fit: Fit, old: pd.DataFrame, new: pd.DataFrame) -> list[Fault]:
    """Faults of new rows whose run has the name of one of the fit's but another N, checkpoint or noise group."""
    faults, first = [], old.groupby("run", sort=False).first()
    columns = ("N", "checkpoint" if _checkpoint_key(fit) == "checkpoint" else None, fit.info["noise_by"])
    for column in [c for c in columns if c and c in first and c in new] if "run" in new else []:
        known = new["run"].map(first[column])
        other = known.notna() & new[column].notna()
        if column == "N" and holds_numbers(known) and holds_numbers(new[column]):  # tables are written with few digits
            other &= ~np.isclose(known.astype(float), new[column].astype(float), rtol=ROW_TOLERANCE, atol=0.0)
        for row in new.index[other]:
            here, there = new.at[row, column], known[row]
            if here != there and str(here) != str(there):
                shown = [exact(v) if isinstance(v, (int, float)) else repr(v) for v in (there, here)]
                problem = f"run {new.at[row, 'run']!r} has {column} {shown[0]} in the fit and {shown[1]} here"
                faults.append(Fault(int(row), column, str(here), problem, "give a different run an id of its own", "other-run"))
    return faults


def _checkpoint_key(fit: Fit) -> str:
    """The columns that identify a fit's checkpoints; 'run' where each run has its own."""
    seen = fit.observed
    names = np.array(seen.checkpoint_names)[seen.checkpoint]
    if {"N", "ptpp"} <= set(fit.law.covariates):
        stages = zip(*(seen.covariates[c][seen.starts[:-1]] for c in ("N", "ptpp")), names, strict=True)
        rest = {name.removeprefix(f"N {exact(n)}, ptpp {exact(ptpp)}").split(" ")[0] for n, ptpp, name in stages}
        return {"": "N, ptpp", ",": "N, ptpp, seed"}.get("".join(rest), "checkpoint")
    return "run" if seen.checkpoint_names == seen.run_names else "checkpoint"


def _checkpoint_key_of_table(fit: Fit, frame: pd.DataFrame) -> str:
    """The columns that identify checkpoints in a new table."""
    if "checkpoint" in frame:
        return "checkpoint"
    if {"N", "ptpp"} <= set(fit.law.covariates):
        return "N, ptpp, seed" if "seed" in frame else "N, ptpp"
    return "run"


def _repeated(fit: Fit, old: pd.DataFrame, new: pd.DataFrame) -> list[Fault]:
    """Faults of new rows that the fit has: the same setting of the same run, or without a run the same setting and loss."""
    settings = [c for c in dict.fromkeys((*fit.law.measured, *filter(None, [fit.observed.clock_column]))) if c in new]
    columns = [*settings, fit.law.outcome.name]
    alone = np.flatnonzero(old["run"].isna() | (old["run"] == [f"row {i}" for i in old.index]))
    of_run, none = old.groupby("run", sort=False).indices, np.empty(0, dtype=np.int64)
    there, here = (frame[columns].to_numpy(np.float64) for frame in (old, new))
    levels = [[np.array([exact(cell) for cell in frame[c]], dtype=object) for frame in (old, new)] for c in fit.law.levels]
    base = np.all([new[name] == 0 for name in fit.law.onset], axis=0) if fit.law.onset and {*fit.law.onset} <= {*new} else None
    active = np.array([c not in fit.law.idle_at_base for c in columns])
    runs = new["run"].tolist() if "run" in new else [None] * len(new)
    faults = []
    for i, (row, run) in enumerate(zip(new.index.tolist(), runs, strict=True)):
        named = isinstance(run, str)
        places = of_run.get(run, none) if named else alone
        for of_old, of_new in levels:
            places = places[of_old[places] == of_new[i]]
        compared = active.copy() if base is not None and base[i] else np.ones(len(columns), dtype=bool)
        compared[-1] = not named
        if np.isclose(there[places][:, compared], here[i, compared], rtol=ROW_TOLERANCE, atol=0, equal_nan=True).all(axis=1).any():
            whose = f"run {run!r}" if named else "a row without a run"
            at = settings_text({c: float(v) for c, v, shown in zip(columns, here[i], compared, strict=True) if shown})
            problem = f"the fit has {whose} with {at} already"
            suggestion = "remove the row, or give a repeated run an id of its own"
            faults.append(Fault(int(row), "run", str(run) if named else "", problem, suggestion, "repeated-row"))
    return faults
