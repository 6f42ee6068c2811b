"""Coordinates in which the posterior of a scaling law is easy to sample, derived from the formula of any card.

The posterior is a thin curved ridge in (E, A, alpha, …): a larger A with a larger alpha, or a larger E with a smaller A,
gives the same losses where the runs are. Two changes of variable straighten most of it:

- the floor E is replaced by the mean loss over a few settings spread over the runs (its other terms added to it);
- the scale of each term is replaced by the term's spread over those settings, which the losses determine.

Both are shears, so their Jacobian is one but for a softplus that keeps E positive.

Sums inside a formula are treated alike: in exp(a N^g + b), where b has any sign, the mean of the sum over those settings replaces b
and the spread of its term a (`nested_sums`). A card may so be written around any value of N.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array, Index, evenly
from bayeslaw.data.observations import Observations
from bayeslaw.engine.graph import FUNCTIONS, SINGLE, Graph, Value
from bayeslaw.laws.formula import Expression, is_sum, names_behind
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior

# Scale of the softplus that keeps the floor positive, as a share of the smallest loss, or of the spread of other outcomes. It is
# small because the mean loss, which the data determine to a few thousandths, is no longer a coordinate where the softplus curves:
# with 0.05 fits took twice the gradients and diverged where floors near zero are likely.
SOFTPLUS = 0.01
DRAWN = 64  # prior draws by which it is judged whether a term has one sign
ROWS = 12  # rows of the runs that represent a law of series


def constrain(prior: Prior, x: Any) -> Any:
    """Map the real line, as an array or a value of a graph, to the prior's support."""
    match prior.support:
        case "positive":
            return FUNCTIONS["exp"](x)
        case "unit":
            return FUNCTIONS["sigmoid"](x)
        case "bounded":
            low, high = prior.bounds
            return FUNCTIONS["sigmoid"](x) * (high - low) + low
        case _:
            return x


def star(law: Law, observed: Observations) -> dict[str, Array]:
    """Settings spread over the runs: the reference point, and points with one covariate moved to its minimum or maximum.

    A law of series has rows of the runs instead, since nodes of a series belong together, and so do shares of a mixture: they are
    moved to the rows with the least and the most of each share. Where parameters vary by columns, the
    settings repeat for each value of each of those columns, with the values that the others have in the first such row. They are
    then as many as the values, where all combinations of two columns with 46 values each would be 2,116.
    """
    if law.series:
        rows = evenly(observed.response.size, ROWS)
        points = [{name: float(observed.covariates[name][row]) for name in law.measured} for row in rows]
    else:
        points = [{name: observed.at[name] for name in law.measured}]
        for name in (n for n, c in law.measured.items() if not c.context):
            values = observed.covariates[name]
            if name in law.shares:
                ends = (int(values.argmin()), int(values.argmax()))
                points += [{**points[0], **{s: float(observed.covariates[s][row]) for s in law.shares}} for row in ends]
            else:
                points += [{**points[0], name: float(end)} for end in (values.min(), values.max())]
    marks = {name: observed.covariates[name] for name in law.indicators}
    centres = [
        {name: float(v[np.argmax(mark)]) for name, v in marks.items()} | {own: 1.0} for own, mark in marks.items() if mark.any()
    ]
    unseen = [{**dict.fromkeys(marks, 0.0), own: 1.0} for own, mark in marks.items() if not mark.any()]
    blocks = list({tuple(block.items()): block for block in centres + unseen}.values()) or [{}]
    points = [{**point, **block} for block in blocks for point in points]
    return {name: np.array([p[name] for p in points]) for name in law.covariates}


@dataclass(frozen=True)
class NestedSum:
    """A sum inside a formula with a parameter by itself, such as b in exp(a*N**g + b).

    Attributes
    ----------
    level, sign
        That parameter, and its sign in the sum.
    terms : tuple of (str, int, Expression)
        The other terms: the parameter that is a factor of it, or '', its sign, and the term.
    """

    level: str
    sign: int
    terms: tuple[tuple[str, int, Expression], ...]


