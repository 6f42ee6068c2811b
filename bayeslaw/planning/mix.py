"""The best data mixture for one or several domains: shares of least weighted loss, with limits, over posterior draws.

    least E[sum_d w_d L_d(x)]  such that  P(L_d(x) <= limit_d for all d) >= confidence,   x on the simplex

The mean is over posterior draws; with a `tail` it is that of the worst draws. `mix_search` searches the shares within bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from bayeslaw.core import html
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, as_mapping, nearest, whole_number
from bayeslaw.core.intervals import quantiles
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import compact, counted, settings_text, short_lines, write_as_share
from bayeslaw.data.table import Table, read_runs
from bayeslaw.data.validate import SUM
from bayeslaw.forecasting.outside import beyond_together, outside
from bayeslaw.forecasting.stack import Posterior, fits_of, paired, require_losses, with_error
from bayeslaw.planning.arguments import at_settings, check_choice, check_paired, check_passed, setting
from bayeslaw.planning.mix_search import ATTAINABLE, RECOMMENDED, TODAY, Domain, Search
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix
from bayeslaw.posterior.fit import require_fits

SINGLE = 40  # draws whose own optimum is found
EDGE = 1e-3  # share within which a mixture lies on a bound
MOST_MIXTURES = 2_000  # that are compared
ROUNDING = 1e-12  # share of the loss below which a difference is that of the order of sums
SHARE_TOLERANCE = 1e-6  # difference up to which two shares are one: those of fitted rows are rounded to six digits


@dataclass(frozen=True, eq=False)
class Mix:
    """The mixture that was chosen, beside others and today's.

    Attributes
    ----------
    best : dict of share to float, or None
        The recommended mixture; None where none meets the limits with the confidence asked for.
    attainable : dict of share to float
        `best` or, where there is none, the mixture at which most draws meet the limits.
    table : DataFrame
        One row per mixture compared: its shares; the weighted loss's mean, median and interval; `best_prob`, the probability over
        draws that it has the least weighted loss of these mixtures (of those that meet the limits, where any does); `regret`, by
        how much its loss exceeds that of the mixture which is best in the same draw, in the mean (that mixture meets the limits
        in draws where any does, and may have the higher loss for it); `limits_prob`, the probability that it meets all limits;
        `feasible`; `checks`. `mixture` is 'recommended' ('attainable' where none meets the limits),
        'today', or 'fitted 3', 'given 3' by the row of the fitted table, or of `among`, that has it first; a mixture that is the
        recommended one or today's is not listed again.
    optima : DataFrame
        The best mixture of each of some draws, shares as columns: how well the best shares are known. Regret is against these.
    losses : DataFrame
        Losses of every domain at the recommended (or attainable) mixture and today's, with their interval and limit.
    gain : dict of str to float, or None
        Gain of that mixture over today's: `mean`, `median`, interval and `prob`, the probability that it is above 0. The noise of a
        next run is the same for both mixtures and cancels.
    draws : DataFrame
        Weighted losses (S, mixtures) by the table's `mixture`.
    weights, limits, at, today : mappings
    shares : tuple of str
    bounds : mapping of share to (float, float)
    confidence, tail, on, unit
        As in `mix`; `tail` is None for the mean.
    notes : tuple of str
    forced : bool
        Whether checks of a fit failed.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("mixtures.nc")
    >>> mixed = bayeslaw.mix(fit, at={"N": 1e9, "D": 2e10})
    >>> round(sum(mixed.best.values()), 6)
    1.0
    """

    best: dict[str, float] | None
    attainable: dict[str, float]
    table: pd.DataFrame
    losses: pd.DataFrame
    gain: dict[str, float] | None
    draws: pd.DataFrame
    optima: pd.DataFrame
    weights: Mapping[str, float]
    limits: Mapping[str, float]
    at: Mapping[str, Any]
    today: Mapping[str, float] | None
    shares: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]
    confidence: float
    tail: float | None
    on: str
    unit: str
    notes: tuple[str, ...]
    forced: bool

    def __repr__(self) -> str:
        return short_lines(f"<Mix: {'; '.join(self.lines()[:2])}>")

    def _repr_html_(self) -> str:
        """Show the mixture, losses and comparison in a notebook."""
        head, *lines = self.lines()
        return html.fragment(
            "Mixture", head, *map(html.paragraph, lines), html.grid(self.losses, caption="Losses by domain"),
            html.grid(self.table, caption="Mixtures compared"), html.notes(self.notes),
        )  # fmt: skip

    def lines(self) -> list[str]:
        """The result in words."""
        of = ", ".join(f"{compact(w, 3)} {name}" for name, w in self.weights.items())
        where = settings_text(self.at)
        spread = "the laws' expected losses" if self.on == "latent" else "the losses that the next run logs"
        limits = "".join(f"; {name} <= {limit:g}" for name, limit in self.limits.items())
        over = "mean" if self.tail is None else f"mean of the worst {self.tail:.0%} of draws"
        lines = [f"{where + ': ' if where else ''}{over} of {of}{limits}; on {spread}{failure_suffix(self.forced)}"]
        rows = {str(k): v for k, v in self.table.set_index("mixture").to_dict(orient="index").items()}
        if self.best is None:
            row = rows[ATTAINABLE]
            lines.append(f"no mixture meets every limit with probability {self.confidence:g}")
            lines.append(f"highest probability: {row['limits_prob']:.3f} at {in_words(self.attainable)}")
            return lines
        row = rows[RECOMMENDED]
        kept = f"; limits hold with probability {row['limits_prob']:.3f}" if self.limits else ""
        lines.append(f"recommended: {in_words(self.best)}; loss {row['loss_mean']:.4g} {self.unit}{kept}")
        lines.append(
            f"it is the best of the {counted(len(self.table), 'mixture')} compared with probability {row['best_prob']:.2f}; its "
            f"loss exceeds that of each draw's own best mixture by {row['regret']:.2g} {self.unit} in the mean"
        )
        if self.today is not None and self.gain is not None:
            ends = [v for k, v in self.gain.items() if k.startswith("eti")]
            lines.append(
                f"today's: {in_words(self.today)}; the recommended one lowers the loss by {self.gain['mean']:.2g} {self.unit} (90% "
                f"equal-tailed interval {ends[0]:.2g} to {ends[1]:.2g}), with probability {self.gain['prob']:.2f} at all; expected "
                f"regret of today's {rows[TODAY]['regret']:.2g}"
            )
        return lines


def mix(
    fits: Posterior | Mapping[str, Posterior],
    weights: Mapping[str, float] | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    limits: Mapping[str, float] | None = None,
    confidence: float = 0.9,
    today: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    among: Table | None = None,
    on: Literal["latent", "run"] = "latent",
    tail: float | None = None,
    discrepancy: Literal["learned", "none"] = "learned",
    seed: int = 0,
    force: bool = False,
) -> Mix:
    """Find the data mixture of least weighted loss.

    Parameters
    ----------
    fits : Fit, Stack or mapping of domain to these
        Fits of laws with a mixture (`[mixture]` in their cards). One fit whose parameters differ by a column has a domain for each
        value of it; several fits are a mapping by domain.
    weights : mapping of domain to float, optional
        0 or more; those of 0 and those left out don't count. Equal unless given. They are divided by their sum.
    at : mapping, optional
        Values of the laws' other covariates, such as N and D.
    limits : mapping of domain to float, optional
        Largest losses, in the unit of the fits, which hold together with probability `confidence`.
    confidence : float
    today : mapping of share to float, optional
        The mixture in use, for comparison.
    bounds : mapping of share to (float, float), optional
        Least and largest shares. By default a share lies within those of the fitted mixtures, because laws are not known beyond.
    among : table, optional
        Choose among these mixtures instead, one row each.
    on : {'latent', 'run'}
        Whether limits and draws are of the laws' expected losses or of the losses that the next run will log. The best mixture is
        the same unless there are limits or a tail.
    tail : float, optional
        Minimise the mean over this share of draws with the largest weighted losses (CVaR), in place of the mean over all.
    discrepancy : {'learned', 'none'}
        'learned' takes losses at sizes and tokens outside the runs from the posterior in which the law has an error, with that
        error.
    seed : int
        Seed of the search, the noise of the next run, and the errors.
    force : bool
        Whether to go on in spite of failed checks.

    Raises
    ------
    BayeslawError
        If an argument can't be used; the message names it and its value.
    FitError
        If checks of a fit failed, unless forced.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("mixtures.nc")
    >>> mixed = bayeslaw.mix(fit, at={"N": 1e9, "D": 2e10}, today={"web": 0.4, "code": 0.4, "books": 0.2})
    >>> mixed.table["mixture"].tolist()[:2], mixed.gain["mean"] > 0
    (['recommended', 'today'], True)
    """
    _check_choices(on, discrepancy, tail, confidence)
    seed = whole_number("seed", seed, 0)
    at, limits = as_mapping(at, "{'N': 1e9}"), as_mapping(limits, "{'code': 1.2}", "Limits")
    bounds = as_mapping(bounds, "{'web': (0.1, 0.5)}", "Bounds")
    today = today if today is None else as_mapping(today, "{'web': 0.4, 'code': 0.6}", "Today's shares")
    weights = weights if weights is None else as_mapping(weights, "{'web': 2, 'code': 1}", "Weights")
    named = _by_domain(fits)
    require_losses([fit for fit, _ in named.values()], "a mixture", positive=True)
    for fit in {id(fit): fit for fit, _ in named.values()}.values():
        check_passed(fit, force)
    shares = _shares_of([fit for fit, _ in named.values()])
    chosen = _weights(weights, named)
    upper = {name: _limit(name, value, named) for name, value in limits.items()}
    domains = _domains(named, shares, at, [d for d in named if d in chosen or d in upper], on, discrepancy, seed)
    fitted = _fitted_mixtures(named, shares)
    seen = np.stack(list(fitted.values()))
    now = None if today is None else _mixture(today, shares, "today")
    box = _box(bounds, shares, seen)
    if among is not None and bounds:
        raise BayeslawError("Give bounds or a table of mixtures (among), not both.", code="bounds-and-among")
    others = _within(fitted, box) if among is None else _given(among, shares)
    inside, others = len(others), dict(islice(others.items(), MOST_MIXTURES))

    search = Search(domains, np.array([chosen.get(d.name, 0.0) for d in domains]), upper, confidence, tail, shares, seed)
    best, feasible, optima, own = _best(search, others, now, box if among is None else None)
    name = RECOMMENDED if feasible else ATTAINABLE
    compared = {name: best} | ({} if now is None else {TODAY: now})
    same = [label for label, x in others.items() if _equal(x, best)]
    compared |= {label: x for label, x in others.items() if not any(_equal(x, other) for other in compared.values())}
    table, draws = search.compare(compared)
    regret = (draws.to_numpy()[optima.index] - own[:, None]).mean(axis=0)
    table = table.assign(regret=np.where(np.abs(regret) < ROUNDING * np.abs(own).mean(), 0.0, regret))
    forced = not all(fit.passed for fit, _ in named.values())
    notes = _notes(best, now, shares, seen, box if among is None else None, not bounds, domains, search)
    if inside > len(others):
        notes.append(f"of {inside:,} fitted mixtures within the bounds the first {len(others):,} are compared")
    if same:
        kind, row = same[0].split(" ", 1)
        of = f"of {len(others)} different ones given" if kind == "given" else "which was fitted"
        notes.append(f"the {name} mixture is that of row {row}, {of}")
    of_best = dict(zip(shares, best.tolist(), strict=True))
    return Mix(
        best=of_best if feasible else None, attainable=of_best, table=table.assign(checks=checks_label(forced)),
        losses=search.by_domain(compared),
        gain=None if now is None else _gain(draws[TODAY].to_numpy() - draws[name].to_numpy()),
        draws=draws, optima=optima, weights=chosen, limits=upper, at=at,
        today=None if now is None else dict(zip(shares, now.tolist(), strict=True)), shares=shares,
        bounds={s: (float(low), float(high)) for s, low, high in zip(shares, *box, strict=True)}, confidence=confidence, tail=tail,
        on=on, unit=domains[0].unit, notes=tuple(notes), forced=forced,
    )  # fmt: skip


def _equal(mixture: Array, other: Array) -> bool:
    """Whether two mixtures (k,) are the same, up to the digits to which those of fitted rows are rounded."""
    return bool(np.abs(mixture - other).max() < SHARE_TOLERANCE)


class _Best(NamedTuple):
    """The best mixture (k,), and those of some draws by themselves."""

    mixture: Array
    feasible: bool  # whether it meets the limits
    optima: pd.DataFrame  # best mixtures of draws, a row each
    losses: Array  # the weighted losses of these draws there


def _best(search: Search, others: Mapping[str, Array], now: Array | None, box: tuple[Array, Array] | None) -> _Best:
    """Return the best mixtures within bounds or, without them, of `others`."""
    every, mixtures = np.arange(search.size), np.array([*others.values()]).reshape(-1, len(search.shares))
    single = every[:: max(1, search.size // SINGLE)][:SINGLE]
    if box is None:
        best, feasible = search.choose(mixtures, every)
        optima, loss = search.choose_each(mixtures, single)
    else:
        known = mixtures if now is None else np.vstack([mixtures, now])
        best, feasible = search.least(box, known, search.some, every)
        optima, loss = search.each(box, np.vstack([known, best]), single)
    return _Best(best, feasible, pd.DataFrame(optima, single, list(search.shares)).rename_axis("draw"), loss)


# --- what is asked ----------------------------------------------------------------------------------------------------


def _check_choices(on: str, discrepancy: str, tail: float | None, confidence: float) -> None:
    check_choice("on", on, "unknown-choice")
    check_choice("discrepancy", discrepancy, "unknown-choice")
    for name, share in (("tail", tail), ("confidence", confidence)):
        if share is not None and not (isinstance(share, Real) and 0 < share < 1):
            hint = write_as_share(float(share)) if isinstance(share, Real) else ""
            raise BayeslawError(f"{name} lies between 0 and 1, not at {share!r}{hint}.", code="not-a-probability")


def _by_domain(fits: Posterior | Mapping[str, Posterior]) -> dict[str, tuple[Posterior, dict[str, str]]]:
    """Each domain's posterior, with the value of the column by which parameters differ."""
    if isinstance(fits, Sequence) and not isinstance(fits, str):
        raise BayeslawError("Name the domain of each fit, such as {'web': fit, 'code': other}.", code="not-a-mapping")
    require_fits(*(fits.values() if isinstance(fits, Mapping) else (fits,)))
    if isinstance(fits, Mapping):
        if not fits:
            raise BayeslawError("A mixture needs at least one fit.", code="no-fit")
        for name, fit in fits.items():
            if fit.levels:
                columns = ", ".join(fit.levels)
                message = f"The fit of {name} has several domains itself (by {columns}): give it alone, or fits of one domain each."
                raise BayeslawError(message, code="several-domains")
        return {name: (fit, {}) for name, fit in zip(fits, paired(fits.values()), strict=True)}
    if len(fits.levels) > 1:
        message = f"Parameters of {fits.name} differ by {', '.join(fits.levels)}: a mixture takes fits that differ by one column."
        raise BayeslawError(message, code="several-columns")
    for column, values in fits.levels.items():
        return {value: (fits, {column: value}) for value in values}
    return {"loss": (fits, {})}


