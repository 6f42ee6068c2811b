"""Plans in three cases: a twin of the published plan, replay runs with public losses, and tinycpt at an unseen stage.

    python benchmarks/plan_cases.py        # writes benchmarks/results/plan_cases.md and its picture; minutes

Public losses are read from the folder named by BAYESLAW_SHARED_DATA (by default ../shared/data); without it that case is left out.
"""

from __future__ import annotations

import sys
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from forecasts import seed_0
from intervals import pile
from tables import SHARED, banner, markdown_table, percent
from truths import fitted

import bayeslaw
from bayeslaw.core.files import write_text
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.plan import Plan, plan
from bayeslaw.plots.decisions import plot_plan
from bayeslaw.plots.style import save_panels
from bayeslaw.posterior.fit import Fit

RESULTS = Path(__file__).parent / "results"
LEVELS = (0.5, 0.8, 0.9, 0.95)
MODEL = {"N": 8.1e9, "ptpp": 279.0}
PLACE = {"N": [8.1e9], "D": [8.9 * 8.1e9], "r": [0.34], "ptpp": [279.0]}
SIZES = (241e6, 517e6, 1.4e9, 8.1e9)
# Form 1 for the source and Form 3 for the target, as in the source's section 4.
TWIN: dict[str, tuple[str, dict[str, float]]] = {
    "source": ("ptpp-floor", {
        "E": 1.3, "A": 60.0, "alpha": 0.3, "B": 3.0, "beta": 0.2, "nu": 0.1, "C": 0.11, "gamma": 0.25, "F": 0.5, "eta": 0.4,
    }),
    "target": ("ptpp-gate-floor", {
        "E": 1.2, "A": 60.0, "alpha": 0.3, "B": 150.0, "beta": 0.3, "nu": 0.35, "C": 0.01, "gamma": 0.2, "F": 0.4, "eta": 0.4,
        "lam": 0.3, "zeta": 0.5,
    }),
}  # fmt: skip
TRANSFER = {"source": "transfer-source", "target": "transfer-target"}
NOISE = {"run": 0.0015, "point": 0.0026}


def paper_runs() -> pd.DataFrame:
    """PTPP 15 and 31 at four sizes, and 20 anchors at 241M and PTPP 279, as logged by the source."""
    seen = [(n, p, r, a) for n in SIZES for p in (15.0, 31.0) for r in (0.1, 0.25, 0.5) for a in np.geomspace(0.5, 20, 8)]
    anchors = [(SIZES[0], 279.0, r, a) for r in (0.1, 0.18, 0.25, 0.5) for a in (1.0, 2.5, 5.0, 10.0, 20.0)]
    frame = pd.DataFrame([*seen, *anchors], columns=["N", "ptpp", "r", "atpp"])
    return frame.assign(D=frame["atpp"] * frame["N"], run=[f"{n:g}-{p:g}-{r:g}" for n, p, r, _ in [*seen, *anchors]]).drop(
        columns="atpp"
    )


