"""Checks of what a design is said to bring, by the posterior itself: its losses are simulated, and what they leave is looked at.

- `nested`: the posterior given simulated losses is the posterior's draws, weighted by the exact likelihood of these losses.
- `refits`: it is a new fit, by NUTS, to the fit's rows and the simulated ones.

Both give the variance of log loss at targets that is to be expected once the design has been run, with its Monte Carlo error.
Runs of a design are new runs: they have luck of their own, and so do their checkpoints, whatever they are called.

Whether a choice of runs will tell what it promises: its predictions beside looks ahead by the posterior itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.executors import Executor, Outcome
from bayeslaw.data.observations import Observations, planned
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.design.anchors import Anchors
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.inference.batch import fit_many
from bayeslaw.inference.refit import again, beside, enough_draws, one_fit, rows_of
from bayeslaw.posterior.diagnostics import marked
from bayeslaw.posterior.fit import Fit

type Table = Runs | pd.DataFrame | str | Path

SIMULATED = 13  # kind of random numbers, beside those of forecasts and updates
# With as many effective draws in the middle of the simulations, expected variances of linear-Gaussian cases whose answer is
# known came out 1% too small; with 10, 12% (3 to 10 parameters, 2,000 draws). Pareto smoothing made both no better.
EFFECTIVE = 50


@dataclass(frozen=True)
class Design:
    """A design under a fit, and its losses as some of the fit's draws make them.

    Attributes
    ----------
    runs : Runs
        The settings, rows in the order of `observed`.
    observed : Observations
    latent : array (S, n)
        Log losses of all draws, without noise.
    log_loss : array (O, n)
        Simulated log losses.
    forced : bool
        Whether checks failed.
    """

    runs: Runs
    observed: Observations
    latent: Array
    log_loss: Array
    forced: bool

    @classmethod
    def of(cls, fit: Fit, runs: Runs, outer: NDArray[np.int64], seed: int, force: bool) -> Design:
        """Simulated by the draws `outer` (O,); equal designs are given equal noise."""
        part = (made := forecast(fit, runs, force=force)).parts[0]
        observed, order = planned(fit.law, runs, fit.observed)
        latent = np.log(part.latent(order, made.rows, part.values)).T
        frame = runs.frame.iloc[order]
        if "loss_se" in frame:
            error = frame["loss_se"].to_numpy(dtype=np.float64)
            if not (np.isfinite(error) & (error >= 0)).all():
                raise BayeslawError(f"{runs.name}: loss_se must be given for every row, 0 or more, 0 where it is nil.")
            observed = replace(observed, se=error / np.exp(np.median(latent, axis=0)))
        chosen, entropy = {name: values[outer] for name, values in part.values.items()}, (*part.entropy, SIMULATED, seed)
        noise = fit.noise.sample(
            chosen,
            observed.run,
            order,
            entropy,
            checkpoint=observed.checkpoint[observed.run],
            group=observed.group[observed.run],
            time=observed.time,
            known=observed.se if observed.se.size else None,
        ).T
        return cls(replace(runs, frame=frame), observed, latent, latent[outer] + noise, made.forced)


def nested(
    fit: Fit,
    design: Table | Mapping[str, Table],
    targets: Table,
    *,
    weights: Sequence[float] | None = None,
    outer: int = 200,
    seed: int = 0,
    force: bool = False,
) -> pd.DataFrame:
    """Expected posterior variance at targets once a design has been run, by importance-weighted nested Monte Carlo.

    Losses of the design are simulated from some draws of the posterior. Given these losses all other draws are weighted by their
    exact likelihood, in which run effects are integrated out; the weighted variance of log loss at the targets, averaged over the
    simulations, is E[Var(target | losses)]. The draw that made the losses is left out of its own weighting: the others are draws
    that know nothing of it, as the posterior is of a truth, while it would often be the nearest of all and pull the
    variance down (by 18% at 6 effective draws, against 1% without it, in linear-Gaussian cases).

    Parameters
    ----------
    fit : Fit
    design : table, or mapping of name to table
        Settings, one evaluation a row; rows of a `run` share its luck, and known errors are in `loss_se` (nats/token). Several
        designs are worked out with the same truths and the same noise, so that they can be compared.
    targets : table
        Settings at which the loss is to be known.
    weights : sequence of float (q,), optional
        What the targets' variances are multiplied by before they are added up; 1/q each unless given.
    outer : int
        Number of simulations, at most as many as there are draws.
    seed : int
    force : bool
        Go on in spite of failed checks; every row is marked.

    Returns
    -------
    DataFrame
        One row per design: design, runs, rows, prior_variance, expected_variance, expected_variance_mcse (Monte Carlo standard
        error), ratio of the two, effective_median and effective_worst (numbers of effective draws), `says`, which is 'too few
        effective draws …' where the numbers are not to be trusted, and checks.

    Raises
    ------
    FitError
        For a stack, failed checks, fewer than 400 draws, draws or losses that are not finite.
    TableError, BayeslawError
        If a design or the targets can't be used, a design's group of noise is unknown, or outer, weights or seed can't be used.
    """
    chosen, target, weight, forced = _asked(fit, targets, weights, outer, seed, force, "A look ahead")
    designs = design if isinstance(design, Mapping) else {"design": design}
    rows = []
    for name, table in designs.items():
        one = Design.of(fit, _read(table, name), chosen, seed, force)
        variances, effective = _weighted(fit, one, chosen, target)
        expected, middle = variances @ weight, float(np.median(effective))
        prior = float(target.var(axis=0, ddof=1) @ weight)
        few = f"too few effective draws ({middle:.0f} in the middle, {EFFECTIVE} wanted): refit instead, or draw more"
        rows.append(
            {
                "design": name,
                "runs": one.observed.runs,
                "rows": one.observed.run.size,
                "prior_variance": prior,
                "expected_variance": expected.mean(),
                "expected_variance_mcse": expected.std(ddof=1) / np.sqrt(expected.size),
                "ratio": expected.mean() / prior,
                "effective_median": middle,
                "effective_worst": effective.min(),
                "says": few if middle < EFFECTIVE else "",
                "checks": marked(forced or one.forced),
            }
        )
    return pd.DataFrame(rows)


def _weighted(fit: Fit, design: Design, chosen: NDArray[np.int64], target: Array) -> tuple[Array, Array]:
    """Variances (O, q) of the targets given each simulation, and numbers of effective draws (O,)."""
    draws, centred = fit.draws, target - target.mean(axis=0)
    variances, effective = np.empty((chosen.size, target.shape[1])), np.empty(chosen.size)
    for i, (truth, losses) in enumerate(zip(chosen.tolist(), design.log_loss, strict=True)):
        log = fit.noise.log_likelihood(losses - design.latent, design.observed, draws, given="earlier").sum(axis=1)
        log[truth] = -np.inf
        weight = np.exp(log - log.max())
        weight /= weight.sum()
        variances[i] = weight @ (centred - weight @ centred) ** 2
        effective[i] = 1 / (weight @ weight)
    return variances, effective


@dataclass(frozen=True)
class Refits:
    """Variances at targets that refits with a design's simulated losses left.

    Attributes
    ----------
    table : DataFrame
        One row per refit: draw (the truth's number among the posterior's draws), variance (the weighted sum over targets),
        `variance_<row>` for each row of the targets, and checks: 'passed', 'FAILED: …' or 'not made: …'.
    prior : array (q,)
        Variances before.
    weights : array (q,)
    """

    table: pd.DataFrame
    prior: Array
    weights: Array

    @property
    def summary(self) -> pd.DataFrame:
        """One row per target and one, `all targets`, for their weighted sum.

        prior_variance; realised_variance (the mean over all refits that were made, whether their checks passed or not) with its
        standard error realised_variance_se; their ratio; realised_variance_passed (over those whose checks passed); and
        refits, failed, not_made, the numbers of those asked for, of those whose checks failed and those that could not be made.
        """
        table, checks = self.table, self.table["checks"]
        passed, missing = checks == "passed", checks.str.startswith("not made")
        prior = np.append(self.prior, self.prior @ self.weights)
        columns = [*(c for c in table if str(c).startswith("variance_")), "variance"]
        made, count = table.loc[~missing, columns], int((~missing).sum())
        found = {
            "prior_variance": prior,
            "realised_variance": made.mean().to_numpy(),
            "realised_variance_se": made.std(ddof=1).to_numpy() / np.sqrt(max(count, 1)),
            "ratio": made.mean().to_numpy() / prior,
            "realised_variance_passed": table.loc[passed, columns].mean().to_numpy(),
        }
        names = [f"row {str(c).removeprefix('variance_')}" for c in columns[:-1]]
        numbers = {"refits": len(table), "failed": int((~passed & ~missing).sum()), "not_made": int(missing.sum())}
        return pd.DataFrame({"target": [*names, "all targets"], **found}).assign(**numbers)


def refits(
    fit: Fit,
    design: Table,
    targets: Table,
    *,
    weights: Sequence[float] | None = None,
    outer: int = 20,
    executor: str | Executor = "in-process",
    seed: int = 0,
    progress: bool = True,
    force: bool = False,
) -> Refits:
    """Variance at targets that refits leave to the fit's rows and a design's losses, simulated by draws of the posterior.

    Each refit is made as `bayeslaw update` makes it. Nothing of it is an approximation but its own Monte Carlo error, and it works
    where `nested` has too few effective draws.

    Parameters
    ----------
    fit, design, targets, weights, seed, force
        As for `nested`; one design.
    outer : int
        Number of refits.
    executor : str or Executor
        As for `bayeslaw.fit_many`.
    progress : bool

    Returns
    -------
    Refits
        A refit whose checks fail, of the fit or of the targets' forecast, is counted and its variance kept; one that can't be made
        is counted too.

    Raises
    ------
    FitError, TableError, BayeslawError
        As `nested`.
    """
    chosen, target, weight, _ = _asked(fit, targets, weights, outer, seed, force, "A refit")
    made, asked = Design.of(fit, _read(design, "design"), chosen, seed, force), _read(targets, "targets")
    tasks = [again(fit, _with(fit, made, log_loss), seed) for log_loss in made.log_loss]
    outcomes = fit_many(tasks, executor=executor, then=partial(_realised, targets=asked), progress=progress)
    columns = [f"variance_{row}" for row in asked.frame.index]
    rows = [_row(outcome, draw, columns, weight) for outcome, draw in zip(outcomes, chosen.tolist(), strict=True)]
    return Refits(pd.DataFrame(rows), target.var(axis=0, ddof=1), weight)


def _row(outcome: Outcome[tuple[Array, str]], draw: int, columns: list[str], weight: Array) -> dict[str, object]:
    variances, checks = outcome.value or (np.full(weight.size, np.nan), f"not made: {outcome.error}")
    return {"draw": draw, "variance": variances @ weight} | dict(zip(columns, variances, strict=True)) | {"checks": checks}


def _with(fit: Fit, design: Design, log_loss: Array) -> Runs:
    """The fit's rows and simulated ones, of runs and checkpoints of their own."""
    old, seen, loss = rows_of(fit), design.observed, np.exp(log_loss)
    first = int(old.frame.index.max()) + 1
    checkpoint = np.array(seen.checkpoint_names, dtype=object)[seen.checkpoint[seen.run]]
    known = seen.se * loss if seen.se.size else 0.0
    frame = design.runs.frame.assign(
        loss=loss,
        run=[f"{seen.run_names[code]} (simulated)" for code in seen.run],
        checkpoint=[f"{name} (simulated)" for name in checkpoint],
    )
    if seen.se.size or fit.observed.se.size:
        frame["loss_se"] = known
    if seen.clock_column:
        frame[seen.clock_column] = seen.clock
    frame.index = pd.RangeIndex(first, first + len(frame), name="row")
    return beside(old, replace(design.runs, frame=frame, name="simulated losses"))


