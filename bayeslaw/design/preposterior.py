"""What a design is expected to teach, before it is run: its losses are simulated, and the posterior is conditioned on them.

`nested` weights posterior draws by the exact likelihood of simulated losses; `validate` compares what `anchors` predicts with it.
Runs of a design are new runs: they and their checkpoints have effects of their own, even where a name is one of the fit's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, kind_of, whole_number
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import counted
from bayeslaw.data.observations import Observations, planned
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.design.anchors import Anchors
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.forecasting.stack import require_losses
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.fit import Fit, require_draws, require_single_fit

# In linear-Gaussian cases with known answers (3 to 10 parameters, 2,000 draws) expected variances were 1% too small with a median
# of 50 effective draws and 12% with 10. Pareto smoothing improved neither.
EFFECTIVE = 50
# With heavy tails, as errors of laws have, a few simulations carry most of the variance, and have the fewest draws near them. In
# linear-Gaussian cases those with fewer than 10 carried 5% of it at a median of 160 effective draws, and 27% at 46.
FEWEST, CARRIED = 10, 0.25  # effective draws, and the most of the variance that simulations with fewer may carry
FAR, CLOSE = 3.0, 0.03  # Monte Carlo standard errors, and share of itself, by both of which a prediction is off to be noted


@dataclass(frozen=True, eq=False)
class Design:
    """The settings of a design, and its losses as simulated from posterior draws of a fit."""

    runs: Runs  # n rows in the order of `observed`
    observed: Observations
    latent: Array  # log losses of all posterior draws, without noise, (S, n)
    log_loss: Array  # simulated log losses, (O, n)
    forced: bool  # whether checks failed

    @classmethod
    def of(cls, fit: Fit, runs: Runs, draws: NDArray[np.int64], *, seed: int = 0, force: bool = False) -> Design:
        """Simulate the losses of a design by some posterior draws (O,); `seed` is that of the noise, equal for equal designs."""
        forecasts = forecast(fit, runs, discrepancy="none", force=force)
        part = forecasts.members[0]
        observed, order = planned(fit.law, runs, fit.observed)
        latent = np.log(part.latent(order)).T
        frame = runs.frame.iloc[order]
        if (column := fit.law.outcome.error) in frame:
            error = frame[column].to_numpy(dtype=np.float64)
            if not (np.isfinite(error) & (error >= 0)).all():
                problem = f"{runs.name}: {column} must be given for every row, 0 or more, 0 where it is nil."
                raise BayeslawError(problem, code="bad-loss-se")
            observed = replace(observed, se=error / np.exp(np.median(latent, axis=0)))
        simulated = MemberDraws.of(fit, draws, runs, (*part.entropy, Stream.SIMULATED, seed), "new-checkpoint")
        if observed.se.size:
            simulated = replace(simulated, known=observed.se[np.argsort(order)])
        noise = simulated.noise(order).T
        return cls(replace(runs, frame=frame), observed, latent, latent[draws] + noise, forecasts.forced)


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

    Losses of the design are simulated from some posterior draws. Given these losses, all other draws are weighted by their exact
    likelihood, in which run effects are integrated out. The weighted variance of log loss at the targets, averaged over the
    simulations, is E[Var(target | losses)]. The draw that made the losses gets no weight: it would often be the nearest of all and
    pull the variance down (by 18% at 6 effective draws, against 1% without it, in linear-Gaussian cases).

    Parameters
    ----------
    design : table, or mapping of name to table
        Settings, one evaluation a row. Rows of a `run` share its run effect; known errors are in `loss_se`, in the
        unit of the fit. Several designs are evaluated with the same draws and the same noise, so that they can be compared.
    targets : table
        Settings at which the loss is wanted (q rows).
    weights : sequence of float (q,), optional
        Weights of the targets' variances in their sum; 1/q each unless given.
    outer : int
        Number of simulations, at most the number of draws.
    seed : int
        Seed of the choice of draws and of the noise.
    force : bool
        Go on although checks failed, and mark every row.

    Returns
    -------
    DataFrame
        One row per design: design, runs, rows, prior_variance, expected_variance, expected_variance_mcse (Monte Carlo standard
        error), ratio of the two variances, effective_median and effective_worst (effective draws over the simulations), note (says
        where effective draws are too few for the numbers to be trusted, in the middle or in those simulations that carry much of
        the variance, so that the expected variance is too small; else empty), and checks.

    Raises
    ------
    FitError
        For a stack, failed checks, fewer than 400 draws, draws or losses that are not finite.
    TableError, BayeslawError
        If a design or the targets have a fault, a design's noise group is unknown, or outer, weights or seed are out of range.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> design = pd.DataFrame({"N": 1e10, "D": [1e10, 4e10], "run": "new"})
    >>> table = bayeslaw.design.nested(fit, design, pd.DataFrame({"N": [1e10], "D": [2e11]}), outer=50)
    >>> bool(table["expected_variance"][0] < table["prior_variance"][0])
    True
    """
    require_draws(require_single_fit(fit, "A look-ahead"), "A look-ahead")
    require_losses([fit], "a look-ahead, which is about the variance of logarithms,", positive=True)
    seed = whole_number("seed", seed, 0)
    outer = whole_number("outer", outer, 2)
    if outer > fit.size:
        problem = f"outer is the number of draws to simulate from; there are {fit.size}, not {outer}."
        raise BayeslawError(problem, code="too-many-simulations")
    at_targets = forecast(fit, _read(targets, "targets"), discrepancy="none", force=force)
    target, weight = log_losses(at_targets), _weights(weights, at_targets.rows.size)
    draws = np.random.default_rng((seed, Stream.SIMULATED)).choice(fit.size, outer, replace=False)
    prior = float(target.var(axis=0, ddof=1) @ weight)
    carried = (target[draws] - target.mean(axis=0)) ** 2 @ weight
    rows, cure = list[dict[str, object]](), "fit with more draws, or plan fewer or noisier runs"
    for name, table in (design if isinstance(design, Mapping) else {"design": design}).items():
        simulated = Design.of(fit, _read(table, name), draws, seed=seed, force=force)
        variances, effective = _weighted(fit, simulated, draws, target)
        expected, median = variances @ weight, float(np.median(effective))
        few = f"too few effective draws (median {median:.0f}, {EFFECTIVE} needed): {cure}" if median < EFFECTIVE else ""
        share = float(carried[effective < FEWEST].sum() / carried.sum())
        if not few and share > CARRIED:
            few = f"simulations that carry {share:.0%} of the variance have fewer than {FEWEST} effective draws: {cure}"
        row = {"design": name, "runs": simulated.observed.runs, "rows": simulated.observed.run.size, "prior_variance": prior}
        row |= {"expected_variance": expected.mean(), "expected_variance_mcse": expected.std(ddof=1) / np.sqrt(expected.size)}
        row |= {"ratio": expected.mean() / prior, "effective_median": median, "effective_worst": effective.min()}
        forced = at_targets.forced or simulated.forced
        rows.append(row | {"note": few, "checks": checks_label(forced)})
    return pd.DataFrame(rows)


