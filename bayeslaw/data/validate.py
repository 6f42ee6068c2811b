"""What is wrong with a table for a law: every fault at once; and what the law makes of the rest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from bayeslaw.core.errors import Fault, nearest, shortened
from bayeslaw.core.units import NATS, PERPLEXITY, in_nats, unit_of

# Other names under which the columns are logged, lower case, and what brings them to our units.
from bayeslaw.data.table import Runs
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.pooling import level

LOSS_SUPPORT = (0.0, 15.0)


def check(runs: Runs, law: Law, *, to_fit: bool = True) -> list[Fault]:
    """List every fault of a table for a law: missing columns, impossible values, what the law can't be fitted to.

    Parameters
    ----------
    to_fit : bool
        Also require a loss and enough different values of each covariate; False for a table of settings to forecast.

    Returns
    -------
    list of Fault
        Empty where the table is sound.
    """
    frame = complete(runs.frame, law)
    columns = [*(["loss"] if to_fit else []), *law.measured, *law.levels]
    given = [str(c) for c in frame if c not in law.indicators]
    whole = {s: columns for s, columns in law.series.items() if not {*columns} & {*frame}}
    faults = [Fault(None, s, "", f"columns {c[0]} to {c[-1]} are missing", "bayeslaw.nodes makes them") for s, c in whole.items()]
    wanted = ", ".join(["loss"] * to_fit + [*law.axes, *law.series, *law.levels])
    for c in columns:
        if c not in frame and not any(c in of for of in whole.values()):
            suggestion = f"{law.name} needs {wanted}; there are {', '.join(given)}.{nearest(c, given)}"
            faults.append(Fault(None, c, "", f"column {c} is missing", suggestion))
    for name in columns:
        if name in frame and name not in law.levels and frame[name].dtype.kind not in "fiu":
            faults.append(Fault(None, name, "", f"column {name} holds no numbers", f"{law.name} needs them there"))
            frame = frame.drop(columns=name)
    base = base_rows(frame, law)
    only_base = bool(base.all())
    if to_fit and only_base:
        faults.append(Fault(None, "D", "0", "every row is a base checkpoint (D = 0)", "add rows logged during adaptation"))
    if to_fit and "loss" in frame:
        faults += check_loss(frame)
    for column, known in law.levels.items():
        if column in frame:
            faults += _check_level(frame, column, known)
    for name, covariate in law.measured.items():
        if name in frame:
            faults += _check_covariate(frame[~base], covariate)
            values = frame.loc[~base, name].dropna().unique()
            if to_fit and len(values) < covariate.at_least and not only_base:
                shown = ", ".join(f"{v:g}" for v in values)
                problem = (
                    f"{name} has {len(values)} value(s) ({shown}) and {law.name} needs at least {covariate.at_least} different ones"
                )
                faults.append(Fault(None, name, shown, problem, "log runs at another, or fit a law without it"))
    if to_fit and "N" in law.covariates and not any(f.column == "N" for f in faults):
        faults += _check_sizes(frame)
    unread = {(f.row, f.column): f for f in runs.unread if f.row in runs.frame.index}
    faults = [*unread.values(), *(f for f in faults if (f.row, f.column) not in unread)]
    return sorted(faults, key=lambda f: (f.row is not None, f.row or 0))


def _check_level(frame: pd.DataFrame, column: str, known: tuple[str, ...]) -> Iterable[Fault]:
    values = frame[column].map(level, na_action="ignore")
    for row in frame.index[~values.isin(known)]:
        value = "" if pd.isna(values[row]) else str(values[row])
        problem = f"{column} {value!r} is not among {', '.join(known)}" if value else f"{column} is missing"
        yield Fault(int(row), column, value, problem, "the law has parameters for those only")


def base_rows(frame: pd.DataFrame, law: Law) -> pd.Series:
    """Which rows are base checkpoints (D = 0) that the law, infinite there, can't describe."""
    if "D" in frame and "D" in law.covariates and law.covariates["D"].support[0] > 0:
        return frame["D"] == 0
    return pd.Series(False, index=frame.index)


def mixed_domains(frame: pd.DataFrame, law: Law, vary: str = "let parameters vary by it (--by E=domain)") -> str:
    """What is wrong with a table whose losses come from several validation domains, none of them a covariate; or nothing.

    `vary` says how parameters can be made to vary by the domain where the table is given.
    """
    if "domain" not in frame or "domain" in {*law.covariates, *law.levels, *(p.by for p in law.parameters.values())}:
        return ""
    domains = [str(d) for d in frame["domain"].dropna().unique()]
    if len(domains) < 2:
        return ""
    shown = ", ".join(domains[:5]) + (", …" if len(domains) > 5 else "")
    return (
        f"its losses are of {len(domains)} domains ({shown}) and {law.name} describes one; "
        f"""choose with --where "domain == '{domains[0]}'" or runs.where(…), or {vary}"""
    )