def twin() -> str:
    """The published plan reproduced by point fits, and the cost of keeping its constraints with high probability.

    Plans are at the defaults: they count the error that laws have outside their runs, though the laws of this twin are exact.
    """
    frame, rng = paper_runs(), np.random.default_rng(279)
    run = pd.factorize(frame["run"])[0]
    tables, points, truths = {}, {}, {}
    for name, (law_name, values) in TWIN.items():
        law = bayeslaw.load_law(law_name)
        truths[name] = {k: np.array([v]) for k, v in values.items()}
        loss = law.predict(truths[name], {c: frame[c].to_numpy() for c in law.covariates})[0]
        noise = NOISE["point"] * rng.standard_normal(len(frame)) + NOISE["run"] * rng.standard_normal(run.max() + 1)[run]
        tables[name] = frame.assign(loss=loss * np.exp(noise))
        points[name] = bayeslaw.point_fit(law, tables[name], starts=40)
    # Scaling all losses leaves a law and its Huber fit unchanged; the scale puts the point fit's target loss at 1.8.
    scale = 1.8 / float(points["target"].predict(PLACE)[0])
    tables["target"] = tables["target"].assign(loss=scale * tables["target"]["loss"])
    points["target"] = bayeslaw.point_fit(points["target"].law, tables["target"], starts=40)
    base = float(points["source"].predict(PLACE)[0]) / 1.02
    fits = both({name: law for name, (law, _) in TWIN.items()}, tables)
    pair: tuple[PointFit, PointFit] = (points["source"], points["target"])
    question: dict[str, Any] = {"max_forgetting": "2%", "max_loss": 1.8, "base_loss": base, "points": pair, "force": True}
    parts, rows = [], []
    spreads: tuple[Literal["latent"], Literal["run"]] = ("latent", "run")
    for on in spreads:
        planned = plan(fits["source"], fits["target"], MODEL, on=on, **question)
        plug_in = planned.deterministic
        assert plug_in is not None
        if on == "latent":
            parts.append(
                f"Point fits give ATPP {plug_in.atpp:.2f} and replay {percent(plug_in.replay, 1)} (published: 8.9 and 34%); base "
                f"loss {base:.4f} nats, target losses times {scale:.4f}. By the posterior both constraints hold with probability "
                f"{plug_in.held_out:.2f}."
            )
            picture = RESULTS / "plan_cases-twin.png"
            save_panels(picture, [partial(plot_plan, planned, of=of) for of in planned.landscapes])
        for row in planned.frontier.to_dict("records"):
            rows.append(twin_row({str(k): v for k, v in row.items()}, on, plug_in.tokens, truths, base, scale))
    failed = "; ".join(f"{k}: {f.failures}" for k, f in fits.items() if not f.passed)
    parts.append("Checks of both fits passed." if not failed else f"Checks that failed: {failed}.")
    return "\n\n".join([*parts, markdown_table(rows), "![Probability contours and plans](plan_cases-twin.png)"])


def both(laws: dict[str, str], tables: dict[str, Any]) -> dict[str, Fit]:
    """Fits of both domains; if a check of one fails, both are made again with more draws, so that their draws stay paired."""
    options: dict[str, Any] = {"progress": False}
    fits = {k: bayeslaw.fit(laws[k], table, seed=i, **options) for i, (k, table) in enumerate(tables.items())}
    if all(fit.passed for fit in fits.values()):
        return fits
    options |= {"draws": 4000, "tune": 1000, "target_accept": 0.99}
    return {k: bayeslaw.fit(laws[k], table, seed=10 + i, **options) for i, (k, table) in enumerate(tables.items())}


def twin_row(row: dict[str, Any], on: str, reference: float, truths: dict[str, Any], base: float, scale: float) -> dict[str, str]:
    cells = {"confidence": f"{row['confidence']:.0%} ({on})"}
    if row["plan"] != "feasible":
        return cells | dict.fromkeys(
            ("ATPP", "replay", "tokens over the point fits' plan", "held-out probability", "satisfied by the truth"), "infeasible"
        )
    at = {"N": [8.1e9], "D": [row["tokens"]], "r": [row["r"]], "ptpp": [279.0]}
    source, target = (float(bayeslaw.load_law(TWIN[k][0]).predict(truths[k], at)[0, 0]) for k in ("source", "target"))
    kept = source <= 1.02 * base and scale * target <= 1.8
    return cells | {
        "ATPP": f"{row['atpp']:.2f}",
        "replay": percent(row["r"], 1),
        "tokens over the point fits' plan": f"{row['tokens'] / reference:.2f}",
        "held-out probability": f"{row['held_out']:.3f} ± {row['held_out_se']:.3f}",
        "satisfied by the truth": "yes" if kept else "no",
    }


def replay() -> str:
    """Public replay runs: the least replay that keeps the Pile loss at or below its base after 10,000 steps."""
    table, rows = pile(), []
    base = float(table.loc[table["D"] == 0, "loss"].iloc[0])
    last = table[table["D"] == 1e10].sort_values("r")
    crossing = float(np.interp(-base, -last["loss"], last["r"]))
    for share in [*sorted(table["r"].dropna().unique()), None]:
        seen, held = (table[table["r"] != share], table[table["r"] == share]) if share else (table, table.head(0))
        fit, _ = fitted(bayeslaw.load_law("replay-source"), bayeslaw.read_runs(seen), {}, 0)
        row = {"ratio left out": f"{share:g}" if share else "none"}
        spreads: tuple[Literal["latent"], Literal["run"]] = ("latent", "run")
        for on in spreads:
            planned = plan(fit, None, {}, on=on, max_forgetting=0.0, tokens=1e10, minimise="replay", confidence=0.9, force=True)
            row |= replay_row(planned, on)
        if share:
            summary = fit.forecast(bayeslaw.read_runs(held.drop(columns="loss")), force=True).summary()
            low, high = summary["run_eti90_lb"].to_numpy(), summary["run_eti90_ub"].to_numpy()
            inside = (low <= held["loss"].to_numpy()) & (held["loss"].to_numpy() <= high)
            end = int(np.argmax(held["D"].to_numpy()))
            row["its loss at 10,000 steps"] = (
                f"{held['loss'].iloc[end]:.4f} in [{low[end]:.4f}, {high[end]:.4f}]: {'yes' if inside[end] else 'NO'}"
            )
            row["its rows in 90%"] = f"{inside.sum()} of {len(held)}"
        row["checks"] = "passed" if fit.passed else "FAILED"
        rows.append(row)
    columns = list(dict.fromkeys(k for row in rows for k in row))
    head = (
        f"Base Pile loss {base:.5f}; measured losses at 10,000 steps cross it at a replay share of {crossing:.3f} (interpolated)."
    )
    return head + "\n\n" + markdown_table([{c: row.get(c, "") for c in columns} for row in rows])