def _shares_of(posteriors: Sequence[Posterior]) -> tuple[str, ...]:
    """The shares that all laws have."""
    laws = [fit.law for posterior in posteriors for fit in fits_of(posterior).values()]
    for law in laws:
        if not law.shares:
            raise BayeslawError(f"{law.name} has no mixture: fit a law that has, such as data-mixing.", code="law-without-mixture")
        if {*law.shares} != {*laws[0].shares}:
            first, other = ", ".join(laws[0].shares), ", ".join(law.shares)
            raise BayeslawError(f"The fits have mixtures of different shares: {first}, and {other}.", code="different-shares")
    return laws[0].shares


def _weights(weights: Mapping[str, float] | None, named: Mapping[str, Any]) -> dict[str, float]:
    given = dict.fromkeys(named, 1.0) if weights is None else {k: setting(f"weight of {k}", v) for k, v in weights.items()}
    for name, value in given.items():
        if name not in named:
            raise BayeslawError(f"There is no domain {name!r}; {_known(name, named)}", code="unknown-domain")
        if value < 0:
            raise BayeslawError(f"The weight of {name} is {value:g}; a weight is 0 or more.", code="negative-weight")
    if not (total := sum(given.values())) > 0:
        raise BayeslawError("No domain has a weight above 0.", code="no-weight")
    return {name: value / total for name, value in given.items() if value > 0}


