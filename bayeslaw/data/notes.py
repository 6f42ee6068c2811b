"""Notes on a table without faults: what its numbers may mean other than the law takes them for."""

from __future__ import annotations

import math
import re
import shlex
from collections import defaultdict
from itertools import combinations, combinations_with_replacement, groupby, pairwise, product
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, evenly, holds_numbers
from bayeslaw.core.errors import row_ranges
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.text import counted, label_text, listed
from bayeslaw.core.units import unit_of
from bayeslaw.data.columns import our_name
from bayeslaw.data.magnitudes import out_of_line
from bayeslaw.data.observations import run_codes
from bayeslaw.data.query import LAST_ROWS
from bayeslaw.data.run_names import unnamed_runs_note
from bayeslaw.data.table import Runs
from bayeslaw.data.tokenizers import token_length
from bayeslaw.data.validate import base_rows, complete, from_scratch, most_per_parameter, read_from, repeats, understood
from bayeslaw.laws.law import Law

ONE_UNIT_OF_SIZES = "Give the number of parameters and of tokens in every row"
SWAPPED = "Look whether the columns N and D are swapped, or D counts steps: few train so briefly"
COUNTED_ON = "D counts the tokens of the adaptation alone: if the log goes on counting from the pre-training, subtract N x ptpp"
LEAST_COUNTED_ON = 0.95  # times the tokens of the pre-training; ptpp may be rounded
FEW, FEWER = 1e5, 1e-5  # tokens, and their ratio to the parameters as a part of the table's median, of rows in another unit
SHARES = "If these are shares divided by 100, read them as they are: --column r=COLUMN (columns={'r': 'COLUMN'})"
LEAST_REPLAY = 0.01  # the largest share of a table below which all may have been divided by 100 once too often
DOMAINS = ("source", "target")
APART = (
    "Bring them to one by `bayeslaw convert`, choose those of one tokenizer (--where, runs.where), or let parameters vary by it "
    "(--by E=COLUMN, by={'E': 'COLUMN'})"
)
ONE_CURVE = (
    "Fit a law that knows them (`bayeslaw laws`), choose rows that don't differ in them (--where, runs.where), or let parameters "
    "vary by the column (--by E=COLUMN, by={'E': 'COLUMN'})"
)
NO_SCHEDULE = (
    f"Fit the last row of each run: {LAST_ROWS}; laws of schedules describe whole curves of one size (`bayeslaw dynamics areas`)"
)
ONE_RATE = f"Give all rows of a run that rate, such as its largest, and fit the last of them: {LAST_ROWS}"
FALLEN = 0.5  # of the highest rate of a run, below which its rate has fallen
NO_TOKENS = "Give the tokens of the run if it had some"
WHOLE_RUN = "Are they FLOPs of the whole run? Leave the column flops out to count 6 N D"
FAR_FLOPS = 300  # times 6 N D, or a part of it, from which on flops must be of something else
MOST_PAIRED = 30  # runs sharing a loss of which all pairs are compared
BITS = -math.log(math.log(2))  # log of a loss in bits over that in nats
FITTED = 5_000  # rows in which losses of two units are looked for
CLEARER = 5.0  # times less that losses scatter as of two units than as of one
NEAR = 0.05  # relative error of the log of their ratio
FEWEST, SCATTERED = 0.1, 0.04  # share of the rows that are of either unit, and the most that these scatter
ONE_UNIT = "Bring all losses to one unit: losses in nats are those in bits times 0.693"
GUESSING = (
    "Look whether chance is what guessing scores there, and whether answers that could not be read count as wrong. No law goes "
    "below chance: the noise makes up for such rows, unless you leave them out (--where, runs.where)"
)
BELOW, PART_BELOW = 4.0, 0.25  # sd of guessing below chance, and the part of a task's rows from which on they are a concern
LEAST_RANKED, WRONG_WAY = 8, 0.7  # rows, and the rank correlation from which on an outcome goes the wrong way
IN_A_ROW = 10  # equal losses that do not follow one another by chance


class TableNote(NamedTuple):
    """A note on a table: the name of its check, what it says, what to do, and whether it is a concern about the model.

    A note about the model that advises nothing is on rows that were left out.
    """

    name: str
    text: str
    advice: str
    subject: Literal["model", "note"]

    def __str__(self) -> str:
        return f"{self.text}. {self.advice}." if self.advice else f"{self.text}."


