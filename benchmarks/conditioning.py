"""Forecasts and plans that use what a fit has learnt of its own checkpoints and runs, on the measured losses of tinycpt.

    python benchmarks/conditioning.py        # or make conditioning; prints the tables kept in benchmarks/results/conditioning.md

Laws are fitted at the defaults to rows of `data/tinycpt/runs.csv` with seed 0 and PTPP up to 31, and forecast the rows left out.
`as` is what a row counts as: one of a known checkpoint or run, whose learnt effects are then used, or one of a new run or
checkpoint. Columns: mean relative error, share of the losses in the equal-tailed 50% and 90% intervals of the `run` spread, mean
width of the latter over the mean loss, and CRPS.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.table import Runs
from bayeslaw.planning.plan import Plan
from bayeslaw.posterior.effects import Reading
from bayeslaw.posterior.fit import Fit

RUNS = Path(__file__).parents[1] / "data" / "tinycpt" / "runs.csv"
LAWS = {"source": "transfer-source", "target": "transfer-target"}
SHARES = (0.05, 0.1, 0.25, 0.5)  # of replay
READINGS: dict[str, tuple[Reading, ...]] = {"normal-checkpoint": ("known", "new-checkpoint"), "normal": ("known",)}
EARLY = 5  # tokens per parameter up to which runs are fitted
MODEL = {"N": 110592, "ptpp": 62}
LIMITS = (0.08, 0.1, 0.12, 0.15)  # of forgetting
TARGET_LIMIT = 1.72  # nats
REPEATS = 20  # effects drawn for each held-out draw of the laws


def rows(domain: str) -> Runs:
    """The runs and base checkpoints that are fitted."""
    return bayeslaw.read_runs(RUNS, f"domain == '{domain}' and seed == 0 and ptpp <= 31")


def left_out_share(share: float) -> tuple[Runs, Runs]:
    """Adaptations on the target without those of a replay share, and these."""
    adapted = rows("target").where("D > 0")
    return adapted.where(f"r != {share}"), adapted.where(f"r == {share}")


def left_out_end() -> tuple[Runs, Runs]:
    """The first part of every adaptation on the target, and the rest."""
    adapted = rows("target").where("D > 0")
    return adapted.where(f"D / N <= {EARLY}"), adapted.where(f"D / N > {EARLY}")


def scored(noise: str, fit: Fit, held: Runs, reading: Reading) -> dict[str, str]:
    """Error and coverage of forecasts of held-out rows."""
    scores = bayeslaw.score(fit, held, as_=reading, force=True).iloc[0]
    return {
        "noise": noise, "as": reading, "error": f"{scores['mae_rel']:.2%}",
        "in 50%": f"{scores['cover_eti50']:.0%}", "in 90%": f"{scores['cover_eti90']:.0%}",
        "90% width over loss": f"{scores['width_eti90'] / held.frame['loss'].mean():.1%}", "CRPS, nats": f"{scores['crps']:.4f}",
        "sampling": "passed" if fit.passed else "FAILED",
    }  # fmt: skip


def unseen_shares() -> str:
    """One replay share left out at every fitted checkpoint."""
    table = []
    for share in SHARES:
        seen, held = left_out_share(share)
        head = {"replay left out": f"{share:g} ({len(held)} rows)"}
        for noise, readings in READINGS.items():
            fit = bayeslaw.fit(LAWS["target"], seen, noise=noise, progress=False)
            table += [head | scored(noise, fit, held, reading) for reading in readings]
    return markdown_table(table)


def later_rows() -> str:
    """The rest of fitted runs, and how their errors change along the way."""
    (seen, rest), table = left_out_end(), []
    for noise in ("normal-drift", "normal"):
        fit = bayeslaw.fit(LAWS["target"], seen, noise=noise, progress=False)
        table += [scored(noise, fit, rest, "known"), scored(noise, fit, rest, "new-run")]
    first, later = mean_errors(fit, seen), mean_errors(fit, rest)
    changed = np.sqrt(np.mean((later.mean - first.mean) ** 2))
    points = np.sqrt(np.mean(np.median(fit.draws["sigma_point"]) ** 2 * (1 / first.rows + 1 / later.rows)))
    text = (
        f"With noise normal, the mean error of a run's rest differs from that of its first part by {changed:.2%} (root mean\n"
        f"square, {first.rows.size} runs); the noise of their points would make {points:.2%}. The two are correlated by "
        f"{np.corrcoef(first.mean, later.mean)[0, 1]:.2f}."
    )
    return markdown_table(table) + "\n\n" + text


class MeanErrors(NamedTuple):
    """Mean log losses of runs less the law's, by the names of the runs, and the numbers of their rows."""

    mean: NDArray[np.float64]
    rows: NDArray[np.int64]


def mean_errors(fit: Fit, runs: Runs) -> MeanErrors:
    """The mean errors of runs, in the order of their names."""
    frame = runs.frame
    log_law = np.log(fit.law.predict(fit.draws, {c: frame[c].to_numpy(dtype=np.float64) for c in fit.law.covariates})).mean(axis=0)
    errors = (np.log(frame["loss"]) - log_law).groupby(frame["run"])
    return MeanErrors(errors.mean().to_numpy(), errors.size().to_numpy())


class Effects(NamedTuple):
    """Standard deviations of the effects of runs and of base checkpoints on log losses, and the correlation of the two."""

    run: float
    base: float
    correlation: float


