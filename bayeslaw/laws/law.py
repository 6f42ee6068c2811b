"""Laws: a formula of the loss or another outcome, its covariates, and its parameters with priors."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index, common_shape, numbers
from bayeslaw.core.errors import BayeslawError, CardError, as_mapping, nearest
from bayeslaw.core.text import settings_text, short_lines
from bayeslaw.laws.formula import NUMPY, Expression, default_symbol, names_behind
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.laws.prior import Prior, read_priors
from bayeslaw.laws.references import Reference

# Sd of the half-normal prior of a spread, unless a card states it. Floors and exponents of text and code differ by a factor of 1.2
# to 3.
SPREAD = 0.5
PROBES = 16  # settings at which we test whether a term is proportional to a parameter


class LocatedError(BayeslawError):
    """A fault of a card, with its section and key."""

    def __init__(self, message: str, section: str = "", key: str = "", *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.section, self.key = section, key


@dataclass(frozen=True)
class Covariate:
    """A quantity the loss depends on.

    Attributes
    ----------
    support : (float, float)
        Smallest and largest possible value; values outside are mistakes.
    at_least : int
        How many different values the runs must have for the law to be fitted.
    context, log : bool
        Whether the loss does not depend on it (priors may be stated by it, and forecasts outside its range are labelled), and
        whether distances in it are counted in e-folds, whatever the support is.
    series : str
        The series of which it is a node, such as fall for the column fall_3; formulas name the series, within total(...).
    share_of : str
        The covariate of which a token uses this share, such as N for the active share of the parameters: runs are as large as the
        product (`Law.factors`).
    """

    name: str
    unit: str
    support: tuple[float, float]
    at_least: int = 1
    context: bool = False
    log: bool = False
    series: str = ""
    share_of: str = ""

    @property
    def logarithmic(self) -> bool:
        """Whether distances in it are counted in e-folds: `log` says so, or its support spans more than three decades."""
        low, high = self.support
        return self.log or (low >= 0 and high > 1e3 * max(low, 1.0))


@dataclass(frozen=True)
class Parameter:
    """A quantity to be inferred, with its meaning, unit, LaTeX symbol and prior.

    Attributes
    ----------
    by : str
        The column by which it differs; see `pooling`. Empty where it is the same in all rows.
    spread : float
        Sd of the half-normal prior of the spread of its values where it differs by a column: of logarithms of positive values, of
        logits of shares, of real values themselves.
    pooled : bool
        Whether its values, where it differs by a column, are normal around a typical one; else each has the prior by itself.
    around : (str, str) or None
        Names of the typical value and the spread of its normal distribution, which is that of the logarithm of a positive
        parameter and of the logit of a share; `prior` is then the prior of the typical value.
    within : (str, str) or None
        The column by which the parameter differs and the value of it in whose rows this is the parameter's value.
    of : str
        The name in the formula that stands for this parameter in those rows.
    over : str
        The name in the card of a parameter that has a value for each share of a mixture, of which this is one; see `mixture`.
    """

    name: str
    meaning: str
    unit: str
    latex: str
    prior: Prior
    by: str = ""
    spread: float = SPREAD
    pooled: bool = True
    around: tuple[str, str] | None = None
    within: tuple[str, str] | None = None
    of: str = ""
    over: str = ""

    @property
    def pooling_text(self) -> str:
        """By which column it differs and how its values are distributed, in words; empty where it is the same in all rows."""
        if not self.by:
            return ""
        if not self.pooled:
            return f"by {self.by}: each value has the prior by itself"
        of = {"positive": "logarithms", "unit": "logits"}.get(self.prior.support, "values")
        return f"by {self.by}: its {of} share a normal distribution, with the prior HalfNormal({self.spread:g}) of their spread"

    def around_typical(self, typical: Any, shift: Any) -> Any:
        """Return values that lie off a typical one by shifts of their logarithms, of their logits or of themselves."""
        match self.prior.support:
            case "positive":
                return typical * np.exp(shift)
            case "unit":
                return expit(logit(typical) + shift)
            case _:
                return typical + shift


@dataclass(frozen=True)
class Law:
    """A scaling law: formula, covariates, parameters with priors, and the source's own numbers.

    Attributes
    ----------
    formula : Expression
        The expected outcome: of a loss, in nats/token.
    let : dict of str to Expression
        Named expressions that the formula uses, in an order in which each uses only earlier ones.
    published : dict of str to dict of str to float
        Numbers of the source, for comparison only.
    references : tuple of Reference
        The source as BibTeX entries.
    domain : {'', 'source', 'target'}
        Of a law of adaptations, the domain whose losses it describes; '' if it is of neither or either.
    noise : {'', 'normal-drift'}
        What the noise 'auto' is for runs that are logged often (`noise.noise.resolved`); '' for the usual one.
    huber_delta : float
        The residual in log loss at which the Huber loss of point fits turns from quadratic to linear, as in the source.
    corner_error : float
        Mean error of its log loss an e-fold of N x D beyond the runs, at sizes and tokens within theirs, in units of the error that
        it is learnt to have (`noise.walk`).
    card : str
        The card's text.
    indicators : mapping of covariate to (str, str)
        Covariates that are 1 where a column has a certain value and 0 elsewhere, with that column and value.
    outcome : Outcome
        What it predicts.
    tuning : mapping of covariate to str
        Covariates that have an optimum, each with the let-expression that is its best value.
    shares : tuple of str
        Covariates that are the shares of a mixture and sum to one.

    Examples
    --------
    >>> law = bayeslaw.load_law("chinchilla")
    >>> list(law.parameters), list(law.covariates)
    (['E', 'A', 'alpha', 'B', 'beta'], ['N', 'D'])
    """

    name: str
    title: str
    source: str
    formula: Expression
    let: Mapping[str, Expression]
    covariates: Mapping[str, Covariate]
    parameters: Mapping[str, Parameter]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    domain: str = ""
    noise: str = ""
    huber_delta: float = 1e-3
    corner_error: float = 0.0
    card: str = ""
    indicators: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    outcome: Outcome = LOSS
    tuning: Mapping[str, str] = field(default_factory=dict)
    shares: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.name, self.formula, frozenset(self.parameters)))  # equal laws agree in these; mappings have no hash

    def __repr__(self) -> str:
        return short_lines(f"<Law {self.name}: {self.outcome.name} = {self.formula.text}>")

    @property
    def sha256(self) -> str:
        """Digest of the card's text, of the priors in use and of the indicators."""
        priors = "\n".join(f"{name}~{p.prior.unrounded}" for name, p in self.parameters.items())
        indicators = "".join(f"\n{name}={column}:{value}" for name, (column, value) in self.indicators.items())
        return hashlib.sha256((self.card + priors + indicators).encode()).hexdigest()

    @property
    def measured(self) -> dict[str, Covariate]:
        """All covariates but the indicators."""
        return {name: c for name, c in self.covariates.items() if name not in self.indicators}

    @property
    def axes(self) -> dict[str, Covariate]:
        """All measured covariates but the nodes of series, which mean nothing one by one, and `Outcome.facts`."""
        return {name: c for name, c in self.measured.items() if not c.series and name not in self.outcome.facts}

    def factors(self, name: str) -> tuple[str, ...]:
        """Return a covariate and the shares of it that a token uses, such as N and active, whose product is a run's size."""
        return (name, *(c.name for c in self.covariates.values() if c.share_of == name))

    @property
    def series(self) -> dict[str, tuple[str, ...]]:
        """The columns of each series, node by node."""
        names = dict.fromkeys(c.series for c in self.measured.values() if c.series)
        return {s: tuple(name for name, c in self.measured.items() if c.series == s) for s in names}

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The values of each column by which parameters differ."""
        columns = dict.fromkeys(column for column, _ in self.indicators.values())
        return {c: tuple(v for column, v in self.indicators.values() if column == c) for c in columns}

    def marks_of(self, column: str) -> list[str]:
        """Return the indicators of a column's values, in the order of `levels`."""
        return [name for name, (c, _) in self.indicators.items() if c == column]

    @cached_property
    def members(self) -> dict[str, tuple[str, ...]]:
        """The parameters for which a name in the formula stands that differs by a column, in the order of the column's values."""
        names = dict.fromkeys(p.of for p in self.parameters.values() if p.of)
        return {of: tuple(name for name, p in self.parameters.items() if p.of == of) for of in names}

    @cached_property
    def pools(self) -> dict[str, tuple[str, str]]:
        """The parameters of the typical value and of the spread, for each name of `members` whose values are drawn around one."""
        return {name: p.around for name, (first, *_) in self.members.items() if (p := self.parameters[first]).around}

    @cached_property
    def column_of(self) -> dict[str, str]:
        """The column by which each name of `members` differs."""
        return {name: p.within[0] for name, (first, *_) in self.members.items() if (p := self.parameters[first]).within}

    @cached_property
    def in_formula(self) -> dict[str, Parameter]:
        """The parameters by their names in the formula: a name of `members` has the typical value or, without one, the first."""
        of_all = {name: p for name, p in self.parameters.items() if not p.of}
        return of_all | {name: self.parameters[first] for name, (first, *_) in self.members.items() if name not in of_all}

    def arrays(self, table: pd.DataFrame) -> dict[str, Array]:
        """Return the covariates at the rows of a table that has all of them, arrays (n,)."""
        return {name: table[name].to_numpy(dtype=np.float64) for name in self.covariates}

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the expected outcome from parameters and covariates in one mapping.

        Parameters
        ----------
        values : mapping of str to number or array
            Every parameter and covariate, in their units; shapes broadcast.

        Returns
        -------
        array
            For losses in nats/token.
        """
        return self.formula_at(self.at_rows(values))

    def formula_at(self, values: Mapping[str, Any], functions: Mapping[str, Any] = NUMPY) -> Any:
        """Return the formula's value, in NumPy or any other array library, where `values` has each name as it is at the rows."""
        return self.formula.evaluate(self.with_let(values, functions), functions)

    def at_rows(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the mapping with each parameter that differs by a column as it is at the rows; nan where no value is marked."""
        scope = dict(values)
        for column, levels in self.levels.items():
            marks = [np.asarray(values[name]) for name in self.marks_of(column)]
            shape = np.broadcast_shapes(*(mark.shape for mark in marks))
            best, code = np.zeros(shape), np.full(shape, len(levels))
            for i, mark in enumerate(marks):
                code, best = np.where(mark > best, i, code), np.maximum(mark, best)
            for name in (n for n, c in self.column_of.items() if c == column):
                scope[name] = _chosen([values[member] for member in self.members[name]], code)
        return scope

    def with_let(self, values: Mapping[str, Any], functions: Mapping[str, Any] = NUMPY) -> dict[str, Any]:
        """Return the mapping with the values of the let-expressions added."""
        scope = dict(values)
        for name, expression in self.let.items():
            scope[name] = expression.evaluate(scope, functions)
        return scope

    def predict(self, draws: Mapping[str, ArrayLike], covariates: Mapping[str, ArrayLike]) -> Array:
        """Return the expected outcome for every draw at every setting.

        Parameters
        ----------
        draws : mapping of str to array (S,) or number
            Draws of every parameter.
        covariates : mapping of str to array (n,) or number
            Settings, in the units of the card.

        Returns
        -------
        array (S, n)
            For losses in nats/token.
        """
        if missing := [k for k in self.covariates if k not in covariates]:
            problem = f"{self.name} needs {', '.join(self.covariates)}; give {', '.join(missing)} too."
            raise BayeslawError(problem, code="missing-covariate")
        if missing := [k for k in self.parameters if k not in draws]:
            problem = f"{self.name} has the parameters {', '.join(self.parameters)}; give draws of {', '.join(missing)} too."
            raise BayeslawError(problem, code="missing-parameter")
        at = {k: numbers(k, covariates[k], "1e9") for k in self.covariates}
        of_draws = {k: numbers(f"Draws of {k}", draws[k], "[0.3, 0.4]")[:, None] for k in self.parameters}
        settings, size = common_shape(at), common_shape(of_draws)[0]
        loss = self.evaluate({**at, **of_draws})
        return np.broadcast_to(np.asarray(loss, dtype=np.float64), (size, *settings))

    def reference(self, table: pd.DataFrame) -> dict[str, float]:
        """Return the reference point of a table, at which priors with `on` hold.

        Parameters
        ----------
        table : DataFrame
            With a column for each covariate.

        Returns
        -------
        dict of str to float
            Means of the covariates, for logarithmic ones geometric means of the positive values.
        """
        point = {}
        for name, covariate in self.covariates.items():
            values = table[name].to_numpy(dtype=np.float64)
            positive = values[values > 0]
            geometric = float(np.exp(np.mean(np.log(positive)))) if positive.size else 1.0
            point[name] = geometric if covariate.logarithmic else float(np.nanmean(values))
        return point

    def units_at(self, draws: Mapping[str, Any], at: Mapping[str, float]) -> dict[str, Any]:
        """Return, for each prior with `on`, the value (S,) of that expression at the reference point where its parameter is 1.

        Parameters
        ----------
        draws : mapping of str to array (S,)
            Draws of the parameters, those without `on` at least.
        at : mapping of str to float
            The reference point (`reference`).
        """
        parameters = {name: p for name, p in self.parameters.items() if name in draws}
        values = {k: np.ones_like(draws[k]) if p.prior.on else draws[k] for k, p in parameters.items()}
        scope = {name: values[members[0]] for name, members in self.members.items()} | values
        units, _ = self.units(scope, {}, at)
        for name in (n for n in self.members if self.in_formula[n].prior.on):
            together = [n for n, column in self.column_of.items() if column == self.column_of[name]]
            for i, member in enumerate(self.members[name]):
                of_level = {n: values[self.members[n][i]] for n in together}
                units[member] = self.units(scope, of_level, at)[1][name]
        return {name: units[name] for name in self.parameters if name in units}

    def stated_at(self, draws: Mapping[str, Any], at: Mapping[str, float]) -> dict[str, Any]:
        """Return the values (S,) on which priors with `on` are, such as A/N**alpha at the reference point for A."""
        return {name: draws[name] * unit for name, unit in self.units_at(draws, at).items()}

    def level_codes(self, column: str, covariates: Mapping[str, Any]) -> Index:
        """Return the number (n,) of every row's value, in `levels`, of a column by which parameters differ."""
        return np.argmax([covariates[name] for name in self.marks_of(column)], axis=0)

    def units(
        self, values: Mapping[str, Any], of_levels: Mapping[str, Any], at: Mapping[str, Any], functions: Mapping[str, Any] = NUMPY
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of `on` as in `units_at`, of single parameters, and of parameters in the formula for levels.

        Parameters
        ----------
        values : mapping of name to value
            Values of all names in the formula; those that differ by a column have their typical value.
        of_levels : mapping of name to value
            The values of one or of all levels for names that differ by a column.
        at, functions
            The reference point, and the functions of an array library.
        """

        def unit(name: str, scope: Mapping[str, Any]) -> Any:
            on = self.in_formula[name].prior.on
            assert on is not None
            return on.evaluate(self.with_let({**values, **scope, **at, name: 1.0}, functions), functions)

        relative = [name for name, p in self.in_formula.items() if p.prior.on]
        column_of, levels = self.column_of, {}
        for name in (n for n in relative if n in of_levels):
            levels[name] = unit(name, {k: v for k, v in of_levels.items() if column_of[k] == column_of[name]})
        return {name: unit(name, {}) for name in relative}, levels

    def sample_prior(self, size: int, at: Mapping[str, float], rng: np.random.Generator) -> dict[str, Array]:
        """Return prior draws of every parameter.

        Parameters
        ----------
        size : int
        at : mapping of str to float
            The reference point of the runs (`reference`).
        rng : Generator

        Returns
        -------
        dict of str to array (size,)

        Raises
        ------
        BayeslawError
            If the `on` of a prior is nowhere positive at the reference point.
        """
        draws = self._variables(size, rng)
        with np.errstate(all="ignore"):
            units = self.units_at(draws, at)
        self._check_units(units, at)
        return {name: values / units[name] if name in units else values for name, values in draws.items()}

    def _check_units(self, units: Mapping[str, Any], at: Mapping[str, float]) -> None:
        """Refuse a reference point at which the `on` of a prior is 0 or no number, or below 0 where its parameter is above."""
        for name, unit in units.items():
            prior, values = self.parameters[name].prior, np.asarray(unit)
            usable = values > 0 if prior.support == "positive" else np.isfinite(values) & (values != 0)
            if prior.on is not None and not usable.any():
                where = settings_text(at, 4)
                problem = f"`on` of {name} in {self.name}, {prior.on.text!r}, is {values.flat[0]:.3g} at the runs' middle ({where})"
                advice = f"so its prior says nothing of {name}: state one of {name} itself (--prior {name}=…, priors=…)"
                raise BayeslawError(f"{problem}, {advice}, or take other runs.", code="on-not-positive")

    def _variables(self, size: int, rng: np.random.Generator) -> dict[str, Array]:
        """Return prior draws of the parameters, or of their terms at the reference point where priors have `on`."""
        draws: dict[str, Array] = {}
        for name, p in self.parameters.items():
            if p.around is None:
                draws[name] = p.prior.sample(size, rng)
                continue
            draws[name] = p.around_typical(draws[p.around[0]], draws[p.around[1]] * rng.standard_normal(size))
        return draws

    def check_parameters(self, names: Iterable[str]) -> None:
        """Refuse names that are not parameters of the law."""
        for name in names:
            if name not in self.parameters:
                known = f"{', '.join(self.parameters)}.{nearest(name, self.parameters)}"
                raise CardError(f"{name} is not a parameter of {self.name}. Parameters are {known}", code="unknown-parameter")

    @property
    def by_card(self) -> dict[str, tuple[str, ...]]:
        """The parameters for the shares of a mixture by the name that the card has for them: t -> (t_web, t_code)."""
        names = dict.fromkeys(p.over for p in self.parameters.values() if p.over)
        return {of: tuple(name for name, p in self.parameters.items() if p.over == of) for of in names}

    def of_each_share[T](self, given: Mapping[str, T]) -> dict[str, T]:
        """Return a mapping by parameter, with what is given for a card's name, such as t, under that of each share."""
        known = self.by_card
        whole = {member: value for name, value in given.items() for member in known.get(name, ())}
        return whole | {name: value for name, value in given.items() if name not in known}

    def with_priors(self, priors: Mapping[str, Prior | str]) -> Law:
        """Return the same law with other priors.

        Parameters
        ----------
        priors : mapping of parameter to Prior or text such as 'LogNormal(0.5, 0.2)'

        Examples
        --------
        >>> law = bayeslaw.load_law("chinchilla").with_priors({"E": "LogNormal(0.5, 0.2)"})
        >>> str(law.parameters["E"].prior)
        'LogNormal(0.5, 0.2)'
        """
        given = as_mapping(priors, "{'E': 'LogNormal(0.5, 0.2)'}", "Priors")
        stated = self.of_each_share(read_priors(given))
        self.check_parameters(stated)
        for name, of in ((name, p.of) for name, p in self.parameters.items() if p.around):  # which has the prior, for all of them
            prior = stated.get(of, self.parameters[of].prior)
            if stated.setdefault(name, prior) != prior:
                problem = f"{name} of {self.name} varies around {of} by {of}_spread, and has no prior by itself"
                raise CardError(f"{problem}: state that of {of} or {of}_spread.", code="pooled-value")
            require_unbounded(of, prior, self.column_of[of])
        for spread in (spread for _, spread in self.pools.values() if spread in stated):
            if stated[spread].support != "positive":
                problem = (
                    f"{spread} is a standard deviation: give it a prior above 0, such as HalfNormal(0.5), not {stated[spread]}."
                )
                raise CardError(problem, code="prior-of-a-spread")
        changed = {k: replace(p, prior=stated.get(k, p.prior)) for k, p in self.parameters.items()}
        law = replace(self, parameters=changed)
        for fault in faults_of_on(law):
            raise fault
        return law

    @cached_property
    def amplitudes(self) -> dict[str, Expression]:
        """Names in the formula to which an additive term is proportional, with that term: A -> A/N**alpha.

        Floors and shares are none.
        """
        rng, terms = np.random.default_rng(0), dict[str, Expression]()
        values: dict[str, Any] = {k: np.exp(rng.uniform(-1, 0, PROBES)) for k in self.in_formula}
        for name, c in self.covariates.items():
            low, high = c.support
            values[name] = low + np.exp(rng.uniform(-2, 0, PROBES)) * min(high - low, 10.0)
            if c.logarithmic:  # a term may be proportional in one regime only, such as many epochs: test the whole support
                values[name] *= np.exp(rng.uniform(0, np.log(high / values[name])))
        scales = [n for n, p in self.in_formula.items() if p.prior.support not in ("unit", "bounded") and n != self.floor]
        for sign, term in self.formula.terms:
            for name in sorted(scales, key=lambda n: self.in_formula[n].prior.on is None):
                if term.text != name and name not in terms and self._proportional(term, name, values):
                    terms[name] = term if sign > 0 else Expression(f"-({term.text})", ast.UnaryOp(ast.USub(), term.tree))
                    break
        return terms

    def _proportional(self, term: Expression, name: str, values: Mapping[str, Any]) -> bool:
        with np.errstate(all="ignore"):
            at_1, at_3 = (term.evaluate(self.with_let({**values, name: np.full(PROBES, v)})) for v in (1.0, 3.0))
        seen = np.isfinite(at_1) & np.isfinite(at_3)  # an exponential of a power of N overflows at some settings of the support
        enough = np.mean(seen) >= 0.5 and np.all(np.broadcast_to(at_1 != 0, seen.shape))
        return bool(enough and np.allclose(np.where(seen, at_3, 0.0), 3 * np.where(seen, at_1, 0.0), rtol=1e-9, atol=0.0))

    @property
    def shapes(self) -> tuple[str, ...]:
        """Parameters that are neither the floor nor the amplitude of a term: exponents, gates, scales of tokens."""
        scales = {member for name in self.amplitudes for member in self.members.get(name, (name,))}
        return tuple(name for name in self.parameters if name not in scales and name not in self.floors)

    @cached_property
    def onset(self) -> tuple[str, ...]:
        """Covariates that are all 0 before an adaptation begins: D, or the areas of its learning rate; often none."""
        names = tuple(name for name in self.measured if name.endswith("_cpt")) or tuple({"D"} & self.measured.keys())
        return names if all(self.covariates[name].support[0] <= 0 for name in names) else ()

    @property
    def one_domain(self) -> str:
        """The `domain` whose losses it describes, '' where a column tells domains apart."""
        named = any(column == "domain" or {"source", "target"} & {*values} for column, values in self.levels.items())
        return "" if named else self.domain

    @cached_property
    def idle_at_base(self) -> frozenset[str]:
        """Covariates on which the loss does not depend at the `onset`, such as the replay share of the adaptation."""
        if not self.onset:
            return frozenset()
        rng, idle = np.random.default_rng(0), set()
        draws: dict[str, Any] = {k: np.exp(rng.uniform(-1, 0)) for k in self.parameters}
        for name in sorted(self.axes.keys() - {*self.onset, *(n for n, c in self.covariates.items() if c.context)}):
            others = {k: np.full(4, c.support[0] + np.exp(rng.uniform(-2, 0))) for k, c in self.covariates.items()}
            low, high = self.covariates[name].support
            values = low + (min(high, low + 1) - low) * np.array([0.05, 0.3, 0.6, 0.95])
            scope = draws | others | dict.fromkeys(self.onset, np.zeros(4)) | {name: values}
            value = np.broadcast_to(self.evaluate(scope), 4)
            if np.all(np.isfinite(value)) and np.ptp(value) <= 1e-12 * abs(value[0]):
                idle.add(name)
        return frozenset(idle)

    @cached_property
    def floor(self) -> str:
        """The name in the formula that is an additive term by itself, or empty.

        One whose prior has bounds is none: it is sampled between them, like a shape.
        """
        alone = (term.text for sign, term in self.formula.terms if sign > 0 and term.text in self.in_formula)
        return next((name for name in alone if self.in_formula[name].prior.support not in ("unit", "bounded")), "")

    @property
    def floors(self) -> tuple[str, ...]:
        """The parameters that the floor stands for."""
        return self.members.get(self.floor, (self.floor,)) if self.floor else ()

    @cached_property
    def symbols(self) -> dict[str, str]:
        """The LaTeX symbol of every name."""
        symbols = {n: default_symbol(n) for n in (*self.covariates, *self.let)}
        symbols |= {n: rf"{default_symbol(n)}_{{k}}" for n in self.series}
        return symbols | {n: p.latex for n, p in self.parameters.items()}

    @property
    def symbol(self) -> str:
        """The LaTeX symbol of the outcome."""
        return default_symbol(self.outcome.symbol)

    def latex(self) -> str:
        """Return the formula in LaTeX, with the let-expressions after 'where'."""
        text = f"{self.symbol} = " + self.formula.latex(self.symbols)
        lets = [f"{self.symbols[n]} = {e.latex(self.symbols)}" for n, e in self.let.items()]
        return text + (r" \quad\text{where}\quad " + r",\quad ".join(lets) if lets else "")

    @property
    def mathml(self) -> list[str]:
        """The formula and then each let-expression as `<math>` elements."""
        return [e.mathml(name, self.series) for name, e in {self.outcome.symbol: self.formula, **self.let}.items()]

    def _repr_html_(self) -> str:
        """Show formula, parameters and source in a notebook."""
        rows = [
            {"parameter": p.name, "meaning": p.meaning, "unit": p.unit, "prior": str(p.prior)}
            | ({"pooling": p.pooling_text} if any(own.by for own in self.parameters.values()) else {})
            for p in self.parameters.values()
        ]
        units = {c.series or c.name: f"{c.series or c.name} ({c.unit})" for c in self.measured.values()}
        about = [f"Covariates: {', '.join(units.values())}.", f"Source: {self.source}."]
        return html.fragment(
            f"Law {self.name}", self.title, html.formulas(self.mathml), html.grid(pd.DataFrame(rows)),
            *map(html.paragraph, about), html.notes([self.note] if self.note else []),
        )  # fmt: skip


def _chosen(members: list[Any], code: Index) -> Any:
    """Return the member with the number that `code` has at each row; nan at rows whose code is none."""
    present = np.unique(code)
    if present.size == 1 and present[0] < len(members):
        return members[present[0]]
    stacked = np.stack(np.broadcast_arrays(*members, np.nan))
    axes = max(stacked.ndim - 1, code.ndim)
    stacked = stacked.reshape(len(stacked), *[1] * (axes + 1 - stacked.ndim), *stacked.shape[1:])
    return np.take_along_axis(stacked, code.reshape(1, *[1] * (axes - code.ndim), *code.shape), axis=0)[0]


def _middle(covariate: Covariate) -> float:
    """A value in the middle of a covariate's support, by its logarithm where it has one."""
    low, high = covariate.support
    return (low + high) / 2 if low < 0 else float(np.sqrt(max(low, 1e-3) * high))


def faults_of_on(law: Law) -> list[LocatedError]:
    """Return the faults of priors' `on`: unknown names, those of other terms, no proportion to its parameter, or an `on` there."""
    known = {*law.covariates, *law.parameters, *law.let, *law.members}
    relative = {n: p.prior.on for n, p in law.in_formula.items() if p.prior.on}
    faults, in_formula = list[LocatedError](), _names_in(law.formula, law)
    for name, on in relative.items():
        section = f"parameters.{name}"
        if unknown := sorted(on.names - known):
            message = f"unknown name {unknown[0]!r} in `on` of {name}.{nearest(unknown[0], known)}"
            faults.append(LocatedError(message, section, "prior", code="unknown-name"))
            continue
        if others := sorted((on.names & relative.keys()) - {name}):
            message = f"`on` of {name} uses {others[0]}, whose own prior has an `on`; only one of them can."
            faults.append(LocatedError(message, section, "prior", code="on-uses-on"))
            continue
        if others := sorted(_names_in(on, law) & in_formula - _names_beside(name, law)):
            term = law.amplitudes.get(name)
            way = f" Its term is {term.text!r}." if term else ""
            message = f"`on` of {name}, {on.text!r}, uses {others[0]}, which no term of the formula has beside {name}.{way}"
            faults.append(LocatedError(message, section, "prior", code="on-of-other-term"))
            continue
        at = {name: _middle(covariate) for name, covariate in law.covariates.items()}
        draws = law._variables(1, np.random.default_rng(0))
        draws = {k: draws[members[0]] for k, members in law.members.items()} | draws | dict.fromkeys(relative, np.ones(1))
        with np.errstate(all="ignore"):
            at_1, at_3 = (on.evaluate(law.with_let({**draws, **at, name: np.array([v])})) for v in (1.0, 3.0))
        if not np.allclose(at_3, 3 * at_1, rtol=1e-9) or not np.all(at_1 > 0):
            message = f"`on` of {name} must be positive and proportional to {name}; {on.text!r} is not."
            faults.append(LocatedError(message, section, "prior", code="on-not-proportional"))
    return faults


def _names_in(expression: Expression, law: Law) -> frozenset[str]:
    """The names in an expression, and those behind its let-expressions in place of these."""
    behind = names_behind(law.let)
    return expression.names.union(*(behind[name] for name in expression.names & behind.keys())) - behind.keys()


def _names_beside(name: str, law: Law) -> frozenset[str]:
    """The names of all terms of the formula in which a parameter stands, its own included."""
    terms = (_names_in(term, law) for _, term in law.formula.terms)
    return frozenset[str]().union(*(names for names in terms if name in names))


def shares_of_parameters(laws: Iterable[Law]) -> list[str]:
    """Return the covariates that are the share of N that a token uses, such as active, in any of some laws."""
    return list(dict.fromkeys(share for law in laws for share in law.factors("N")[1:]))


def require_unbounded(name: str, prior: Prior, column: str) -> None:
    """Refuse a prior with bounds of a parameter that is pooled: values around a typical one would leave them.

    Parameters
    ----------
    name, prior, column
        The parameter, its prior, and the column by which it varies.
    """
    if prior.support == "bounded":
        message = f"{name} with the prior {prior} can't be pooled by {column}: give it one without bounds."
        raise CardError(message, code="bounded-and-pooled")
