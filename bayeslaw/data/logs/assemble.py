"""Entries of logs as a table of runs: one row a loss, what was said of runs beside it, and nothing in it that can't be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, nearest, shortened
from bayeslaw.core.units import unit
from bayeslaw.data.logs.log import counted
from bayeslaw.data.logs.mapping import CONSTANTS, WORDS, Mapped
from bayeslaw.data.logs.merge import LOSS, Entries, fault, refuse
from bayeslaw.data.validate import check_loss

FIRST = ("run", "step", "domain", "loss", "loss_se", "lr", "N", "D", "r", "ptpp")


def rows(
    entries: Entries, told: Mapped, domains: Collection[str] | None, *, drop: bool, curves: bool
) -> tuple[pd.DataFrame, list[str]]:
    """The table of runs that entries make, and what is to be said of it.

    Parameters
    ----------
    entries : Entries
        One for each run, step and domain.
    told : Mapped
        What is known of runs besides.
    domains : collection of str, optional
        Domains to keep.
    drop : bool
        Leave out losses that are not finite; they are refused else.
    curves : bool
        Keep rows that have a learning rate and no loss.

    Raises
    ------
    TableError, BayeslawError
        With every value that can't be, by row.
    """
    frame, remarks = _long(entries, domains, curves)
    frame = _finite(frame, drop, curves, remarks)
    frame = _with_constants(frame, told, remarks)
    frame = _tokens(frame, entries.batches, remarks)
    if told.loss_unit is not None:
        refuse(frame, _other_units(frame, told.loss_unit))
        frame = frame.assign(unit=told.loss_unit)
    _check(frame)
    if not frame["loss"].notna().any():
        raise BayeslawError("Nothing is left: no row has a loss.")
    return _arranged(frame), remarks


def _long(entries: Entries, domains: Collection[str] | None, curves: bool) -> tuple[pd.DataFrame, list[str]]:
    """One row for each loss; steps without one are counted."""
    frame, remarks = entries.frame, list(entries.remarks)
    columns = [c for c in map(str, frame) if c.startswith(LOSS)]
    if not columns:
        raise BayeslawError(
            "No column of the log is a validation loss by its name, such as eval/loss or val_loss. Name it by --loss COLUMN; "
            "losses of training batches are not taken unless you do."
        )
    rest = frame.drop(columns=columns)
    parts = []
    for column in columns:
        part = rest.assign(loss=frame[column])[frame[column].notna()]
        parts.append(part.assign(domain=column.removeprefix(LOSS)) if column != LOSS else part)
    without = frame[columns].isna().all(axis=1)
    if without.any():
        rates = without & frame["lr"].notna() if "lr" in frame else without & False
        if curves and rates.any():
            parts.append(rest[rates].assign(loss=np.nan))
            remarks.append(f"{counted(int(rates.sum()), 'row')} kept for the learning rate alone")
        if left := int((without & ~rates).sum() if curves else without.sum()):
            remarks.append(
                f"{counted(left, 'step')} without an evaluation left out"
                + ("" if curves or not rates.any() else " (--curves keeps those with a learning rate)")
            )
    long = pd.concat([p for p in parts if len(p)] or parts[:1], ignore_index=True)
    gaps = {c.removeprefix(LOSS): int((frame[c].isna() & ~without).sum()) for c in columns}
    for domain, missing in gaps.items():
        if missing and len(columns) > 1:
            remarks.append(f"{counted(missing, 'evaluation')} of {domain or 'no named domain'} missing where others are there")
    return _of_domains(long, domains, remarks), remarks


def _of_domains(frame: pd.DataFrame, domains: Collection[str] | None, remarks: list[str]) -> pd.DataFrame:
    if not domains:
        return frame
    known = list(map(str, frame["domain"].dropna().unique())) if "domain" in frame else []
    for domain in domains:
        if domain not in known:
            there = f"there are {', '.join(known)}" if known else "the losses name none"
            raise BayeslawError(f"There are no losses of domain {domain!r}; {there}.{nearest(domain, known)}")
    kept = frame["domain"].isin(set(domains)) | frame["loss"].isna()
    if not kept.all():
        remarks.append(f"{counted(int((~kept).sum()), 'loss', 'losses')} of other domains left out")
    return frame[kept].reset_index(drop=True)


def _finite(frame: pd.DataFrame, drop: bool, curves: bool, remarks: list[str]) -> pd.DataFrame:
    """Rows whose losses are numbers; others are refused or, if told so, left out."""
    bad = np.isinf(frame["loss"].to_numpy(np.float64))
    if not bad.any():
        return frame
    faults, gone, failed = list[Fault](), 0, 0
    for _, part in frame.groupby([c for c in ("run", "domain") if c in frame], sort=False, dropna=False):
        at = part.index[part["loss"].notna()].to_numpy(np.int64)
        wrong = np.flatnonzero(bad[at])
        good = np.flatnonzero(~bad[at])
        end = good[-1] if good.size else -1
        gone, failed = gone + int((wrong > end).sum()), failed + int((wrong < end).sum())
        for i in wrong:
            what = "the run diverged" if i > end else "finite losses follow, so the evaluation failed"
            where = f" at step {frame['step'].loc[at[i]]:g}" if "step" in frame else ""
            problem = f"run {shortened(repr(str(frame['run'].loc[at[i]])))} logs a loss{where} that is not finite: {what}"
            faults.append(fault(frame, int(at[i]), "loss", "nan", problem, "--nan drop leaves it out"))
    if not drop:
        refuse(frame, faults)
    remarks.append(
        f"{counted(gone + failed, 'loss', 'losses')} not finite and left out: {failed} with finite ones after them (evaluations "
        f"that failed), {gone} at the end of runs (diverged)"
    )
    kept = frame[~bad]
    if not curves or "lr" not in frame:
        return kept.reset_index(drop=True)
    keys = [c for c in ("run", "step") if c in frame]
    rates = frame[bad & frame["lr"].notna()].assign(loss=np.nan, domain=None).drop_duplicates(keys)
    rates = rates[~pd.MultiIndex.from_frame(rates[keys]).isin(pd.MultiIndex.from_frame(kept[keys]))]
    return pd.concat([kept, rates[list(kept)]], ignore_index=True)


def _with_constants(frame: pd.DataFrame, told: Mapped, remarks: list[str]) -> pd.DataFrame:
    """The table with what was said of all runs and of each, and D from steps."""
    known = set(frame["run"])
    for run in told.runs:
        if run not in known:
            raise BayeslawError(f"The mapping tells of run {run!r}, and there is none.{nearest(run, known)}")
    for ours in CONSTANTS:
        said = {run: told.runs.get(run, {}).get(ours, told.constants.get(ours)) for run in known}
        if all(value is None for value in said.values()):
            continue
        column, values = ("batch" if ours == "tokens_per_step" else ours), frame["run"].map(said)
        if ours not in WORDS:
            values = values.astype(np.float64)
        if column in frame:
            differs = frame[column].notna() & values.notna() & (frame[column] != values)
            if differs.any():
                at = int(np.flatnonzero(differs.to_numpy())[0])
                problem = f"{column} is {_shown(frame[column].iloc[at])} in the log and {_shown(values.iloc[at])} was said"
                refuse(frame, [fault(frame, at, column, _shown(frame[column].iloc[at]), problem, "say it once")])
            values = frame[column].where(frame[column].notna(), values)
        frame = frame.assign(**{column: values})
    return frame


def _other_units(frame: pd.DataFrame, told: str) -> Iterable[Fault]:
    """Losses that the log says are in another unit than was said."""
    logged = frame["unit"].where(frame["loss"].notna()).dropna() if "unit" in frame else pd.Series(dtype=object)
    other = [value for value in logged.unique() if not _is_unit(value, told)]
    for at in np.flatnonzero(frame["unit"].isin(other).to_numpy()).tolist() if other else ():
        value = str(frame["unit"].iloc[at])
        problem = f"the log says that the loss is in {shortened(value)}, and {told} was said"
        yield fault(frame, at, "unit", value, problem, "leave --unit (loss_unit) out; `bayeslaw convert` brings losses to another")


def _is_unit(text: str, told: str) -> bool:
    try:
        return unit(text) == told
    except BayeslawError:
        return False


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tokens(frame: pd.DataFrame, batches: Mapping[str, tuple[float, float]], remarks: list[str]) -> pd.DataFrame:
    """D as logged, else step x tokens per step."""
    logged = frame["D"] if "D" in frame else pd.Series(np.nan, index=frame.index)
    made = pd.Series(np.nan, index=frame.index)
    if {"step", "batch"} <= set(frame):
        made = frame["step"] * frame["batch"]
    by_step, off = logged.isna() & made.notna(), (logged - made).abs() > 0.01 * made
    refuse(frame, _tokens_that_differ(frame, by_step, off, batches))
    if off.any():
        at = int(np.flatnonzero(off.to_numpy())[0])
        remarks.append(
            f"D is as logged; step x tokens_per_step differs in {counted(int(off.sum()), 'row')}, such as "
            f"{made.iloc[at]:g} where {logged.iloc[at]:g} is logged"
        )
    rows, steps, none = int(logged.notna().sum()), int(by_step.sum()), int((logged.isna() & made.isna()).sum())
    if rows + steps == 0:
        if not {"atpp", "N"} <= set(frame):
            why = ", and those logged are at no step with a loss" if "D" in frame else ""
            suggestion = "laws in D need --set tokens_per_step=… (D = step x tokens per step), or a column of them"
            remarks.append(f"no tokens{why}: {suggestion}")
        return frame
    if steps:
        both = f" in {counted(steps, 'row')}, and as logged in {counted(rows, 'row')}" if rows else ""
        remarks.append(f"D = step x tokens_per_step{both}")
    if none:
        remarks.append(f"no tokens in {counted(none, 'row')}, where others have them")
    return frame.assign(D=logged.fillna(made)) if steps else frame


def _tokens_that_differ(
    frame: pd.DataFrame, by_step: pd.Series, off: pd.Series, batches: Mapping[str, tuple[float, float]]
) -> Iterable[Fault]:
    """Runs in which D can't be made from steps: the batch changes, or what is logged elsewhere is another D."""
    suggestion = 'name a column of all tokens so far: [columns] D = "…" in a mapping file'
    for run in frame.loc[by_step, "run"].unique():
        of = frame["run"] == run
        at = int(np.flatnonzero((of & by_step).to_numpy())[0])
        name, step = shortened(repr(str(run))), f"{frame['step'].iloc[at]:g}"
        if run in batches:
            values = " and ".join(f"{v:g}" for v in batches[run])
            problem = f"run {name} has batches of {values} tokens, and D at step {step} is step x tokens per step of one batch"
            yield fault(frame, at, "batch", f"{frame['batch'].iloc[at]:g}", problem, suggestion)
        elif (of & off).any():
            other = int(np.flatnonzero((of & off).to_numpy())[0])
            there = f"at step {frame['step'].iloc[other]:g}"
            steps = f"{frame['step'].iloc[other] * frame['batch'].iloc[other]:g}"
            problem = (
                f"run {name} logs D {frame['D'].iloc[other]:g} {there}, where step x tokens per step is {steps}, and no D here"
            )
            yield fault(frame, at, "D", "", problem, "log D at each step, or mend the tokens per step")