def measured_effects(fit: Fit) -> Effects:
    """Effects of base checkpoints and of the runs adapted from them: their mean errors, without the noise of their points."""
    seen = fit.observed
    count = np.bincount(seen.run)
    mean = np.bincount(seen.run, fit.residual.mean(axis=0)) / count
    own = np.median(fit.draws["sigma_point"]) ** 2 / count
    base = np.bincount(seen.run, seen.covariates["D"] == 0) > 0
    of_base, of_run = np.nonzero((seen.checkpoint[:, None] == seen.checkpoint) & base[:, None] & ~base)
    sd_base, sd_run = (float(np.sqrt((mean[i] ** 2 - own[i]).mean())) for i in (of_base, of_run))
    return Effects(sd_run, sd_base, float((mean[of_base] * mean[of_run]).mean() / (sd_base * sd_run)))


@cache
def both() -> dict[str, Fit]:
    """Both domains, fitted with their base checkpoints."""
    return {domain: bayeslaw.fit(law, rows(domain), progress=False) for domain, law in LAWS.items()}


def apart(fit: Fit) -> Fit:
    """The same fit, whose runs and base checkpoints count as unrelated: no two share a checkpoint."""
    seen = fit.observed
    return replace(fit, observed=replace(seen, checkpoint=np.arange(seen.runs), checkpoint_names=seen.run_names))


def planned(fits: dict[str, Fit], limit: float) -> Plan:
    """Least tokens that keep forgetting and target loss of the next run under their limits with probability .9."""
    return bayeslaw.plan(
        fits["source"], fits["target"], MODEL, on="run", max_forgetting=f"{limit:.0%}", max_loss=TARGET_LIMIT, base_loss="law"
    )


def kept(plan: Plan, limit: float) -> float:
    """Share of truths that keep a plan's constraints: held-out draws of the laws, with effects of the measured sizes."""
    best = plan.best
    assert best is not None
    rng, fits = np.random.default_rng(5), both()
    size, sd_target = measured_effects(fits["source"]), measured_effects(fits["target"]).run
    sd_point = {domain: np.median(fit.draws["sigma_point"]) for domain, fit in fits.items()}
    run, own, of_target, *points = rng.standard_normal((6, REPEATS, plan.held_out.size))

    def log_law(domain: str, tokens: float) -> NDArray[np.float64]:
        law, at = fits[domain].law, MODEL | {"D": tokens, "r": best.replay}
        draws = {name: values[plan.held_out] for name, values in fits[domain].draws.items()}
        return np.asarray(np.log(law.predict(draws, {c: [at[c]] for c in law.covariates})[:, 0]))

    base = size.base * (size.correlation * run + np.sqrt(1 - size.correlation**2) * own)
    rise = log_law("source", best.tokens) - log_law("source", 0.0) + size.run * run - base
    rise += sd_point["source"] * (points[0] - points[1])
    loss = log_law("target", best.tokens) + sd_target * of_target + sd_point["target"] * points[2]
    return float(((rise <= np.log1p(limit)) & (loss <= np.log(TARGET_LIMIT))).mean())


def plans() -> str:
    """Plans whose base checkpoint and run err as related or unrelated, judged by truths with effects of the measured sizes."""
    fits, table = both(), []
    for limit in LIMITS:
        for each in (fits, {domain: apart(fit) for domain, fit in fits.items()}):
            plan = planned(each, limit)
            assert plan.best is not None
            table.append(
                {
                    "forgetting at most": f"{limit:.0%}",
                    "correlation": plan.problem.sources[0].shared.partition("correlated by ")[2].partition(",")[0] or "0",
                    "tokens": f"{plan.best.tokens:,.0f}", "ATPP": f"{plan.best.atpp:.1f}", "replay": f"{plan.best.replay:.3f}",
                    "held-out probability": f"{plan.best.held_out:.3f}", "kept": f"{kept(plan, limit):.1%}",
                }
            )  # fmt: skip
    size, target = measured_effects(fits["source"]), measured_effects(fits["target"])
    text = (
        f"Plans for N = {MODEL['N']:,} at PTPP {MODEL['ptpp']}, target loss at most {TARGET_LIMIT} nats, confidence .9, base loss\n"
        "by the law. Correlation: that of the effects of base checkpoint and run, as the plan takes it from the fitted runs, or\n"
        "0 as if no two runs shared a checkpoint. Kept: by truths, which are the laws at the held-out draws with effects as\n"
        f"large as those measured at the posterior mean of the laws: on the source {size.run:.2%} of runs and {size.base:.2%} of\n"
        f"base checkpoints, correlated by {size.correlation:.2f}; on the target {target.run:.2%} of runs."
    )
    return text + "\n\n" + markdown_table(table)


def main() -> None:
    print("# What a fit has learnt of its own checkpoints and runs\n\n" + banner("conditioning") + "\n")
    print((__doc__ or "").split("\n\n", 2)[2])
    print(f"## A replay share left out\n\n{unseen_shares()}\n", flush=True)
    print(f"## Later rows of fitted runs\n\nFitted up to {EARLY} tokens per parameter, asked for up to 20.\n")
    print(later_rows() + "\n", flush=True)
    print(f"## Plans\n\n{plans()}")


if __name__ == "__main__":
    main()