def log_losses(targets: Forecast) -> Array:
    """Posterior draws (S, q) of the log loss at a forecast's settings, without noise or discrepancy."""
    return np.log(targets.members[0].latent(slice(None))).T


def _weighted(fit: Fit, design: Design, draws: NDArray[np.int64], target: Array) -> tuple[Array, Array]:
    """Variances (O, q) of the targets given each simulation, and numbers of effective draws (O,)."""
    centred = target - target.mean(axis=0)
    variances, effective = np.empty((draws.size, target.shape[1])), np.empty(draws.size)
    for i, (truth, losses) in enumerate(zip(draws.tolist(), design.log_loss, strict=True)):
        log = fit.noise.log_likelihood(losses - design.latent, design.observed, fit.draws, given="earlier").sum(axis=1)
        log[truth] = -np.inf
        weight = np.exp(log - log.max())
        weight /= weight.sum()
        variances[i] = weight @ (centred - weight @ centred) ** 2
        effective[i] = 1 / (weight @ weight)
    return variances, effective


def _weights(weights: Sequence[float] | None, count: int) -> Array:
    try:
        weight = np.full(count, 1 / count) if weights is None else np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):  # texts, or lists of unequal lengths
        weight = np.empty(0)
    if weight.shape != (count,) or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise BayeslawError(f"weights must be {count} numbers, one for each target, 0 or more and not all 0.", code="bad-weights")
    return weight