def _check(frame: pd.DataFrame) -> None:
    """Refuse what can't be, whatever the law."""
    frame = frame.reset_index(drop=True)
    losses = frame.loc[frame["loss"].notna(), [c for c in ("loss", "loss_se", "unit") if c in frame]]
    faults = [fault(frame, f.row, f.column, f.value, f.problem, f.suggestion) for f in check_loss(losses) if f.row is not None]
    for column, wrong, problem, suggestion in _limits(frame):
        for at in np.flatnonzero(wrong.to_numpy()).tolist():
            value = f"{frame[column].iloc[at]:g}"
            faults.append(fault(frame, at, column, value, problem.format(value=value), suggestion))
    faults += _tokens_that_stand(frame)
    refuse(frame, sorted(faults, key=lambda f: f.row or 0))


def _tokens_that_stand(frame: pd.DataFrame) -> Iterable[Fault]:
    """Runs whose D does not grow from step to step: it is no count of all tokens so far."""
    if not {"step", "D"} <= set(frame):
        return
    for run, part in frame[frame["D"].notna()].sort_values("step", kind="stable").groupby("run", sort=False):
        steps, tokens = part["step"].to_numpy(np.float64), part["D"].to_numpy(np.float64)
        stands = np.flatnonzero((np.diff(steps) > 0) & (np.diff(tokens) <= 0))
        if stands.size:
            i = int(stands[0]) + 1
            value = f"{tokens[i]:g}"
            before = f"{tokens[i - 1]:g} before, at step {steps[i - 1]:g}"
            problem = f"run {shortened(repr(str(run)))} has D {value} at step {steps[i]:g} and {before}"
            suggestion = 'D counts all tokens so far; are these the tokens of a step? Say [columns] batch = "…" in a mapping file'
            yield fault(frame, int(part.index[i]), "D", value, problem, suggestion)