def _limit(name: str, value: Any, named: Mapping[str, Any]) -> float:
    if name not in named:
        raise BayeslawError(f"There is no domain {name!r} to limit; {_known(name, named)}", code="unknown-domain")
    if not (limit := setting(f"limit of {name}", value)) > 0:
        raise BayeslawError(f"The limit of {name} is {limit:g}, and losses are positive.", code="limit-not-positive")
    return limit


def _known(name: str, names: Mapping[str, Any]) -> str:
    return f"there are {', '.join(names)}.{nearest(name, names)}"


def _mixture(given: Mapping[str, Any], shares: tuple[str, ...], what: str) -> Array:
    """A mixture (k,); shares left out are 0."""
    if unknown := [name for name in given if name not in shares]:
        message = f"{what}: there is no share {unknown[0]!r}; shares are {', '.join(shares)}.{nearest(unknown[0], shares)}"
        raise BayeslawError(message, code="unknown-share")
    values = np.array([setting(f"{what}: {name}", given.get(name, 0.0)) for name in shares])
    return np.asarray(_checked(values[None], what)[0])


def _checked(mixtures: Array, what: str) -> Array:
    """Mixtures (m, k) whose shares lie between 0 and 1 and sum to one, to the last digit."""
    total = mixtures.sum(axis=1)
    if (np.abs(total / 100 - 1) <= SUM).all():
        raise BayeslawError(f"{what}: shares sum to 100; give them as parts of 1, such as 0.25.", code="shares-in-percent")
    wrong = ~(np.isfinite(mixtures) & (mixtures >= 0) & (mixtures <= 1)).all(axis=1) | (np.abs(total - 1) > SUM)
    if wrong.any():
        row = int(np.argmax(wrong))
        where = what if len(mixtures) == 1 else f"{what}, row {row + 1}"
        shown = ", ".join(f"{v:g}" for v in mixtures[row])
        message = f"{where}: shares lie between 0 and 1 and sum to one; these are {shown}, {total[row]:g} in all."
        raise BayeslawError(message, code="shares-sum")
    return np.asarray(mixtures / total[:, None])


