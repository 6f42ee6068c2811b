"""Checks of a model against the runs that it was fitted to.

They find outliers, losses that do not follow the settings, standard errors that are too large, a law that errs along a covariate,
points counted as more than they are worth, an OU run effect in place of the law, and posteriors far out in their priors.

Each is a concern with numbers and what to do. Limits are such that at most a few in a hundred well-specified tables raise one
(`benchmarks/concerns.py`); a fit without concerns may still err outside its runs.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import row_ranges
from bayeslaw.data.observations import Observations
from bayeslaw.data.query import LAST_ROWS
from bayeslaw.data.validate import from_scratch
from bayeslaw.laws.law import Law
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise import ou
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import GROUPED, Noise, kind
from bayeslaw.noise.walk import log_product, powers
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.identifiability import ALARM, intra_class_correlation, residuals

# Standard deviations and relative distance from the law from which on a row is an outlier. Smooth curves have rows many standard
# deviations but less than 1% off where a law doesn't follow them: that is no fault of the row.
FAR_OUT, LEAST_OUT = 5.0, 0.02
LEAST_DOF = 10.0  # of the Student-t noise by which outliers are judged
NAMED = 3  # rows that a text names
SAME_PERPLEXITY = 0.15  # relative, between an outlier and the perplexity that the law expects
EQUAL = 1e-9  # range of log losses up to which all are equal
EXPLAINED = 0.5  # share of the variance of the responses; laws explain over .9 of it in the public tables, and of shuffled ones 0
SCATTER = 0.02  # relative scatter around the law, beyond stated errors, up to which noise may hide what settings do
TAIL = 0.0027  # prior probability beyond a posterior median: three standard deviations of a normal prior
VALUES, BINS = 8, 5  # a covariate with more values than the first is put into so many bins of equal numbers of rows
FEWER = 3  # bins where rows are too few for `BINS` of them
FREE = 3  # degrees of freedom within bins, of an analysis of variance, with which a trend can be seen
LAG = 0.1  # correlation of neighbouring points below which intervals are at most 1.1 times too narrow
# An OU run effect that is correlated over at least the first share of a run takes over from the law where it moves the loss by more
# than the second share of the run's decline. On public curves of 25M models, where it multiplies the error of forecasts by four,
# they are .6 and 1.9 of a run, and 3 and 2%; on those of 100M and 400M models, where it does little
# harm, .05 and .1 of a run and 1%.
LASTING, TAKEN = 0.3, 0.015
FEWEST_ENDS = 4  # runs from which on their last rows are advised where rates are not logged (docs/evidence.md)
SLOPES = 50  # draws over which a slope of the law is averaged


def model_checks(
    law: Law, observed: Observations, noise: Noise, draws: Mapping[str, Array], others: Mapping[str, Array],
    recipes: Mapping[str, pd.Series], order: Array,
) -> list[Check]:  # fmt: skip
    """Check a fitted model against its runs.

    Parameters
    ----------
    law, observed, noise
    draws : mapping of parameter to array (chains, draws)
    others : mapping of column to array (n,)
        Covariates in the table that the law does not have.
    recipes : mapping of column to Series (n,)
        Columns of names by which runs differ and which the law does not have.
    order : array (n,)
        When each row was logged: its step or D.
    """
    residual = residuals(law, observed, draws)
    slope = _derivative(law, observed, noise.shifts, draws) if noise.shifts else None
    outliers = outlier_check(residual, observed, noise, draws, len(law.parameters), slope)
    checks = [
        runs_check(observed, noise),
        conflict_check(law, noise, draws, observed.at),
        outliers,
        explained_check(residual, observed, [] if outliers is None else outliers.table["row"]),
        known_errors_check(residual, observed, len(law.parameters)),
        misfit_check(residual, observed, noise, _settings(law, observed) | dict(others), len(law.parameters)),
        recipes_check(residual, observed, noise, recipes, len(law.parameters), _parameter_without_column(law)),
        autocorrelation_check(law, residual, observed, noise, draws, order),
    ]
    if not law.noise:  # a card that names this noise was compared with the usual noise on held-out runs
        checks.append(drift_check(residual, observed, noise, draws))
    return [check for check in checks if check is not None]


def _parameter_without_column(law: Law) -> str:
    """Return the first parameter in a law's formula that varies by no column; '' if all do."""
    spreads = {p.around[1] for p in law.parameters.values() if p.around}
    return next((name for name in law.in_formula if name not in spreads and name not in law.column_of), "")


