"""The table of runs from merged entries: one loss a row, with its covariates, checked for impossible values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, nearest, shortened
from bayeslaw.core.text import counted, exact, listed
from bayeslaw.core.units import PERPLEXITY, in_nats, unit, unit_of
from bayeslaw.data.logs.mapping import CONSTANTS, WORDS, LogMap
from bayeslaw.data.logs.merge import LOSS, Entries, fault, has_loss, has_rate, loss_columns, lost_runs, refuse
from bayeslaw.data.measured import LOSS_SUPPORT, check_loss

FIRST = ("run", "step", "domain", "loss", "loss_se", "lr", "N", "D", "r", "ptpp")


def rows(
    entries: Entries, given: LogMap, domains: Collection[str] | None, *, drop: bool, curves: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table of runs that entries make, and notes about it; every impossible value is a fault of a TableError.

    Parameters
    ----------
    entries, given : Entries and LogMap
        One entry for each run, step and domain, and what the user knows of the runs besides.
    domains, drop, curves
        The domains to keep; whether losses that are not finite are left out, and rows with a learning rate but no loss kept.
    """
    whole, notes = _long(entries, domains, curves)
    faults = list[Fault]()
    frame = _finite(whole, drop, curves, notes, faults)
    frame = _with_constants(frame, given, faults)
    frame = _with_tokens(frame, entries.batches, notes, faults, curves=curves)
    other_units = list(() if given.unit is None else _other_units(frame, given.unit))
    if given.unit is not None:
        frame = frame.assign(unit=given.unit)
    frame = _without_untrained(frame, notes)
    faults += other_units or _impossible(frame)  # losses in a unit that is not theirs can't be judged
    refuse(whole, sorted(faults, key=lambda f: f.row or 0))
    if not frame["loss"].notna().any():
        problem = "No row with a loss is left: all losses are missing, or were left out as not finite or of other domains"
        raise BayeslawError(f"{problem}. Log one, or name its column (--loss, losses=).", code="no-loss")
    return _arranged(frame), notes


def _long(entries: Entries, domains: Collection[str] | None, curves: bool) -> tuple[pd.DataFrame, list[str]]:
    """Return one row for each loss, and notes that count the steps without one."""
    frame, notes = entries.frame, list(entries.notes)
    columns = loss_columns(frame)
    rest = frame.drop(columns=columns)
    parts = []
    for column in columns:
        part = rest.assign(loss=frame[column])[frame[column].notna()]
        parts.append(part.assign(domain=column.removeprefix(LOSS)) if column != LOSS else part)
    without = ~has_loss(frame)
    rates = without & has_rate(frame)
    if curves and rates.any():
        parts.append(rest[rates].assign(loss=np.nan))
        notes.append(f"{counted(int(rates.sum()), 'row')} kept for the learning rate alone")
    left_out = without & ~rates if curves else without
    if left_out.any():
        hint = "" if curves or not rates.any() else " (--curves, curves=True, keeps those with a learning rate)"
        lost = lost_runs(frame, frame[~left_out])
        notes.append(f"{counted(int(left_out.sum()), 'step')} without an evaluation left out{hint}{lost}")
    for column in columns if len(columns) > 1 else ():
        if missing := int((frame[column].isna() & ~without).sum()):
            domain = column.removeprefix(LOSS) or "no named domain"
            notes.append(f"{counted(missing, 'evaluation')} of {domain} missing at steps where others are present")
    long = pd.concat([p for p in parts if len(p)] or parts[:1], ignore_index=True)
    return _of_domains(long, domains, notes), notes


def _of_domains(frame: pd.DataFrame, domains: Collection[str] | None, notes: list[str]) -> pd.DataFrame:
    if not domains:
        return frame
    known = list(map(str, frame["domain"].dropna().unique())) if "domain" in frame else []
    for domain in domains:
        if domain not in known:
            there = f"there are {', '.join(known)}" if known else "the losses name none"
            message = f"There are no losses of domain {domain!r}; {there}.{nearest(domain, known)}"
            raise BayeslawError(message, code="unknown-domain")
    kept = frame["domain"].isin(set(domains)) | frame["loss"].isna()
    if not kept.all():
        notes.append(f"{counted(int((~kept).sum()), 'loss')} of other domains left out")
    return frame[kept].reset_index(drop=True)