def _realised(made: Fit, targets: Runs) -> tuple[Array, str]:
    """Variances (q,) of log loss at targets under a refit, and what its checks say."""
    found = forecast(made, targets, force=True)
    part = found.parts[0]
    variances = np.log(part.latent(slice(None), found.rows, part.values)).var(axis=1, ddof=1)
    failed = "; ".join(check.text for check in (*made.checks, *found.checks) if check.required and not check.passed)
    return variances, f"FAILED: {failed}" if failed else "passed"


def _asked(
    fit: Fit, targets: Table, weights: Sequence[float] | None, outer: int, seed: int, force: bool, what: str
) -> tuple[NDArray[np.int64], Array, Array, bool]:
    """Draws to simulate from (O,), log losses (S, q) at the targets, weights (q,), and whether checks failed; or a refusal."""
    enough_draws(one_fit(fit, what), what)
    whole_number("seed", seed, 0)
    whole_number("outer", outer, 2)
    size = next(iter(fit.draws.values())).size
    if outer > size:
        raise BayeslawError(f"outer is the number of draws to simulate from; there are {size}, not {outer}.")
    made = forecast(fit, _read(targets, "targets"), force=force)
    part = made.parts[0]
    target = np.log(part.latent(slice(None), made.rows, part.values)).T
    weight = np.full(target.shape[1], 1 / target.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (target.shape[1],) or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise BayeslawError(f"weights must be {target.shape[1]} numbers, one for each target, 0 or more and not all 0.")
    return np.random.default_rng((seed, SIMULATED)).choice(size, outer, replace=False), target, weight, made.forced


def _read(table: Table, name: str) -> Runs:
    if isinstance(table, Runs):
        return table
    return replace(read_runs(table), name=name) if isinstance(table, pd.DataFrame) else read_runs(table)


def by_nesting(fit: Fit, made: Anchors, targets: Runs, *, outer: int = 200, seed: int = 0, force: bool = False) -> pd.DataFrame:
    """Shares of the targets' variance that purchases leave: as predicted, and by importance-weighted nested Monte Carlo.

    Parameters
    ----------
    fit : Fit
        The one that the runs were chosen for.
    made : Anchors
    targets : Runs
        Settings; those of the choice.
    outer : int
        Draws that simulate the runs' losses.

    Returns
    -------
    DataFrame
        One row for each purchase, after it: run, predicted and nested share, nested_mcse (Monte Carlo error), effective_median
        (effective draws, the median over simulations) and `says` where these are too few to be trusted.
    """
    _check(made)
    shares = (1 - made.picks["gain"].cumsum()).to_list()
    design = {str(i + 1): made.rows(made.bought[: i + 1]) for i in range(len(made.bought))}
    weights = list(made.aim.weights)
    found = nested(fit, design, targets, weights=weights, outer=outer, seed=seed, force=force)
    return pd.DataFrame({
        "run": [made.candidates.names[run] for run in made.bought], "predicted": shares,
        "nested": found["ratio"].to_numpy(), "nested_mcse": (found["expected_variance_mcse"] / found["prior_variance"]).to_numpy(),
        "effective_median": found["effective_median"].to_numpy(), "says": found["says"].to_numpy(),
    }, index=pd.RangeIndex(1, len(shares) + 1, name="order"))  # fmt: skip


def by_refits(
    fit: Fit,
    made: Anchors,
    targets: Runs,
    *,
    outer: int = 20,
    executor: str | Executor = "in-process",
    seed: int = 0,
    progress: bool = True,
    force: bool = False,
) -> pd.DataFrame:
    """The share of each target's variance that all purchases leave: as predicted, and by refits with simulated losses.

    Returns
    -------
    DataFrame
        One row for each target and one, `all targets`: what `lookahead.Refits.summary` says, and the predicted share.
    """
    _check(made)
    weights = list(made.aim.weights)
    found = refits(
        fit, made.rows(), targets, weights=weights, outer=outer, executor=executor, seed=seed, progress=progress, force=force
    )
    ensemble = made.market.ensemble
    now, then = (ensemble.variances(p) for p in (np.eye(ensemble.rank), ensemble.covariance(made.bought)))
    return found.summary.assign(predicted=[*(then / now), float(then @ made.aim.weights / (now @ made.aim.weights))])


def _check(made: Anchors) -> None:
    """Refuse a choice whose predictions are of something that a look ahead does not simulate."""
    if made.aim.kind != "latent":
        raise BayeslawError("A look ahead is of the law's losses at settings, without a discrepancy; this choice aims at others.")
