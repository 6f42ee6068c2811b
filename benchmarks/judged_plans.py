"""Plans for held-out checkpoints of every measured sweep of small models, judged by the losses that were measured there.

    python benchmarks/judged_plans.py        # prints the report kept in benchmarks/results/judged_plans.md

Laws are fitted at their defaults, as in benchmarks/cpt.py, to the two earliest stages, or to all but the two largest sizes (the
largest, if there are three). Each other checkpoint with a measured base loss and measured adaptations is planned
for: the fewest tokens with which source and target loss stay under their limits, at confidence 50, 80 and 90%. Limits follow from
the posterior: at each place of `PLACES` they are the QUANTILE quantiles of source and target loss in the default forecast. A limit
of the source counts from the checkpoint's own measured base loss. Plans search the tokens and replay that were measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from cpt import COLUMNS, LAWS, held_out, shown, together, toys
from plan_cases import interpolated
from scipy.stats import binom
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.planning.plan import plan

PLACES = ((3.0, 0.1), (5.0, 0.2), (10.0, 0.35))  # ATPP and r, at which the limits are forecast losses
QUANTILE, BAND = 0.9, 0.95
LEVELS = (0.5, 0.8, 0.9)
REPLAY, ATPP = (0.05, 0.5), (0.5, 20.0)
SKIPPED = ("loss-already-met", "unreachable-loss")  # errors of `plan` that make no question
PLUG_IN = "plug-in"
# Laws of the source and the target, the recommended ones first, and where plans have base losses from.
PAIRS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (LAWS["source"][0], LAWS["target"][0], ("measured",)),
    (("transfer-source",), ("transfer-target",), ("measured", "law")),
)


class Split(NamedTuple):
    """Rows to fit and rows to plan by, of one table of a sweep, both domains."""

    sweep: str
    table: str
    split: str
    seen: pd.DataFrame
    held: pd.DataFrame
    bases: pd.DataFrame  # of all checkpoints, rows with D = 0


class Question(NamedTuple):
    """A checkpoint and its base loss, the limits, and the measured losses by domain that plans are judged by."""

    checkpoint: str
    model: dict[str, float]
    base: float
    rise: float  # relative to the base loss
    limit: float  # of the target loss
    replay: tuple[float, float]
    measured: dict[str, pd.DataFrame]

    def kept(self, tokens: float, r: float) -> dict[str, bool]:
        """Whether the measured losses at a plan stay under their limits."""
        loss = {domain: interpolated(frame, tokens, r) for domain, frame in self.measured.items()}
        kept = {"source": loss["source"] <= (1 + self.rise) * self.base, "target": loss["target"] <= self.limit}
        return kept | {"kept": all(kept.values())}


def splits() -> Iterator[Split]:
    """Every table, with its later stages and with its largest sizes held out."""
    for sweep, name, table in toys():
        rows, bases = table[table["D"] > 0], table[(table["D"] == 0) & (table["domain"] == "source")]
        for split, held in zip(("stages", "sizes"), held_out(rows), strict=True):
            yield Split(sweep, name, split, rows[~held], rows[held], bases)


def questions(split: Split, source: Posterior, target: Posterior) -> Iterator[Question]:
    """The questions on every held-out checkpoint, with limits by these fits."""
    for _, rows in split.held.groupby(["N", "ptpp"]):
        n, ptpp = float(rows["N"].iloc[0]), float(rows["ptpp"].iloc[0])
        model = {"N": n, "ptpp": ptpp}
        base = float(split.bases.loc[(split.bases["N"] == n) & (split.bases["ptpp"] == ptpp), "loss"].iloc[0])
        replay = (max(REPLAY[0], rows["r"].min()), min(REPLAY[1], rows["r"].max()))
        at = pd.DataFrame([model | {"base_loss": base, "D": atpp * n, "r": float(np.clip(r, *replay))} for atpp, r in PLACES])
        limits = [np.quantile(fit.forecast(at, force=True).predictive, QUANTILE, axis=0) for fit in (source, target)]
        measured = {str(domain): frame for domain, frame in rows.groupby("domain")}
        for of_source, of_target in zip(*limits, strict=True):
            yield Question(rows["checkpoint"].iloc[0], model, base, float(of_source / base - 1), float(of_target), replay, measured)


def answers(question: Question, source: Posterior, target: Posterior, base: float | str) -> Iterator[dict[str, Any]]:
    """What came of a question at each confidence and for the plan by median losses."""
    planned = plan(
        source, target, question.model, on="run", max_forgetting=f"{100 * question.rise:.6g}%", max_loss=question.limit,
        base_loss=base, replay=question.replay, atpp=ATPP, levels=LEVELS, force=True,
    )  # fmt: skip
    rows = {row["confidence"]: row for row in planned.frontier.to_dict("records")}
    for level in LEVELS:
        row = rows[level]
        found: dict[str, Any] = {"level": level, "feasible": row["plan"] == "feasible"}
        if found["feasible"]:
            found |= {"atpp": row["atpp"], "r": row["r"], "held_out": row["held_out"]} | question.kept(row["tokens"], row["r"])
        yield found
    point = planned.deterministic
    found = {"level": PLUG_IN, "feasible": point is not None}
    if point is not None:
        found |= {"atpp": point.atpp, "r": point.replay, "held_out": point.held_out} | question.kept(point.tokens, point.replay)
    yield found


def work(split: Split) -> list[dict[str, Any]]:
    """Answers to all questions of a split, by both laws of the source and with both base losses."""
    found = []
    for of_source, of_target, bases in PAIRS:
        source, target = (
            together({law: bayeslaw.fit(law, rows[COLUMNS], progress=False, cores=1) for law in laws})
            for laws, (_, rows) in zip((of_source, of_target), split.seen.groupby("domain"), strict=True)
        )
        head: dict[str, Any] = {"sweep": split.sweep, "table": split.table, "split": split.split}
        head |= {"law": f"{shown(of_source)}; {shown(of_target)}", "passed": source.passed and target.passed}
        for number, question in enumerate(questions(split, source, target)):
            place = question.model | {"checkpoint": question.checkpoint, "question": number}
            for base in bases:
                try:
                    every = list(answers(question, source, target, question.base if base == "measured" else base))
                except BayeslawError as error:
                    if error.code not in SKIPPED:
                        raise
                    every = [{"level": level, "skipped": True} for level in (*LEVELS, PLUG_IN)]
                found += [head | place | {"base": base} | {"skipped": False} | row for row in every]
    return found


def band(count: int, level: float) -> tuple[int, int]:
    """The binomial interval of probability BAND of the number of kept plans, if each is kept with probability `level`."""
    low, high = binom.interval(BAND, count, level) if count else (0, 0)
    return int(low), int(high)


def yes(inside: bool) -> str:
    return "yes" if inside else "NO"


def verdict(part: pd.DataFrame, level: Any) -> dict[str, str]:
    """Counts of feasible and of kept plans, beside the band in which the latter lies if plans hold with their confidence."""
    feasible = part[part["feasible"]]
    count, kept, checkpoints = len(feasible), int(feasible["kept"].sum()), feasible["checkpoint"].nunique()
    row = {"feasible": f"{count} of {len(part)}", "kept": str(kept), "share": f"{kept / count:.0%}" if count else ""}
    row |= dict.fromkeys(("band", "inside", "band of the share by checkpoints", "inside it"), "")
    if count and level != PLUG_IN:
        low, high = band(count, float(level))
        row |= {"band": f"{low} to {high}", "inside": yes(low <= kept <= high)}
        low, high = band(checkpoints, float(level))
        inside = yes(low / checkpoints <= kept / count <= high / checkpoints)
        row |= {"band of the share by checkpoints": f"{low / checkpoints:.0%} to {high / checkpoints:.0%}", "inside it": inside}
    return row | {
        "source kept": str(int(feasible["source"].sum())), "target kept": str(int(feasible["target"].sum())),
        "mean held-out probability": f"{feasible['held_out'].mean():.2f}" if count else "",
        "median ATPP": f"{feasible['atpp'].median():.2f}" if count else "",
    }  # fmt: skip


def questions_text(rows: pd.DataFrame) -> str:
    """What was asked, how plans are judged, and what was left out."""
    places = ", ".join(f"{atpp:g} and {r:g}" for atpp, r in PLACES)
    searched = [f"{low:g} to {high:g}" for low, high in (REPLAY, ATPP)]
    plans = rows["level"] == PLUG_IN  # one row for each
    skipped, without = int((plans & rows["skipped"]).sum()), int(plans.sum())
    failed = rows.loc[~rows["passed"], ["table", "split", "law"]].drop_duplicates().to_numpy().tolist()
    return f"""\
{len(PLACES)} questions on each held-out checkpoint: the fewest tokens with which source and target loss stay under the
{QUANTILE:.0%} quantiles of their default forecasts at a place. Tokens per parameter and r of the places: {places}
(or the nearest r measured). Plans search replay {searched[0]} and {searched[1]} tokens per parameter, as far as losses
were measured, which are interpolated in log tokens and replay. The source's limit is a rise over the measured base loss; plans
know that loss (`measured`) or take the law's at D = 0 (`law`). Everything else is at the defaults.