def _finite(frame: pd.DataFrame, drop: bool, curves: bool, notes: list[str], faults: list[Fault]) -> pd.DataFrame:
    """Keep rows whose losses are numbers; others are added to the faults, or left out with `drop`."""
    bad = np.isinf(frame["loss"].to_numpy(np.float64))
    if not bad.any():
        return frame
    diverged, failed = 0, 0
    for _, part in frame.groupby([c for c in ("run", "domain") if c in frame], sort=False, dropna=False):
        at = part.index[part["loss"].notna()].to_numpy(np.int64)
        wrong, good = np.flatnonzero(bad[at]), np.flatnonzero(~bad[at])
        end = good[-1] if good.size else -1
        diverged, failed = diverged + int((wrong > end).sum()), failed + int((wrong < end).sum())
        for i in () if drop else wrong:
            cause, code = ("the run diverged", "diverged") if i > end else ("a finite loss follows", "failed-evaluation")
            entry = frame.loc[at[i]]
            of = f" of {entry['domain']}" if pd.notna(entry.get("domain")) else ""
            where = f" at step {entry['step']:g}" if pd.notna(entry.get("step")) else ""
            problem = f"run {shortened(repr(str(entry['run'])))} logs a loss{of}{where} that is not finite: {cause}"
            faults.append(fault(frame, int(at[i]), "loss", "nan", problem, "--nan drop (nan='drop') leaves it out", code))
    kept = frame[~bad]
    notes.append(
        f"{counted(diverged + failed, 'loss')} not finite and left out: {failed} with finite ones after them (failed "
        f"evaluations), {diverged} at the end of runs (diverged){lost_runs(frame, kept)}"
    )
    if not curves or "lr" not in frame:
        return kept.reset_index(drop=True)
    keys = [c for c in ("run", "step") if c in frame]
    rates = frame[bad & frame["lr"].notna()].assign(loss=np.nan, domain=None).drop_duplicates(keys)
    rates = rates[~pd.MultiIndex.from_frame(rates[keys]).isin(pd.MultiIndex.from_frame(kept[keys]))]
    return pd.concat([kept, rates[list(kept)]], ignore_index=True)


def _with_constants(frame: pd.DataFrame, given: LogMap, faults: list[Fault]) -> pd.DataFrame:
    """Add the values that the user gave for all runs and for each; logged ones that differ are added to the faults."""
    known = set(frame["run"])
    for run in given.runs:
        if run not in known:
            message = f"The mapping gives values of run {run!r}, and there is no such run.{nearest(run, known)}"
            raise BayeslawError(message, code="unknown-run")
    for ours in CONSTANTS:
        by_run = {run: given.runs.get(run, {}).get(ours, given.constants.get(ours)) for run in known}
        if all(value is None for value in by_run.values()):
            continue
        column, values = ("batch" if ours == "tokens_per_step" else ours), frame["run"].map(by_run)
        if ours not in WORDS:
            values = values.astype(np.float64)
        if column in frame:
            differs = frame[column].notna() & values.notna() & (frame[column] != values)
            if differs.any():
                at = int(np.flatnonzero(differs.to_numpy())[0])
                logged, value = exact(frame[column].iloc[at]), exact(values.iloc[at])
                problem = f"{column} is {logged} in the log, and you give {value}"
                faults.append(fault(frame, at, column, logged, problem, "give it once", "contradicting-values"))
            values = frame[column].where(frame[column].notna(), values)
        frame = frame.assign(**{column: values})
    return frame


def _other_units(frame: pd.DataFrame, given: str) -> Iterable[Fault]:
    """Find losses for which the log names another unit than the user."""
    logged = frame["unit"].where(frame["loss"].notna()).dropna() if "unit" in frame else pd.Series(dtype=object)
    other = [value for value in logged.unique() if not _is_unit(value, given)]
    suggestion = "leave --unit (loss_unit=) out; `bayeslaw convert` converts losses to another unit"
    for at in np.flatnonzero(frame["unit"].isin(other).to_numpy()).tolist() if other else ():
        value = str(frame["unit"].iloc[at])
        problem = f"the log gives the loss in {shortened(value)}, and you say {given}"
        yield fault(frame, at, "unit", value, problem, suggestion, "contradicting-units")