def _read(table: Table, name: str) -> Runs:
    return replace(read_runs(table), name=name) if isinstance(table, pd.DataFrame) else read_runs(table)


def validate(fit: Fit, choice: Anchors, targets: Runs, *, outer: int = 200, seed: int = 0, force: bool = False) -> pd.DataFrame:
    """Compare the variance that chosen runs are predicted to leave with the look-ahead of `nested`.

    One row for each purchase in order: run; predicted and nested, the shares of the targets' variance that are left after it;
    nested_mcse (Monte Carlo standard error); effective_median as in `nested`; and note, which says what to rely on where `nested`
    has too few effective draws, so that it is too small, or the two differ by more than three Monte Carlo errors and 3%. Predicted
    shares are what the best linear estimate leaves; the best of all leaves no more. A choice for other targets than losses at
    settings, or with a stated discrepancy, is refused.

    Parameters
    ----------
    fit, targets
        The fit that the runs were chosen for, and the settings.
    outer, seed, force
        As in `nested`.

    Examples
    --------
    >>> fit, targets = bayeslaw.load_fit("fit.nc"), bayeslaw.read_runs(pd.DataFrame({"N": [1e10], "D": [2e11]}))
    >>> choice = bayeslaw.anchors(fit, pd.DataFrame({"run": ["a"], "N": [1e9], "D": [2e10]}), targets, budget=1e21)
    >>> bayeslaw.design.validate(fit, choice, targets, outer=50)["run"].tolist()
    ['a']
    """
    if not isinstance(choice, Anchors):
        raise BayeslawError(f"A choice of runs is what bayeslaw.anchors returns, not {kind_of(choice)}.", code="not-a-choice")
    if choice.targets.kind not in ("latent", "extrapolated"):
        problem = (
            "The predicted reduction of a choice can't be checked where its targets are no losses, or have a stated discrepancy"
        )
        advice = "leave out the check (--nested, in Python bayeslaw.design.validate) or the discrepancy"
        raise BayeslawError(f"{problem}: {advice}.", code="other-targets")
    targets = _read(targets, "targets")
    if len(targets) != choice.targets.weights.size:
        problem = (
            f"The runs were chosen for {counted(choice.targets.weights.size, 'target')}, and {targets.name} has {len(targets)}"
        )
        raise BayeslawError(f"{problem}: give the targets of the choice.", code="other-targets")
    fit = (fit.extrapolation or fit) if choice.targets.kind == "extrapolated" else fit
    shares = (1 - choice.picks["gain"].cumsum()).to_list()
    designs = {str(i + 1): choice.rows(choice.bought[: i + 1]) for i in range(len(choice.bought))}
    table = nested(fit, designs, targets, weights=list(choice.targets.weights), outer=outer, seed=seed, force=force)
    ratio, mcse = (table[of].to_numpy() for of in ("ratio", "expected_variance_mcse"))
    mcse = mcse / table["prior_variance"].to_numpy()
    far = np.abs(ratio - shares) > np.maximum(FAR * mcse, CLOSE * np.array(shares))
    differ = f"differs from predicted by more than {FAR:g} Monte Carlo errors: rely on the larger of the two"
    notes = [
        f"too small, rely on predicted: {few}" if few else differ if away else ""
        for few, away in zip(table["note"], far, strict=True)
    ]
    return pd.DataFrame({
        "run": [choice.candidates.names[run] for run in choice.bought], "predicted": shares,
        "nested": ratio, "nested_mcse": mcse, "effective_median": table["effective_median"].to_numpy(), "note": notes,
    }, index=pd.RangeIndex(1, len(shares) + 1, name="order"))  # fmt: skip
