"""Checks of a table for a law: every fault at once, and the completion of cells that do not matter to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, by_row, row_ranges, shortened
from bayeslaw.core.text import counted, exact, label_text, listed
from bayeslaw.data.base_loss import BASE_LOSS, NAMED, base_loss_faults, in_words, near_checkpoint
from bayeslaw.data.cells import numbers_in, spelt_numbers, without_numbers
from bayeslaw.data.columns import MOST_NAMES, TEXT, columns_there, has_meaning, of_unknown_meaning, our_name, resolve
from bayeslaw.data.magnitudes import (
    LEAST_PER_PARAMETER,
    LEAST_TRAINING,
    LEAST_USUAL,
    OF_EXAMPLES,
    OF_STEPS,
    PARAMETERS,
    TOKENS_PER_PARAMETER,
    UNIT_OF_ALL,
    UNIT_OF_SETTING,
    ask_unit,
    may_be_steps,
    units_of_tokens,
    units_within,
)
from bayeslaw.data.measured import cell_faults, check_loss, check_outcome, or_read
from bayeslaw.data.starter import advice, option
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.tokenizers import tokenizer_faults
from bayeslaw.laws.card import laws_with, load_law
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import LOSS
from bayeslaw.laws.pooling import levels_in, levels_of, with_by, with_levels

Purpose = Literal["fit", "score", "forecast"]
EXAMPLES = {"example", "examples", "sample", "samples", "pair", "pairs", "item", "items"}  # words of a column that counts them
LEAST_TOKENS = 1e3  # no run is shorter than so many
LEAST_ADAPTED, LEAST_ADAPTING = 1e-4, 1e5  # tokens per parameter, and tokens, of the longest adaptation of a table
VARY = "let parameters vary by it (--by E=domain, by={'E': 'domain'})"
LEAST_ROWS = 3  # of a fit
SUM = 1e-3 + 1e-9  # by which the shares of a mixture may miss 1: three shares of three digits may by .001, up to rounding of floats
ROUNDED = 0.02  # by which rounded shares miss 1
MEASURE = "give it as a column, or log rows of the checkpoints at D = 0"
AREAS = ("S1", "S2", "lr_peak")  # with which names of columns begin that come from learning-rate schedules


def check(runs: Table, law: Law | str | Path, *, purpose: Purpose = "fit", by: Mapping[str, str] | None = None) -> list[Fault]:
    """List every fault of a table for a law: first those of the whole table and its columns, then cells by row.

    The whole table is at fault for a fit if it has too little variation, too few rows or losses of several domains.

    Parameters
    ----------
    runs : Runs, DataFrame or path
        Cells that hold no number are listed too where the table is read here, or by ``read_runs(…, strict=False)``.
    law : Law, name or path of a card
    purpose : str
        What the table is for: "forecast" needs settings, "score" a loss as well, a row that the law describes and no
        repeated rows, "fit" also enough rows, enough different values of each covariate, rows of adaptations, and losses of
        one domain, unless parameters differ by it.
    by : mapping of parameter to column, optional
        Parameters that will differ by a column of the table, as in `bayeslaw.fit`.

    Examples
    --------
    >>> runs = bayeslaw.read_runs("runs.csv")
    >>> bayeslaw.data.check(runs, "chinchilla")
    []
    >>> [fault.code for fault in bayeslaw.data.check(runs, "ptpp-floor")]
    ['missing-column', 'missing-column']
    """
    if purpose not in get_args(Purpose):
        raise BayeslawError(f"purpose is {purpose!r}; it must be one of {', '.join(get_args(Purpose))}.", code="unknown-option")
    law, runs = load_law(law), read_runs(runs) if isinstance(runs, Runs) else read_runs(runs, strict=False)
    if not len(runs):
        return [Fault(None, "", "", f"{runs.name} has no rows", "give a row for each loss or setting", "no-rows")]
    law = with_by(law, by) if by else law
    if by or purpose == "fit":  # a forecast has the levels of its fit, or is of a law that is not fitted yet
        law = with_levels(law, levels_of(law, runs.frame))
    frame = complete(runs.frame, law)
    with_loss = purpose != "forecast"
    faults = _check_columns(frame, law, with_loss)
    frame = frame.drop(columns={f.column for f in faults if f.code in ("column-without-numbers", "not-a-number")})
    rows = frame[~base_rows(frame, law)]
    only_base = with_loss and not _usable(frame, law, purpose).any()
    if only_base:
        faults.append(_only_base(law))
    if purpose == "fit":
        faults += _check_whole(runs, law, only_base=only_base)
    if with_loss:
        faults += _check_measured(frame, law, runs)
        faults += tokenizer_faults(frame, law)
    for column, known in law.levels.items():
        if column in frame:
            faults += _check_level(frame, column, known)
    of_mixture, percentages = _check_shares(rows, law)
    faults += of_mixture
    for covariate in (c for name, c in law.measured.items() if name in frame):
        # A base checkpoint has no replay share, and without D nobody knows which rows are of one.
        unknown = covariate.name == "r" and "D" in law.covariates and "D" not in frame
        adapted = frame.dropna(subset=["r"]) if unknown else rows
        if not (percentages and covariate.name in law.shares):
            of_covariate = _check_covariate(adapted, covariate, purpose, _unscaled(runs, covariate.name), frame)
            faults += [fault for fault in of_covariate if fault.code != "tokens-too-few" or not counts_examples(runs)]
        if purpose == "fit" and not only_base:
            faults += _check_variation(rows, covariate, law)
    if purpose != "score" and not any(f.column in ("N", "D") for f in faults):
        faults += _check_tokens(frame, law, purpose)
    if with_loss and BASE_LOSS in law.covariates:
        faults += base_loss_faults(frame, of_source=law.one_domain == "source")
    if with_loss and runs.duplicates == "refuse":
        faults += repeat_faults(runs.frame, law)
    if with_loss and "N" in law.covariates and "run" in frame and not any(f.column == "N" for f in faults):
        faults += _check_sizes(frame)
    return by_row(faults, [fault for fault in runs.unread if fault.row in runs.frame.index])


def _only_base(law: Law) -> Fault:
    """Return the fault of a table in which no run has begun."""
    zero = " and ".join(law.onset) or "D"
    problem, suggestion = f"every row is a base checkpoint ({zero} = 0)", "add rows logged during adaptation"
    if from_scratch(law):
        problem = f"{zero} = 0 in every row, and {law.name} describes losses after training has begun"
        suggestion = "give the tokens on which the model was trained up to each loss (--column D=COLUMN, columns={'D': 'COLUMN'})"
    return Fault(None, zero, "0", problem, suggestion, "only-base-checkpoints")


def _check_whole(runs: Runs, law: Law, *, only_base: bool) -> Iterable[Fault]:
    """Find what a fit refuses of rows that may each be sound: several domains, and too few rows."""
    problem, suggestion = _several_domains(runs.frame, law, VARY)
    if problem:
        yield Fault(None, "", "", problem, suggestion, "mixed-domains")
    count = int((~base_rows(runs.frame, law)).sum())
    count -= len(repeats(runs.frame, law)) if runs.duplicates == "drop" else 0
    if count < LEAST_ROWS and not only_base:
        are = "is" if count == 1 else "are"
        problem = f"there {are} {counted(count, 'row')} for {law.name}, and a fit needs at least {LEAST_ROWS}"
        yield Fault(None, "", "", problem, "add rows", "too-few-rows")


def _usable(frame: pd.DataFrame, law: Law, purpose: Purpose) -> pd.Series:
    """Mark the rows that a law describes, for a fit those of an adaptation that has begun."""
    onset = [name for name in law.onset if name in frame]
    return (frame[onset] != 0).any(axis=1) if onset and purpose == "fit" else ~base_rows(frame, law)


def repeats(frame: pd.DataFrame, law: Law) -> pd.Series:
    """Return the row of the first of equal rows for each row that repeats an earlier one exactly, a Series by row.

    Rows are equal if their runs, losses, covariates and all other columns that bayeslaw understands are. Rows without a run may be
    different runs at equal settings: they are equal only if all columns are. Base checkpoints that the law can't describe are kept
    out of fits and do not count.
    """
    outcomes = frame[law.outcome.name] if law.outcome.name in frame else pd.Series(dtype=np.float64)
    if holds_numbers(outcomes) and outcomes.is_unique:  # as most are, and to compare all columns takes milliseconds
        return pd.Series(frame.index[:0], index=frame.index[:0])
    frame = frame[~base_rows(frame, law)]
    whole = {law.outcome.name, *law.measured, *law.levels} <= {*frame}  # without one of them, different settings look equal
    named = frame["run"].notna() if "run" in frame else pd.Series(False, index=frame.index)
    known = understood(frame, law)
    first = []
    for rows, columns in [(frame[~named], list(map(str, frame))), (frame[named], known)] if whole else []:
        for some in (known, columns if len(columns) > len(known) else []):
            if some and len(rows):  # few rows are left to compare in all columns, of which there may be thousands
                cells = rows[some].astype({c: str for c in some if rows[c].dtype.kind not in "fiub"})  # a cell may be a list
                rows = rows[cells.duplicated(keep=False)]
        numbers = pd.Series(rows.index, index=rows.index)
        keys = [cells.loc[rows.index, c] for c in columns] if len(rows) else []
        first.append(numbers.groupby(keys, dropna=False).transform("first") if keys else numbers)
    repeated = pd.concat(first) if first else pd.Series(frame.index, index=frame.index)
    return repeated[repeated != repeated.index].sort_index()


def without_repeats(runs: Runs, laws: Iterable[Law]) -> tuple[Runs, list[str]]:
    """Leave out rows that repeat others exactly under every law, if the table drops such rows; return a note on them too.

    Parameters
    ----------
    runs, laws : Runs and laws
        The laws say which columns tell rows apart.
    """
    repeated = [{*repeats(runs.frame, law).index} for law in laws] if runs.duplicates == "drop" else [set[int]()]
    if not (again := sorted(set[int].intersection(*repeated))):
        return runs, []
    which = "repeat earlier rows" if len(again) > 1 else "repeats an earlier row"
    return replace(runs, frame=runs.frame.drop(index=again)), [f"Left out: {row_ranges(again)}, which {which} exactly."]


def understood(frame: pd.DataFrame, law: Law) -> list[str]:
    """Return the columns that tell rows of a table apart: those of the law, and those with a meaning for bayeslaw."""
    own = {law.outcome.name, *law.covariates, *law.levels, "seed", *TEXT["curves"]}
    return [str(c) for c in frame if c in own or resolve(str(c), "curves")]


def repeat_faults(frame: pd.DataFrame, law: Law) -> list[Fault]:
    """Return one fault for all rows that repeat others exactly; none if there are no such rows."""
    if (again := repeats(frame, law)).empty:
        return []
    count = f"{counted(len(again), 'row')} in all"
    problem = f"{row_ranges(again.index)} repeat{'s' * (len(again) == 1)} {row_ranges(set(again))} exactly ({count})"
    suggestion = (
        "each would count as a new measurement; leave them out by --duplicates drop (in Python read_runs(…, "
        "duplicates='drop')), or, if they are measurements, give each its own run or keep them ('keep')"
    )
    return [Fault(None, "run" if "run" in frame else law.outcome.name, "", problem, suggestion, "repeated-rows")]


def _check_columns(frame: pd.DataFrame, law: Law, with_loss: bool) -> list[Fault]:
    """Find columns that are missing, or hold no numbers."""
    columns = [*([law.outcome.name] if with_loss else []), *law.measured, *law.levels]
    given = frame[[c for c in frame if c not in law.indicators]]
    faults = list(_check_series(frame, law))
    incomplete = {member for members in law.series.values() if not {*members} <= {*frame} for member in members}
    wanted = ", ".join([law.outcome.name] * with_loss + [*law.axes, *law.outcome.facts, *law.series, *law.levels])
    missing = [c for c in columns if c not in frame and c not in incomplete]
    missing = [c for c in missing if c != BASE_LOSS or "D" in frame]  # without D nobody knows which rows are base checkpoints
    areas = [c for c in missing if c.startswith(AREAS)]
    named = [c for c in missing if c != BASE_LOSS and c not in areas]
    suggestion = advice(given, named) if named else ""
    if areas:
        suggestion = f"`bayeslaw dynamics areas` computes {', '.join(areas)} from curves and their schedules. {suggestion}".rstrip()
        if all(name.endswith("_pt") for name in areas):
            suggestion += " An unknown pre-training has none: fit a law without them, such as cpt-dynamics-open."
    if {*law.shares} & {*missing}:
        example = "--shares web,code (shares=['web', 'code'])"
        suggestion = f"Name the columns of your mixture's shares, such as by {example}. {suggestion}"
    if "ptpp" in missing and "N" in missing and "pretrain_tokens" in frame:
        suggestion = suggestion.replace("\nNothing looks like ptpp.", "") + "\nptpp is pretrain_tokens / N as soon as N is there."
    elif "ptpp" in missing and "r" in frame and not re.search("column ptpp=(?!COLUMN)|Did you mean", suggestion):
        suggestion += f"\nIf all runs adapt one checkpoint, fit {_of_one_checkpoint(frame, law)}, which needs no ptpp."
    elif missing == ["r"] and law.one_domain and not re.search("column r=(?!COLUMN)|Did you mean", suggestion):
        of_one = _of_one_checkpoint(frame, law)
        suggestion += f"\nIf all runs adapt one checkpoint with one mixture, fit {of_one}, which needs no r."
    if law.outcome.kind == "count" and law.outcome.name in missing:
        suggestion += _tasks_as_columns(given, law)
    there = f"{law.name} needs {wanted}; there are {columns_there(given)}. {suggestion}"
    for c in columns:
        if c in missing:
            suggestion = there
            if c == BASE_LOSS:
                suggestion = f"{law.name} starts at the measured loss of the base checkpoint: {MEASURE}"
            elif c not in law.levels and (ours := our_name(c)) not in ("", c):
                suggestion = (
                    f"columns of that name are read as {ours}, so that {law.name} gets none: call it something else in the card"
                )
            faults.append(Fault(None, c, "", f"column {c} is missing", suggestion, "missing-column"))
        elif c in frame and c not in law.levels and not holds_numbers(frame[c]):
            faults += without_numbers(frame[c], law.name)
    return faults


def _tasks_as_columns(frame: pd.DataFrame, law: Law) -> str:
    """Say how a table with a column of shares or percentages for each of several tasks gets a row for each; '' for other tables."""
    numbers = [c for c in frame if not has_meaning(str(c)) and c not in law.covariates and holds_numbers(frame[c])]
    tasks = [str(c) for c in numbers if frame[c].between(0, 100).all()]
    if len(tasks) < 2:
        return ""
    own = listed([repr(str(c)) for c in frame if c not in tasks], MOST_NAMES)
    melt = f"df.melt([{own}], var_name='task', value_name={law.outcome.name!r})"
    add = f"Then add {listed(law.outcome.facts)}"
    return f"\nIf each task has a column ({listed(tasks, 3)}), give it rows: in pandas {melt}. {add}."


def _check_series(frame: pd.DataFrame, law: Law) -> Iterable[Fault]:
    """Find series whose columns are missing, or are of another number of nodes than the law's."""
    for series, members in law.series.items():
        count = len(members)
        way = f"{law.name} needs {count}: `bayeslaw dynamics areas --nodes {count}` (Curves.runs(nodes={count})) computes them"
        nodes = [str(c) for c in frame if re.fullmatch(rf"{series}_\d+", str(c))]
        if not nodes:
            yield Fault(None, series, "", f"columns {members[0]} to {members[-1]} are missing", way, "missing-column")
        elif {*members} != {*nodes}:  # each number of nodes puts the changes of the rate together in another way
            yield Fault(None, series, "", f"there are {len(nodes)} columns {series}_1, {series}_2, …", way, "other-number-of-nodes")