def _is_unit(text: str, given: str) -> bool:
    try:
        return unit(text) == given
    except BayeslawError:
        return False


def _with_tokens(
    frame: pd.DataFrame, batches: Mapping[str, tuple[float, float]], notes: list[str], faults: list[Fault], *, curves: bool
) -> pd.DataFrame:
    """Add D as logged, or else step x tokens per step; where that is not D is added to the faults.

    Curves of runs whose batch changes are kept without batch and D: areas per step need neither.
    """
    if curves and batches:
        of = frame["run"].isin(list(batches)) & (frame["D"].isna() if "D" in frame else True)
        if of.any():
            frame = frame.assign(batch=frame["batch"].mask(of))
            runs = sorted(frame.loc[of, "run"].unique())
            notes.append(f"the batch changes in {counted(len(runs), 'run')} ({listed(runs, 3)}), which have no batch and no D")
    logged = frame["D"] if "D" in frame else pd.Series(np.nan, index=frame.index)
    product = frame["step"] * frame["batch"] if {"step", "batch"} <= set(frame) else pd.Series(np.nan, index=frame.index)
    by_step, off = logged.isna() & product.notna(), (logged - product).abs() > 0.01 * product
    faults += _unusable_products(frame, by_step, off, batches)
    if off.any():
        at = int(np.flatnonzero(off.to_numpy())[0])
        notes.append(
            f"D is as logged; step x tokens_per_step differs in {counted(int(off.sum()), 'row')}, such as "
            f"{product.iloc[at]:g} where {logged.iloc[at]:g} is logged"
        )
    rows, steps, none = int(logged.notna().sum()), int(by_step.sum()), int((logged.isna() & product.isna()).sum())
    if rows + steps == 0:
        if not {"atpp", "N"} <= set(frame) and not (curves and batches):
            why = ", and those logged are at no step with a loss" if "D" in frame else ""
            suggestion = (
                "laws in D need --set tokens_per_step=… (tokens_per_step=; D = step x tokens per step), or a column of them"
            )
            if "batch" in frame and "step" not in frame:
                suggestion = (
                    "tokens per step are known and steps are not: name either, such as --column D=COLUMN (columns={'D': 'COLUMN'})"
                )
            notes.append(f"no tokens{why}: {suggestion}")
        return frame
    if steps:
        both = f" in {counted(steps, 'row')}, and as logged in {counted(rows, 'row')}" if rows else ""
        notes.append(f"D = step x tokens_per_step{both}")
    if none:
        notes.append(f"no tokens in {counted(none, 'row')}, where others have them")
    return frame.assign(D=logged.fillna(product)) if steps else frame


def _unusable_products(
    frame: pd.DataFrame, by_step: pd.Series, off: pd.Series, batches: Mapping[str, tuple[float, float]]
) -> Iterable[Fault]:
    """Find runs in which step x tokens per step is not D: the batch changes, or the D logged at other steps differs."""
    suggestion = 'name a column of all tokens so far: [columns] D = "…" in a mapping file'
    for run in frame.loc[by_step, "run"].unique():
        of = frame["run"] == run
        at = int(np.flatnonzero((of & by_step).to_numpy())[0])
        name, step = shortened(repr(str(run))), f"{frame['step'].iloc[at]:g}"
        if run in batches:
            values, batch = " and ".join(f"{v:g}" for v in batches[run]), f"{frame['batch'].iloc[at]:g}"
            problem = f"run {name} has batches of {values} tokens, and D at step {step} is step x tokens per step of one batch"
            yield fault(frame, at, "batch", batch, problem, suggestion, "batch-changes")
        elif (of & off).any():
            row = frame.iloc[int(np.flatnonzero((of & off).to_numpy())[0])]
            product = f"{row['step'] * row['batch']:g}"
            problem = (
                f"run {name} logs D {row['D']:g} at step {row['step']:g}, where step x tokens per step is {product}, and no D here"
            )
            yield fault(frame, at, "D", "", problem, "log D at each step, or correct the tokens per step", "tokens-differ")