def table_notes(runs: Runs, law: Law) -> list[TableNote]:
    """Return the notes on a table that has no faults for a law."""
    frame = runs.frame
    notes = [
        TableNote("repeats", *repeats_note(runs, law), "model"),
        TableNote("base_rows", *repeated_base_note(frame, law), "model"),
        TableNote("tokens", swapped_note(frame, law), SWAPPED, "model"),
        TableNote("tokens", counted_on_note(frame, law), COUNTED_ON, "model"),
        TableNote("tokens", few_tokens_note(frame, law) or out_by_note(frame, law), ONE_UNIT_OF_SIZES, "model"),
        TableNote("run_names", shared_names_note(frame, law), "Give each run its own name, if these are several", "model"),
        TableNote("replay", small_replay_note(runs, law), SHARES, "model"),
        domain_note(runs, law),
        TableNote("unknown_covariates", unknown_covariates_note(frame, law), ONE_CURVE, "model"),
        TableNote("rates", falling_rates_note(frame, law), ONE_RATE if law.tuning else NO_SCHEDULE, "model"),
        TableNote("units", two_units_note(frame, law), ONE_UNIT, "model"),
        TableNote("direction", direction_note(frame, law), _other_way(law), "model"),
        TableNote("chance", below_chance_note(frame, law), GUESSING, "model"),
        TableNote("tokenizers", tokenizers_note(frame, law), APART, "model"),
        TableNote("no_tokens", no_tokens_note(frame, law), NO_TOKENS, "note"),
        TableNote("flops", flops_note(frame, law), WHOLE_RUN, "note"),
        TableNote("unnamed_runs", unnamed_runs_note(frame, law), "", "note"),
    ]
    return [note for note in notes if note.text]


def repeats_note(runs: Runs, law: Law) -> tuple[str, str]:
    """Say which rows of a sound table may be one measurement and are fitted, or were left out, and what to do; else empty texts."""
    again, notes, ways, advice = repeats(runs.frame, law), list[str](), list[str](), list[str]()
    if len(again):
        if runs.duplicates != "drop":
            ways.append("`--duplicates drop` (duplicates='drop')")
        which = "repeat earlier rows exactly, are" if len(again) > 1 else "repeats an earlier row exactly, is"
        done = "left out" if runs.duplicates == "drop" else "kept: each narrows the intervals as a new measurement would"
        notes.append(f"{row_ranges(again.index)}, which {which} {done}")
    if groups := same_in_other_runs(runs.frame, law):
        ways.append("`--where \"run != 'NAME'\"` (runs.where) leaves out a run")
        shown = ", and ".join(row_ranges(group) for group in groups[:3])
        more = f", and {len(groups) - 3} more groups of rows" if len(groups) > 3 else ""
        rows = runs.frame.loc[[row for group in groups for row in group]]
        names = list(dict.fromkeys(rows["run"].dropna().map(label_text))) if "run" in rows else []
        of_runs = f" (runs {listed(names)})" if names else ""
        notes.append(
            f"{shown}{more}{of_runs} have the same settings and, to the last digit, the same {law.outcome.name} in different runs: "
            "if they are one measurement, keep one of them, since each narrows the intervals as a new one would"
        )
    if twice := of_two_outcomes(runs.frame, law):
        which, apart = "has" if len(twice) == 1 else "have", _column_apart(runs.frame, law)
        then = f", and differ in {apart}" if apart else ": keep the one that counts, unless both are separate measurements"
        notes.append(f"{row_ranges(twice)} {which} the run and the settings of an earlier row and another {law.outcome.name}{then}")
        first, outcome, name = twice[0], law.outcome.name, next(iter(law.parameters))
        if apart:
            advice.append(
                f"""Choose the rows of one {apart} (--where "{apart} == {str(runs.frame[apart][first])!r}", runs.where), or let """
                f"parameters vary by it (--by {shlex.quote(f'{name}={apart}')}, by={{{name!r}: {apart!r}}})"
            )
        else:
            value = float(runs.frame[outcome][first])
            ways.append(f"`--where '{outcome} != {value!r}'` (runs.where) leaves out that of row {first}")
    if ways:  # none where the text says which rows were left out
        advice.insert(0, f"Keep one row of each: {', '.join(ways)}")
    return ". ".join(notes), ". ".join(advice)