def _fitted_mixtures(named: Mapping[str, tuple[Posterior, Any]], shares: tuple[str, ...]) -> dict[str, Array]:
    """The different mixtures (k,) of the fitted rows to six digits, labelled by the row of its table where each comes first."""
    mixtures: dict[str, Array] = {}
    known = set[tuple[float, ...]]()
    for domain, (posterior, _) in named.items():
        for fit in fits_of(posterior).values():
            numbers, order = fit.observed.rows, np.argsort(fit.observed.rows, kind="stable")
            rows = np.stack([fit.observed.covariates[s][order] for s in shares], axis=1).round(6)
            for at in np.sort(np.unique(rows, axis=0, return_index=True)[1]):
                if (mixture := tuple(rows[at].tolist())) in known:
                    continue
                label = f"fitted {numbers[order[at]]}"
                label = label if label not in mixtures else f"{label} of {domain}"  # of another table with rows of its own
                mixtures[label if label not in mixtures else f"{label} by {fit.law.name}"] = rows[at]
                known.add(mixture)
    return mixtures


def _within(fitted: Mapping[str, Array], box: tuple[Array, Array]) -> dict[str, Array]:
    """The fitted mixtures within bounds, by label."""
    return {
        label: x for label, x in fitted.items() if (x >= box[0] - SHARE_TOLERANCE).all() and (x <= box[1] + SHARE_TOLERANCE).all()
    }