def nested_sums(law: Law) -> tuple[NestedSum, ...]:
    """Return the sums inside a law's formula and let-expressions in which a parameter of any sign stands by itself.

    The parameter may stand nowhere else, and has no `on`; what the other terms depend on has neither. Laws of series and laws
    whose parameters differ by a column have none.
    """
    if law.series or law.members:
        return ()
    expressions = [law.formula, *law.let.values()]
    seen = Counter(n.id for e in expressions for n in ast.walk(e.tree) if isinstance(n, ast.Name))
    free = {n for n, p in law.parameters.items() if p.prior.support == "real" and p.prior.on is None and seen[n] == 1}
    free -= {*law.amplitudes, law.floor}
    behind, sums = names_behind(law.let), []
    for expression in expressions:
        inside = [n for n in ast.walk(expression.tree) if not (expression is law.formula and _in_top_sum(n, expression.tree))]
        parts = {id(child) for n in inside if is_sum(n) for child in ast.iter_child_nodes(n)}
        for node in (n for n in inside if is_sum(n) and id(n) not in parts):
            terms = Expression(ast.unparse(node), node).terms
            levels = [(sign, t.text) for sign, t in terms if t.text in free]
            others = [(sign, t) for sign, t in terms if t.text not in free]
            names = frozenset[str]().union(*(t.names.union(*(behind.get(n, ()) for n in t.names)) for _, t in others))
            needed = {n for n in names if n in law.parameters}
            moved = {n for n in needed if law.parameters[n].prior.on is not None} | (needed & {*law.amplitudes, law.floor})
            if len(levels) == 1 and needed and not moved and names & law.covariates.keys():
                factors = tuple((_factor(t.tree, free), sign, t) for sign, t in others)
                sums.append(NestedSum(levels[0][1], levels[0][0], factors))
    levels_of_all = {s.level for s in sums} | {a for s in sums for a, _, _ in s.terms}
    own = [(s, {n for _, _, t in s.terms for n in t.names.union(*(behind.get(m, ()) for m in t.names))}) for s in sums]
    return tuple(s for s, names in own if not names & (levels_of_all - {a for a, _, _ in s.terms}))


def _in_top_sum(node: ast.AST, top: ast.AST) -> bool:
    """Whether a node is the formula's own sum or a part of that sum which is one too."""
    while is_sum(top):
        if node is top or (is_sum(top.right) and node is top.right):
            return True
        top = top.left
    return False


def _factor(tree: ast.AST, free: set[str]) -> str:
    """The name of a parameter that is a factor of a term as it is written, or empty."""
    match tree:
        case ast.BinOp(left=ast.Name(id=name), op=(ast.Mult() | ast.Div())) if name in free:
            return name
        case ast.BinOp(left=left, op=(ast.Mult() | ast.Div()), right=right):
            other = right.id if isinstance(tree.op, ast.Mult) and isinstance(right, ast.Name) else ""
            return other if other in free else _factor(left, free)
    return ""


def _that_vary(
    terms: tuple[tuple[str, int, Expression], ...], law: Law, scope: Mapping[str, Any]
) -> tuple[tuple[str, int, Expression], ...]:
    """The terms of a nested sum, without the factors of those that have one value over the settings."""
    varying = []
    for name, sign, term in terms:
        values = np.asarray(term.evaluate(law.with_let({**scope, **({name: np.ones((1, 1))} if name else {})})))
        varies = name and np.isfinite(values).all() and np.std(values) > 1e-9 * np.abs(values).mean()
        varying.append((name if varies else "", sign, term))
    return tuple(varying)


def _may_not_vary(amplitude: str, term: Expression, law: Law, scope: Mapping[str, Any]) -> bool:
    """Whether the term of an amplitude has one value over the settings where another parameter, of either sign, is 0."""
    for name, parameter in law.in_formula.items():
        low, high = parameter.prior.bounds
        if name != amplitude and low < 0 < high:
            values = np.asarray(term.evaluate(law.with_let({**scope, name: np.zeros((1, 1))})))
            if np.std(values) <= 1e-9 * np.abs(values).mean():
                return True
    return False