def repeated_base_note(frame: pd.DataFrame, law: Law) -> tuple[str, str]:
    """Say that several runs log the same loss of their checkpoint before adaptation, and what to do; texts that are '' otherwise.

    Such a loss was measured once, or is that of the same weights on the same text, whatever the settings of the adaptation are.
    """
    if not law.onset or not {law.outcome.name, *law.measured} <= {*frame} or base_rows(frame, law).any():
        return "", ""
    rows = frame[(frame[list(law.onset)] == 0).all(axis=1)]
    rows = rows.drop(index=[row for row in repeats(frame, law).index if row in rows.index])
    same = [c for c in ("domain", *law.levels, *law.measured, law.outcome.name) if c in rows and c not in law.idle_at_base]
    again = rows[rows.duplicated(same)]
    if again.empty:
        return "", ""
    text = (
        f"{row_ranges(again.index)} repeat{'s' * (len(again) == 1)} the {law.outcome.name} of a checkpoint before adaptation that "
        "another row has: each narrows the intervals as a new measurement would"
    )
    checkpoint, way = rows.groupby(same, dropna=False).ngroup(), ""
    for share in sorted(rows["r"].dropna().unique()) if "r" in rows and law.onset == ("D",) else ():
        chosen = checkpoint[rows["r"] == share]
        if chosen.is_unique and len(chosen) == checkpoint.nunique():
            way = f""", as by --where "D > 0 or r == {share:g}" (runs.where)"""
            break
    return text, f"Keep one such row of each checkpoint{way}"


def same_in_other_runs(frame: pd.DataFrame, law: Law) -> list[list[int]]:
    """Return groups of rows with the same settings and, to the last digit, the same outcome in different runs.

    Left out are those that may agree by chance: outcomes of fewer than four decimals, and runs that differ at most of their common
    settings and are nowhere equal for long, as curves under one schedule that share a loss here and there.
    """
    rows, name = complete(frame, law), law.outcome.name
    if law.outcome.kind == "count":  # shares of few items agree by chance
        return []
    rows = rows[(rows[name].round(3) != rows[name]) & ~rows.index.isin(repeats(frame, law).index)]
    columns = [c for c in understood(rows, law) if c not in ("run", "checkpoint", "seed")]
    equal = rows[rows.duplicated(columns, keep=False)]  # a group for each of a million rows takes half a minute
    groups = [[int(row) for row in group] for group in equal.groupby(columns, dropna=False).groups.values() if len(group) > 1]
    return _of_equal_runs(rows, [c for c in columns if c != name], groups) if groups and "run" in rows else groups


def _of_equal_runs(rows: pd.DataFrame, settings: list[str], groups: list[list[int]]) -> list[list[int]]:
    """Return the groups of equal rows in which two runs are equal at too many common settings for chance, such as a copied part."""
    runs = rows["run"].where(rows["run"].notna(), rows.index).map(str)  # a row without a run is one of its own
    rows = rows[runs.isin(runs[[row for group in groups for row in group]])]
    place = rows.groupby(settings, dropna=False).ngroup()
    places = {run: set(places) for run, places in place.groupby(runs[rows.index])}
    pairs, equal = [_pairs(sorted(set(runs[group]))) for group in groups], defaultdict[tuple[str, str], set[int]](set)
    for group, some in zip(groups, pairs, strict=True):
        for pair in some:
            equal[pair].add(place[group[0]])
    alike = {(a, b) for (a, b), shared in equal.items() if _not_by_chance(sorted(places[a] & places[b]), shared)}
    return [group for group, some in zip(groups, pairs, strict=True) if some & alike]


def _pairs(names: list[str]) -> set[tuple[str, str]]:
    """Return all pairs of runs that share a loss; of very many, of which copies are neighbours too, only neighbours."""
    return set(combinations(names, 2) if len(names) <= MOST_PAIRED else pairwise(names))


def _not_by_chance(common: list[int], equal: set[int]) -> bool:
    """Whether equal losses are half or more of those at common settings, or follow one another there."""
    longest = max((sum(1 for _ in run) for same, run in groupby(at in equal for at in common) if same), default=0)
    return 2 * len(equal) >= len(common) or longest >= IN_A_ROW


def of_two_outcomes(frame: pd.DataFrame, law: Law) -> list[int]:
    """Return the rows whose run has another outcome at the same settings, as a run has that was resumed or evaluated twice."""
    rows, name = complete(frame, law), law.outcome.name
    if law.outcome.kind == "count" or "run" not in rows:
        return []
    rows, columns = rows[rows["run"].notna()], _settings(rows, law)
    return [int(row) for row in rows.index[rows.duplicated(columns) & ~rows.duplicated([*columns, name])]]


