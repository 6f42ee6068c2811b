"""Losses of three models under unseen learning-rate schedules (public curves of Luo et al. 2025).

    python benchmarks/schedules.py > benchmarks/results/schedules.md        # downloads the curves, or takes them from the cache

For each model, of 25M, 100M and 400M parameters, laws are fitted to three curves of 24,000 and 16,000 steps (cosine_24000,
constant_24000, wsdcon_9) and forecast the six others, of up to 72,000 steps. A schedule is the logged column of rates, interpolated
linearly, with 2,160 steps of linear warm-up before the first row. `normal` is the noise by default; with `normal-drift` no error of
the law is learnt. Errors are those of medians, in nats. Intervals are those of the next run as a forecast reports them
(`extrapolated` outside the runs), and by the law taken for exact.

Chosen on which rows: the prior of the length of a drift with the 100M model's curves in view (docs/decisions/noise.md); nothing on
the curves of the 25M and 400M models, which were first looked at when laws, priors and noises stood.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tables import banner, markdown_table, percent

import bayeslaw
from bayeslaw.schedules import schedule as schedules
from bayeslaw.schedules.areas import trace
from bayeslaw.schedules.changes import nodes

MODELS = ("25M", "100M", "400M")
SEEN = ("cosine_24000", "constant_24000", "wsdcon_9")
WARMUP = 2_160
LAWS = ("annealing", "annealing-lr-weighted", "annealing-power", "multi-power")
NOISES = ("normal", "normal-drift")
PUBLISHED = {("100M", "annealing"): 0.0069, ("100M", "multi-power"): 0.00435}
SHOWN = ("annealing", "multi-power")  # curve by curve


class Job(NamedTuple):
    model: str
    law: str
    noise: str


def tables() -> dict[str, pd.DataFrame]:
    """All nine curves of each model with the covariates of every law."""
    with tempfile.TemporaryDirectory() as folder:
        whole = pd.read_csv(bayeslaw.fetch_dataset("lr-schedules", folder).paths[0])
    parts: dict[str, list[pd.DataFrame]] = {model: [] for model in MODELS}
    for _, curve in whole.groupby(["model", "schedule"], sort=False):
        model, name = curve[["model", "schedule"]].iloc[0]
        steps = curve["step"].to_numpy(dtype=np.int64)
        schedule = schedules.logged(steps, curve["lr"], warmup=WARMUP, name=name)
        rows = pd.concat([trace(schedule, steps)[0], nodes(schedule, steps)], axis=1)
        parts[model].append(rows.assign(loss=curve["loss"].to_numpy(), run=name))
    return {model: pd.concat(parts[model], ignore_index=True) for model in MODELS}


def scored(job: Job, rows: pd.DataFrame) -> tuple[dict[str, Any], pd.DataFrame]:
    """Scores of one law and noise on the unseen schedules, all together and each."""
    law = bayeslaw.load_law(job.law)
    settings = rows[[*law.measured, "step", "run"]]
    seen = rows["run"].isin(SEEN)
    start = time.perf_counter()
    fit = bayeslaw.fit(law, settings[seen].assign(loss=rows["loss"]), noise=job.noise, progress=False, cores=1)
    seconds = time.perf_counter() - start
    of, loss = rows.loc[~seen, ["run"]].reset_index(drop=True), rows.loc[~seen, "loss"].to_numpy()
    for name, discrepancy in (("exact", "none"), ("reported", None)):
        forecast = fit.forecast(settings[~seen], discrepancy=discrepancy, force=True)  # the column `checks` says so
        low, middle, high = np.quantile(forecast.predictive, [0.05, 0.5, 0.95], axis=0)
        of[f"{name} error"], of[f"{name} width"] = middle - loss, high - low
        of[f"{name} in"] = (low <= loss) & (loss <= high)
    last = ~of["run"].duplicated(keep="last")
    curves = of.assign(size=of["exact error"].abs()).groupby("run", sort=False)
    whole = {
        **job._asdict(),
        "MAE, law taken for exact": f"{of['exact error'].abs().mean():.5f}",
        "mean of curves": f"{curves['size'].mean().mean():.5f}",
        "published": PUBLISHED.get((job.model, job.law), ""),
        "in 90%, law taken for exact": percent(of["exact in"].mean()),
        "width": f"{of['exact width'].mean():.3f}",
        "MAE, as reported": f"{of['reported error'].abs().mean():.5f}",
        "in 90%, as reported": percent(of["reported in"].mean()),
        "last points": f"{of['reported in'][last].sum()} of {last.sum()}",
        "width, as reported": f"{of['reported width'].mean():.3f}",
        "fit, s of a core": round(seconds, 1),
        "checks": "passed" if fit.passed else fit.failures,
        "check drift": next(("passed" if check.passed else "FAILED" for check in fit.checks if check.name == "drift"), ""),
    }
    by_curve = curves.agg(
        **{"error": ("reported error", "mean"), "last error": ("reported error", "last"), "in 90%": ("reported in", "mean"),
           "width": ("reported width", "mean"), "in 90%, law taken for exact": ("exact in", "mean")}
    )  # fmt: skip
    return whole, by_curve.round(4).reset_index().assign(**job._asdict())


def main() -> None:
    rows = tables()
    jobs = [Job(model, law, noise) for model in MODELS for law in LAWS for noise in NOISES]
    with ProcessPoolExecutor(2) as pool:
        scores = list(pool.map(scored, jobs, [rows[job.model] for job in jobs]))
    print("# Unseen learning-rate schedules of three models\n\n" + banner("schedules") + "\n")
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n")
    print("The published errors are means over the six curves of each curve's mean (so does the code of the source), not over all")
    print("points, a third of which are those of cosine_72000. Widths are in nats. The check `drift` is one of that noise.\n")
    print(markdown_table([whole for whole, _ in scores]) + "\n\n## Curve by curve, as reported\n")
    print("`error` is the mean of forecast minus measured.\n")
    shown = pd.concat([part for job, (_, part) in zip(jobs, scores, strict=True) if job.law in SHOWN and job.noise == NOISES[0]])
    print(markdown_table([{str(k): v for k, v in row.items()} for row in shown.drop(columns="noise").to_dict("records")]))


if __name__ == "__main__":
    main()
