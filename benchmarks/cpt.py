"""Laws of continual pre-training on every measured sweep: unseen stages, unseen sizes, and both.

    BAYESLAW_SHARED_DATA=… python benchmarks/cpt.py        # prints the report kept in benchmarks/results/cpt.md

The laws of LAWS are fitted at their defaults to each sweep's two earliest stages, to all but its two largest sizes (the largest, if
there are three), or to both, and forecast settled rows (two adaptation tokens per parameter on) of the rest, each by itself and in
stacks with equal weights. From tables whose sizes span a factor of 50 the larger half is forecast too, on a logarithmic scale
(far sizes), also together with the later stages. Delphi has seven bases, of which size and stage grow together; the two largest are
forecast. Which laws are stacked, and `noise.walk.WEIGHTS`, by which the size of errors beyond the runs is multiplied along sizes
and stages, are also chosen on all sweeps but the one that is scored, in turn; the weights by the recommended laws of both domains.
In a stack what its laws differ by is a part of that error, and the rest is added: ERRORS are tried on every case of the target and
on Delphi, fitted up to each base in turn.
Point fits, and the published law of the domain for the sizes that its card is for, stand beside. Where a sweep has annealed
checkpoints and others, the recommended laws are also fitted to both kinds at once. They are fitted with either of NOISES too, where
runs have several rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from tables import ROOT, SHARED, banner, markdown_table, percent

import bayeslaw
from bayeslaw.evaluation.scores import crps
from bayeslaw.forecasting import stack as stacks
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.noise import walk as walks

CANDIDATES = {(n, p): {"N": n, "ptpp": p} for n in (0.75, 1.0, 1.25, 1.5, 1.75) for p in (0.25, 0.5, 0.75, 1.0)}
ERRORS = ("none", "the rest", "whole")
FEWEST = 3  # bases of Delphi that are fitted
SETTLED, WIDE = 2.0, 50.0
LAWS: dict[str, list[tuple[str, ...]]] = {
    "source": [
        ("from-base-source",), ("from-base-source", "plateau-source"), ("from-base-source", "transfer-source"),
        ("plateau-source", "transfer-source"), ("transfer-source",), ("plateau-source",), ("injection",),
    ],
    "target": [
        ("plateau-target", "transfer-target"), ("transfer-target",), ("plateau-target",), ("reuse-saturation",), ("midtraining",),
    ],
}  # fmt: skip
"""Laws and stacks of each domain, the recommended ones first and published laws that are not of PUBLISHED last."""
BASE_ROWS, NOISES = ", with base rows", ("normal", "normal-drift")
BY_KIND = {"from-base-source": {"J": "anneal"}}
"""Parameters that differ by the kind of checkpoint where both kinds are fitted at once: the loss of an annealed one rises as soon
as the learning rate does. Laws that start from nothing measured see no such difference in adaptations."""
PUBLISHED = {"source": "ptpp-floor", "target": "ptpp-gate-floor"}  # Goffinet et al. 2025, forms 1 and 3
COLUMNS = ["run", "checkpoint", "N", "D", "r", "ptpp", "loss", "base_loss"]


class Case(NamedTuple):
    """Rows to fit and rows to forecast, of one table and domain of a sweep; `base` are the fitted checkpoints' own rows."""

    sweep: str
    name: str
    split: str
    domain: str
    seen: pd.DataFrame
    held: pd.DataFrame
    base: pd.DataFrame

    @property
    def title(self) -> str:
        return f"{self.name} {self.domain}, {self.split}"


