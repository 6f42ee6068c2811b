"""Coordinates in which the posterior of a scaling law is easy to sample, derived from the formula of any card.

The posterior is a thin curved ridge in (E, A, alpha, …): a larger A with a larger alpha, or a larger E with a smaller A,
gives the same losses where the runs are. Two changes of variable straighten most of it:

- the floor E is replaced by the mean loss over a few settings spread over the runs (its other terms added to it);
- the scale of each term is replaced by the term's spread over those settings, which the losses determine.

Both are shears, so their Jacobian is one but for a softplus that keeps E positive.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.data.observations import Observations
from bayeslaw.engine.graph import FUNCTIONS, SETTINGS, Graph
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior

# Scale of the softplus that keeps the floor positive, as a share of the smallest loss, or of the spread of other outcomes. It is
# small because the mean loss, which the data determine to a few thousandths, is no longer a coordinate where the softplus curves:
# with 0.05 fits took twice the gradients and diverged where floors near zero are likely.
SOFTPLUS = 0.01
ROWS = 12  # rows of the runs that represent a law of series

Functions = Mapping[str, Callable[..., Any]]


def constrain(prior: Prior, x: Any, functions: Functions) -> Any:
    """Map the real line to the prior's support.

    Parameters
    ----------
    prior, x, functions : Prior, value, and the functions for such values by name
    """
    match prior.support:
        case "positive":
            return functions["exp"](x)
        case "unit":
            return functions["sigmoid"](x)
        case "bounded":
            low, high = prior.bounds
            return functions["sigmoid"](x) * (high - low) + low
        case _:
            return x


def star(law: Law, observed: Observations) -> dict[str, Array]:
    """Settings spread over the runs: the reference point, and points with one covariate moved to its minimum or maximum.

    A law of series has rows of the runs instead, since nodes of a series belong together. Where parameters vary by columns, the
    settings repeat for every combination of those columns' values.
    """
    if law.series:
        rows = np.unique(np.linspace(0, observed.response.size - 1, ROWS).round().astype(np.int64))
        points = [{name: float(observed.covariates[name][row]) for name in law.measured} for row in rows]
    else:
        points = [{name: observed.at[name] for name in law.measured}]
        for name in (n for n, c in law.measured.items() if not c.context):
            values = observed.covariates[name]
            points += [{**points[0], name: float(end)} for end in (values.min(), values.max())]
    blocks = []
    for chosen in itertools.product(*law.levels.values()):
        values_of = dict(zip(law.levels, chosen, strict=True))
        blocks.append({name: float(values_of[column] == value) for name, (column, value) in law.indicators.items()})
    points = [{**point, **block} for block in blocks for point in points]
    return {name: np.array([p[name] for p in points]) for name in law.covariates}


Mean = Callable[[Any, Any], Any]


def average(value: Any, weights: Any) -> Array:
    """Mean over the last axis (which broadcasts to the weights), weighted or, without weights, plain; kept with size 1."""
    if weights is None:
        plain: Array = np.asarray(value).mean(axis=-1, keepdims=True)
        return plain
    weighted: Array = (np.asarray(value) + np.zeros((1, weights.size))) @ weights
    return weighted[:, None]


@dataclass(frozen=True)
class Coordinates:
    """The change from sampling coordinates to the model's variables, for values of a graph and for NumPy draws.

    Attributes
    ----------
    settings, size
        The settings of `star`, arrays (m,) or values of a graph, and their number m.
    weights : dict of str to array (m,) or value of a graph
        For each floor, the weights of the settings that its mean loss is over.
    by_spread, by_mean : frozensets of str
        Amplitudes whose term varies over the settings, and those whose term has one value there. An amplitude whose term is 0
        there, such as annealing in runs without any, is in neither set and is a coordinate itself.
    softplus_scale : float
        Scale (nats) of the softplus that keeps the floor positive; the coordinate is linear well above it.
    """

    law: Law
    at: Mapping[str, Any]
    settings: Mapping[str, Any]
    size: int
    weights: Mapping[str, Any]
    by_spread: frozenset[str]
    by_mean: frozenset[str]
    softplus_scale: Any

    @property
    def scaled(self) -> frozenset[str]:
        """Amplitudes replaced by the spread or mean of their term."""
        return self.by_spread | self.by_mean

    @property
    def form(self) -> str:
        """All of the law and the change that is not data, as text: equal forms make equal graphs on the same columns."""
        law = self.law
        parameters = [
            (n, p.prior.dist, p.prior.support == "bounded" and p.prior.bounds, p.prior.on and p.prior.on.text, p.around)
            for n, p in law.parameters.items()
        ]
        formulas = [law.formula.text, *(f"{n} = {e.text}" for n, e in law.let.items())]
        terms = [(n, t.text) for n, t in law.amplitudes.items()]
        parts = (formulas, parameters, terms, law.floors, list(law.covariates), sorted(self.by_spread), sorted(self.by_mean))
        return "; ".join(map(str, parts))

    @classmethod
    def of(cls, law: Law, observed: Observations) -> Coordinates:
        settings = star(law, observed)
        size = len(next(iter(settings.values())))
        weights = {name: settings[within] if within else np.ones(size) for name, within in law.floors.items()}
        typical = law.sample_prior(1, observed.at, np.random.default_rng(0))
        scope = {k: v[:, None] for k, v in typical.items()} | settings
        varying, constant = set(), set()
        for name, term in law.amplitudes.items():
            unit = scope | {name: np.ones((1, 1))}  # the draw of a real amplitude may be close to 0
            values = np.broadcast_to(term.evaluate(law.with_let(unit)), (1, size))
            if np.std(values) > 1e-9 * np.abs(np.mean(values)):
                varying.add(name)
            elif np.any(values != 0):
                constant.add(name)
        weights = {name: w / w.sum() for name, w in weights.items()}
        least = float(observed.outcomes.min())
        softplus_scale = SOFTPLUS * (least if least > 0 else float(np.std(observed.outcomes)) + 1e-6)
        return cls(law, observed.at, settings, size, weights, frozenset(varying), frozenset(constant), softplus_scale)

    def variables(self, x: Mapping[str, Any], functions: Functions, mean: Mean) -> tuple[dict[str, Any], Any]:
        """The model's unconstrained variables from the coordinates, and the log Jacobian.

        `mean` averages over the settings, with given weights or without (None). For a prior with `on` the variable is the log of
        that expression's value.
        """
        law = self.law
        variables = {k: x[k] for k in law.shapes}
        values = {k: constrain(law.parameters[k].prior, v, functions) for k, v in variables.items()}
        ones = values | dict.fromkeys((*law.amplitudes, *law.floors), 1.0)
        units = law.term_units(ones, self.at, functions)
        # A scale inside a term, such as h in 1 + D/h, may have a prior on h/D: terms need the scale itself.
        ones |= {k: values[k] / unit for k, unit in units.items() if k in values}
        scope = law.with_let({**ones, **self.settings}, functions)
        terms = []
        jacobian: Any = 0.0
        for name, term in law.amplitudes.items():
            variables[name] = x[name]
            if name not in self.scaled:
                continue
            share = term.evaluate(scope, functions) / units.get(name, 1.0)
            centre = mean(share, None)
            off = share - centre if name in self.by_spread else centre
            height = functions["sqrt"](mean(off * off, None))
            if law.parameters[name].prior.support == "real":  # the spread itself, since 0 has no logarithm
                variables[name] = x[name] / height
                jacobian = jacobian - functions["log"](height)
            else:
                variables[name] = x[name] - functions["log"](height)
            terms.append((constrain(law.parameters[name].prior, variables[name], functions), share))
        for floor, weights in self.weights.items():
            total: Any = 0.0
            for value, share in terms:
                total = total + value * mean(share, weights)
            if law.parameters[floor].prior.support == "positive":
                gap = (x[floor] - total) / self.softplus_scale
                above = functions["log"](self.softplus_scale * functions["softplus"](gap))
                variables[floor] = above
                jacobian = jacobian - functions["softplus"](-gap) - above
            else:
                variables[floor] = x[floor] - total
        return variables, jacobian

    def on_graph(self, graph: Graph, x: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Write the change on a graph; returns the law's parameters, the model's variables and the log Jacobian as its values."""

        def mean(value: Any, weights: Any) -> Any:
            value = graph.value(value)
            if value.over != SETTINGS:
                return value
            return value.sum() / graph.number("settings", self.size) if weights is None else (value * weights).sum()

        here = replace(
            self,
            at={k: graph.number(f"{k} at the reference", v) for k, v in self.at.items()},
            settings={k: graph.settings(f"{k} of settings", v) for k, v in self.settings.items()},
            weights={k: graph.settings(f"weights of {k}", v) for k, v in self.weights.items()},
            softplus_scale=graph.number("softplus scale", self.softplus_scale),
        )
        variables, jacobian = here.variables(x, FUNCTIONS, mean)
        return here.parameters(variables, FUNCTIONS), variables, jacobian

    def response(self, graph: Graph, parameters: Mapping[str, Any]) -> Any:
        """The PyTensor variable of every row's expected outcome on the scale of the noise; None unless the graph is built."""
        values = dict(parameters) | {name: graph.column(name) for name in graph.columns}
        return graph.value(self.law.outcome.to_scale(self.law.evaluate(values, FUNCTIONS), FUNCTIONS)).every_row()

    def draws(self, x: Mapping[str, Array]) -> dict[str, Array]:
        """The law's parameters, arrays (S,), from coordinates, arrays (S, 1)."""
        variables, _ = self.variables(x, FUNCTIONS, average)
        values = self.parameters(variables, FUNCTIONS)
        size = len(next(iter(x.values())))
        return {name: np.broadcast_to(v, (size, 1))[:, 0].copy() for name, v in values.items()}

    def parameters(self, variables: Mapping[str, Any], functions: Functions) -> dict[str, Any]:
        """The law's parameters from the model's unconstrained variables."""
        priors = {k: p.prior for k, p in self.law.parameters.items()}
        values = {k: constrain(priors[k], v, functions) for k, v in variables.items() if k in priors}
        units = self.law.term_units({k: 1.0 if priors[k].on else v for k, v in values.items()}, self.at, functions)
        return {k: v / units[k] if k in units else v for k, v in values.items()}