def _check_level(frame: pd.DataFrame, column: str, known: tuple[str, ...]) -> Iterable[Fault]:
    values = levels_in(frame[column], known)
    for row in frame.index[~values.isin(known)]:
        value = "" if pd.isna(values[row]) else exact(frame.at[row, column])
        if value and not values[row]:
            numbers = numbers_in(pd.Series(known, index=known, dtype=object))
            same = " and ".join(map(repr, numbers.index[numbers == float(value)]))
            problem = f"{column} is the number {value}, which {same} are"
            way = f"give texts, such as a DataFrame with {{{column!r}: [{known[0]!r}]}}, or names that are no numbers"
            yield Fault(int(row), column, value, problem, way, "unknown-level")
            continue
        names = ", ".join(map(repr, known) if any("," in name for name in known) else known)
        problem = f"{column} {value!r} is not among {names}" if value else f"{column} is missing"
        code = "unknown-level" if value else "missing-value"
        yield Fault(int(row), column, value, problem, "the law has parameters for those only", code)


def _of_one_checkpoint(frame: pd.DataFrame, law: Law) -> str:
    """Name the law of the same domain that knows neither size nor pre-training, and replay only if it varies in the table."""
    several = "r" in frame and len(frame["r"].dropna().unique()) > 1  # base checkpoints have no share
    return " or ".join(laws_with(("D", "r") if several else ("D",), law.one_domain or "target"))