def toys() -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Sweep, name and rows of every table of small models, seed 0."""
    for sweep in ("tinycpt", "tinycpt2", "tinycpt3"):
        for path in sorted((ROOT / "data" / sweep).glob("runs*.csv")):
            rows = bayeslaw.read_runs(path, "seed == 0").frame
            rows = rows[(rows["D"] == 0) | (rows["r"] < 1) & ((rows["r"] > 0) | (sweep != "tinycpt"))]
            kinds = rows["anneal"] if "anneal" in rows else rows["shift"]
            for kind in sorted(kinds.unique()):
                yield sweep, f"{sweep} {kind}", rows[kinds == kind]


def held_out(rows: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    """Rows of the stages after the two earliest; and of the two largest sizes, or of the largest, if there are three."""
    sizes, stages = np.sort(rows["N"].unique()), np.sort(rows["ptpp"].unique())
    return rows["ptpp"] > stages[1], rows["N"] >= sizes[-2 if len(sizes) > 3 else -1]


def cases() -> Iterator[Case]:
    """Every table, domain and split."""
    for sweep, name, table in toys():
        for domain, rows in table.groupby("domain"):
            late, large, started = *held_out(rows), rows["D"] > 0
            splits = {"stages": (~late, late), "sizes": (~large, large)}
            smallest, largest = rows["N"].min(), rows["N"].max()
            if largest > WIDE * smallest:
                large = rows["N"] > np.sqrt(smallest * largest)
                splits["far sizes"] = (~large, large)
            splits["both"] = (~late & ~large, late & large)
            for split, (seen, held) in splits.items():
                settled = rows.loc[held & (rows["D"] >= SETTLED * rows["N"]), COLUMNS]
                if len(settled):  # the largest sizes may have fewer stages
                    parts = (rows.loc[seen & started, COLUMNS], settled, rows.loc[seen & ~started, COLUMNS])
                    yield Case(sweep, name, split, str(domain), *parts)
    if len(rows := delphi()):
        for split, some in {"all budgets": rows, "1B tokens": rows[rows["kind"] == "tok1b"]}.items():
            low = some["base"] < 1e20
            yield Case("delphi", "delphi", split, "target", some.loc[low, COLUMNS], some.loc[~low, COLUMNS], some.loc[[], COLUMNS])


def delphi() -> pd.DataFrame:
    """Final losses of Delphi's adaptations on its clean set; none where the public table is absent."""
    if not (path := SHARED / "delphi_midtraining.csv").exists():
        return pd.DataFrame()
    rows = pd.read_csv(path)
    rows = rows[(rows["val_set"] == "clean_seen") & (rows["D"] > 0) & rows["final"]]
    return rows.assign(run=rows["run_name"], checkpoint=rows["base"].map("{:g}".format), base_loss=np.nan)