def runs_check(observed: Observations, noise: Noise) -> Check | None:
    """Check that there are two runs to learn a run effect from; None for noise without one."""
    if not noise.run_effect:
        return None
    several = observed.runs > 1
    text = f"{observed.runs} runs show how runs differ"
    if not several:
        text = f"all rows are of one run ({observed.run_names[0]}): how runs differ is known from the prior of sigma_run only"
    advice = "Add runs, such as one with another seed, before you trust the intervals of new runs"
    return Check("runs", several, text, "model", pd.DataFrame({"runs": [observed.runs]}), advice)


def conflict_check(law: Law, noise: Noise, draws: Mapping[str, Array], at: Mapping[str, float]) -> Check:
    """Check that no posterior median lies where its prior has little probability.

    Pooled values have no prior of their own. Scales of run effects are judged by `run_effect_check`.

    Parameters
    ----------
    law, noise
    draws : mapping of parameter to array
    at : mapping of covariate to float
        The runs' reference point, where priors with `on` are stated.
    """
    from scipy.stats import norm

    flat = {name: np.ravel(draws[name]) for name in (*law.parameters, *noise.parameters)}
    units = law.units_at(flat, at)
    stated = {k: (p.prior, flat[k] * units.get(k, 1.0)) for k, p in law.parameters.items() if p.around is None}
    stated |= {k: (noise.prior(k), flat[k] - noise.least(k)) for k in noise.parameters if kind(k) != "sigma_run"}
    table = {}
    for name, (prior, values) in stated.items():
        median = np.median(values)
        below, above = float(prior.scipy.cdf(median)), float(prior.scipy.sf(median))
        half = prior.dist == "HalfNormal"  # nothing is far below the prior of a scale
        tail = above if half else 2 * min(below, above)
        table[name] = {
            "prior_tail": tail,
            "prior_sds": math.copysign(float(norm.isf(max(tail, 1e-300) / 2)), 1 if half else below - above),
        }
    frame = pd.DataFrame(table).T
    far = frame[frame["prior_tail"] < TAIL].sort_values("prior_tail")
    text = "no posterior lies far out in its prior"
    if len(far):
        names = [f"{name} ({row['prior_sds']:+.1f} prior sd)" for name, row in far.iterrows()]
        text = f"{', '.join(names)}: the runs contradict {'its prior' if len(far) == 1 else 'their priors'}"
    advice = "Either the prior is wrong for these runs, or the parameter makes up for what the law misses: compare other laws"
    return Check("prior_conflict", not len(far), text, "model", frame, advice)