def _settings(frame: pd.DataFrame, law: Law) -> list[str]:
    """Return the columns that tell rows apart, but for the outcome and its error."""
    return [c for c in understood(frame, law) if c not in (law.outcome.name, law.outcome.error)]


def _column_apart(frame: pd.DataFrame, law: Law) -> str:
    """Return the first column of names, such as corpus, in which rows of one run and setting all differ; '' if there is none."""
    rows, columns = complete(frame, law), _settings(frame, law)
    again = rows[rows.duplicated(columns, keep=False)]
    for name in (str(c) for c in again if str(c) not in understood(frame, law) and not holds_numbers(again[c])):
        names = again[name]
        # Times and other texts that no other row has are no names.
        if names.notna().all() and 2 * names.nunique() <= len(names) and not again.duplicated([*columns, name]).any():
            return name
    return ""


def swapped_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that every run of a sound table has more parameters than training tokens, as if N and D were swapped; '' otherwise."""
    most = most_per_parameter(frame, law) if from_scratch(law) else 0.0  # adaptations may be short
    return f"every run has more parameters than training tokens (D / N is at most {most:.2g})" if 0 < most < 1 else ""


def no_tokens_note(frame: pd.DataFrame, law: Law) -> str:
    """Say which rows of a law of training from scratch have no tokens, and so are no base checkpoints either; '' for none."""
    rows = frame.index[base_rows(frame, law)]
    if not len(rows) or not from_scratch(law):
        return ""
    which = f"{row_ranges(rows)} {'has D = 0 and is' if len(rows) == 1 else 'have D = 0 and are'} kept out"
    return f"{which}: {law.name} is a law of training from scratch, and a run without tokens can't be fitted"


def flops_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that a column `flops` is far from 6 N D in most rows, as FLOPs of one token are; '' otherwise.

    Mixtures of experts with the N of all experts are at a hundredth of 6 N D, and adaptations may count what came before.
    """
    columns = ["flops", "N", "D"]
    if not from_scratch(law) or not {*columns} <= {*frame} or not all(holds_numbers(frame[c]) for c in columns):
        return ""
    counted_so = FLOPS * frame["N"] * frame["D"]
    ratio = (frame["flops"] / counted_so)[(counted_so > 0) & (frame["flops"] > 0)]
    if 1 / FAR_FLOPS <= ratio.median() <= FAR_FLOPS or ratio.empty:
        return ""
    row = (np.log(ratio) - math.log(ratio.median())).abs().idxmin()
    return f"column flops has {frame['flops'][row]:.2g} at row {row}, where 6 N D is {counted_so[row]:.2g}, and most rows are so"


def counted_on_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that D of adaptations is nowhere less than the tokens of the pre-training, as if it counted these too; '' otherwise."""
    columns = {"N", "D", "ptpp"}
    if not columns <= {*frame} & {*law.covariates} or from_scratch(law):
        return ""
    ratio = frame["D"] / (frame["N"] * frame["ptpp"])
    least, most = float(ratio.min()), float(ratio.max())
    if not least >= LEAST_COUNTED_ON:
        return ""
    return f"in every row D is {least:.2g} to {most:.2g} times the tokens of the pre-training, N x ptpp"


def few_tokens_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that some rows have far fewer tokens per parameter than most, as if they alone were in billions; '' otherwise.

    The first rows of a curve, of one batch at step 0, are none of these: in millions they would lie beyond the next rows.
    """
    if not {"N", "D"} <= {*frame} & {*law.covariates}:
        return ""
    rows = frame[frame["D"] > 0]
    ratio, usual = rows["D"] / rows["N"], float((rows["D"] / rows["N"]).median())
    small = (ratio < FEWER * usual) & (rows["D"] < FEW)
    if "run" in rows:
        usual_of_run = rows["D"].where(~small).groupby(rows["run"])
        backwards = usual_of_run.transform("first") > usual_of_run.transform("last")  # some exports have the newest row first
        after = usual_of_run.bfill().where(~backwards, usual_of_run.ffill())
        small &= ~(after < 1e6 * rows["D"])
    few = rows.index[small]
    if not len(few):
        return ""
    unit = "millions" if usual / ratio[few[0]] < 10**7.5 else "billions"
    more = f"; {row_ranges(few[1:])} {'is' if len(few) == 2 else 'are'} like it" if len(few) > 1 else ""
    return (
        f"D is {rows['D'][few[0]]:g} at row {few[0]}, {ratio[few[0]]:.2g} tokens per parameter where the median of all rows is "
        f"{usual:.2g}, as if it were in {unit}{more}"
    )


