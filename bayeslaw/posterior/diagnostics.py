"""Checks of the draws of a fit and of a forecast, and the two verdicts that checks end in: on the sampling and on the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import FitError
from bayeslaw.data.observations import Observations
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import LOSS, Outcome

R_HAT, ESS, BFMI, DIVERGENT = 1.01, 400, 0.3, 0.001
OVERLAP = 0.75  # of prior and posterior, above which the data inform a parameter too little
BINNED = 0.25  # largest shift of a bin's mean, relative to its standard error
TAILS = (0.05, 0.95)  # ends of the 90% interval; ArviZ's own default is 11 and 89%
FORECAST_ROWS = 24  # settings of a forecast at which draws are checked
# Outside the data an error of a law grows like a polynomial in the covariate. A polynomial of second order whose largest value
# over a span is 1 (Chebyshev's, which no slope or level of the law can remove) is 7 half a span outside it and 17 a whole span
# outside. Errors of .15 to .3%, as small as a run effect and unnoticed inside, are 1 to 2% there.
FAR = 0.5  # spans outside the runs from which on a setting is far
# Distances that never count as far: in e-folds, or as a share of the support of a covariate that is neither logarithmic nor signed.
NEAR = (0.1, 0.05)
OF_ZERO = 300.0  # e-folds: no setting above 0 lies so far outside the runs
SEED_SPREAD = 0.01  # largest sigma_run explained by seeds, relative: twice the largest measured on tinycpt (.3 to .5%)
SEED_LOGITS = 0.1  # the same in logits of an accuracy: 1% of a loss of 2.5 nats at a steepness of 4 per nat

LONGER = "Sample longer, such as 3,000 draws after 1,500 of tuning"
Subject = Literal["sampling", "model", "note"]


@dataclass(frozen=True, eq=False)
class Check:
    """One check: what it is about, whether it passed, the numbers behind it (`table`), a sentence on both, and what to do.

    Attributes
    ----------
    subject : {'sampling', 'model', 'note'}
        Checks of sampling say whether the draws are those of the posterior; if one fails, intervals are refused. Checks of the
        model say whether law, noise and priors agree with the runs and reach what is asked; a failed one is a concern.
    advice : str
        What to do if it fails, without a full stop.
    """

    name: str
    passed: bool
    text: str
    subject: Subject
    table: pd.DataFrame
    advice: str = ""

    @property
    def required(self) -> bool:
        """Whether intervals are refused if it fails."""
        return self.subject == "sampling"

    @property
    def verdict(self) -> str:
        """'passed', 'FAILED' (sampling), 'concern' (model) or 'note'."""
        return "passed" if self.passed else {"sampling": "FAILED", "model": "concern"}.get(self.subject, "note")

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}" + (f". {self.advice}." if self.advice and not self.passed else "")


def failures(checks: Iterable[Check]) -> list[Check]:
    """Return the failed checks of sampling."""
    return [check for check in checks if check.required and not check.passed]


def concerns(checks: Iterable[Check]) -> list[Check]:
    """Return the failed checks of the model."""
    return [check for check in checks if check.subject == "model" and not check.passed]


def remedy(checks: Sequence[Check]) -> str:
    """Return what to do about failed checks of sampling; where draws diverged, more of them don't help.

    Where the runs don't identify the law's parameters, sampling is hard for that reason, and other runs or another law come first.
    """
    failed = failures(checks)
    failed = [check for check in failed if check.name == "divergences"] or failed
    advice = "; ".join(dict.fromkeys(check.advice for check in failed if check.advice)) or LONGER
    if any(check.name == "values" for check in concerns(checks)):
        return f"Add runs by which all parameters are identified (see the concern `values`), or fit a law with fewer. Or: {advice}"
    return advice


def failed_text(checks: Iterable[Check]) -> str:
    """Return the texts of failed checks of sampling; empty where all passed."""
    return "; ".join(check.text for check in failures(checks))


def distrusted(of: str, checks: Sequence[Check]) -> FitError:
    """Return the error that refuses to use draws whose sampling failed: the checks, and what to do."""
    return FitError(
        f"{of} failed ({failed_text(checks)}): intervals can't be trusted. {remedy(checks)}; or force it and have rows marked.",
        code="failed-checks",
    )


def sampling_verdict(checks: Sequence[Check]) -> str:
    """Return 'passed', or 'FAILED' with the checks that failed and what to do."""
    names = ", ".join(dict.fromkeys(check.name for check in failures(checks)))
    return f"FAILED ({names}). {remedy(checks)}." if names else "passed"


def model_verdict(checks: Sequence[Check]) -> str:
    """Return 'no concerns', 'concerns' with their names, or 'not assessed' where the draws can't be trusted."""
    if failures(checks):
        return "not assessed, since the draws can't be trusted"
    names = ", ".join(dict.fromkeys(check.name for check in concerns(checks)))
    return f"concerns ({names})" if names else "no concerns"