def _without_untrained(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out losses at step 0 that are too large for a trained model, where those at later steps of the run are not."""
    of = unit_of(frame[frame["loss"].notna()].reset_index(drop=True))
    if "step" not in frame or of == PERPLEXITY:
        return frame
    large = frame["loss"] > LOSS_SUPPORT[1] / in_nats(of)
    later = (large & (frame["step"] > 0)).groupby(frame["run"]).transform("any")
    gone = large & (frame["step"] == 0) & ~later
    if gone.any():
        notes.append(f"{counted(int(gone.sum()), 'loss')} of untrained models left out: above {LOSS_SUPPORT[1]:g} nats at step 0")
    return frame[~gone].reset_index(drop=True)


def _impossible(frame: pd.DataFrame) -> list[Fault]:
    """Find values that are impossible under any law."""
    frame = frame.reset_index(drop=True)
    losses = frame.loc[frame["loss"].notna(), [c for c in ("loss", "loss_se", "unit") if c in frame]]
    wrong = check_loss(losses, leave_out="remove the row")
    faults = [fault(frame, f.row, f.column, f.value, f.problem, f.suggestion, f.code) for f in wrong if f.row is not None]
    for column, outside, problem, suggestion, code in _limits(frame):
        for at in np.flatnonzero(outside.to_numpy()).tolist():
            value = f"{frame[column].iloc[at]:g}"
            faults.append(fault(frame, at, column, value, f"{column} {value} {problem}", suggestion, code))
    return [*faults, *_standing_tokens(frame)]


def _limits(frame: pd.DataFrame) -> Iterable[tuple[str, pd.Series, str, str, str]]:
    """Yield a column, where it is out of its limits, and the problem, suggestion and code of that."""
    for column in frame:
        values = frame[column]
        match column:
            case "step":
                wrong = values.notna() & ((values < 0) | (values % 1 != 0))
                yield column, wrong, "is not a whole number from 0", "give the number of the training step", "not-a-whole-number"
            case "N" | "U" | "P" | "ptpp" | "pretrain_tokens" | "batch":
                wrong = (values <= 0) | np.isinf(values)
                yield column, wrong, "is not positive and finite", "give it in ones, not in millions", "not-positive"
            case "D" | "atpp" | "lr":
                yield column, (values < 0) | np.isinf(values), "is negative or not finite", "correct it", "negative-or-not-finite"
            case "r":
                problem, suggestion = (
                    "is outside [0, 1]: is it a percentage?",
                    'divide by 100, or write unit = "%" in a mapping file',
                )
                yield column, (values < 0) | (values > 1), problem, suggestion, "out-of-support"


def _standing_tokens(frame: pd.DataFrame) -> Iterable[Fault]:
    """Find runs whose D does not grow from step to step, so that it does not count all tokens so far."""
    if not {"step", "D"} <= set(frame):
        return
    suggestion = 'D counts all tokens so far; are these the tokens of a step? Write [columns] batch = "…" in a mapping file'
    for run, part in frame[frame["D"].notna()].sort_values("step", kind="stable").groupby("run", sort=False):
        steps, tokens = part["step"].to_numpy(np.float64), part["D"].to_numpy(np.float64)
        standing = np.flatnonzero((np.diff(steps) > 0) & (np.diff(tokens) <= 0))
        if standing.size:
            i = int(standing[0]) + 1
            value, before = f"{tokens[i]:g}", f"{tokens[i - 1]:g} before, at step {steps[i - 1]:g}"
            problem = f"run {shortened(repr(str(run)))} has D {value} at step {steps[i]:g} and {before}"
            yield fault(frame, int(part.index[i]), "D", value, problem, suggestion, "tokens-do-not-grow")


def _arranged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return columns in the usual order, without empty ones; each run's rows of a domain by step, with rates alone among them."""
    if "step" in frame:
        order = [pd.factorize(frame[c], use_na_sentinel=False)[0] for c in ("domain", "run") if c in frame]
        frame = frame.iloc[np.lexsort([frame["step"].to_numpy(np.float64), *reversed(order)])]
    columns = [c for c in map(str, frame) if not c.startswith("_")]
    columns = [c for c in FIRST if c in columns] + [c for c in columns if c not in FIRST]
    return frame[[c for c in columns if frame[c].notna().any() or c == "loss"]]