def outlier_check(
    residual: Array, observed: Observations, noise: Noise, draws: Mapping[str, Array], fitted: int, slope: Array | None
) -> Check | None:
    """Check that no row lies farther from the law than noise and run effects explain; None for a noise given by a function.

    Parameters
    ----------
    residual : array (n,)
        Response (log loss) less the posterior mean of the law's.
    observed, noise, draws
    fitted : int
        Number of fitted parameters of the law.
    slope : array (n,), optional
        Slope of expected shares in the covariate that effects of runs are added to (`Outcome.run_shifts`), where they are.
    """
    if isinstance(noise, PointNoise):
        return None
    outcome, name_of = observed.outcome, observed.outcome.name
    expected, deviation = _expected(residual, observed), _deviations(residual, observed, noise, draws, fitted, slope)
    least = LEAST_OUT * (outcome.scale if outcome.kind == "real" else 1.0)
    far = np.flatnonzero((deviation > FAR_OUT) & (np.abs(residual) > least))
    far = far[np.argsort(-np.abs(residual[far]), kind="stable")]
    frame = pd.DataFrame({
        "row": observed.rows[far], "run": [observed.run_names[i] for i in observed.run[far]], name_of: observed.outcomes[far],
        "law": expected[far], "sds": deviation[far],
    })  # fmt: skip
    named = [
        f"{_named(row['row'], row['run'])}: {row[name_of]:.4g}, {_off(row[name_of], row['law'], outcome)}"
        for row in frame[:NAMED].to_dict("records")
    ]
    more = f"; and {far.size - NAMED} more" if far.size > NAMED else ""
    text = f"no row is {FAR_OUT:g} sd of its noise off the law"
    if far.size:
        are, their = ("is", "its") if far.size == 1 else ("are", "their")
        text = f"{far.size} of {residual.size:,} rows {are} more than {FAR_OUT:g} sd of {their} noise off: {'; '.join(named)}{more}"
    advice = "Look at these runs, and leave out what went wrong"
    with np.errstate(over="ignore"):  # of a law that is far off
        as_perplexity = np.abs(observed.outcomes[far] / np.exp(expected[far]) - 1) < SAME_PERPLEXITY
    left = np.setdiff1d(np.arange(residual.size), far)
    as_perplexity &= ~np.isin(observed.run[far], observed.run[left])  # a run with other rows on the law has diverged
    if outcome.is_loss and as_perplexity.any():
        rows = row_ranges(observed.rows[far][as_perplexity])
        advice = f"Their logarithms lie on the law, so {rows} may be perplexities: take the logarithm. Otherwise look at these runs"
    return Check("outliers", not far.size, text, "model", frame, advice)