def replay_row(planned: Plan, on: str) -> dict[str, str]:
    by_level = {row["confidence"]: row for row in planned.frontier.to_dict("records")}
    shown = [f"{by_level[level]['r']:.3f}" if by_level[level]["plan"] == "feasible" else "infeasible" for level in (0.5, 0.9)]
    row = {f"least replay at 50%, {on}": shown[0], f"at 90%, {on}": shown[1]}
    if len(planned.losses):
        shares = planned.losses.loc["replay that suffices, draw by draw"]
        row[f"90% interval, {on}"] = f"{shares['eti90_lb']:.3f} to {shares['eti90_ub']:.3f}"
    return row


def tinycpt() -> str:
    """Plans for the largest size at PTPP 279 from runs at 15 and 31, judged by measured losses."""
    rows: list[dict[str, str]] = []
    fits = both(TRANSFER, {d: seed_0("runs.csv", d).where("ptpp <= 31") for d in TRANSFER})
    measured = {d: seed_0("runs.csv", d).where("ptpp == 279 and N == 196608").frame for d in ("source", "target")}
    base = float(measured["source"].loc[measured["source"]["D"] == 0, "loss"].iloc[0])
    for sd in (None, 0.01):
        for given, title in ((base, "measured"), ("law", "by the law")):
            rows += judged(fits, measured, base, given, f"none bought; base loss {title}", sd)
    notes = []
    for times in (1, 5):
        after, note = bought(fits, base, times)
        notes.append(note)
        for given, title, sd in ((base, "measured", None), ("law", "by the law", None), (base, "measured", 0.01)):
            rows += judged(after, measured, base, given, f"{times} x B0; base loss {title}", sd)
        fits |= {f"{k}, {times} x B0": f for k, f in after.items()}
    passed = ", ".join(f"{k} {'passed' if f.passed else 'FAILED'}" for k, f in fits.items())
    return (
        f"Nine questions: source loss at most 12, 15 or 18% over its base ({base:.4f} nats), target loss at most 1.5, 1.4 or 1.3; "
        "all about one measured model, so plans that satisfy one constraint mostly satisfy the others; "
        "replay .05 to .5 and .5 to 20 tokens per parameter, where losses were measured, interpolated in log tokens and replay. "
        "Anchors are chosen for the margins of one question (15%, 1.4 nats, confidence .9) among all measured runs at PTPP 62, 124 "
        "and 279 of the four smaller sizes; B0 is the price of the four runs of the smallest size at PTPP 279; checkpoints exist. "
        "The discrepancy `learned` is the default: laws have their usual error outside the runs; 1% is stated in its place. "
        f"{' '.join(notes)} Checks: {passed}.\n\n" + markdown_table(rows)
    )