def _given(among: Table, shares: tuple[str, ...]) -> dict[str, Array]:
    """The different mixtures of a table in its order, labelled by the numbers of their first rows."""
    runs = read_runs(among)
    if missing := [s for s in shares if s not in runs.frame]:
        raise BayeslawError(f"{runs.name} has no column {missing[0]}; a mixture has {', '.join(shares)}.", code="missing-column")
    numbers = runs.frame[list(shares)].apply(pd.to_numeric, errors="coerce")  # others are refused as shares that are nan
    mixtures = _checked(numbers.to_numpy(dtype=np.float64), runs.name)
    _, first = np.unique(mixtures.round(9), axis=0, return_index=True)
    if first.size > MOST_MIXTURES:
        message = f"{runs.name} has {first.size:,} mixtures; at most {MOST_MIXTURES:,} are compared."
        raise BayeslawError(message, code="too-many-mixtures")
    return {f"given {runs.frame.index[row]}": mixtures[row] for row in np.sort(first)}


def _box(bounds: Mapping[str, tuple[float, float]], shares: tuple[str, ...], seen: Array) -> tuple[Array, Array]:
    """Least and largest shares (k,): of the fitted mixtures, or as given."""
    low, high = seen.min(axis=0), seen.max(axis=0)
    for name, ends in bounds.items():
        if name not in shares:
            raise BayeslawError(f"There is no share {name!r} to bound; {_known(name, dict.fromkeys(shares))}", code="unknown-share")
        own = [setting(f"bound of {name}", end) for end in ends] if np.iterable(ends) and not isinstance(ends, str) else []
        if len(own) != 2 or not 0 <= own[0] <= own[1] <= 1:
            raise BayeslawError(f"The bounds of {name} are [least, largest] within 0 and 1, not {ends!r}.", code="invalid-bounds")
        low[shares.index(name)], high[shares.index(name)] = own
    if not low.sum() <= 1 + 1e-9 or not high.sum() >= 1 - 1e-9:
        message = f"No mixture lies within the bounds: least shares sum to {low.sum():.3g} and largest to {high.sum():.3g}."
        raise BayeslawError(message, code="empty-bounds")
    return low, high