def _check_variation(frame: pd.DataFrame, covariate: Covariate, law: Law) -> Iterable[Fault]:
    """Find a covariate with fewer different values than a fit of the law needs."""
    name, values = covariate.name, frame[covariate.name].dropna().unique()
    if 0 < len(values) < covariate.at_least:
        shown = ", ".join(f"{v:g}" for v in values)
        needed = f"{law.name} needs at least {covariate.at_least} different ones"
        problem = f"{name} has {counted(len(values), 'value')} ({shown}) and {needed}"
        other = "a law without it"
        one_size = "N" not in frame or len(frame["N"].unique()) == 1
        if name in ("r", "ptpp") and one_size and (of_one := _of_one_checkpoint(frame, law)) != law.name:
            other = f"{of_one}, a law of one checkpoint"
        yield Fault(None, name, shown, problem, f"log runs at another value, or fit {other}", "too-few-values")


def _check_covariate(
    frame: pd.DataFrame, covariate: Covariate, purpose: Purpose, unscaled: str, every: pd.DataFrame
) -> list[Fault]:
    """Find values of a covariate that are missing or outside its support; `every` has the rows of base checkpoints too."""
    name, values = covariate.name, frame[covariate.name]
    low, high = covariate.support
    if name == "D" and low <= 1 and "tokens" in covariate.unit and 0 < values.max() < LEAST_TOKENS:
        steps = purpose != "forecast" and may_be_steps(values)
        problem = f"{name} is at most {values.max():g} in all rows{ask_unit(units_of_tokens(frame, values), steps=steps)}"
        way = (UNIT_OF_SETTING if purpose == "forecast" else UNIT_OF_ALL + OF_EXAMPLES).format(name="D") + OF_STEPS * steps
        return [Fault(None, name, "", problem, f"give the number of tokens{way}", "tokens-too-few")]
    if values.between(low, high).all():  # most columns are sound, and what words faults takes milliseconds
        return []
    if name == BASE_LOSS:
        faults = _without_base_loss(frame, every)
    else:
        missing, way = f"{name} is missing", "fill it in or remove the row"
        faults = list(cell_faults(frame, name, values.isna(), missing, way, "missing-value"))
    outside, seen = f"{name} {{value}} is outside [{low:g}, {high:g}]", pd.Series(False, index=frame.index)
    for cells, question, suggestion in _outside(frame, covariate, purpose, unscaled):
        faults += cell_faults(frame, name, cells & ~seen, outside + question, suggestion, "out-of-support")
        seen |= cells
    return faults


