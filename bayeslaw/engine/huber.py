"""The sum of Huber losses of log residuals, and its gradient, which point fits minimise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.data.observations import Observations
from bayeslaw.engine.compiled import Outputs, Program
from bayeslaw.engine.coordinates import Coordinates
from bayeslaw.engine.graph import SINGLE, Graph, Value
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior

NO_LOSS = 1e12  # stands for an objective that is not finite, which SciPy's line search can't take
DELTA = "delta of the Huber loss"  # a number of the graph; a covariate may be called delta
Objective = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class HuberLoss:
    """The sum of Huber losses in the coordinates of `Coordinates`, where bounded parameters are only kept positive."""

    coordinates: Coordinates
    program: Program
    observed: Observations

    @classmethod
    def of(cls, law: Law, observed: Observations) -> HuberLoss:
        # The papers only require positive parameters: shares such as a gate's lambda may pass 1 here.
        unbounded = {k: _unbounded(p.prior) for k, p in law.parameters.items() if p.prior.support in ("unit", "bounded")}
        coordinates = Coordinates.of(law.with_priors(unbounded), observed)

        def write(graph: Graph) -> Outputs:
            x = {name: graph.variable(name) for name in law.parameters}
            values = {name: Value(graph, SINGLE, variable=v) for name, v in x.items()}
            expected = coordinates.response(graph, coordinates.on_graph(graph, values)[0])
            measured, weights = (graph.array(name, observed.response) for name in ("response", "weights"))
            delta = graph.of_number(DELTA, 1.0)
            if not graph.build:
                return None
            import pytensor.tensor as pt

            if law.outcome.kind == "count":  # measured shares may be 0 or 1, which have no logit
                low, high = law.outcome.bounds
                expected = low + (high - low) * pt.sigmoid(expected)
            size = abs(expected - measured)
            huber = pt.switch(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))
            return list(x.values()), pt.sum(weights * huber), []

        program = Program.of(write, observed.covariates, f"Huber loss; {coordinates.form}", law.indicators)
        return cls(coordinates, program, observed)

    def objective(self, delta: float, weights: Array) -> Objective:
        """The sum and its gradient as a function of the coordinates.

        Parameters
        ----------
        delta : float
            Where a Huber loss turns from square to linear.
        weights : array (n,)
            Weights of the rows.
        """
        given: dict[str, Any] = {DELTA: delta, "weights": weights}
        function = self.program.function(len(self.coordinates.law.parameters), **given)

        def loss(x: Array) -> tuple[float, Array]:
            value, gradient = function(x)
            good = math.isfinite(value) and bool(np.isfinite(gradient).all())
            return (value, gradient) if good else (NO_LOSS, np.zeros_like(x))

        return loss

    def start(self, rng: np.random.Generator) -> Array:
        """Coordinates drawn around the priors of the shapes and the losses' own mean and spread."""
        law, loss = self.coordinates.law, self.observed.outcomes
        x = np.empty(len(law.parameters))
        for i, (name, parameter) in enumerate(law.parameters.items()):
            prior = parameter.prior
            if name in law.floors:
                x[i] = loss.mean() + 0.3 * loss.std() * rng.standard_normal()
            elif name in self.coordinates.scaled:
                share, normal = loss.std() / len(law.amplitudes) + 1e-3, rng.standard_normal()
                x[i] = share * normal if prior.support == "real" else np.log(share) + normal
            else:
                draw = float(prior.sample(1, rng)[0])
                x[i] = np.log(draw) if prior.support == "positive" else draw
        return x

    def parameters(self, x: Array) -> dict[str, Array]:
        """The law's parameters, arrays (S,), from coordinates (S, parameters)."""
        return self.coordinates.draws({name: x[:, i : i + 1] for i, name in enumerate(self.coordinates.law.parameters)})


def _unbounded(prior: Prior) -> Prior:
    """Return a prior without the bounds of another, for starting points: around its median, positive where its values are."""
    if prior.support == "unit":
        return Prior("LogNormal", {"mu": -1.0, "sigma": 1.0})
    median, (low, high) = float(prior.scipy.median()), prior.bounds
    if low >= 0:
        return Prior("LogNormal", {"mu": math.log(median), "sigma": 1.0}, prior.on)
    return Prior("Normal", {"mu": median, "sigma": high - low}, prior.on)