def out_by_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that N or D of a few runs is out by a factor of 1,000 or more, by other runs' ends and losses; '' otherwise."""
    columns = ["N", "D", law.outcome.name]
    if not from_scratch(law) or not law.outcome.is_loss or not {*columns} <= {*frame} or "N" not in law.covariates:
        return ""
    rows = frame[(frame[columns] > 0).all(axis=1)]
    rows = rows.loc[rows["D"].groupby(run_codes(rows)[0]).idxmax()]
    n, d, loss = (rows[name].to_numpy(dtype=np.float64) for name in columns)
    for (name, size, beside), sign in product((("N", n, d), ("D", d, n), ("D / N", d / n, n)), (1, -1)):
        odd, others, factor = out_of_line(size, beside, loss, sign)
        if odd.size:
            low, high, more = size[others].min(), size[others].max(), sorted(map(int, rows.index[odd[1:]]))
            off = "small" if sign > 0 else "large"
            like_it = f"; {row_ranges(more)} {'is' if len(more) == 1 else 'are'} like it" if more else ""
            return (
                f"{name} is {size[odd[0]]:.3g} at row {rows.index[odd[0]]} and {low:.3g} to {high:.3g} at the ends of other runs, "
                f"and the loss is like theirs, as if {name} were {factor:,.0f} times too {off}{like_it}"
            )
    return ""


def shared_names_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that rows of one run have several replay shares, as runs of a sweep that are named after their model; '' otherwise."""
    if not {"run", "r", "D"} <= {*frame} or "r" not in law.covariates:
        return ""
    shares = frame[frame["D"] > 0].dropna(subset=["run", "r"]).groupby("run", sort=False)["r"].unique()
    several = shares[shares.map(len) > 1]
    if several.empty:
        return ""
    values = listed([f"{share:g}" for share in sorted(several.iloc[0])], 4)
    others = f", and {counted(len(several) - 1, 'other run')} too" if len(several) > 1 else ""
    of = f"run {label_text(several.index[0])} has rows of {len(several.iloc[0])} replay shares (r = {values})"
    return f"{of}{others}: they share one run effect"


def small_replay_note(runs: Runs, law: Law) -> str:
    """Say that all replay shares are below a hundredth, as percentages are that were divided twice; '' otherwise."""
    frame = runs.frame
    if not {"r"} <= {*frame} & {*law.covariates} or not 0 < (most := float(frame["r"].max())) < LEAST_REPLAY:
        return ""
    read = next((f", read as {text}" for text in runs.conversions if text.startswith("r = ")), "")
    return f"replay shares r are at most {most:.2g}{read}"


def domain_note(runs: Runs, law: Law) -> TableNote:
    """Return the note on losses of the other domain than that of a law, without a text where there is none to make."""
    advice = f"Choose the losses of the {law.one_domain}, or a law of the other domain"
    return TableNote("domain", other_domain_note(runs, law), advice, "model")


def other_domain_note(runs: Runs, law: Law) -> str:
    """Say that the losses of a table are of the target by their names and the law is of the source, or the other way round."""
    given = {f"column {read_from(runs, law.outcome.name)}": read_from(runs, law.outcome.name)}
    if "domain" in runs.frame and len(values := runs.frame["domain"].dropna().unique()) == 1:
        given[f"domain {values[0]}"] = str(values[0])
    for where, name in given.items():
        named = [domain for domain in DOMAINS if domain in re.findall("[a-z]+", name.lower())]
        if law.one_domain and len(named) == 1 and named[0] != law.one_domain:
            return f"the losses are of {where}, and {law.name} describes losses of the {law.one_domain}"
    return ""


def unknown_covariates_note(frame: pd.DataFrame, law: Law) -> str:
    """Say which of size, replay and pre-training vary in a table and are unknown to a law of losses over tokens; '' if none do."""
    if not law.outcome.is_loss or "D" not in law.covariates:
        return ""
    known = {*law.covariates, *law.levels, *(("ptpp",) if "base_loss" in law.covariates else ())}
    rows, several = frame[frame["D"] > 0], list[str]()
    for name in ("N", "r", "ptpp"):
        if name in known or name not in rows or not holds_numbers(rows[name]):
            continue
        values = rows[name].dropna().unique()
        if len(values) > 1:
            several.append(f"{len(values)} values of {name} ({values.min():.3g} to {values.max():.3g})")
    return f"the rows have {' and '.join(several)}, which {law.name} does not know: one curve stands for all" if several else ""


def falling_rates_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that the rate falls along most runs of several losses, which a law of tokens does not know; '' otherwise.

    Laws in which a rate is tuned know one of each run, as it was set: the rate of a moment is no choice, and falls where losses do.
    """
    columns, tuned = ["run", "D", law.outcome.name], "lr" in law.tuning
    rates = (str(c) for c in frame if our_name(str(c), "logs") == "lr" and (c == "lr" or not tuned) and holds_numbers(frame[c]))
    rate = next(rates, None)
    known = "lr" in law.covariates and not tuned
    if not law.outcome.is_loss or "D" not in law.covariates or known or rate is None or not {*columns} <= {*frame}:
        return ""
    rows = frame[[*columns, rate]].dropna().sort_values("D", kind="stable").groupby("run")[rate]
    several = rows.size() > 2
    fallen = several & (rows.last() < FALLEN * rows.max())
    if not several.any() or fallen.sum() < several.sum() / 2:
        return ""
    falls = f"the learning rate falls along {counted(int(fallen.sum()), 'run')}"
    if tuned:
        return f"{falls}, and {law.name} takes lr for the {law.covariates['lr'].unit} that each run was given"
    return f"{falls}, which {law.name} does not know: losses before its fall are higher than those of runs that end there"