def _domains(
    named: Mapping[str, tuple[Posterior, dict[str, str]]],
    shares: tuple[str, ...],
    at: dict[str, Any],
    wanted: Sequence[str],
    on: str,
    discrepancy: str,
    seed: int,
) -> list[Domain]:
    """The losses of the wanted domains at a setting."""
    fits = [member for fit, _ in named.values() for member in fits_of(fit).values()]
    known = {c for fit in fits for c in fit.law.measured if c not in shares}
    noise_by = {fit.observed.group_column for fit in fits if fit.observed.group_names} - known
    if unknown := [name for name in at if name not in known | noise_by]:
        takes = f"the laws take {', '.join(sorted(known)) or 'nothing else'}.{nearest(unknown[0], known)}"
        raise BayeslawError(f"There is no covariate {unknown[0]!r}; {takes}", code="unknown-setting")
    values = {name: value if name in noise_by else setting(name, value) for name, value in at.items()}
    posteriors = list(dict.fromkeys(id(named[name][0]) for name in wanted))
    domains = [
        _domain(name, *named[name], shares, values, on, discrepancy, seed, (posteriors.index(id(named[name][0])), number))
        for number, name in enumerate(wanted)
    ]
    check_paired({d.name: d.factors.size for d in domains}, "A mixture")
    if len(units := {d.unit for d in domains}) > 1:
        raise BayeslawError(
            f"Losses in {' and '.join(sorted(units))} can't be weighed: convert the tables.", code="different-units"
        )
    return domains