def _limits(frame: pd.DataFrame) -> Iterable[tuple[str, pd.Series, str, str]]:
    whole = "steps are whole numbers from 0"
    if "step" in frame:
        yield "step", (frame["step"] < 0) | (frame["step"] % 1 != 0), "step {value} is not one", whole
    for column in ("N", "U", "P", "ptpp", "batch"):
        if column in frame:
            yield (
                column,
                (frame[column] <= 0) | np.isinf(frame[column]),
                f"{column} {{value}} is not positive and finite",
                "give it in ones, not in millions",
            )
    for column in ("D", "atpp", "lr"):
        if column in frame:
            yield column, (frame[column] < 0) | np.isinf(frame[column]), f"{column} {{value}} is negative or not finite", "mend it"
    if "r" in frame:
        yield (
            "r",
            (frame["r"] < 0) | (frame["r"] > 1),
            "r {value} is outside [0, 1]: is it a percentage?",
            'divide by 100, or say unit = "%" in a mapping file',
        )


def _arranged(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns in the usual order, without those that are empty; each run's rows of a domain by step, rates alone among them."""
    if "step" in frame:
        order = [pd.factorize(frame[c], use_na_sentinel=False)[0] for c in ("domain", "run") if c in frame]
        frame = frame.iloc[np.lexsort([frame["step"].to_numpy(np.float64), *reversed(order)])]
    columns = [c for c in map(str, frame) if not c.startswith("_")]
    columns = [c for c in FIRST if c in columns] + [c for c in columns if c not in FIRST]
    return frame[[c for c in columns if frame[c].notna().any() or c == "loss"]]