def _typical(law: Law, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Median and scale of the priors of unconstrained typical values, by the names in the formula of the values around them."""
    return {name: law.parameters[law.pools[name][0]].prior.median_and_scale for name in names}


class Arrays:
    """Draws (S, 1) of single numbers, (S, levels) of the values of a column's levels, and (S, m) at settings."""

    def __init__(self, levels: Mapping[str, Index]) -> None:
        self._levels = levels

    def levels(self, column: str, values: Sequence[Any]) -> Any:
        """Single numbers as the values of a column's levels."""
        return np.concatenate(values, axis=-1)

    def data(self, column: str, values: Array, name: str) -> Any:
        """Numbers that are known for a column's levels."""
        return values[None]

    def over_settings(self, value: Any, column: str) -> Any:
        """The values of a column's levels at the settings."""
        return value if not column or np.shape(value)[-1:] in ((), (1,)) else value[..., self._levels[column]]

    def mean(self, value: Any, column: str = "") -> Any:
        """Mean over the settings, or over those in each level of a column."""
        if not column:
            return np.asarray(value).mean(axis=-1, keepdims=True)
        within = self._levels[column][:, None] == np.arange(self._levels[column].max() + 1)
        return (np.asarray(value) + np.zeros((1, len(within)))) @ (within / within.sum(axis=0))

    def sum(self, value: Any, column: str) -> Any:
        """Sum over a column's levels."""
        return (np.asarray(value) + np.zeros((1, int(self._levels[column].max()) + 1))).sum(axis=-1, keepdims=True)


class Variables:
    """The same for values of a graph."""

    def __init__(self, graph: Graph, levels: Mapping[str, Index]) -> None:
        self._graph, self._levels = graph, levels
        for column, level in levels.items():
            graph.place_settings(column, level)

    def levels(self, column: str, values: Sequence[Any]) -> Any:
        return self._graph.levels(column, values)

    def data(self, column: str, values: Array, name: str) -> Any:
        return Value(self._graph, frozenset({column}), name=f"numbers of {name}", data=values)

    def over_settings(self, value: Any, column: str) -> Any:
        return self._graph.over_settings(self._graph.value(value))

    def mean(self, value: Any, column: str = "") -> Any:
        return self._graph.mean_of_settings(self._graph.value(value), column)

    def sum(self, value: Any, column: str) -> Any:
        value, number = self._graph.value(value), int(self._levels[column].max()) + 1
        return value * float(number) if value.over == SINGLE else value.sum()


@dataclass(frozen=True)
class Places:
    """Values of single parameters by name, and of those that differ by a column by their names in the formula, for all levels.

    A change of variables gives new ones, with the log Jacobian of all changes so far.
    """

    single: Mapping[str, Any]
    by_level: Mapping[str, Any]
    log_jacobian: Any = 0.0

    @property
    def formula(self) -> dict[str, Any]:
        """The values that the names in the formula stand for."""
        return {**self.single, **self.by_level}

    def changed(
        self, log_jacobian: Any, single: Mapping[str, Any] | None = None, by_level: Mapping[str, Any] | None = None
    ) -> Places:
        """These with other values of some names, after a change of variables with this log Jacobian.

        Parameters
        ----------
        log_jacobian : value
            Of this change alone.
        single, by_level : mapping of name to value, optional
            The other values, as in the attributes of these names.
        """
        return Places({**self.single, **(single or {})}, {**self.by_level, **(by_level or {})}, self.log_jacobian + log_jacobian)

    def with_value(self, name: str, value: Any, log_jacobian: Any = 0.0) -> Places:
        """These with another value of a name in the formula, for all levels where it differs by a column.

        Parameters
        ----------
        name, value : str, value
        log_jacobian : value
            Of this change alone.
        """
        return self.changed(log_jacobian, **{"by_level" if name in self.by_level else "single": {name: value}})

    def in_units(self, units: Places, but: Collection[str] = ()) -> Places:
        """These divided by the units that some of them have, but for some names."""

        def divided(values: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
            return {k: v / by[k] if k in by and k not in but else v for k, v in values.items()}

        return Places(divided(self.single, units.single), divided(self.by_level, units.by_level))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The change from sampling coordinates to the model's variables, for values of a graph and for NumPy draws.

    Parameters that differ by a column are changed together, as one vector over its levels.

    Attributes
    ----------
    settings
        The settings of `star`, arrays (m,) or values of a graph.
    levels : dict of str to int array (m,)
        The level of each column by which parameters differ at each setting.
    by_spread, by_mean : frozensets of str
        Amplitudes whose term varies over the settings, and those whose term has one value there, or would have where another
        parameter is 0, as (N/1e9)^p does where p is 0: chains can't pass a value at which a coordinate is infinite. An amplitude
        whose term is 0 there, such as annealing in runs without any, is in neither set and is a coordinate itself.
    softplus_scale : float
        Scale (nats) of the softplus that keeps the floor positive; the coordinate is linear well above it.
    powers : dict of str to array (levels,)
        For names in the formula whose values for levels are replaced by x in typical + spread^m (x - (1 - m) typical), the
        powers m. Values that the data hardly identify, as those of tasks without a signal, form a funnel with their spread
        unless they are counted in spreads from the typical value (m = 1); values that the data identify are best left as they are
        (m = 0). See `centring`.
    sums : tuple of NestedSum
        Sums inside the formula whose level and factors are replaced by mean and spreads.
    tied : dict of str to array (levels,)
        For names in the formula whose values for levels may all be one: 1 for the first level and 0 for others. The value of the
        first has the coordinate that it has without this; the others are counted from it, in units of their spread.
    typical : dict of str to (float, float)
        For the names of `powers` and `tied`, median and scale of the prior of the unconstrained typical value. Its coordinate is
        the distance from the mean that this prior and the coordinates of the others leave it, in standard deviations.
    """

    law: Law
    at: Mapping[str, Any]
    settings: Mapping[str, Any]
    levels: Mapping[str, Index]
    by_spread: frozenset[str]
    by_mean: frozenset[str]
    softplus_scale: Any
    powers: Mapping[str, Any] = field(default_factory=dict)
    sums: tuple[NestedSum, ...] = ()
    tied: Mapping[str, Any] = field(default_factory=dict)
    typical: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def scaled(self) -> frozenset[str]:
        """Parameters replaced by the spread or mean of their term."""
        return frozenset(p for name in self.by_spread | self.by_mean for p in self.law.members.get(name, (name,)))

    @property
    def form(self) -> str:
        """All of the law and the change that is not data, as text: equal forms make equal graphs on the same columns."""
        law = self.law
        parameters = [
            (n, p.prior.dist, p.prior.support == "bounded" and p.prior.bounds, p.prior.on and p.prior.on.text, p.around)
            for n, p in law.parameters.items()
        ]
        formulas = [law.formula.text, *(f"{n} = {e.text}" for n, e in law.let.items())]
        terms, pooled = [(n, t.text) for n, t in law.amplitudes.items()], [law.members, law.column_of]
        changed = [sorted(names) for names in (self.by_spread, self.by_mean, self.powers, self.tied)]
        outcome = law.outcome.kind, law.outcome.bounds
        parts = (formulas, outcome, parameters, terms, law.floor, pooled, list(law.covariates), changed)
        return "; ".join(map(str, parts))

    @classmethod
    def of(cls, law: Law, observed: Observations) -> Coordinates:
        settings = star(law, observed)
        levels = {column: law.level_codes(column, settings) for column in law.levels}
        least = float(observed.outcomes.min())
        softplus_scale = SOFTPLUS * (least if least > 0 else float(np.std(observed.outcomes)) + 1e-6)
        new = cls(law, observed.at, settings, levels, frozenset(), frozenset(), softplus_scale)
        typical = {k: v[:, None] for k, v in law.sample_prior(1, observed.at, np.random.default_rng(0)).items()}
        on = Arrays(levels)
        draws = {k: v[:, None] for k, v in law.sample_prior(DRAWN, observed.at, np.random.default_rng(1)).items()}
        scope, several = (new._at_settings(new._places(x, on).formula, on) | settings for x in (typical, draws))
        varying, constant = set(), set()
        for name, term in law.amplitudes.items():
            unit = scope | {name: np.ones((1, 1))}  # the draw of a real amplitude may be close to 0
            values = np.broadcast_to(term.evaluate(law.with_let(unit)), (1, len(next(iter(settings.values())))))
            column = law.column_of.get(name, "")
            centre = on.mean(values, column)
            spread = np.sqrt(on.mean((values - on.over_settings(centre, column)) ** 2, column))
            if np.all(spread > 1e-9 * np.abs(centre)):
                if not _may_not_vary(name, term, law, unit):
                    varying.add(name)
                elif len({*np.sign(np.asarray(term.evaluate(law.with_let(several | {name: 1.0})))).flat}) == 1:
                    constant.add(name)
            elif np.all(centre != 0):
                constant.add(name)
        pools = law.pools if observed.outcome.kind == "count" else {}
        standard = [n for n in pools if n not in (*law.amplitudes, law.floor) and law.in_formula[n].prior.on is None]
        return replace(
            new,
            sums=tuple(replace(s, terms=_that_vary(s.terms, law, scope)) for s in nested_sums(law)),
            by_spread=frozenset(varying),
            by_mean=frozenset(constant),
            powers={name: np.ones(len(law.members[name])) for name in standard},
            typical=_typical(law, standard),
        )

    def tying(self, names: Sequence[str]) -> Coordinates:
        """Return these coordinates with the values of some names tied to the first of each."""
        marks = {name: np.eye(len(self.law.members[name]))[0] for name in names}
        return replace(self, tied=marks, typical={**self.typical, **_typical(self.law, names)})

    def _places(self, x: Mapping[str, Any], on: Arrays | Variables) -> Places:
        """Values by parameter, with those that differ by a column also as vectors."""
        members = self.law.members
        by_level = {name: on.levels(self.law.column_of[name], [x[m] for m in of]) for name, of in members.items()}
        single = {name: x[members[name][0]] for name in members} | {n: x[n] for n, p in self.law.parameters.items() if not p.of}
        return Places(single, by_level)

    def _at_settings(self, values: Mapping[str, Any], on: Arrays | Variables) -> dict[str, Any]:
        column_of = self.law.column_of
        return {name: on.over_settings(v, column_of[name]) if name in column_of else v for name, v in values.items()}

    def variables(self, x: Mapping[str, Any], on: Arrays | Variables) -> Places:
        """The model's unconstrained variables from the coordinates by parameter, and the log Jacobian.

        For a prior with `on` the variable is the log of that expression's value. `on` is what is done to values over settings.
        """
        law, places = self.law, self._uncentred(self._places(x, on), on)
        moved, total = {*law.amplitudes, law.floor} - {""}, 0.0
        terms = self.by_spread | self.by_mean
        later = {*terms, law.floor} if terms else set[str]()  # tied where mean and spreads are replaced
        for name in [name for name in self.tied if name not in later]:
            counted = places.by_level[name]
            places = self._tied(name, places.with_value(name, self._own(name, counted, on)), counted, on)
        priors = {name: p.prior for name, p in law.in_formula.items()}

        def ones(values: Mapping[str, Any], kept: Collection[str] = ()) -> dict[str, Any]:
            stay = {k: constrain(priors[k], v) for k, v in values.items() if k not in moved or k in kept}
            return {**dict.fromkeys(values, 1.0), **stay}

        typical = {name for name in law.members if name in law.parameters}  # shapes, whatever the formula's name is
        places = self._with_parts_of_sums(places, ones(places.single, typical), on)
        unit = Places(ones(places.single, typical), ones(places.by_level))
        units = self._units(unit)
        # A scale inside a term, such as h in 1 + D/h, may have a prior on h/D: terms need the scale itself.
        scope = law.with_let({**self._at_settings(unit.in_units(units, moved).formula, on), **self.settings}, FUNCTIONS)
        for name, term in law.amplitudes.items():
            if name in terms:
                column = law.column_of.get(name, "")
                its_unit = (units.by_level if column else units.single).get(name, 1.0)
                share = term.evaluate(scope, FUNCTIONS) / on.over_settings(its_unit, column)
                places = self._with_amplitude(name, share, places, on)
                total = total + on.over_settings(constrain(priors[name], places.formula[name]), column) * share
        return self._with_floor(places, total, on) if law.floor and terms else places

    def _own(self, name: str, values: Any, on: Arrays | Variables) -> Any:
        """The values of a name, or where they are tied that of the first level, from which the others are counted."""
        if name not in self.tied:
            return values
        column = self.law.column_of[name]
        return on.sum(on.data(column, self.tied[name], name) * values, column)

    def _sum(self, name: str, change: Any, on: Arrays | Variables) -> Any:
        """The log Jacobian of a change of the values that `_own` returns."""
        column = self.law.column_of.get(name, "")
        return on.sum(change, column) if column and name not in self.tied else change

    def _tied(self, name: str, places: Places, x: Any, on: Arrays | Variables) -> Places:
        """Values counted from the first one by their coordinates x, if they are tied."""
        if name not in self.tied:
            return places
        column, log_spread = self.law.column_of[name], places.single[self.law.pools[name][1]]
        others = 1.0 - on.data(column, self.tied[name], name)
        values = places.by_level[name] + others * FUNCTIONS["exp"](log_spread) * x
        stretch = on.sum(others * log_spread, column)
        single, change = self._typical_value(name, 0.0, values, places, on)
        return places.changed(stretch + change, single, {name: values})

    def _typical_value(self, name: str, power: Any, x: Any, places: Places, on: Arrays | Variables) -> tuple[dict[str, Any], Any]:
        """The typical value by its name from its coordinate and those of the others and the log Jacobian; see `typical_given`."""
        (typical, spread), over_levels = self.law.pools[name], partial(on.sum, column=self.law.column_of[name])
        mean, precision = self.typical_given(name, power, x, places.single[spread], over_levels)
        value = mean + places.single[typical] / FUNCTIONS["sqrt"](precision)
        return {typical: value}, -0.5 * FUNCTIONS["log"](precision)

    def _uncentred(self, places: Places, on: Arrays | Variables) -> Places:
        """Pooled values, and the typical one, for their coordinates."""
        law = self.law
        for name, powers in self.powers.items():
            (typical, spread), column = law.pools[name], law.column_of[name]
            power, x = on.data(column, powers, name), places.by_level[name]
            stretch, (single, change) = power * places.single[spread], self._typical_value(name, power, x, places, on)
            values = single[typical] + FUNCTIONS["exp"](stretch) * (x - (1.0 - power) * single[typical])
            places = places.changed(on.sum(stretch, column), by_level={name: values}).changed(change, single)
        return places

    def typical_given(self, name: str, power: Any, x: Any, log_spread: Any, over_levels: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Mean and precision that its prior, as a normal, and the coordinates of the others leave a typical value.

        A coordinate x with power m is normal around (1 - m) typical with standard deviation spread^(1 - m).

        Parameters
        ----------
        name : str
            The name in the formula.
        power, x, log_spread : values over the column's levels, and a single one
        over_levels : callable
            The sum over the column's levels.
        """
        median, scale = self.typical[name]
        weight = (1.0 - power) * FUNCTIONS["exp"](-2.0 * (1.0 - power) * log_spread)
        precision = scale**-2.0 + over_levels((1.0 - power) * weight)
        return (median * scale**-2.0 + over_levels(weight * x)) / precision, precision

    def _with_amplitude(self, name: str, share: Any, places: Places, on: Arrays | Variables) -> Places:
        """An amplitude for the spread or mean of its term, given the term at the settings where the amplitude is 1."""
        column, counted = self.law.column_of.get(name, ""), places.formula[name]
        centre = on.mean(share, column)
        off = share - on.over_settings(centre, column) if name in self.by_spread else centre
        height = FUNCTIONS["sqrt"](on.mean(off * off, column))
        own, height = self._own(name, counted, on), self._own(name, height, on)
        if self.law.in_formula[name].prior.support == "real":  # the spread itself, since 0 has no logarithm
            places = places.with_value(name, own / height, self._sum(name, -FUNCTIONS["log"](height), on))
        else:
            places = places.with_value(name, own - FUNCTIONS["log"](height))
        return self._tied(name, places, counted, on)

    def _with_floor(self, places: Places, total: Any, on: Arrays | Variables) -> Places:
        """The floor for the mean loss over the settings, given the sum of the other terms there."""
        floor, column = self.law.floor, self.law.column_of.get(self.law.floor, "")
        counted, rest = places.formula[floor], on.mean(total, column)
        off = self._own(floor, counted, on) - self._own(floor, rest, on)
        if self.law.in_formula[floor].prior.support != "positive":
            places = places.with_value(floor, off)
        else:
            gap = off / self.softplus_scale
            value = FUNCTIONS["log"](self.softplus_scale * FUNCTIONS["softplus"](gap))
            places = places.with_value(floor, value, self._sum(floor, -FUNCTIONS["softplus"](-gap) - value, on))
        return self._tied(floor, places, counted, on)

    def _with_parts_of_sums(self, places: Places, values: Mapping[str, Any], on: Arrays | Variables) -> Places:
        """The parameters of nested sums for their means and spreads, given the values of what the terms depend on."""
        scope = self.law.with_let({**values, **self.settings}, FUNCTIONS) if self.sums else {}
        for nested in self.sums:
            total = 0.0
            for name, sign, term in nested.terms:
                share = on.over_settings(term.evaluate({**scope, **({name: 1.0} if name else {})}, FUNCTIONS), "")
                centre = on.mean(share)
                if name:
                    off = share - on.over_settings(centre, "")
                    height = FUNCTIONS["sqrt"](on.mean(off * off))
                    places = places.with_value(name, places.single[name] / height, -FUNCTIONS["log"](height))
                total = total + float(sign) * (places.single[name] * centre if name else centre)
            places = places.with_value(nested.level, places.single[nested.level] - float(nested.sign) * total)
        return places

    def on_graph(self, graph: Graph, x: Mapping[str, Any]) -> tuple[Places, Places]:
        """Write the change on a graph; returns the law's parameters, and the model's variables with the log Jacobian, as values."""
        here = replace(
            self,
            at={k: graph.number(f"{k} at the reference", v) for k, v in self.at.items()},
            settings={k: graph.settings(f"{k} of settings", v) for k, v in self.settings.items()},
            softplus_scale=graph.number("softplus scale", self.softplus_scale),
            typical={
                k: (graph.number(f"median of typical {k}", median), graph.number(f"scale of typical {k}", scale))
                for k, (median, scale) in self.typical.items()
            },
        )
        variables = here.variables(x, Variables(graph, self.levels))
        return here.parameters(variables), variables

    def response(self, graph: Graph, parameters: Places, shifted: Mapping[str, Any] | None = None) -> Any:
        """The PyTensor variable of every row's expected outcome on the scale of the noise; None unless the graph is built.

        Parameters
        ----------
        graph, parameters
        shifted : mapping of covariate to value, optional
            In place of the columns.
        """
        own = {name: graph.column(name) for name in self.law.measured}
        values = parameters.formula | own | dict(shifted or {})
        return graph.value(self.law.outcome.to_scale(self.law.formula_at(values, FUNCTIONS), FUNCTIONS)).every_row()

    def draws(self, x: Mapping[str, Array]) -> dict[str, Array]:
        """The law's parameters, arrays (S,), from coordinates, arrays (S, 1)."""
        return self.by_parameter(self.parameters(self.variables(x, Arrays(self.levels))), len(next(iter(x.values()))))

    def by_parameter(self, values: Places, size: int) -> dict[str, Array]:
        """Values of draws as an array (S,) for each parameter."""
        draws = {name: np.broadcast_to(v, (size, 1))[:, 0].copy() for name, v in values.single.items()}
        for name, members in self.law.members.items():
            draws |= dict(zip(members, np.broadcast_to(values.by_level[name], (size, len(members))).T.copy(), strict=True))
        first = self.law.shapes
        scales = (name for name in self.law.parameters if name not in first and name not in self.law.floors)
        return {name: draws[name] for name in (*first, *scales, *self.law.floors)}

    def parameters(self, variables: Places) -> Places:
        """The law's parameters from the model's unconstrained variables."""
        priors = {k: p.prior for k, p in self.law.in_formula.items()}
        values = Places(*({k: constrain(priors[k], v) for k, v in d.items()} for d in (variables.single, variables.by_level)))
        without = ({k: 1.0 if priors[k].on else v for k, v in d.items()} for d in (values.single, values.by_level))
        return values.in_units(self._units(Places(*without)))

    def _units(self, values: Places) -> Places:
        """The value of each prior's `on` at the reference point where its parameter is 1."""
        return Places(*self.law.units(values.single, values.by_level, self.at, FUNCTIONS))