def sampling_label(checks: Iterable[Check]) -> str:
    """Return 'passed' or 'FAILED', as the column `checks` of `Fit.summary` has it."""
    return "FAILED" if failures(checks) else "passed"


def model_label(checks: Sequence[Check]) -> str:
    """Return the text of a table's column `model`: 'no concerns', 'concerns' or 'not assessed'."""
    return "not assessed" if failures(checks) else "concerns" if concerns(checks) else "no concerns"


class Checked(Protocol):
    """What has checks: a fit, or a stack with those of its fits."""

    @property
    def checks(self) -> tuple[Check, ...]: ...


class Verdicts:
    """What the checks of a fit, or of the fits of a stack, say about sampling and model."""

    @property
    def passed(self: Checked) -> bool:
        """Whether every check of the sampling passed. It says nothing on the model: see `concerns`."""
        return not failures(self.checks)

    @property
    def failures(self: Checked) -> str:
        """Texts of the checks of the sampling that failed; empty where all passed."""
        return failed_text(self.checks)

    @property
    def remedy(self: Checked) -> str:
        """What to do about failed checks of the sampling."""
        return remedy(self.checks)

    @property
    def concerns(self: Checked) -> tuple[Check, ...]:
        """Failed checks of the model: where law, noise or priors don't agree with the runs."""
        return tuple(concerns(self.checks))

    @property
    def verdicts(self: Checked) -> tuple[str, str]:
        """The verdicts on the sampling and on the model, each in a line."""
        return sampling_verdict(self.checks), model_verdict(self.checks)


def checks_label(failed: bool) -> str:
    """Return the text of a table's column `checks`: 'passed', or 'FAILED (forced)' where failed checks were overridden."""
    return "FAILED (forced)" if failed else "passed"


def failure_suffix(failed: bool) -> str:
    """Return the end of a summary line: empty, or a warning where failed checks were overridden."""
    return f" — CHECKS {checks_label(True)}" if failed else ""


STATISTICS: Mapping[str, Callable[[Array], Any]] = {
    "r_hat": lambda values: array_stats.rhat(values, method="rank"),
    "ess_bulk": lambda values: array_stats.ess(values, method="bulk"),
    "ess_tail": lambda values: array_stats.ess(values, method="tail", prob=TAILS),
}


def diagnostics[K: Hashable](draws: Mapping[K, Array], statistics: Iterable[str] = STATISTICS) -> pd.DataFrame:
    """Return R-hat and effective sample sizes, or one of them, of quantities with draws (chains, draws), one row each."""
    values = np.stack(list(draws.values()))
    with np.errstate(all="ignore"):  # draws that never moved have no R-hat
        columns = {name: np.asarray(STATISTICS[name](values), dtype=np.float64) for name in statistics}
    return pd.DataFrame(columns, index=pd.Index(list(draws)))


def _shown(value: float, digits: int, passes: Callable[[float], bool], form: str = "f") -> str:
    """Return a number with so many digits, or more where it would look as if it passed a check that it fails, or the reverse."""
    texts = [f"{value:.{count}{form}}" for count in range(digits, 12)]
    unit = 100 if form == "%" else 1
    return next((text for text in texts if passes(float(text.rstrip("%")) / unit) == passes(value)), texts[-1])


def _mixing_checks(table: pd.DataFrame, chains: int, draws: int, prefix: str, of: str) -> list[Check]:
    """Check R-hat and effective sample sizes of `diagnostics` by their worst row; `of` names the quantity in texts."""
    name = (lambda row: f"row {row}") if prefix else str
    worst = table["r_hat"].fillna(np.inf).idxmax()
    largest = float(table["r_hat"].max(skipna=False))
    passed = chains > 1 and bool((table["r_hat"] <= R_HAT).all())
    text = (
        f"largest R-hat {of}{_shown(largest, 3, lambda r_hat: r_hat <= R_HAT)} ({name(worst)}), at most {R_HAT} wanted"
        if chains > 1
        else "one chain only: R-hat needs two"
    )
    advice = LONGER if chains > 1 else "Sample several chains, such as the usual four"
    checks = [Check(f"{prefix}r_hat", passed, text, "sampling", table[["r_hat"]], advice)]
    for column, kind in (("ess_bulk", "bulk"), ("ess_tail", "tail")):
        sizes = table[column].fillna(0.0)  # draws that never moved have no size
        worst, least = sizes.idxmin(), sizes.min()
        size = _shown(least, 0, lambda size: size >= ESS)
        of_all = f"{chains * draws} draws ({name(worst)}), at least {ESS} wanted"
        text = f"smallest {kind} effective sample size {of}{size} of {of_all}"
        checks.append(Check(f"{prefix}{column}", bool(least >= ESS), text, "sampling", table[[column]], LONGER))
    return checks