The band is the binomial {BAND:.0%} interval of the number kept if each plan is kept with its confidence. It takes plans for
independent, which they are not: those for one checkpoint share its measured losses, and all of a split share two fits, so shares
scatter more than the band says. The band by checkpoints takes all plans for a checkpoint for one. `{PLUG_IN}` plans go by median
losses and state no probability.

Left out, since the base checkpoint meets the target's limit or no draw ever does: {skipped} of {without} plans. Checks of the
sampling failed, and plans were forced: {"; ".join(", ".join(each) for each in failed) or "none"}."""


def by_sweep(asked: pd.DataFrame) -> str:
    """The table of the sweeps, all tables and splits of each together."""
    body = []
    for (sweep, law, base, level), part in asked.groupby(["sweep", "law", "base", "level"], sort=False):
        head = {"sweep": str(sweep), "laws": str(law), "base loss": str(base)}
        head |= {"confidence": str(level) if level == PLUG_IN else f"{level:.0%}"}
        body.append(head | {"checkpoints": str(part["checkpoint"].nunique())} | verdict(part, level))
    return markdown_table(body)


def by_split(asked: pd.DataFrame) -> str:
    """The table of tables and splits, one column for each confidence."""
    body = []
    for (table, split, law, base), part in asked.groupby(["table", "split", "law", "base"], sort=False):
        row = {"table": str(table), "held out": str(split), "laws": str(law), "base loss": str(base)}
        row |= {"checkpoints": str(part["checkpoint"].nunique()), "questions": str((part["level"] == PLUG_IN).sum())}
        found = {level: verdict(part[part["level"] == level], level) for level in LEVELS}
        for level, cells in found.items():
            count = cells["feasible"].split()[0]
            row[f"kept at {level:.0%}"] = f"{cells['kept']} of {count} (band {cells['band']}): {cells['inside']}"
        row["source, target kept at 90%"] = f"{found[0.9]['source kept']}, {found[0.9]['target kept']}"
        body.append(row)
    return markdown_table(body)


def report(rows: pd.DataFrame) -> str:
    """The text kept in benchmarks/results."""
    asked = rows[~rows["skipped"]].sort_values(["sweep", "table", "split"], ascending=[True, True, False], kind="stable")
    found = {c: asked[c].eq(True) for c in ("feasible", "kept", "source", "target")}  # those of infeasible plans are missing
    asked = asked.assign(**found)
    parts = ["# Plans judged by measured losses", banner("judged_plans"), questions_text(rows)]
    return "\n\n".join([*parts, "## By sweep", by_sweep(asked), "## By table and held-out rows", by_split(asked)])


def main() -> None:
    every = sorted(splits(), key=lambda split: -len(split.held))  # the longest first
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, every) for row in part])
    print(report(rows))


if __name__ == "__main__":
    main()