def complete(frame: pd.DataFrame, law: Law) -> pd.DataFrame:
    """The table with the law's indicators, and empty cells before the adaptation filled where the law does not look at them.

    Nothing has been replayed at D = 0, or before the learning rate of the adaptation has an area, so logs leave r empty there. The
    cells get the median of the other rows, a value of no consequence: only columns that the law's loss does not depend on at
    its `onset` are touched.
    """
    given = {c: frame[c].map(level, na_action="ignore") for c in law.levels if c in frame}
    marks = {name: (given[c] == value).astype(np.float64) for name, (c, value) in law.indicators.items() if c in given}
    frame = frame.assign(**marks) if marks else frame
    base = (frame[list(law.onset)] == 0).all(axis=1) if set(law.onset) <= set(frame) else pd.Series(False, index=frame.index)
    for name in sorted(law.idle_at_base & set(frame)):
        empty = base & frame[name].isna()
        if empty.any() and frame[name].dtype.kind in "fiu":
            others = frame.loc[~base, name].median()
            low, high = law.covariates[name].support
            frame = frame.assign(**{name: frame[name].mask(empty, others if np.isfinite(others) else min(max(low, 0.5), high))})
    return frame


def _rows(frame: pd.DataFrame, column: str, bad: pd.Series, problem: str, suggestion: str) -> Iterable[Fault]:
    for row, number in zip(frame.index[bad], frame.loc[bad, column].to_numpy(dtype=np.float64), strict=True):
        value = f"{number:g}"
        yield Fault(int(row), column, value, problem.format(value=value), suggestion)


def check_loss(frame: pd.DataFrame) -> list[Fault]:
    """Losses, and their known errors, that can't be those of a language model in nats/token, or in the table's unit."""
    loss, of = frame["loss"], unit_of(frame)
    if of == PERPLEXITY:
        suggestion = f"bring them to losses by `bayeslaw convert --to {NATS}`"
        return [Fault(None, "unit", of, "losses are perplexities, and laws describe their logarithm", suggestion)]
    faults = [*_rows(frame, "loss", loss.isna(), "loss is missing or not a number", "remove the row")]
    faults += _rows(frame, "loss", np.isinf(loss), "loss {value} is infinite: the run diverged", "remove the row")
    faults += _rows(frame, "loss", loss <= 0, "loss {value} is not positive", f"losses are in {of}")
    if "loss_se" in frame:
        faults += check_error(frame)
    most = LOSS_SUPPORT[1] / in_nats(of)
    high = (loss > most) & np.isfinite(loss)
    problem = f"loss {{value}} is above {most:.3g} {of}: is it a perplexity?"
    return faults + list(_rows(frame, "loss", high, problem, "take its logarithm"))


def check_error(frame: pd.DataFrame) -> list[Fault]:
    """Known errors that can't be, of losses or, in a table without them, of what is yet to be logged."""
    if frame["loss_se"].dtype.kind not in "fiu":
        return [Fault(None, "loss_se", "", "column loss_se holds no numbers", "give standard errors in nats/token")]
    error = frame["loss_se"]
    faults = list(_rows(frame, "loss_se", ~np.isfinite(error), "loss_se is missing or not finite", "0 where it is nil"))
    faults += _rows(frame, "loss_se", error < 0, "loss_se {value} is negative", "give a standard error in nats/token")
    if "loss" not in frame:
        return faults
    large = np.isfinite(error) & (error > 0.5 * frame["loss"])
    return faults + list(_rows(frame, "loss_se", large, "loss_se {value} is more than half of the loss", "is it in nats/token?"))


def _check_sizes(frame: pd.DataFrame) -> Iterable[Fault]:
    """A run has one model size: rows of several under one name would be given one luck."""
    if "run" not in frame or "N" not in frame:
        return
    for run, sizes in frame.groupby("run", sort=False)["N"]:
        if len(found := sizes.dropna().unique()) > 1:
            shown = ", ".join(f"{n:g}" for n in found[:3]) + (", …" if len(found) > 3 else "")
            problem = f"run {shortened(repr(run))} has rows of {len(found)} model sizes (N = {shown})"
            yield Fault(int(sizes.index[0]), "run", str(run), problem, "give each run a name of its own")


def _check_covariate(frame: pd.DataFrame, covariate: Covariate) -> list[Fault]:
    name, values = covariate.name, frame[covariate.name]
    low, high = covariate.support
    faults = list(_rows(frame, name, values.isna(), f"{name} is missing", "fill it in or remove the row"))
    outside = f"{name} {{value}} is outside [{low:g}, {high:g}]"
    guesses = {"N": (": is it in billions?", "give the number of parameters"), "r": (": is it a percentage?", "divide by 100")}
    question, suggestion = guesses.get(name, ("", f"unit: {covariate.unit}"))
    if name == "D":
        question, suggestion = ": is it in billions?", "give the number of tokens"
    below, above = values < low, values > high
    if name == "r":
        faults += _rows(frame, name, above, outside + question, suggestion)
        return faults + list(_rows(frame, name, below, outside, "a share lies between 0 and 1"))
    positive = below & (values > 0)
    faults += _rows(frame, name, positive, outside + question, suggestion)
    faults += _rows(frame, name, below & (values <= 0), outside, f"{name} must be positive" if low > 0 else suggestion)
    return faults + list(_rows(frame, name, above, outside, suggestion))