def _domain(
    name: str,
    posterior: Posterior,
    level: Mapping[str, str],
    shares: tuple[str, ...],
    at: Mapping[str, Any],
    on: str,
    discrepancy: str,
    seed: int,
    place: tuple[int, int],
) -> Domain:
    """The losses of one domain; `place` are the numbers of its posterior and of the domain.

    A model has one run effect in all domains of a posterior, and noise of its own in each.
    """
    members, factors, erring = [], list[Array](), False
    for number, (fit, draws) in enumerate(posterior.selections):
        mixture = {s: float(fit.observed.covariates[s][0]) for s in shares}
        used_by = {*fit.law.measured, fit.observed.group_column}
        frame = pd.DataFrame([{**mixture, **{k: v for k, v in at.items() if k in used_by}, **level}])
        columns = {c: frame[c].to_numpy() if c in at else fit.observed.covariates[c][:1] for c in fit.law.axes}
        beyond = (outside(fit, columns)[[c for c in columns if c not in shares]] > 0).any(axis=None)
        together = any(is_away[0] for is_away in beyond_together(fit, columns).values())
        away = with_error(fit, posterior.selections) if discrepancy == "learned" and (beyond or together) else None
        used = away or fit
        values = used.draws_of(draws)
        members.append(at_settings(f"{fit.law.name} ({name})", fit.law, values, frame, shares))
        log, own = np.zeros(draws.size), (int(fit.info["seed"]), seed)
        if used.discrepancy is not None:
            erring = True
            log += used.discrepancy.drawn(draws, (*own, place[1], number, Stream.ERROR)).at(columns)[0]
        if on == "run":
            run, row, group = np.zeros(1, dtype=np.int64), np.array([place[1]]), used.observed.groups_of(frame)
            log += used.noise.sample(values, run, row, (*own, place[0], number, Stream.NEW_RUN), group=group)[0]
        factors.append(np.exp(log))
    return Domain(name, tuple(members), np.concatenate(factors), posterior.unit, erring)


def _gain(lower: Array) -> dict[str, float]:
    middle, low, high = quantiles(lower, 0.9)
    return {
        "mean": float(lower.mean()), "median": float(middle), "eti90_lb": float(low), "eti90_ub": float(high),
        "prob": float((lower > 0).mean()),
    }  # fmt: skip


def in_words(mixture: Mapping[str, float]) -> str:
    """A mixture in words, without shares that are 0."""
    return ", ".join(f"{name} {100 * share:.1f}%" for name, share in mixture.items() if share >= 5e-4)


def _notes(
    best: Array,
    today: Array | None,
    shares: tuple[str, ...],
    seen: Array,
    box: tuple[Array, Array] | None,
    by_default: bool,
    domains: Sequence[Domain],
    search: Search,
) -> list[str]:
    """Where the mixture lies on a bound or outside the fitted ones, and what was compared."""
    notes, low, high = [], seen.min(axis=0), seen.max(axis=0)
    beyond = [s for i, s in enumerate(shares) if not low[i] - EDGE <= best[i] <= high[i] + EDGE]
    for i, share in enumerate(shares):
        if share in beyond:
            fitted = f"{low[i]:.3g} to {high[i]:.3g}"
            notes.append(f"{share} = {best[i]:.3g} lies outside the fitted mixtures ({fitted}): the law is not known there")
        elif box is not None and by_default and high[i] - low[i] > EDGE and min(best[i] - low[i], high[i] - best[i]) <= EDGE:
            end = "least" if best[i] - low[i] <= EDGE else "largest"
            notes.append(
                f"{share} = {best[i]:.3g} is the {end} that was fitted, and mixtures beyond were not considered: open the range by "
                f"bounds, or run some"
            )
    if today is not None and (off := [s for i, s in enumerate(shares) if not low[i] - EDGE <= today[i] <= high[i] + EDGE]):
        notes.append(f"today's mixture lies outside the fitted ones ({', '.join(off)}): the law is not known there, nor the gain")
    if any(domain.extrapolated for domain in domains):
        notes.append("size or tokens lie outside the runs: losses have the law's error (extrapolated), the same at every mixture")
    if search.tail is None and search.limits:
        notes.append("limits are probabilities over posterior draws, for all limited domains together")
    return notes
