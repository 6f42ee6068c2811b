"""The model's log density and its gradient, in the coordinates of `coordinates`.

It equals that of the PyMC model (`noise.model`) with the Jacobian of the change of variables, up to a constant; run effects of
normal noise are integrated out in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.data.observations import Observations
from bayeslaw.engine.binning import Compressed
from bayeslaw.engine.compiled import Function, Outputs, Program
from bayeslaw.engine.coordinates import Coordinates, Places, constrain
from bayeslaw.engine.graph import FUNCTIONS, SINGLE, Graph, Value
from bayeslaw.engine.maps import IDENTITY, Map
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior
from bayeslaw.noise import noise as noises
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.density import Rows, data_of, log_density
from bayeslaw.noise.noise import Noise
from bayeslaw.noise.operation import Product


def log_prior(prior: Prior, x: Any, args: Mapping[str, Any] | None = None) -> Any:
    """Log density, up to a constant, of the unconstrained value x (log, logit or the value itself), Jacobian included.

    Parameters
    ----------
    prior, x : Prior, and number, array or value of a graph
    args : mapping, optional
        What stands for the prior's arguments in a graph.
    """
    a, functions = prior.args if args is None else args, FUNCTIONS
    match prior.dist:
        case "LogNormal" | "Normal":
            z = (x - a["mu"]) / a["sigma"]
            return -0.5 * z * z
        case "HalfNormal":
            return x - 0.5 * functions["exp"](2.0 * x) / (a["sigma"] * a["sigma"])
        case "Gamma":
            return a["alpha"] * x - a["beta"] * functions["exp"](x)
        case "StudentT":
            z = (x - a["mu"]) / a["sigma"]
            return -0.5 * (a["nu"] + 1) * functions["log1p"](z * z / a["nu"])
        case "Uniform":
            return -functions["softplus"](-x) - functions["softplus"](x)
        case "TruncatedNormal":
            z = (functions["sigmoid"](x) * (a["upper"] - a["lower"]) + a["lower"] - a["mu"]) / a["sigma"]
            return -0.5 * z * z - functions["softplus"](-x) - functions["softplus"](x)
        case _:
            return -a["alpha"] * functions["softplus"](-x) - a["beta"] * functions["softplus"](x)


def _log_around(x: Any, typical: Any, log_spread: Any) -> Any:
    """Log density, up to a constant, of an unconstrained value that is normal around a typical one."""
    z = (x - typical) * FUNCTIONS["exp"](-log_spread)
    return -0.5 * z * z - log_spread


START = {"dof": 20.0, "drift": 0.1, "discrepancy": 0.003}  # for noise parameters that are not scales of errors
WITHIN = (0.02, 0.98)  # quantiles of priors between which other starts lie
RUN = "code of the run"  # a column of the graph, along which effects of runs are gathered
SMALLER = 40  # times that the terms of a starting point may be made smaller


@dataclass(frozen=True, eq=False)
class RunEffects:
    """How the coordinates x of R explicit run effects stand for them: effects = directions @ (sigma_run**power * x).

    Attributes
    ----------
    directions : array (R, R), optional
        Orthogonal, so that effects along them are as independent as those of runs are; by default each run has its own.
    power : array (R,)
        1 for an effect counted in units of sigma_run, and 0 for one that is the coordinate itself; see `centring`.
    """

    directions: Array | None
    power: Array

    @classmethod
    def single(cls, runs: int) -> RunEffects:
        return cls(None, np.ones(runs))


@dataclass(frozen=True, eq=False)
class Density:
    """Log density and gradient over a flat vector of coordinates: the law's, the noise's, then run effects if explicit.

    Explicit run effects are those of `run_effects`.
    """

    law: Law
    noise: Noise
    observed: Observations
    coordinates: Coordinates
    names: tuple[str, ...]
    program: Program
    run_effects: RunEffects

    @classmethod
    def of(
        cls, law: Law, observed: Observations, noise: Noise, compressed: Compressed | None = None,
        coordinates: Coordinates | None = None, run_effects: RunEffects | None = None,
    ) -> Density:  # fmt: skip
        """The density of a law on its runs or, with normal noise, on the fewer rows of `binning.compress`.

        Parameters
        ----------
        law, observed, noise, compressed
        coordinates, run_effects
            As attributes; by default those of all points, so that compression does not change them, and each effect by itself, in
            units of sigma_run.
        """
        coordinates, run_effects = coordinates or Coordinates.of(law, observed), run_effects or RunEffects.single(observed.runs)
        fewer = observed if compressed is None else compressed.observed
        count, scatter = (None, None) if compressed is None else (compressed.count, compressed.scatter)
        # Shapes first: given them, levels are nearly normal, and a triangular map can follow how their widths depend on shapes.
        levels = tuple(n for n in law.parameters if n not in law.shapes)
        names = (*law.shapes, *noise.parameters, *levels)
        form = replace(noise, groups=tuple(map(str, range(len(noise.groups)))))
        renamed = dict(zip(noise.parameters, form.parameters, strict=True))

        def write(graph: Graph) -> Outputs:
            x = {name: graph.variable(name) for name in names}
            effects = graph.behind("run effects", observed.runs) if noise.explicit_effects else None
            values = {name: Value(graph, SINGLE, variable=v) for name, v in x.items()}
            parameters, variables = coordinates.on_graph(graph, values)
            total = variables.log_jacobian + _log_priors(graph, law, noise, variables, {n: values[n] for n in noise.parameters})
            unshrunk = effects
            if noise.counts and noise.run_effect:
                effects, stretch = _turned(graph, run_effects, effects, values["sigma_run"])
                total = total - stretch
            shifted: dict[str, Value] = {}
            if noise.shifts:
                by_run = None if effects is None else _parameter(noise, "sigma_run", values["sigma_run"]).variable * effects
                shifted[noise.shifts] = graph.column(noise.shifts) + graph.of_parts(RUN, by_run)
            mean, data = coordinates.response(graph, parameters, shifted), data_of(noise, fewer, count, scatter)
            rows = Rows(**{name: graph.array(name, values) for name, values in data.items()})
            if not graph.build:
                return None
            of_noise = {renamed[n]: _parameter(noise, n, values[n]).variable for n in noise.parameters}
            logp = graph.value(total).variable + log_density(form, rows, mean, of_noise, None if noise.shifts else effects)
            if effects is not None:
                logp -= 0.5 * (effects**2).sum()
            return list(x.values()), logp, [] if unshrunk is None else [unshrunk]

        own = isinstance(noise, PointNoise)  # code that may change: it is compiled in each process
        key = f"{coordinates.form}; {form}; {len(names)} coordinates"
        key += "".join(f"; {name} {prior.dist}" for name, prior in sorted(noise.priors.items()))
        key += f"{'' if run_effects.directions is None else '; turned'}{f'; {uuid4()}' if own else ''}"
        columns = fewer.covariates | ({RUN: fewer.run.astype(np.float64)} if noise.shifts else {})
        program = Program.of(write, columns, key, law.indicators, kept=not own)
        return cls(law, noise, fewer, coordinates, names, program, run_effects)

    @property
    def size(self) -> int:
        return len(self.names) + (self.observed.runs if self.noise.explicit_effects else 0)

    def function(self, arrays: Map = IDENTITY, threads: int = 1) -> Function:
        """The log density and its gradient as a function of the coordinates, or of the arguments of a map to them."""
        return self.program.function(self.size, arrays, threads)

    def draws(self, x: Array) -> dict[str, Array]:
        """Parameters of law and noise, arrays (S,), from coordinates (S, size); run effects, if explicit, are (S, R)."""
        columns = {name: x[:, i : i + 1] for i, name in enumerate(self.names)}
        draws = self.coordinates.draws(columns) | {
            name: _parameter(self.noise, name, columns[name][:, 0]) for name in self.noise.parameters
        }
        if self.noise.explicit_effects:
            spreads = self.noise.scales(draws, "sigma_run")[self.noise.groups_of(self.observed)]
            unshrunk = spreads.T ** (self.run_effects.power - 1) * x[:, len(self.names) :]
            turn = self.run_effects.directions
            draws["run_effect"] = spreads.T * (unshrunk if turn is None else unshrunk @ turn.T)
        return draws

    def start(self, rng: np.random.Generator | None = None) -> Array:
        """Coordinates of a starting point: prior medians, or quantiles drawn at random, the losses' mean as floor, and noise of 1%.

        Parameters over the shares of a mixture begin apart: where they are equal, the mixture doesn't matter, and what is scaled by
        the spread of its term has no place.
        """
        x = np.zeros(self.size)
        outcomes, scale = self.observed.outcomes, self.noise.scale
        spread = float(np.std(outcomes)) + 1e-3 * scale
        terms = [n for n in self.coordinates.scaled if self.law.parameters[n].prior.support == "positive"]
        standard = {n for name in self.coordinates.powers for n in (*self.law.members[name], self.law.pools[name][0])}
        standard |= {n for name in self.coordinates.tied for n in (*self.law.members[name][1:], self.law.pools[name][0])}
        for i, name in enumerate(self.names):
            if name in standard:
                x[i] = 0.0
            elif name in self.law.floors:
                x[i] = float(np.mean(outcomes))
            elif name in terms:
                x[i] = np.log(spread / (1 + len(terms)))
            elif name in self.coordinates.scaled:
                x[i] = 0.0  # of either sign
            elif name in self.noise.parameters and noises.kind(name) in noises.PRIORS:
                x[i] = np.log(START.get(name, (0.05 if self.noise.kind in ("bounded", "count") else 0.01) * scale))
            else:
                prior = self.law.parameters[name].prior if name in self.law.parameters else self.noise.prior(name)
                quantile = self._quantile(name) if rng is None or name not in self.law.parameters else rng.uniform(*WITHIN)
                value = float(prior.scipy.ppf(quantile))
                x[i] = prior.unconstrained(max(value, 1e-12) if prior.support == "positive" else value)
        logp, levels = self.function(), [i for i, name in enumerate(self.names) if name in terms]
        for _ in range(SMALLER):
            if math.isfinite(logp(x)[0]):
                break
            x[levels] -= 1.0  # a few losses far above the others make terms that leave no room for the floor
        return x

    def _quantile(self, name: str) -> float:
        """The quantile of the prior at which a parameter begins: the median, and for shares of a mixture ones around it."""
        parameter = self.law.parameters.get(name)
        if parameter is None or not parameter.over:
            return 0.5
        place = self.law.shares.index((parameter.of or name).removeprefix(f"{parameter.over}_"))
        return 0.3 + 0.4 * place / (len(self.law.shares) - 1)


def _parameter(noise: Noise, name: str, x: Any) -> Any:
    """A parameter of the noise from its coordinate."""
    value, least = constrain(noise.prior(name), x), noise.least(name)
    return value + least if least else value


def _turned(graph: Graph, run_effects: RunEffects, x: Any, log_spread: Value) -> tuple[Any, Value]:
    """Effects in units of their spread from their coordinates x, None unless built, and the log Jacobian of the coordinates."""
    rest = 1.0 - run_effects.power
    powers, stretch = graph.array("rest of powers of run effects", rest), graph.number("their sum", float(rest.sum())) * log_spread
    turn = run_effects.directions
    matrices = () if turn is None else (graph.array("directions", turn.ravel()), graph.array("transposed", turn.T.ravel()))
    if x is None:
        return None, stretch
    along = x * FUNCTIONS["exp"](-powers * log_spread.variable)
    return Product()(*matrices, along, along) if matrices else along, stretch


def _log_priors(graph: Graph, law: Law, noise: Noise, variables: Places, of_noise: Mapping[str, Any]) -> Any:
    """Sum of the log priors of all unconstrained variables; the priors' arguments are data."""
    total, single, priors = 0.0, variables.single, {name: p.prior for name, p in law.parameters.items()}
    priors |= {name: noise.prior(name) for name in of_noise}

    def stated(i: int, name: str, x: Any) -> Any:
        args = {k: graph.number(f"{k} of prior {i}", v) for k, v in priors[name].args.items()}
        return log_prior(priors[name], x, args)

    free = {name: x for name, x in single.items() if name in priors} | dict(of_noise)
    for i, (name, x) in enumerate(free.items()):
        total = total + stated(i, name, x)
    for i, (name, x) in enumerate(variables.by_level.items(), len(free)):
        member = law.members[name][0]
        around = law.parameters[member].around
        density = stated(i, member, x) if around is None else _log_around(x, single[around[0]], single[around[1]])
        total = total + density.sum()
    return total