def sampler_checks(draws: Mapping[str, Array], stats: xr.Dataset, energy: Array) -> list[Check]:
    """Check R-hat, effective sample sizes, divergences and energy.

    Parameters
    ----------
    draws : mapping of parameter to array (chains, draws)
    stats : Dataset
        The sampler's statistics of these draws.
    energy : array (chains, all draws)
        Energies of all draws that were sampled. Of every second one they look less correlated than they are.
    """
    chains, count = next(iter(draws.values())).shape
    checks = _mixing_checks(diagnostics(draws), chains, count, "", "")
    diverging = int(stats["diverging"].sum())
    text = f"{diverging} divergent transition{'s' * (diverging != 1)} of {chains * count}, at most {DIVERGENT:.1%} wanted"
    numbers = pd.DataFrame({"divergent": [diverging], "draws": [chains * count]})
    advice = (
        "More draws alone don't help: tune longer (a tuning of 2,000 draws, say), take smaller steps (--target-accept 0.998, "
        "target_accept=0.998), or give a prior that keeps away from where the law breaks down"
    )
    checks.append(Check("divergences", diverging <= DIVERGENT * chains * count, text, "sampling", numbers, advice))
    with np.errstate(all="ignore"):
        bfmi = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)
    text = f"smallest E-BFMI {_shown(bfmi.min(), 2, lambda value: value >= BFMI)}, at least {BFMI} wanted"
    advice = "Give priors with lighter tails, or leave out what the runs can't identify"
    checks.append(Check("e_bfmi", bool(bfmi.min() >= BFMI), text, "sampling", pd.DataFrame({"e_bfmi": bfmi}), advice))
    return checks


def overlap(prior: Array, posterior: Array) -> float:
    """Return the common area of two marginals, 1 where they are equal, from draws in 30 bins of equal pooled mass."""
    edges = np.quantile(np.concatenate([prior, posterior]), np.linspace(0, 1, 31)[1:-1])
    shares = [np.bincount(np.searchsorted(edges, v), minlength=30) / v.size for v in (prior, posterior)]
    return float(np.minimum(*shares).sum())


def information_check(prior: Mapping[str, Array], posterior: Mapping[str, Array]) -> Check:
    """Check that the data moved every parameter from its prior."""
    table = pd.DataFrame({"prior_overlap": {name: overlap(prior[name], posterior[name].ravel()) for name in prior}})
    uninformed = [str(n) for n in table.index[table["prior_overlap"] > OVERLAP]]
    text = f"{', '.join(uninformed)}: not informed by these data" if uninformed else "the data inform every parameter"
    return Check("informed", not uninformed, text, "note", table, "A forecast says whether they matter to it")


def run_effect_check(sigma_run: Array, outcome: Outcome = LOSS, shifted: Array | None = None) -> Check:
    """Check that run effects, of the group with the largest, are no larger than seeds explain.

    Larger ones show an error of the law between runs.

    Parameters
    ----------
    sigma_run : array (groups, S)
        Draws of their scale.
    outcome : Outcome
    shifted : array (n,), optional
        Values of the covariate that run effects are added to (`Outcome.run_shifts`), where they are.
    """
    median = float(max(np.median(group) for group in sigma_run))
    if shifted is not None:
        most, unit = SEED_SPREAD * float(np.median(np.abs(shifted))), f" in {outcome.run_shifts}"
    elif outcome.kind == "real":
        most, unit = SEED_SPREAD * outcome.scale, f" in {outcome.name}"
    else:
        most, unit = (SEED_SPREAD, "") if outcome.relative else (SEED_LOGITS, " logits")
    digits, form = (1, "%") if outcome.relative else (2, "g")
    effect = _shown(median, digits, lambda size: size <= most, form) + unit
    explained = f"{most:.0%}" if outcome.relative else f"{most:.2g}"
    text = f"runs lie {effect} around the law beyond point noise; seeds explain at most {explained}"
    if median > most:
        text += ": the law misses something between runs"
    advice = "Compare other laws, and state a discrepancy"
    return Check("run_effect", median <= most, text, "model", pd.DataFrame({"sigma_run": [median]}), advice)