def scores(loss: Any, draws: Any) -> dict[str, float]:
    """Error and bias of the median, coverage, width, CRPS and interval score of 90%, relative to the loss.

    The interval score (Gneiting and Raftery 2007) is the width, plus 20 times by how much a loss lies outside.
    """
    low, quarter, middle, upper, high = np.quantile(draws, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    missed = np.maximum(low - loss, 0) + np.maximum(loss - high, 0)
    return {
        "error": float(np.mean(np.abs(middle / loss - 1))), "bias": float(np.mean(middle / loss - 1)),
        "50%": float(np.mean((quarter <= loss) & (loss <= upper))), "90%": float(np.mean((low <= loss) & (loss <= high))),
        "width": float(np.mean((high - low) / loss)), "crps": float(np.mean(crps(loss, draws) / loss)),
        "score": float(np.mean((high - low + 20 * missed) / loss)),
    }  # fmt: skip


def work(case: Case) -> list[dict[str, Any]]:
    """Scores of every law and stack, taken for exact and with every candidate's error beyond the runs, and of point fits."""
    options: dict[str, Any] = {"progress": False, "cores": 1}
    names = sorted({name for laws in LAWS[case.domain] for name in laws})
    fits = {name: bayeslaw.fit(name, case.seen, **options) for name in names}
    best, published = LAWS[case.domain][0], PUBLISHED[case.domain]
    posteriors = {shown(laws): together({name: fits[name] for name in laws}) for laws in LAWS[case.domain]}
    if len(case.base):
        with_base = pd.concat([case.base, case.seen])
        posteriors[shown(best) + BASE_ROWS] = together({name: bayeslaw.fit(name, with_base, **options) for name in best})
    if case.seen["run"].duplicated().any():
        for noise in NOISES:
            of_noise = {name: bayeslaw.fit(name, case.seen, noise=noise, **options) for name in best}
            posteriors[f"{shown(best)}, {noise}"] = together(of_noise)
    loss, some, rows = case.held["loss"].to_numpy(), case.held.drop(columns="loss"), list[dict[str, Any]]()
    about: dict[str, Any] = {"sweep": case.sweep, "name": case.name, "domain": case.domain, "split": case.split, "case": case.title}
    for laws, posterior in posteriors.items():
        head = about | {"laws": laws, "passed": posterior.passed, "fitted": len(case.seen)}
        rows.append(head | {"spread": "default"} | scores(loss, posterior.forecast(some, force=True).predictive))
        rows.append(head | {"spread": "run"} | scores(loss, posterior.forecast(some, discrepancy="none", force=True).predictive))
        for key, weights in CANDIDATES.items() if laws == shown(best) else ():
            with patch.object(walks, "WEIGHTS", weights):
                extrapolated = posterior.forecast(some, force=True).predictive
            rows.append(head | {"spread": str(key)} | scores(loss, extrapolated))
        for error in ERRORS if laws == shown(best) and len(best) > 1 else ():
            rows.append(head | {"spread": error} | scores(loss, forecast_with(posterior, some, error)))
    rows.append(about | {"laws": shown(best), "spread": "point", "error": point_error(best, case.seen, case.held)})
    seen, held = (frame[frame["N"] >= bayeslaw.load_law(published).covariates["N"].support[0]] for frame in (case.seen, case.held))
    fit = bayeslaw.fit(published, seen, **options)
    run = fit.forecast(held.drop(columns="loss"), discrepancy="none", force=True).predictive
    rows.append(about | {"laws": published, "passed": fit.passed, "spread": "run"} | scores(held["loss"].to_numpy(), run))
    rows.append(about | {"laws": published, "spread": "point", "error": point_error((published,), seen, held)})
    return rows


def forecast_with(posterior: Posterior, at: Any, error: str) -> Any:
    """Draws of losses by a stack whose laws have no error, the rest of the usual one, as in the package, or the whole of it."""
    if error == "whole":
        with patch.object(stacks, "rest_of_errors", lambda selections: {}):
            return posterior.forecast(at, force=True).predictive
    return posterior.forecast(at, discrepancy="none" if error == "none" else None, force=True).predictive


def work_bases(fitted: int) -> list[dict[str, Any]]:
    """Scores at each larger base of Delphi of the target's stack, fitted to so many of the smallest bases."""
    rows = delphi()
    bases = np.sort(rows["base"].unique())
    seen, laws = rows.loc[rows["base"] <= bases[fitted - 1], COLUMNS], LAWS["target"][0]
    posterior = together({name: bayeslaw.fit(name, seen, progress=False, cores=1) for name in laws})
    found = []
    for base in bases[fitted:]:
        held = rows[rows["base"] == base]
        reach = float(np.log(held["N"].iloc[0] / seen["N"].max()))
        about = {"fitted bases": fitted, "forecast base": f"{base:.0e}", "passed": posterior.passed, "reach": reach}
        for error in ERRORS:
            draws = forecast_with(posterior, held[COLUMNS].drop(columns="loss"), error)
            found.append(about | {"with": error} | scores(held["loss"].to_numpy(), draws))
    return found


def far_widths() -> str:
    """Widths of the target's 90% intervals at four times Delphi's largest N, fitted to all its bases, in words."""
    rows = delphi()
    posterior = together({name: bayeslaw.fit(name, rows[COLUMNS], progress=False) for name in LAWS["target"][0]})
    at = {"N": 4 * rows["N"].max(), "ptpp": rows["ptpp"].max(), "r": rows["r"].iloc[0], "D": [1e9, 2e9, 4e9, 8e9]}
    texts = []
    for error, words in (("none", "without an error"), ("the rest", "as in the package")):
        low, middle, high = np.quantile(forecast_with(posterior, at, error), [0.05, 0.5, 0.95], axis=0)
        widths = (high - low) / middle
        texts.append(f"{percent(widths.min(), 1)} to {percent(widths.max(), 1)} {words}")
    return " and ".join(texts)


def by_kind(every: list[Case]) -> list[dict[str, Case]]:
    """Cases that differ in the kind of checkpoint alone, by that kind."""
    groups: dict[tuple[str, str, str], dict[str, Case]] = {}
    for case in every:
        if (kind := case.name.split()[-1]) in ("annealed", "constant"):
            groups.setdefault((case.sweep, case.domain, case.split), {})[kind] = case
    return list(groups.values())


def work_together(kinds: dict[str, Case]) -> list[dict[str, Any]]:
    """Scores of the recommended laws fitted to both kinds of checkpoint at once, for each kind's held-out rows."""

    def marked(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
        return rows.assign(anneal=kind, **{name: f"{kind} " + rows[name].astype(str) for name in ("run", "checkpoint")})

    laws = LAWS[next(iter(kinds.values())).domain][0]
    seen = pd.concat([marked(case.seen, kind) for kind, case in kinds.items()], ignore_index=True)
    posterior = together({name: bayeslaw.fit(name, seen, by=BY_KIND.get(name), progress=False, cores=1) for name in laws})
    rows = []
    for kind, case in kinds.items():
        predictive = posterior.forecast(marked(case.held, kind).drop(columns="loss"), force=True).predictive
        about = {"case": case.title, "passed": posterior.passed}
        rows.append(about | scores(case.held["loss"].to_numpy(), predictive))
    return rows


def point_error(laws: tuple[str, ...], seen: pd.DataFrame, held: pd.DataFrame) -> float:
    """Mean error of point fits; of several laws the mean of their losses."""
    points = [bayeslaw.point_fit(name, seen, starts=30) for name in laws]
    expected = [p.law.predict(p.draws, {k: held[k].to_numpy() for k in p.law.covariates})[0] for p in points]
    return float(np.mean(np.abs(np.mean(expected, axis=0) / held["loss"].to_numpy() - 1)))


def shown(laws: tuple[str, ...]) -> str:
    return " + ".join(laws)


def together(fits: dict[str, bayeslaw.Fit]) -> Posterior:
    """A fit, or the stack of several with equal weights."""
    return next(iter(fits.values())) if len(fits) == 1 else bayeslaw.Stack(fits, dict.fromkeys(fits, 1 / len(fits)))


def by_spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Coverage, width and log interval score of every candidate on every sweep and domain, means over their cases."""
    of = rows[rows["spread"].isin([str(key) for key in CANDIDATES])]
    keys = ["spread", "domain", "sweep"]
    return of.assign(score=np.log(of["score"])).groupby(keys, sort=False)[["90%", "width", "score"]].mean()


def best_spread(means: pd.DataFrame, without: str = "") -> str:
    """Of the candidates whose 90% intervals hold 90% of each domain on every sweep but one, that with the best scores there."""
    others = means.drop(index=without, level="sweep") if without else means
    holding = (others["90%"] >= 0.9).groupby(level="spread").all()
    scores = others["score"].groupby(level="spread").mean()
    return str(scores[holding].idxmin()) if holding.any() else "none"


def spreads(rows: pd.DataFrame) -> str:
    """Every candidate's coverage and width on every sweep and domain, and which is chosen without each sweep."""
    means = by_spread(rows)
    sweeps = list(dict.fromkeys(means.index.get_level_values("sweep")))
    body = []
    for key in CANDIDATES:
        of: Any = means.loc[str(key)]
        cells = {
            f"{sweep} {domain}": f"{percent(row['90%'])}, {percent(row['width'], 1)}" for (domain, sweep), row in of.iterrows()
        }
        score = percent(np.exp(of["score"].mean()), 2)
        body.append({"along N, along ptpp": f"{key[0]:g}, {key[1]:g}", **cells, "interval score": score})
    chosen = "; ".join(f"{sweep} {best_spread(means, sweep)}" for sweep in sweeps)
    return f"{markdown_table(body)}\n\nChosen by all {best_spread(means)}, and without the set that is scored: {chosen}."


def stack_errors(rows: pd.DataFrame) -> str:
    """Error, coverage, width and interval score of the target's stack with each of ERRORS, means over the cases of a sweep."""
    some = rows[(rows["laws"] == shown(LAWS["target"][0])) & rows["spread"].isin(ERRORS)]
    columns = ["error", "90%", "width", "score"]
    means: Any = some.assign(score=np.log(some["score"])).groupby(["spread", "sweep"], sort=False)[columns].mean()
    body = []
    for error in ERRORS:
        of = means.loc[error]
        cells = {
            str(sweep): f"{percent(row['error'], 1)}, {percent(row['90%'])}, {percent(row['width'], 1)}"
            for sweep, row in of.iterrows()
        }
        body.append({"error of its laws": error, **cells, "interval score": percent(np.exp(of["score"].mean()), 2)})
    return markdown_table(body)


def bases(rows: pd.DataFrame) -> str:
    """Error of the target's stack at larger bases of Delphi, and coverage and width with each of ERRORS."""
    body = []
    for (fitted, base), part in rows.groupby(["fitted bases", "forecast base"], sort=False):
        first = part[part["with"] == "none"].iloc[0]
        cells = {
            "bases fitted": str(fitted), "forecast base": str(base), "checks": "passed" if first["passed"] else "FAILED",
            "e-folds of N beyond": f"{first['reach']:.2f}", "error": percent(first["error"], 2),
            "error an e-fold": percent(first["error"] / first["reach"], 2),
        }  # fmt: skip
        body.append(cells | {str(row["with"]): f"{percent(row['90%'])}, {percent(row['width'], 1)}" for _, row in part.iterrows()})
    means: Any = rows.groupby("with", sort=False)[["90%", "width"]].mean()
    widths = {str(error): f"{percent(row['90%'])}, {percent(row['width'], 1)}" for error, row in means.iterrows()}
    return markdown_table([*body, dict.fromkeys(body[0], "") | {"bases fitted": "mean"} | widths])


def best_laws(rows: pd.DataFrame) -> str:
    """The laws or stack with the best CRPS: mean log over the cases of a sweep, and over sweeps."""
    by_sweep = rows.assign(crps=np.log(rows["crps"])).groupby(["laws", "sweep"])["crps"].mean().groupby(level=0).mean()
    return str(by_sweep.idxmin())


def recommended(rows: pd.DataFrame) -> str:
    """The recommended laws case by case, beside point fits of their laws and the published law."""
    body = []
    for title, part in rows.groupby("case", sort=False):
        domain = str(part["domain"].iloc[0])
        of: Any = part.set_index(["laws", "spread"])
        best, published = shown(LAWS[domain][0]), PUBLISHED[domain]
        ours, base = of.loc[(best, "default")], (best + BASE_ROWS, "default")
        with_base = of.loc[base] if base in of.index else None
        body.append({
            "case": str(title), "rows fitted": f"{ours['fitted']:.0f}", "checks": "passed" if ours["passed"] else "FAILED",
            "error": percent(ours["error"], 2), "bias": percent(ours["bias"], 2),
            **{f"in {p}": percent(ours[p]) for p in ("50%", "90%")},
            "width": percent(ours["width"], 1),
            "times that of transfer-": f"{ours['width'] / of.loc[(f'transfer-{domain}', 'run'), 'width']:.2f}",
            "CRPS": percent(ours["crps"], 2),
            "error with base rows": "" if with_base is None else percent(with_base["error"], 2),
            "in 90% then": "" if with_base is None else percent(with_base["90%"]),
            "error of point fits": percent(of.loc[(best, "point"), "error"], 2),
            "of the published law": percent(of.loc[(published, "run"), "error"], 2),
            "its run in 90%": percent(of.loc[(published, "run"), "90%"]),
            "of its point fit": percent(of.loc[(published, "point"), "error"], 2),
        })  # fmt: skip
    return markdown_table(body)


def both_kinds(pooled: pd.DataFrame, rows: pd.DataFrame) -> str:
    """The recommended laws fitted to both kinds of checkpoint at once, beside those fitted to one kind."""
    best = rows["domain"].map(lambda domain: shown(LAWS[domain][0]))
    alone: Any = rows[(rows["spread"] == "default") & (rows["laws"] == best)].set_index("case").loc[pooled["case"]]
    shares, digits = {"error": "error", "in 50%": "50%", "in 90%": "90%", "width": "width"}, {"error": 2, "width": 1}
    joint, alone = pooled.set_index("case")[[*shares.values()]], alone[[*shares.values()]]
    joint.loc["mean"], alone.loc["mean"] = joint.mean(), alone.mean()
    checks = pooled.set_index("case")["passed"].map({True: "passed", False: "FAILED"})
    return markdown_table([
        {"case": str(title), "checks": checks.get(title, "")}
        | {name: percent(row[column], digits.get(column, 0)) for name, column in shares.items()}
        | {f"{name}, one kind": percent(alone.loc[title, column], digits.get(column, 0)) for name, column in shares.items()}
        for title, row in joint.iterrows()
    ])  # fmt: skip


def every_law(rows: pd.DataFrame) -> str:
    """Errors of every law and stack, and how often its 90% intervals hold by default, case by case."""
    some = rows[(rows["spread"] == "default") & ~rows["laws"].str.contains(",")]
    body = []
    for title, part in some.groupby("case", sort=False):
        cells = {
            laws: f"{percent(e, 1)} ({percent(c)})" for laws, e, c in zip(part["laws"], part["error"], part["90%"], strict=True)
        }
        body.append({"case": str(title)} | cells)
    tables = [[row for row in body if f" {domain}," in row["case"]] for domain in LAWS]
    return "\n\n".join(markdown_table(table) for table in tables)


def nested(rows: pd.DataFrame) -> str:
    """For each sweep the laws with the best CRPS on the others, and how they do on it."""
    body = []
    for domain, candidates in LAWS.items():
        some = rows[(rows["domain"] == domain) & (rows["spread"] == "default") & rows["laws"].isin(map(shown, candidates))]
        for sweep in dict.fromkeys(some["sweep"]):
            laws = best_laws(some[some["sweep"] != sweep])
            part = some[(some["sweep"] == sweep) & (some["laws"] == laws)]
            errors = part.groupby("split")["error"].agg(["mean", "max"])
            cells = {split: f"{percent(mean, 1)} (at most {percent(most, 1)})" for split, (mean, most) in errors.T.items()}
            body.append({
                "domain": domain, "scored on": sweep, "chosen on the others": laws, **cells,
                **{f"in {p}": percent(part[p].mean()) for p in ("50%", "90%")}, "width": percent(part["width"].mean(), 1),
            })  # fmt: skip
    columns = list(dict.fromkeys(name for row in body for name in row))
    return markdown_table([{name: row.get(name, "") for name in columns} for row in body])


def by_sweep(rows: pd.DataFrame) -> str:
    """Mean coverage and error of the recommended laws on each sweep."""
    best = rows[(rows["spread"] == "default") & (rows["laws"] == rows["domain"].map(lambda domain: shown(LAWS[domain][0])))]
    means = best.groupby("sweep", sort=False)[["50%", "90%", "error", "width"]].mean()
    means.loc["mean of the sweeps"] = means.mean()
    return markdown_table(
        [{"sweep": str(sweep), **{str(k): percent(v, 1) for k, v in row.items()}} for sweep, row in means.iterrows()]
    )


def along_runs(rows: pd.DataFrame) -> str:
    """Means over the cases of a sweep and domain of the recommended laws with both noises."""
    body = []
    columns = ["error", "50%", "90%", "width", "crps"]
    for domain, candidates in LAWS.items():
        best = shown(candidates[0])
        fitted = {noise: f"{best}, {noise}" for noise in NOISES}
        some = rows[(rows["domain"] == domain) & (rows["spread"] == "default") & rows["laws"].isin(fitted.values())]
        means: Any = some.groupby(["sweep", "laws"], sort=False)[columns].mean()
        for sweep in dict.fromkeys(some["sweep"]):
            cells = {"domain": domain, "sweep": sweep}
            for name, laws in fitted.items():
                of = means.loc[(sweep, laws)]
                cells |= {f"error, {name}": percent(of["error"], 2), f"CRPS, {name}": percent(of["crps"], 2)}
                cells |= {f"in {p}, {name}": percent(of[p]) for p in ("50%", "90%")}
            body.append(cells)
    return markdown_table(body)


def main() -> None:
    every = list(cases())
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, every) for row in part])
        pooled = pd.DataFrame([row for part in pool.map(work_together, by_kind(every)) for row in part])
        counts = range(FEWEST, delphi()["base"].nunique()) if len(delphi()) else ()
        at_bases = pd.DataFrame([row for part in pool.map(work_bases, counts) for row in part])
    package = tuple(walks.WEIGHTS[name] for name in ("N", "ptpp"))
    print(f"# Continual pre-training on every measured sweep\n\n{banner('cpt')}\n")
    print("The `transfer-` laws were chosen on tinycpt's headers, with their held-out stages in view; the `plateau-` laws,")
    print("`from-base-source` and the stacks on all tables of tinycpt and tinycpt2, held-out rows included. tinycpt3 was trained")
    print("when laws, priors, stacks and widths were fixed (commit 5cc8331): none of them was chosen on it. The noise of")
    print("`from-base-source` and the widths of single laws beyond the runs were chosen later, when errors were known on all")
    print("three sweeps; the sections on both say what is chosen without each.\n")
    print(f"## The recommended laws: {shown(LAWS['source'][0])}; {shown(LAWS['target'][0])}\n")
    print("Fitted without the base checkpoints' own rows (D = 0), which `from-base-source` has as a covariate; and with them. The")
    print("width is also given over that of the intervals of the `transfer-` law of the domain, taken for exact (`run`). The")
    least = max(bayeslaw.load_law(name).covariates["N"].support[0] for name in PUBLISHED.values())
    print(f"published laws are fitted to and scored on the sizes that their cards are for, from {least:g} parameters on.\n")
    print(recommended(rows) + "\n")
    print(f"Means over the cases of a sweep:\n\n{by_sweep(rows)}\n")
    print("## Run effects that change along a run\n")
    print("The recommended laws with the noises `normal` and `normal-drift`, in means over cases. By these means")
    print("`from-base-source` has `normal-drift` where runs are logged often: tinycpt and tinycpt2 alone choose it, and so does")
    print("either of them with tinycpt3. The laws of the target have `normal`.\n")
    print(along_runs(rows) + "\n")
    print("## Both kinds of checkpoint in one fit\n")
    print("The laws above, fitted to annealed checkpoints and to those at a constant rate together (`--by J=anneal` for the law")
    print("with a measured base loss), beside their fits to one kind. Nothing was chosen by this table.\n")
    print(both_kinds(pooled, rows) + "\n")
    print("## Chosen without the sweep that is scored\n\nBy the lowest mean log CRPS on the other sweeps.\n")
    print(nested(rows) + "\n")
    print(f"## Every law and stack: error (losses in 90%)\n\n{every_law(rows)}\n")
    print("## How wide intervals are beyond the runs\n")
    print("Outside the runs laws have an error of a usual size (`extrapolated`). That size is multiplied along sizes and")
    print(f"stages; the package has {package}. Losses in 90% intervals of the recommended laws, and their width, means over the")
    print("cases of a sweep. Chosen is the best interval score, in the mean of all columns, among those that hold 90% in each.\n")
    print(spreads(rows[rows["laws"].isin([shown(of[0]) for of in LAWS.values()])]))
    print("\n## How wide intervals of a stack are beyond the runs\n")
    print("What the laws of a stack differ by an e-fold beyond the runs is a part of the usual error, and the rest is added.")
    print("Error, losses in the target's 90% intervals, and their width, means over the cases of a sweep:\n")
    print(stack_errors(rows))
    if len(at_bases):
        print(
            "\nThis was not chosen by interval scores (docs/decisions/forecasting.md). Losses in 90% intervals, and their width, on"
        )
        print("Delphi, fitted to its smallest bases in turn:\n")
        print(bases(at_bases))
        print(
            "\nFitted to all bases, widths of its intervals at four times the largest N, the largest PTPP and 1 to 8 billion tokens"
        )
        print(f"are {far_widths()}.")


if __name__ == "__main__":
    main()