def _outside(frame: pd.DataFrame, covariate: Covariate, purpose: Purpose, unscaled: str) -> Iterator[tuple[pd.Series, str, str]]:
    """Yield values outside the support, what to ask of them, and what to do; the first of several applies to a value."""
    name, values = covariate.name, frame[covariate.name]
    low, high = covariate.support
    below, above, small = values < low, values > high, values[values < low]
    of_all = values.max() < (LEAST_TRAINING if name == "D" else low)  # 168 beside 0.35 are both billions of tokens
    unit_of_all = (UNIT_OF_SETTING if purpose == "forecast" else UNIT_OF_ALL).format(name=name) if of_all else ""
    all_percent = purpose != "forecast" and not values.between(0, 1, "neither").any()
    percent = or_read(unscaled, "%", name) if all_percent else ""
    question, suggestion = {
        "N": (ask_unit(units_within(small.max(), *PARAMETERS), values=small), "give the number of parameters" + unit_of_all),
        "D": (ask_unit(units_of_tokens(frame, small), values=small), "give the number of tokens" + unit_of_all),
        "r": (": is it a percentage?", f"divide by 100{percent}"),
    }.get(name, ("", f"unit: {covariate.unit}"))
    asked = above if name == "r" else below & (values > 0)
    if name == "ptpp":
        per_parameter = values / (frame["N"] if "N" in frame and holds_numbers(frame["N"]) else np.nan)
        yield above & per_parameter.between(low, high), ": is it the number of tokens?", "divide by N"
    if name == "N" and low > LEAST_USUAL:  # the law is for large models alone
        others = f"leave out such rows (--where 'N >= {low:g}', runs.where), or take a law for smaller models, such as chinchilla"
        yield below & (values >= LEAST_USUAL), ", and the law describes no smaller models", others
    usual = values[values.between(low, high)].median()  # 31 beside 3.1e7 is in millions
    if name in ("N", "D") and usual > LEAST_USUAL:
        yield asked & (values * 10**7.5 > usual), ": is it in millions?", suggestion
        question = ": is it in billions?"
    yield asked, question, suggestion
    yield below, "", "a share lies between 0 and 1" if name == "r" else f"{name} must be positive" if low > 0 else suggestion
    yield above, "", suggestion


