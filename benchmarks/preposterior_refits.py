"""A choice of runs checked by refits: losses of the chosen runs are simulated, and the law is fitted again to each simulation.

    python benchmarks/preposterior_refits.py               # 20 refits of Form 3, some minutes on two cores
    python benchmarks/preposterior_refits.py --refits 4    # a trial

`bayeslaw.design.nested` weights posterior draws by the likelihood of simulated losses. A refit has no error but its own Monte Carlo
error, and it works where too few draws keep weight, but it takes a run of NUTS for each simulation. The script chooses runs for the
price of the paper's design (see anchors.py) and prints the share of the targets' variance that is left: as `bayeslaw.anchors`
predicts it, as `nested` estimates it, and after refits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from anchors import B0, LAW, POOL, TARGETS, World
from numpy.typing import NDArray
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.core.executors import Executor, Result
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.design.preposterior import Design, log_losses, validate
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.inference.batch import fit_many
from bayeslaw.inference.refit import refit_task, rows_of, stack_runs
from bayeslaw.posterior.fit import Fit

Array = NDArray[np.float64]


def refits(
    fit: Fit,
    design: pd.DataFrame,
    targets: pd.DataFrame,
    *,
    weights: Sequence[float] | None = None,
    outer: int = 20,
    executor: str | Executor = "in-process",
    seed: int = 0,
    progress: bool = True,
    force: bool = False,
) -> pd.DataFrame:
    """Fit a law to its own rows and to a design's simulated losses, once for each of some posterior draws.

    Parameters
    ----------
    fit : Fit
    design : DataFrame
        Settings, one evaluation a row.
    targets : DataFrame
        Settings at which the loss is wanted (q rows).
    weights : sequence of float (q,), optional
        Weights of the targets' variances in their sum; 1/q each unless given.
    outer : int
        Number of refits.
    executor : str or Executor
        As for `bayeslaw.fit_many`.
    seed : int
        Of the choice of draws and of the noise.
    progress : bool
    force : bool
        Go on although checks of the fit failed.

    Returns
    -------
    DataFrame
        One row per refit: draw (the number of the posterior draw), prior_variance and variance (weighted sums over the targets,
        variance missing where a fit failed), and checks: 'passed', 'FAILED: …' or 'not made: …'.
    """
    at = read_runs(targets)
    prior = log_losses(forecast(fit, at, force=force)).var(axis=0, ddof=1)
    weight = np.full(prior.size, 1 / prior.size) if weights is None else np.asarray(weights, dtype=np.float64)
    draws = np.random.default_rng(seed).choice(next(iter(fit.draws.values())).size, outer, replace=False)
    simulated = Design.of(fit, read_runs(design), draws, seed=seed, force=force)
    tasks = [refit_task(fit, joined(fit, simulated, log_loss), seed) for log_loss in simulated.log_loss]
    outcomes = fit_many(tasks, executor=executor, then=partial(variances_left, targets=at), progress=progress)
    rows = [row(outcome, weight) for outcome in outcomes]
    return pd.DataFrame(rows).assign(draw=draws, prior_variance=float(prior @ weight))


def joined(fit: Fit, design: Design, log_loss: Array) -> Runs:
    """The fit's rows and simulated ones, which have runs and checkpoints of their own."""
    old, seen, loss = rows_of(fit), design.observed, np.exp(log_loss)
    first = int(old.frame.index.max()) + 1
    checkpoint = np.array(seen.checkpoint_names, dtype=object)[seen.checkpoint[seen.run]]
    frame = design.runs.frame.assign(
        loss=loss,
        run=[f"{seen.run_names[code]} (simulated)" for code in seen.run],
        checkpoint=[f"{name} (simulated)" for name in checkpoint],
    )
    if seen.se.size or fit.observed.se.size:
        frame["loss_se"] = seen.se * loss if seen.se.size else 0.0
    if seen.clock_column:
        frame[seen.clock_column] = seen.clock
    frame.index = pd.RangeIndex(first, first + len(frame), name="row")
    return stack_runs(old, Runs(frame, "simulated losses", design.runs.conversions))


def variances_left(refit: Fit, targets: Runs) -> tuple[Array, str]:
    """Variances (q,) of log loss at targets under a refit, and 'passed' or the texts of its failed checks."""
    at_targets = forecast(refit, targets, force=True)
    failed = "; ".join(check.text for check in (*refit.checks, *at_targets.checks) if check.required and not check.passed)
    return log_losses(at_targets).var(axis=0, ddof=1), f"FAILED: {failed}" if failed else "passed"


def row(outcome: Result[tuple[Array, str]], weight: Array) -> dict[str, object]:
    """The variance and checks of a refit; one that could not be made has none."""
    if outcome.value is None:
        return {"variance": np.nan, "checks": f"not made: {outcome.error}"}
    variances, checks = outcome.value
    return {"variance": float(variances @ weight), "checks": checks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refits", type=int, default=20)
    parser.add_argument("--truth", type=int, default=0)
    parser.add_argument("--executor", default="processes")
    given = parser.parse_args()
    fit = bayeslaw.fit(LAW, World(bayeslaw.load_law(LAW), given.truth).pilot, seed=given.truth, progress=False)
    # Refits are judged by the law's own losses, so the choice takes the law for exact too.
    choice = bayeslaw.anchors(fit, POOL, TARGETS, budget=B0, checkpoint_cost="0", discrepancy="none", force=True)
    weighted = validate(fit, choice, read_runs(TARGETS), force=True).iloc[-1]
    left = refits(fit, choice.rows(), TARGETS, outer=given.refits, executor=given.executor, force=True)
    ratio = left["variance"] / left["prior_variance"]
    error, failed = ratio.std(ddof=1) / np.sqrt(ratio.count()), left["checks"].str.startswith("FAILED")
    print(f"# Variance that chosen runs leave, by refits\n\n{banner('preposterior_refits')}\n")
    print(markdown_table([{
        "truth": given.truth, "runs": len(choice.bought), "predicted": f"{weighted['predicted']:.3f}",
        "nested": f"{weighted['nested']:.3f} ± {weighted['nested_mcse']:.3f}",
        "effective draws, median": f"{weighted['effective_median']:.0f}", "after refits": f"{ratio.mean():.3f} ± {error:.3f}",
        "refits": f"{ratio.count()} of {len(left)}", "refits with failed checks": int(failed.sum()),
    }]))  # fmt: skip


if __name__ == "__main__":
    main()