def two_units_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that some losses are 1.44 times those of other rows at similar settings, as bits are beside nats; '' otherwise.

    It fits a quadratic, or a plane to few rows, in the logarithms of the covariates to log losses of one group of rows, and of two
    that are log 1.44 apart: two scatter much less around it where units are mixed.
    """
    if not law.outcome.is_loss or law.levels or any(p.by for p in law.parameters.values()):
        return ""
    rows = frame[[*(c for c in law.axes if c in frame and holds_numbers(frame[c])), law.outcome.name]].dropna()
    rows = rows.iloc[evenly(len(rows), FITTED)]
    logs = [_standard(rows[c].to_numpy(dtype=np.float64)) for c in rows if c != law.outcome.name and rows[c].min() < rows[c].max()]
    terms = np.stack([np.ones(len(rows)), *logs, *(a * b for a, b in combinations_with_replacement(logs, 2))], axis=1)
    if len(rows) < 3 * terms.shape[1]:  # too few for the squares
        terms = terms[:, : 1 + len(logs)]
    if len(rows) < 3 * terms.shape[1]:
        return ""
    basis, logged = np.linalg.qr(terms)[0], np.log(rows[law.outcome.name].to_numpy(dtype=np.float64))

    def around(values: Array) -> Array:
        return np.asarray(values - basis @ (basis.T @ values))

    def parted(high: NDArray[np.bool_]) -> NDArray[np.bool_]:
        for _ in range(50):  # it seldom takes ten
            in_nats = logged - BITS * high
            high, before = in_nats - around(in_nats) < logged - BITS / 2, high
            if (high == before).all():
                break
        return high

    residual = around(logged)
    high = min(
        (parted(residual > np.quantile(residual, q)) for q in (0.25, 0.5, 0.75)), key=lambda z: around(logged - BITS * z).std()
    )
    scatter = float(around(logged - BITS * high).std())
    if not FEWEST <= high.mean() <= 1 - FEWEST or scatter > min(SCATTERED, residual.std() / CLEARER):
        return ""
    apart = float(np.linalg.lstsq(np.column_stack([terms, high]), logged)[0][-1])
    if abs(apart / BITS - 1) > NEAR:
        return ""
    which = f"{high.sum():,} of {len(rows):,} rows, such as row {rows.index[high][0]}"
    return f"{which}, have losses {math.exp(apart):.2f} times those of the others at similar settings, as bits have beside nats"


def direction_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that losses rise with training, or accuracies fall, as another quantity in their column does; '' otherwise.

    Rows are ranked within each value of the columns by which parameters differ, such as tasks.
    """
    name, amount = law.outcome.name, ("loss",) if "loss" in law.covariates else ("N", "D") if from_scratch(law) else ()
    columns = [*amount, name]
    if not amount or law.outcome.kind == "real" or not {*columns} <= {*frame} or not all(holds_numbers(frame[c]) for c in columns):
        return ""
    rows = frame.dropna(subset=columns)
    apart = [c for c in {*law.levels, *(p.by for p in law.parameters.values())} if c in rows]
    training = -rows["loss"] if amount == ("loss",) else rows["N"] * rows["D"]
    better = rows[name] if law.outcome.kind == "count" else -rows[name]
    group = rows.groupby(apart, dropna=False).ngroup() if apart else pd.Series(0, index=rows.index)
    ranks = [values.groupby(group).rank() for values in (training, better)]
    a, b = (rank - rank.groupby(group).transform("mean") for rank in ranks)
    scale = math.sqrt(float((a**2).sum()) * float((b**2).sum()))
    together = float((a * b).sum()) / scale if scale else 0.0
    if len(rows) < LEAST_RANKED or together > -WRONG_WAY:
        return ""
    course = "falls where the loss falls" if amount == ("loss",) else "falls with N x D"
    if law.outcome.kind != "count":
        course = course.replace("falls", "rises", 1)
    return f"{name} {course}, nearly throughout (rank correlation {abs(together):.2f}), and {law.name} says the opposite"