def bought(fits: dict[str, Fit], base: float, times: int) -> tuple[dict[str, Fit], str]:
    """Both fits refitted with the runs that lower the variance of the margins most, and a note on these runs."""
    planned = plan(
        fits["source"], fits["target"], {"N": 196608, "ptpp": 279}, on="run", max_forgetting="15%", max_loss=1.4, base_loss=base,
        replay=(0.05, 0.5), atpp=(0.5, 20.0), force=True,
    )  # fmt: skip
    tables = {d: seed_0("runs.csv", d).frame for d in ("source", "target")}
    pool = tables["target"].query("ptpp > 31 and N < 196608 and D > 0")[["run", "checkpoint", "N", "r", "ptpp", "D"]]
    paper = pool[(pool["ptpp"] == 279) & (pool["N"] == pool["N"].min())]
    price = float((6 * paper["N"] * paper["D"]).groupby(paper["run"]).max().sum())
    picks = planned.anchors(pool, budget=times * price, checkpoint_cost="0", force=True).picks
    names, places = set(picks["run"]), set(pool.loc[pool["run"].isin(set(picks["run"])), "checkpoint"])
    joined = {}
    for domain, table in tables.items():
        new = table[table["run"].isin(names) | (table["checkpoint"].isin(places) & (table["D"] == 0))]
        joined[domain] = pd.concat([table[table["ptpp"] <= 31], new])
    counts = picks.groupby(["N", "ptpp"]).size()
    shown = ", ".join(f"{count} of N = {key[0]:.0f} at PTPP {key[1]:g}" for key, count in counts.items())  # type: ignore[index]
    return both(TRANSFER, joined), f"{times} x B0 buys {shown}."


def judged(
    fits: dict[str, Fit], measured: dict[str, pd.DataFrame], base: float, given: Any, title: str, sd: float | None
) -> list[dict[str, str]]:
    """One row per level: the number of feasible plans that satisfy their constraints, and their cost."""
    plans_of: dict[Any, list[Any]] = {level: [] for level in (*LEVELS[:3], "deterministic")}
    for rise in (0.12, 0.15, 0.18):
        for limit in (1.5, 1.4, 1.3):
            planned = plan(
                fits["source"], fits["target"], {"N": 196608, "ptpp": 279}, on="run", max_loss=limit,
                max_forgetting=f"{100 * rise:g}%",
                base_loss=given, replay=(0.05, 0.5), atpp=(0.5, 20.0), levels=LEVELS[:3], discrepancy=sd, force=True,
            )  # fmt: skip
            rows = [
                (r["confidence"], r["tokens"], r["r"], r["held_out"])
                for r in planned.frontier.to_dict("records")
                if r["plan"] == "feasible"
            ]
            if (plug_in := planned.deterministic) is not None:
                rows.append(("deterministic", plug_in.tokens, plug_in.replay, plug_in.held_out))
            for level, tokens, r, held in rows:
                source, target = (interpolated(measured[d], tokens, r) for d in ("source", "target"))
                plans_of[level].append(
                    (
                        source <= (1 + rise) * base and target <= limit,
                        tokens / 196608,
                        held,
                        source / base - 1 - rise,
                        target - limit,
                    )
                )
    table = []
    for level, plans in plans_of.items():
        count = len(plans)
        table.append(
            {
                "bought, and base loss": title, "discrepancy": f"{sd:.0%}" if sd else "learned",  # the default of `plan`
                "confidence": f"{level:.0%}" if isinstance(level, float) else level,
                "feasible": f"{count} of 9", "kept": str(sum(p[0] for p in plans)),
                "source kept": str(sum(p[3] <= 0 for p in plans)), "target kept": str(sum(p[4] <= 0 for p in plans)),
                "mean held-out probability": f"{np.mean([p[2] for p in plans]):.2f}" if plans else "",
                "median ATPP": f"{np.median([p[1] for p in plans]):.2f}" if plans else "",
            }
        )  # fmt: skip
    return table


def interpolated(frame: pd.DataFrame, tokens: float, r: float) -> float:
    """Measured loss between the logged tokens and replay shares."""
    rows = frame[frame["D"] > 0]
    shares = sorted(rows["r"].unique())
    at = []
    for share in shares:
        curve = rows[rows["r"] == share].sort_values("D")
        at.append(float(np.interp(np.log(tokens), np.log(curve["D"]), curve["loss"])))
    return float(np.interp(r, shares, at))


def main() -> None:
    cases = {"A twin of the published plan": twin, "Replay runs": replay, "tinycpt": tinycpt}
    if not SHARED.is_dir():
        cases.pop("Replay runs")
    parts = ["# Plans on three cases", banner("plan_cases")]
    for title, case in cases.items():
        print(title, file=sys.stderr, flush=True)
        parts += [f"## {title}", cleandoc(str(case.__doc__)), case()]
    write_text(RESULTS / "plan_cases.md", "\n\n".join(parts) + "\n")
    print(RESULTS / "plan_cases.md")


if __name__ == "__main__":
    main()