def _without_base_loss(frame: pd.DataFrame, every: pd.DataFrame) -> list[Fault]:
    """Find rows of checkpoints whose loss before adaptation is not known, and name the checkpoints."""
    missing = frame[frame[BASE_LOSS].isna()]
    names = [name for name in NAMED if name in frame]
    bases = every[every["D"] == 0] if "D" in every and holds_numbers(every["D"]) else every[:0]
    others = "leave out these rows (--where, runs.where), or " * (len(missing) < len(frame))
    suggestion = f"{MEASURE}; without it, {others}fit a law that does not need it"
    faults = list[Fault]()
    for model, rows in missing.groupby(names, dropna=False, sort=False) if names else [((), missing)]:
        which = in_words(own := dict(zip(names, model, strict=True)))
        problem = f"{BASE_LOSS}{' of ' * bool(which)}{which} is missing"
        way = suggestion
        if near := near_checkpoint(bases, own):
            same = "give both the same N and ptpp, or name it in a column checkpoint"
            way = f"the row at D = 0 has {near}: if that is its checkpoint, {same}"
        faults += [Fault(int(row), BASE_LOSS, "", problem, way, "missing-value") for row in rows.index]
    return faults


def _check_tokens(frame: pd.DataFrame, law: Law, purpose: Purpose) -> list[Fault]:
    """Find training tokens that are so few, and so few for the size of every model, that they must be in another unit."""
    if not from_scratch(law) and purpose == "forecast":
        return []  # the beginning of an adaptation
    if "D" not in law.covariates or "token" not in law.covariates["D"].unit:
        return []  # such as steps
    least, few = (LEAST_PER_PARAMETER, LEAST_TRAINING) if from_scratch(law) else (LEAST_ADAPTED, LEAST_ADAPTING)
    most = most_per_parameter(frame, law)
    if not 0 < most < least or frame["D"].max() > few:
        return []
    steps = purpose == "fit" and may_be_steps(frame["D"])
    question = ask_unit(units_within(most, *TOKENS_PER_PARAMETER), steps=steps)
    problem = f"D is at most {most:.2g} tokens per parameter in all rows{question}"
    way = (UNIT_OF_ALL if purpose == "fit" else UNIT_OF_SETTING).format(name="D") + OF_STEPS * steps
    return [Fault(None, "D", "", problem, f"give the number of tokens{way}", "tokens-too-few")]