def learnt_error_check(scale: Array, most: float, outcome: Outcome = LOSS) -> Check | None:
    """Return a concern where the learnt error of a law is unusually large, else None.

    It may then have taken over what the law should explain, such as the fall of one smooth curve.

    Parameters
    ----------
    scale : array (chains, draws)
        Draws of the error an e-fold away.
    most : float
        The 95% point of its prior.
    outcome : Outcome
    """
    if (median := float(np.median(scale))) <= most:
        return None
    size, usual = (f"{median:.1%}", f"{most:.1%}") if outcome.relative else (f"{median:.2g} {outcome.name}", f"{most:.2g}")
    text = f"the learnt error of the law is {size} an e-fold away, above the 95% point of its prior, {usual}"
    text += ": it may explain what the law should"
    advice = "Compare forecasts of held-out runs with those of the law taken for exact (--discrepancy none, discrepancy='none')"
    return Check("learnt_error", False, text, "model", pd.DataFrame({"discrepancy": [median]}), advice)


def bins_check(count: Array, width: float, shift: float, sigma_point: Array, outcome: Outcome = LOSS) -> Check:
    """Check that binning moves expected responses (log losses) by much less than the standard error of a bin's mean.

    Parameters
    ----------
    count : array (bins,) of the points in each bin
    width, shift : float
        Width of a bin in e-folds, and largest change of an expected log loss.
    sigma_point : array (groups, S)
    outcome : Outcome
    """
    error = min(float(np.median(group)) for group in sigma_point) / math.sqrt(float(count.max()))
    how = "relative" if outcome.relative else "on the scale of the noise"
    text = (
        f"{int(count.sum()):,} points in {count.size:,} bins of {width:g} e-folds: expected {outcome.plural} move by at most "
        f"{shift:.1e} {how}, at most {BINNED:.0%} of a bin's own error {error:.1e} wanted"
    )
    numbers = pd.DataFrame({"shift": [shift], "error": [error]})
    return Check("bins", shift <= BINNED * error, text, "sampling", numbers, "Choose narrower bins")


def spread_rows(columns: Sequence[Array], most: int = FORECAST_ROWS) -> Index:
    """Choose rows that bracket a table: the extremes of each column, then repeatedly the row farthest from those chosen.

    The columns (n,) are finite and in units in which distances count, such as logarithms; each is scaled by its range. At most
    `most` rows are returned, ascending. Rows equal to a chosen one are left out of a table with more rows than that.
    """
    n = columns[0].size
    return np.arange(n) if n <= most else np.sort(spread_order(columns, most))


def spread_order(columns: Sequence[Array], most: int) -> Index:
    """Return the rows of `spread_rows` in the order in which they are chosen; no two of them are equal."""
    points = np.stack([(c - c.min()) / (np.ptp(c) or 1.0) for c in columns])
    chosen: list[int] = []
    nearest = np.full(columns[0].size, np.inf)

    def choose(row: int) -> None:
        chosen.append(row)
        np.minimum(nearest, ((points - points[:, [row]]) ** 2).sum(axis=0), out=nearest)

    for column in points:
        for row in (int(column.argmin()), int(column.argmax())):
            if len(chosen) < most and nearest[row] > 0:
                choose(row)
    while len(chosen) < most and nearest.max() > 0:
        choose(int(nearest.argmax()))
    return np.array(chosen, dtype=np.int64)


def forecast_checks(latent: Array, rows: Sequence[Hashable], settings: int, outcome: Outcome = LOSS) -> list[Check]:
    """Check R-hat and effective sample sizes of the latent loss, or other outcome, which can mix worse than every parameter.

    Settings where it is the same in all draws, as an accuracy far below any signal, have nothing to mix.

    Parameters
    ----------
    latent : array (chains, draws, m)
    rows : sequence (m,) of the settings' names
    settings : int
        Number of settings of the whole forecast.
    outcome : Outcome
    """
    moving = {row: latent[..., i] for i, row in enumerate(rows) if np.ptp(latent[..., i]) > 0}
    if not moving:
        return []
    table = diagnostics(moving)
    some = "" if len(rows) == settings else f" at {len(rows)} of {settings:,} settings that bracket all"
    chains, draws, _ = latent.shape
    return _mixing_checks(table, chains, draws, "forecast_", f"of the latent {outcome.name}{some}: ")