def _other_way(law: Law) -> str:
    other = {"count": "an error rate is 1 - accuracy", "bounded": f"{law.outcome.name} is 1 - accuracy"}
    more = f" {other[law.outcome.kind]}," if law.outcome.kind in other else ""
    return f"Look what the column holds:{more} and scores may have the other sign"


def below_chance_note(frame: pd.DataFrame, law: Law) -> str:
    """Say of which tasks many accuracies lie farther below chance than counting explains; '' if of none.

    Tasks are the values of the columns by which parameters differ, or of chance itself.
    """
    outcome = law.outcome
    needed = {*law.levels, *outcome.facts, outcome.name}
    if outcome.kind != "count" or not isinstance(outcome.chance, str) or not needed <= {*frame}:
        return ""
    value, items, chance = (frame[c].astype(np.float64) for c in (outcome.name, outcome.items, outcome.chance))
    below = value < chance - BELOW * np.sqrt(chance * (1 - chance) / items)
    columns = list(law.levels) or [outcome.chance]
    counts = below.groupby([frame[c] for c in columns], sort=False).agg(["sum", "count"])
    low = counts[(counts["sum"] > 1) & (counts["sum"] >= PART_BELOW * counts["count"])]
    tasks = [", ".join(map(label_text, task if isinstance(task, tuple) else (task,))) for task in low.index]
    of = [
        f"{rows} of {every} of {'' if law.levels else 'chance '}{task}"
        for task, rows, every in zip(tasks, low["sum"], low["count"], strict=True)
    ]
    return f"{outcome.plural} lie below chance by over {BELOW:g} sd of guessing ({listed(of, 3)})" if of else ""


def _standard(values: Array) -> Array:
    """Return logarithms of a covariate, or its values where some are negative, with mean 0 and sd 1."""
    if values.min() >= 0:
        values = np.log(values + (values[values > 0].min() if values.min() == 0 else 0.0))
    return np.asarray((values - values.mean()) / values.std())


def _of_one_length(frame: pd.DataFrame, law: Law) -> bool:
    """Whether a table says of every row how long its tokens are, and they have one length."""
    length = token_length(frame, law)
    return bool(length) and bool(frame[[*length]].notna().all(axis=None))


def tokenizers_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that the losses per token of a table are of several tokenizers, by a column that names them; '' otherwise.

    Losses whose tokens have one length, by a column such as `bytes_per_token`, are comparable, as those that were converted are.
    """
    if not law.outcome.is_loss or not unit_of(frame).endswith("/token") or _of_one_length(frame, law):
        return ""
    apart = {"domain", *law.levels, *(p.by for p in law.parameters.values())} & {*frame}
    for column in (c for c in frame if "tokenizer" in re.findall("[a-z]+", str(c).lower()) and not holds_numbers(frame[c])):
        names = frame[column].dropna().map(str)
        if column in apart or names.nunique() < 2:
            continue
        shown = listed(list(names.unique()), 3)
        of = f"column {column} has {names.nunique()} values ({shown})"
        return f"{of}, and losses per token of different tokenizers can't be compared"
    return ""