def most_per_parameter(frame: pd.DataFrame, law: Law) -> float:
    """Return the largest number of tokens per parameter, 0 for laws of other covariates."""
    if not {"N", "D"} <= {*frame} & {*law.covariates}:
        return 0.0
    return float((frame["D"] / frame["N"]).max())


def from_scratch(law: Law) -> bool:
    """Whether D is the training tokens of a run that begins with no checkpoint."""
    return "D" in law.covariates and law.covariates["D"].unit.startswith("training tokens") and "cpt" not in law.covariates


def _check_shares(frame: pd.DataFrame, law: Law) -> tuple[list[Fault], bool]:
    """Find mixtures whose shares don't sum to one, and say whether the whole table has them in percent."""
    if not law.shares or not {*law.shares} <= {*frame} or not len(frame):
        return [], False
    shares = frame[list(law.shares)].apply(pd.to_numeric, errors="coerce")
    total, names = shares.sum(axis=1, skipna=False), ", ".join(law.shares)
    if (abs(total / 100 - 1) <= ROUNDED).all():
        about = "" if (abs(total / 100 - 1) <= SUM).all() else "about "
        problem = f"{names} sum to {about}100 in every row: are they percentages?"
        first = law.shares[0]
        way = f"{option(first, f'{first}:%')} (columns={{{first!r}: {f'{first}:%'!r}}})"
        suggestion = f"divide them by 100, or read them by {way}, and so the others"
        return [Fault(None, law.shares[0], "", problem, suggestion, "shares-in-percent")], True
    off = frame.index[(abs(total - 1) > SUM) & ((shares >= 0) & (shares <= 1)).all(axis=1)]
    correct = "shares of a mixture sum to one: correct them, or name all shares (--shares, shares=)"
    rounded = "shares of a mixture sum to one: if these are rounded, divide each by the sum of its row"
    faults = list[Fault]()
    for row in off:
        value, suggestion = f"{total[row]:.6g}", rounded if abs(total[row] - 1) <= ROUNDED else correct
        faults.append(Fault(int(row), law.shares[0], value, f"{names} sum to {value}", suggestion, "shares-sum"))
    return faults, False