@dataclass(frozen=True)
class Reach:
    """The range of the runs in a covariate or in several together (N x D), in e-folds where it is logarithmic, else in its unit.

    `span` is the distance between the smallest and the largest value; distances below `near` never count as far.
    """

    span: float
    near: float
    logarithmic: bool

    @classmethod
    def of(cls, covariate: Covariate, seen: Array) -> Reach:
        """Return the range of runs with these values of a covariate, D = 0 left out."""
        low, high = covariate.support
        if covariate.logarithmic:
            seen = np.log(seen[seen > 0])
        near = NEAR[0] if covariate.logarithmic else NEAR[1] * (high - low) * (low >= 0)
        return cls(float(np.ptp(seen)) if seen.size else 0.0, near, covariate.logarithmic)

    @classmethod
    def by_axis(cls, law: Law, observed: Observations) -> dict[str, Reach]:
        """Return the ranges of a fit's runs in the axes of its law."""
        return {name: cls.of(covariate, observed.covariates[name]) for name, covariate in law.axes.items()}

    @property
    def far(self) -> float:
        """Smallest distance outside the runs that counts as far."""
        return max(FAR * self.span, self.near)

    def __call__(self, distance: float) -> str:
        return f"{distance:.2g}{' e-folds' if self.logarithmic else ''}"

    def is_zero(self, distance: float) -> bool:
        """Whether a setting so far outside is 0, for whose logarithm distances take that of 1e-300."""
        return self.logarithmic and distance > OF_ZERO


def extrapolation(
    outside: pd.DataFrame, reach: Mapping[str, Reach], counted: str = "", along: Collection[str] | None = None
) -> tuple[list[str], Check]:
    """Describe for each setting in which covariates it lies outside the runs, and how far.

    Parameters
    ----------
    outside : DataFrame
        Distances outside the runs, a column for each covariate; 0 within.
    reach : mapping of covariate to Reach
    counted : str
        What counts the law's error there, such as 'the stated discrepancy'; empty if nothing does.
    along : collection of str, optional
        The covariates along which it does, by default all.

    Returns
    -------
    list of str, Check
        For each row 'inside', 'outside: N by 0.3 e-folds', 'FAR outside: ptpp by 2.2 e-folds' or 'FAR outside: D = 0'. The check
        passes where no row is far; it is not required, since laws are fitted to forecast outside the runs.
    """
    distances: list[list[str]] = [[] for _ in range(len(outside))]
    far = np.zeros(len(outside), dtype=bool)
    farthest, table = dict[str, str](), {}
    for name, covered in reach.items():
        distance = outside[name].to_numpy(dtype=np.float64)
        off = np.flatnonzero(distance > 0)
        for i, away in zip(off.tolist(), distance[off].tolist(), strict=True):
            distances[i].append(f"{name} = 0" if covered.is_zero(away) else f"{name} by {covered(away)}")
        beyond = distance > covered.far
        far |= beyond
        largest = float(distance.max(initial=0.0))
        table[name] = {"span": covered.span, "far": covered.far, "outside": largest, "rows_far": float(beyond.sum())}
        if beyond.any():
            span = f"span {covered(covered.span)}" if covered.span > 0 else "have one value: its effect is the priors'"
            farthest[name] = f"{name} {'= 0' if covered.is_zero(largest) else f'up to {covered(largest)}'} (the runs {span})"
    texts = [f"{'FAR ' * bool(f)}outside: {', '.join(d)}" if d else "inside" for f, d in zip(far, distances, strict=True)]
    if farthest:
        text = f"{int(far.sum()):,} of {far.size:,} settings lie far outside the runs: {'; '.join(farthest.values())}. "
        text += _what_counts(farthest, counted, along)
    elif any(distances):
        text = f"no setting lies farther outside the runs than {FAR:g} times their span"
    else:
        text = "every setting lies within the range of the runs in each covariate"
    return texts, Check("extrapolation", not farthest, text, "model", pd.DataFrame(table).T)


def _what_counts(far: Iterable[str], counted: str, along: Collection[str] | None) -> str:
    """Say what counts the law's error far outside the runs in some covariates, or what to do where nothing does."""
    advice = "Runs can't show how wrong the law may be there: state a discrepancy, such as 1%"
    if not counted:
        return advice
    counts = f"{counted[0].upper()}{counted[1:]} is counted"
    if along is None or not (uncounted := [name for name in far if name not in along]):
        return f"{counts} there"
    return f"{counts} along {', '.join(along)}, and none along {', '.join(uncounted)}. {advice}"


def table_of(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return checks as plain records, to be stored with a fit."""
    return [vars(c) | {"table": c.table.to_dict()} for c in checks]