def _derivative(law: Law, observed: Observations, name: str, draws: Mapping[str, Array]) -> Array:
    """Return the derivative (n,) of the law's expected outcomes in a covariate, the mean over some draws."""
    some = {k: np.ravel(draws[k])[:: max(1, draws[k].size // SLOPES)] for k in law.parameters}
    step = 1e-4 * max(float(np.ptp(observed.covariates[name])), 1e-3)
    ends = [law.predict(some, observed.covariates | {name: observed.covariates[name] + by}).mean(axis=0) for by in (-step, step)]
    return np.asarray((ends[1] - ends[0]) / (2 * step))


def _deviations(
    residual: Array, observed: Observations, noise: Noise, draws: Mapping[str, Array], fitted: int, slope: Array | None
) -> Array:
    """Return how far rows lie from the law (n,), in standard deviations of normal noise.

    Residuals are in units of the noise's scale, which outliers inflate, or of a robust scale, the median of absolute residuals,
    where that is smaller. Under Student-t noise they are turned into the normal deviations of the same probability, with at least
    `LEAST_DOF` degrees of freedom: a gross error is fitted by tails so heavy that by them it is not rare.

    Parameters
    ----------
    residual, observed, noise, draws, fitted, slope
        As in `outlier_check`.
    """
    from scipy.stats import norm, t

    flat = {name: np.ravel(draws[name]) for name in noise.parameters}
    distribution = t(max(float(np.median(flat["dof"])), LEAST_DOF)) if noise.student else norm
    group = noise.row_groups(observed)
    of_groups = [(noise.scales(flat, name) ** 2).mean(axis=1) for name in GROUPED]
    point, run = (values[group] if values.size > 1 else values for values in of_groups)
    variance = observed.known + point + run
    if noise.counts:  # a spread and counting multiply the variance of an answer; effects of runs move the logit, or a covariate
        expected = _expected(residual, observed)
        of_answer = expected * (1 - expected)
        variance = of_answer * (point + 1 / observed.items) + (of_answer if slope is None else slope) ** 2 * run
    for name in {"sigma_checkpoint", "run_excess"} & {*flat}:
        variance = variance + (flat[name] ** 2).mean()
    size, left = np.abs(residual) / np.sqrt(variance), residual.size - fitted
    if left > fitted:
        robust = float(np.median(size)) / float(distribution.ppf(0.75)) * math.sqrt(residual.size / left)
        size = size / min(max(robust, 1e-12), 1.0)
    return np.asarray(norm.isf(np.maximum(distribution.sf(size), 1e-300)))


def explained_check(residual: Array, observed: Observations, outliers: Collection[int]) -> Check | None:
    """Check that the law explains most of the variance of the losses; None where they do not vary, and for shares.

    Little is explained, too, where settings matter less than noise: that is no fault where rows scatter little around the law.
    Shares of few items, and accuracies near chance, scatter much for good reasons.

    Parameters
    ----------
    residual : array (n,)
        Response (log loss) less the posterior mean of the law's.
    observed, outliers
        The rows, and the numbers of those among them that are outliers, which do not count.
    """
    outcome, kept = observed.outcome, ~np.isin(observed.rows, list(outliers))
    if not outcome.relative or not kept.any():
        return None
    if np.ptp(observed.response[kept]) < EQUAL:
        text, advice = f"all {outcome.plural} are {observed.outcomes[kept][0]:.4g}", "Look whether this is the column that you mean"
        return Check("explained", False, text, "model", pd.DataFrame({"share": [0.0]}), advice)
    around = observed.response[kept] - observed.response[kept].mean()
    share = max(0.0, 1 - float((residual[kept] ** 2).sum() / (around**2).sum()))
    passed = share >= EXPLAINED or float((residual**2 - observed.known)[kept].mean()) < SCATTER**2
    of_all = f"{share:.0%}" if share < 0.995 else f"{share:.1%}" if share < 0.9995 else "over 99.9%"
    text = f"the law explains {of_all} of the variance of the {outcome.plural}"
    advice = (
        f"Look whether each {outcome.name} stands beside its own settings (were columns sorted, shifted or joined?), and "
        "whether runs differ in something that the law doesn't have"
    )
    return Check("explained", passed, text, "model", pd.DataFrame({"share": [share]}), advice)


def known_errors_check(residual: Array, observed: Observations, fitted: int) -> Check | None:
    """Check that rows do not lie nearer to the law than their stated standard errors allow; None where there are too few.

    The sum of squared residuals over the stated variances is compared with its chi-squared distribution if these errors were
    independent and all that there is.

    Parameters
    ----------
    residual, observed
    fitted : int
        Number of fitted parameters of the law.
    """
    from scipy.stats import chi2

    stated = observed.known > 0
    if (left := int(stated.sum()) - fitted) < 1:
        return None
    ratio = float((residual[stated] ** 2 / observed.known[stated]).sum())
    passed = float(chi2.cdf(ratio, left)) > ALARM
    name, slope = observed.outcome.error, _slope(observed)[stated]
    sizes = (np.sqrt(((residual[stated] / slope) ** 2).sum() / left), np.median(np.sqrt(observed.known[stated]) / slope))
    scatter, usual = (f"{size:.2%}" if observed.outcome.relative else f"{size:.2g}" for size in sizes)
    text = f"rows scatter around the law by {scatter}, and {name} states errors of {usual}"
    advice = (
        f"Give {name} in the unit of the {observed.outcome.name}, as the standard deviation of errors that rows do not share: an "
        "error that all runs have in common, as that of their validation set, is not one"
    )
    return Check("known_errors", passed, text, "model", pd.DataFrame({"ratio": [ratio / left]}), advice)


def _slope(observed: Observations) -> Array:
    """Return by what a small deviation of each response is divided to have the outcome's unit, (n,); logs stay relative."""
    outcome = observed.outcome
    if outcome.relative or outcome.kind == "count":
        return np.ones_like(observed.response)
    return np.asarray(outcome.slope(observed.outcomes))


def _expected(residual: Array, observed: Observations) -> Array:
    """Return the law's outcomes (n,) from residuals."""
    values = observed.response - residual
    return np.asarray(values if observed.outcome.kind == "count" else observed.outcome.from_scale(values))


def _named(row: int, run: str) -> str:
    """Return a row by its number, and by its run where the table names runs."""
    return run if run == f"row {row}" else f"row {row} ({run})"


def _off(measured: float, expected: float, outcome: Outcome) -> str:
    """Return by how much an outcome is off the law, in words."""
    return f"{measured / expected - 1:+.0%}" if outcome.relative else f"{measured - expected:+.2g}"


def _settings(law: Law, observed: Observations) -> dict[str, Array]:
    """Return the covariates (n,) of the rows, and products such as N x D and D / N, along which laws err too (`walk.powers`)."""
    products = {name: np.exp(log_product(law, of, observed.covariates)) for name, of in powers(law).items()}
    return {name: observed.covariates[name] for name in law.axes} | products


def misfit_check(
    residual: Array, observed: Observations, noise: Noise, covariates: Mapping[str, Array], fitted: int
) -> Check | None:
    """Check that mean residuals do not differ between values of a covariate by more than their scatter explains.

    None where all losses are equal, which `explained_check` reports: what is left is how nearly the law is constant.

    It is an analysis of variance of means that the model takes as independent: of checkpoints or of runs for a covariate that is
    the same all along a run; else of a run's points in each bin, less the run's mean. Where runs are too few for that, it looks
    whether their means rise or fall with the covariate (Kendall's tau): a few long curves can fit a law that misses their levels.

    Parameters
    ----------
    residual, observed, noise
    covariates : mapping of name to array (n,)
        Those of the law, products of them, and others by which its residuals should not differ.
    fitted : int
        Number of fitted parameters of the law.
    """
    if observed.outcome.relative and np.ptp(observed.response) < EQUAL:
        return None
    table = {}
    for name, values in covariates.items():
        for bins in (BINS, FEWER):
            p, means = _differ(residual, observed, noise, values, fitted, bins)
            if not math.isnan(p):
                break
        table[name] = p, means, ", ".join(_signed(mean, observed.outcome) for mean in means)
    frame, wrong = _tests(table)
    if not len(wrong):
        few = frame.index[frame["p"].isna()]
        tested = [name for name in covariates if name not in few]
        text = f"residuals show no trend along {', '.join(tested)}" if tested else ""
        text += "; " if tested and len(few) else ""
        text += f"rows are too few to see a trend of residuals along {', '.join(few)}" if len(few) else ""
        return Check("misfit", True, text, "model", frame)
    along = "; ".join(f"{name}: {row['means']}" for name, row in wrong.iterrows())
    text = f"mean residuals from the least to the largest values of {along}"
    worst = wrong["worst"].max()
    size = f"{worst:.2g}" if not observed.outcome.relative else f"{worst:.1%}" if worst >= 0.001 else f"{100 * worst:.1g}%"
    state = f"--discrepancy {size}, discrepancy={size!r}"
    advice = f"Compare other laws, or let forecasts inside the runs have an error of that size ({state})"
    advice = advice if observed.outcome.kind != "count" else "Compare other laws"
    return Check("misfit", False, text, "model", frame, advice)


def recipes_check(
    residual: Array, observed: Observations, noise: Noise, recipes: Mapping[str, pd.Series], fitted: int, parameter: str
) -> Check | None:
    """Check that runs of different names in a column, such as optimizers, do not lie off the law by different amounts.

    Parameters
    ----------
    residual, observed, noise, fitted
        As in `misfit_check`.
    recipes : mapping of column to Series (n,)
        Names of the rows' recipes, the same along each run.
    parameter : str
        The parameter that advice lets vary by the column; '' for none.
    """
    table = {}
    for column, names in recipes.items():
        code, values = pd.factorize(names, sort=True)
        p, means = _differ(residual, observed, noise, code.astype(np.float64), fitted, BINS)
        if not math.isnan(p):
            of_names = (f"{name} {_signed(mean, observed.outcome)}" for name, mean in zip(values, means, strict=True))
            table[column] = p, means, ", ".join(of_names)
    if not table:
        return None
    frame, wrong = _tests(table)
    if not len(wrong):
        return Check("recipes", True, f"residuals of runs do not differ by {', '.join(table)}", "model", frame)
    first = wrong.index[0]
    text = "; ".join(f"mean residuals of runs differ by {name}: {row['means']}" for name, row in wrong.iterrows())
    advice = "Fit the runs of one (--where, runs.where)"
    if parameter:
        ways = f"--by {shlex.quote(f'{parameter}={first}')}, by={{{parameter!r}: {first!r}}}"
        advice = f"Let parameters vary by it ({ways}), or fit the runs of one (--where, runs.where)"
    return Check("recipes", False, text, "model", frame, advice)


def _signed(mean: float, outcome: Outcome) -> str:
    """Return a mean residual as text, relative or in the outcome's unit."""
    text = f"{mean:+.1%}" if outcome.relative else f"{mean:+.2g}"
    return text if text[1:] != "0.0%" else "0.0%"


def _tests(table: Mapping[str, tuple[float, Array, str]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tests of several columns, each by its p, its means (k,) and these as text, and those that fail, worst first."""
    cells = {name: {"p": p, "worst": float(np.abs(means).max()), "means": text} for name, (p, means, text) in table.items()}
    frame = pd.DataFrame(cells, index=["p", "worst", "means"]).T
    return frame, frame[frame["p"] < ALARM].sort_values("worst", ascending=False)


def _differ(residual: Array, observed: Observations, noise: Noise, values: Array, fitted: int, bins: int) -> tuple[float, Array]:
    """Return the probability of means that differ as much, nan where rows are too few to tell, and the mean of each bin."""
    from scipy.stats import kendalltau

    unit, taken, along = observed.run, fitted, False
    if noise.checkpoint_effect:
        unit = observed.checkpoint[observed.run]
    code, ends = binned(values, bins)
    count = np.bincount(unit).astype(np.float64)
    average = np.bincount(unit, residual) / count
    error = residual
    if np.bincount(unit, (values - (np.bincount(unit, values) / count)[unit]) ** 2).max() > 1e-18 * np.square(values).max():
        if noise.run_effect:
            error, taken = residual - average[unit], fitted + int((count > 1).sum())
        along, unit = True, np.unique(unit * (len(ends) + 1) + code, return_inverse=True)[1]  # a run's points in one bin
        count = np.bincount(unit).astype(np.float64)
        average = np.bincount(unit, error) / count
    first = np.unique(unit, return_index=True)[1]
    group = np.unique(code[first], return_inverse=True)[1].astype(np.int64)
    means = np.bincount(group, average) / np.bincount(group)
    if means.size == 1 or average.size - means.size - taken >= FREE:
        return intra_class_correlation(average, group, taken)[1], means
    p = math.nan if along or bins == BINS else float(kendalltau(average, values[first]).pvalue)
    return p if p < ALARM else math.nan, means


def binned(values: Array, bins: int) -> tuple[Index, Array]:
    """Return the code of each value among few, or of the bin that it is in, and the values or lower ends of the bins."""
    distinct = np.unique(values)
    if distinct.size > (VALUES if bins == BINS else bins):
        distinct = np.unique(np.quantile(values, np.arange(bins) / bins))
    return (np.searchsorted(distinct, values, side="right") - 1).astype(np.int64), distinct


def autocorrelation_check(
    law: Law, residual: Array, observed: Observations, noise: Noise, draws: Mapping[str, Array], order: Array
) -> Check | None:
    """Check that neighbouring points of a run do not err together beyond what the noise says; None without runs of 3 rows.

    The lag-1 correlation is of residuals less their run's mean, with the correlation that this takes from k independent points,
    -1/k, added back; under an OU run effect it is of the Kalman filter's innovations.

    Parameters
    ----------
    law : Law
    residual : array (n,)
    observed, noise, draws
    order : array (n,)
        When each row was logged.
    """
    from scipy.stats import norm

    runs = [rows for rows in observed.slices if rows.stop - rows.start > 2]
    if not runs:
        return None
    products, squares, pairs, lost = 0.0, 0.0, 0, 0.0
    error = _innovations(residual, observed, noise, draws) if noise.drift else residual
    for rows in runs:
        own = error[rows][np.argsort(order[rows], kind="stable")]
        if noise.run_effect and not noise.drift:
            own = own - own.mean()
            lost += (own.size - 1) / own.size
        products += float(own[1:] @ own[:-1])
        squares += float(own @ own)
        pairs += own.size - 1
    correlation = (products / squares if squares > 0 else 0.0) + lost / pairs
    p = float(norm.sf(correlation * math.sqrt(pairs)))
    passed = p >= ALARM or correlation < LAG
    text = f"neighbouring points of a run correlate by {correlation:.2f} beyond what the noise says (p = {p:.1g})"
    if not passed:
        narrow = math.sqrt((1 + min(correlation, 0.98)) / (1 - min(correlation, 0.98)))
        text += f": intervals may be {narrow:.1f} times too narrow"
    other = "" if noise.drift else "noise normal-drift, " if noise.run_effect else "noise with a run effect, "
    advice = f"Try {other}another law, or fewer rows a run"
    if from_scratch(law) and observed.runs >= FEWEST_ENDS:
        advice = f"If the learning rate falls along the runs, fit their last rows alone: {LAST_ROWS}. Else try {advice[4:]}"
    return Check("autocorrelation", passed, text, "model", pd.DataFrame({"correlation": [correlation], "p": [p]}), advice)


def _innovations(residual: Array, observed: Observations, noise: Noise, draws: Mapping[str, Array]) -> Array:
    """Return what each row adds to the rows of its run before it, in standard deviations, at the noise's posterior medians."""
    flat = {name: np.array([np.median(draws[name])]) for name in noise.parameters}
    group = noise.groups_of(observed)
    point, effect = (noise.scales(flat, name)[group, 0] ** 2 for name in GROUPED)
    known, time, whole = observed.known, observed.time, np.empty_like(residual)
    for run, rows in enumerate(observed.slices):
        variance = (point[run] + known[rows])[None]
        whole[rows] = ou.innovations(residual[None, rows], variance, time[rows], effect[run : run + 1], flat["drift"])[0][0]
    return whole


def drift_check(residual: Array, observed: Observations, noise: Noise, draws: Mapping[str, Array]) -> Check | None:
    """Check that an OU run effect moves little along a run beside the decline in loss that the law explains; None for others.

    Parameters
    ----------
    residual : array (n,)
    observed, noise, draws
    """
    if not noise.drift:
        return None
    predicted = observed.response - residual
    decline = [float(np.ptp(predicted[rows])) for rows in observed.slices if rows.stop - rows.start > 2]
    flat = {name: np.ravel(draws[name]) for name in noise.parameters}
    length = float(np.median(flat["drift"]))
    moved = float(np.median(noise.scales(flat, "sigma_run").max(axis=0) * np.sqrt(-2 * np.expm1(-1 / flat["drift"]))))
    share = moved / max(float(np.median(decline)), 1e-300) if decline else 0.0
    passed = length < LASTING or share <= TAKEN
    outcome = observed.outcome
    size, change = (f"{moved:.1%}", "decline") if outcome.relative else (f"{moved:.2g}", "change")
    size += " in logits" if outcome.kind == "bounded" else ""
    text = f"the OU run effect is correlated over {length:.2g} of a run and changes its {outcome.name} by {size}, "
    text += f"{share:.1%} of the {change} by the law"
    text += "" if passed else ": it takes over what the law should explain"
    numbers = pd.DataFrame({"length": [length], "moved": [moved], "share": [share]})
    return Check("drift", passed, text, "model", numbers, "Compare with noise normal on held-out runs")