def _check_sizes(frame: pd.DataFrame) -> Iterable[Fault]:
    """Find runs of several model sizes: their rows would share one run effect."""
    of_runs = frame.groupby("run", sort=False)["N"]
    for run, sizes in of_runs if (of_runs.min() < of_runs.max()).any() else ():  # of many runs each takes its time
        if len(different := sizes.dropna().unique()) > 1:
            shown = listed([f"{n:g}" for n in different], 3)
            problem = f"run {shortened(repr(run))} has rows of {len(different)} model sizes (N = {shown})"
            yield Fault(int(sizes.index[0]), "run", str(run), problem, "give each run its own name", "run-of-several-sizes")


def _check_measured(frame: pd.DataFrame, law: Law, runs: Runs) -> list[Fault]:
    """List impossible outcomes of a law."""
    if law.outcome.name not in frame:
        return []
    column = read_from(runs, law.outcome.name)
    if not law.outcome.is_loss:
        return check_outcome(frame, law.outcome, column)
    return check_loss(frame, column, "" if "unit" in frame else _unscaled(runs, LOSS.name))


def _unscaled(runs: Runs, name: str) -> str:
    """Return the column of the file from which ours of this name was read as it is; '' where its numbers were converted."""
    read = next((text for text in runs.conversions if text.startswith(f"{name} = ")), f"{name} = {name}").removeprefix(f"{name} = ")
    return "" if re.search(r" x |^log\(|, in ", read) else read


def read_from(runs: Runs, name: str) -> str:
    """Return the column of the file from which ours of this name was read."""
    read = next((text for text in runs.conversions if text.startswith(f"{name} = ")), "")
    return read.removeprefix(f"{name} = ").partition(" x ")[0] or name


def counts_examples(runs: Runs) -> bool:
    """Whether D was read from a column that counts examples by its name, of which there may be few."""
    return not {*re.findall("[a-z]+", read_from(runs, "D").lower())}.isdisjoint(EXAMPLES)


def base_rows(frame: pd.DataFrame, law: Law) -> pd.Series:
    """Mark the rows of base checkpoints (D = 0) that the law, infinite there, can't describe."""
    if "D" in frame and "D" in law.covariates and law.covariates["D"].support[0] > 0:
        return frame["D"] == 0
    return pd.Series(False, index=frame.index)


def mixed_domains(frame: pd.DataFrame, law: Law, vary: str = VARY, fitted: str = "") -> str:
    """Say why a table with losses of several validation domains can't be used with a law of one, or return ''.

    Parameters
    ----------
    frame, law : DataFrame and Law
    vary : str
        How parameters can be made to vary by the domain where the table is given.
    fitted : str
        The domain of a fit's losses, which is then the one to choose; '' where it is not known.
    """
    problem, suggestion = _several_domains(frame, law, vary, fitted)
    return f"{problem}; {suggestion}" if problem else ""


def _several_domains(frame: pd.DataFrame, law: Law, vary: str, fitted: str = "") -> tuple[str, str]:
    """Return the problem of `mixed_domains` and what to do, two empty texts where there is none."""
    if "domain" not in frame or "domain" in {*law.covariates, *law.levels, *(p.by for p in law.parameters.values())}:
        return "", ""
    domains = [str(d) for d in frame["domain"].dropna().unique()]
    if len(domains) < 2:
        return "", ""
    problem = f"the {law.outcome.plural} are of {len(domains)} domains ({listed(domains, 5)}) and {law.name} describes one"
    chosen = fitted if fitted in domains else domains[0]
    return problem, f"""choose with --where "domain == '{chosen}'" or runs.where(…), or {vary}"""


def one_domain(frame: pd.DataFrame, law: Law) -> str:
    """Return the validation domain that all losses of a table are of, or '' where it names none or parameters vary by it."""
    if "domain" not in frame or "domain" in law.levels:
        return ""
    domains = frame["domain"].dropna().map(label_text).unique()
    return str(domains[0]) if len(domains) == 1 else ""


def other_domain(frame: pd.DataFrame, law: Law, fitted: str, vary: str = "fit a law whose parameters vary by it") -> str:
    """Say how a table's losses are of other validation domains than those of a fit, or return ''.

    Parameters
    ----------
    frame, law : DataFrame and Law
    fitted : str
        The domain of the fit's losses; '' where it is not known.
    vary
        As for `mixed_domains`.
    """
    if mixed := mixed_domains(frame, law, vary, fitted):
        return mixed
    domain = one_domain(frame, law)
    if not domain or not fitted or domain == fitted:
        return ""
    return (
        f"its {law.outcome.plural} are of domain {domain} and the fit's of {fitted}; choose with --where or runs.where(…), "
        "or leave the column domain out if they are of the same"
    )


def _in_numbers(frame: pd.DataFrame, law: Law) -> pd.DataFrame:
    """Return a table in which columns of the law that we had no reason to read as numbers are numbers, where they are."""
    outcome = law.outcome
    names = dict.fromkeys((outcome.name, outcome.error, *outcome.facts, *law.measured))
    given = {name: frame[name] for name in names if name in frame and not holds_numbers(frame[name]) and of_unknown_meaning(name)}
    numbers = {name: values for name, cells in given.items() if (values := spelt_numbers(cells)) is not None}
    return frame.assign(**numbers) if numbers else frame


def complete(frame: pd.DataFrame, law: Law) -> pd.DataFrame:
    """Add the law's indicators, make numbers of its covariates, and fill cells that are empty before the adaptation.

    Nothing has been replayed at D = 0, or before the learning rate of the adaptation has an area, so logs leave r empty there. The
    cells get the median of the other rows, which has no effect: only columns that the law's loss does not depend on at its `onset`
    are filled.
    """
    frame = _in_numbers(frame, law)
    given = {c: levels_in(frame[c], law.levels[c]) for c in law.levels if c in frame}
    marks = {name: (given[c] == value).astype(np.float64) for name, (c, value) in law.indicators.items() if c in given}
    if marks:  # at once: pandas warns of a hundred columns added one by one
        rest = frame.drop(columns=[name for name in marks if name in frame])
        frame = pd.concat([rest, pd.DataFrame(marks, index=frame.index)], axis=1)
    base = pd.Series(set(law.onset) <= set(frame), index=frame.index)
    for name in law.onset if base.any() else ():
        base &= (frame[name] == 0).to_numpy(dtype=bool, na_value=False)
    for name in sorted(law.idle_at_base & set(frame)):
        empty = base & frame[name].isna()
        if empty.any() and holds_numbers(frame[name]):
            others = frame.loc[~base, name].median()
            low, high = law.covariates[name].support
            frame = frame.assign(**{name: frame[name].mask(empty, others if np.isfinite(others) else min(max(low, 0.5), high))})
    return frame
