"""The model's log density in coordinates that are easy to sample.

The posterior of a scaling law is a thin curved ridge in (E, A, alpha, …): a larger A with a larger alpha, or a larger E with
a smaller A, gives the same losses where the runs are. Two changes of variable, derived from the additive terms of any
formula, straighten most of it:

- the floor E is replaced by the mean loss over a few settings spread over the runs (its other terms added to it);
- the scale of each term is replaced by the term's spread over those settings, which is what losses tell about it.

Both are shears, so their Jacobian is one but for the bend that keeps E positive. What is left is nearly normal and is
whitened by the curvature at the mode. The sampled density is that of `model.pymc_model`, up to a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from bayeslaw.jit import jit
from numpy.typing import NDArray

from bayeslaw import noise as noises
from bayeslaw import tape as tapes
from bayeslaw.laws import Law
from bayeslaw.noise import Noise
from bayeslaw.observations import Observations
from bayeslaw.priors import Prior

Functions = Mapping[str, Callable[..., Any]]
NUMPY: Functions = {name: tapes.FUNCTIONS[name] for name in tapes.FUNCTIONS}


def constrain(prior: Prior, x: Any, functions: Functions) -> Any:
    """From the whole line to the prior's support."""
    match prior.support:
        case "positive":
            return functions["exp"](x)
        case "unit":
            return functions["sigmoid"](x)
        case _:
            return x


def log_prior(prior: Prior, x: Any, functions: Functions) -> Any:
    """Log density, up to a constant, of the unconstrained value x (log, logit or the value itself), Jacobian included."""
    a = prior.args
    match prior.dist:
        case "LogNormal" | "Normal":
            z = (x - a["mu"]) / a["sigma"]
            return -0.5 * z * z
        case "HalfNormal":
            return x - 0.5 * functions["exp"](2.0 * x) / a["sigma"] ** 2
        case "Gamma":
            return a["alpha"] * x - a["beta"] * functions["exp"](x)
        case "StudentT":
            z = (x - a["mu"]) / a["sigma"]
            return -0.5 * (a["nu"] + 1) * functions["log1p"](z * z / a["nu"])
        case _:
            return -a["alpha"] * functions["softplus"](-x) - a["beta"] * functions["softplus"](x)


def star(law: Law, observed: Observations) -> dict[str, NDArray[np.float64]]:
    """Settings spread over the runs: the reference point, and from it each covariate moved to its ends in the runs."""
    points = [dict(observed.at)]
    for name in law.covariates:
        values = observed.covariates[name]
        points += [{**observed.at, name: float(end)} for end in (values.min(), values.max())]
    return {name: np.array([p[name] for p in points]) for name in law.covariates}


@dataclass(frozen=True)
class Coordinates:
    """The change from sampling coordinates to the model's variables, for nodes of a tape and for NumPy draws alike.

    Attributes
    ----------
    settings : dict of str to array (m,)
        The settings of `star`.
    by_spread : frozenset of str
        Amplitudes whose term varies over the settings; the others are taken by their mean.
    bend : float
        Where the floor comes nearer to zero than about this (nats), its coordinate bends to keep it positive.
    """

    law: Law
    at: Mapping[str, float]
    settings: Mapping[str, NDArray[np.float64]]
    by_spread: frozenset[str]
    bend: float

    @classmethod
    def of(cls, law: Law, observed: Observations) -> Coordinates:
        settings = star(law, observed)
        typical = law.sample_prior(1, observed.at, np.random.default_rng(0))
        scope = {k: v[:, None] for k, v in typical.items()} | settings
        varying = set()
        for name, term in law.amplitudes.items():
            values = np.broadcast_to(term.evaluate(law.with_let(scope)), (1, len(next(iter(settings.values())))))
            if np.std(values) > 1e-9 * np.abs(np.mean(values)):
                varying.add(name)
        return cls(law, observed.at, settings, frozenset(varying), 0.05 * float(np.exp(observed.log_loss.min())))

    def variables(self, x: Mapping[str, Any], functions: Functions, mean: Callable[[Any], Any]) -> tuple[dict[str, Any], Any]:
        """The model's unconstrained variables from the coordinates, and the log Jacobian.

        `mean` averages over the settings. For a prior with `on` the variable is the log of that expression's value.
        """
        law = self.law
        variables = {k: x[k] for k in law.parameters if k not in law.amplitudes and k != law.floor}
        values = {k: constrain(law.parameters[k].prior, v, functions) for k, v in variables.items()}
        ones = values | {k: 1.0 for k in (*law.amplitudes, *((law.floor,) if law.floor else ()))}
        units = law.term_units(ones, self.at, functions)
        scope = law.with_let({**ones, **self.settings}, functions)
        total: Any = 0.0
        for name, term in law.amplitudes.items():
            share = term.evaluate(scope, functions) / units.get(name, 1.0)
            centre = mean(share)
            if name in self.by_spread:
                off = share - centre
                size = functions["sqrt"](mean(off * off))
            else:
                size = centre
            variables[name] = x[name] - functions["log"](size)
            total = total + constrain(law.parameters[name].prior, variables[name], functions) * centre
        jacobian: Any = 0.0
        if law.floor:
            if law.parameters[law.floor].prior.support == "positive":
                gap = (x[law.floor] - total) / self.bend
                floor = self.bend * functions["softplus"](gap)
                variables[law.floor] = functions["log"](floor)
                jacobian = -functions["softplus"](-gap) - variables[law.floor]
            else:
                variables[law.floor] = x[law.floor] - total
        return variables, jacobian

    def parameters(self, variables: Mapping[str, Any], functions: Functions) -> dict[str, Any]:
        """The law's parameters from the model's unconstrained variables."""
        priors = {k: p.prior for k, p in self.law.parameters.items()}
        values = {k: constrain(priors[k], v, functions) for k, v in variables.items() if k in priors}
        units = self.law.term_units({k: 1.0 if priors[k].on else v for k, v in values.items()}, self.at, functions)
        return {k: v / units[k] if k in units else v for k, v in values.items()}


@dataclass(frozen=True)
class Density:
    """Log density and gradient over a flat vector of coordinates: the law's, the noise's, then run effects if explicit."""

    law: Law
    noise: Noise
    observed: Observations
    coordinates: Coordinates
    names: tuple[str, ...]
    program: tapes.Program
    outputs: NDArray[np.int64]

    @classmethod
    def of(cls, law: Law, observed: Observations, noise: Noise) -> Density:
        """Write the tape of a law on its runs."""
        coordinates = Coordinates.of(law, observed)
        tape, f = tapes.Tape(), tapes.FUNCTIONS
        names = (*law.parameters, *noise.parameters)
        x = {name: tape.input() for name in names}
        size = float(len(next(iter(coordinates.settings.values()))))

        def mean(value: Any) -> Any:
            node = tape.node(value) * np.ones(int(size))
            return node.sum() / size

        settings = {k: tape.constant(v) for k, v in coordinates.settings.items()}
        at = {k: tape.constant(v) for k, v in coordinates.at.items()}
        on_tape = Coordinates(law, at, settings, coordinates.by_spread, coordinates.bend)  # type: ignore[arg-type]
        variables, total = on_tape.variables(x, f, mean)
        variables |= {name: x[name] for name in noise.parameters}
        priors = {k: p.prior for k, p in law.parameters.items()} | {k: noises.PRIORS[k] for k in noise.parameters}
        for name in names:
            total = total + log_prior(priors[name], variables[name], f)
        values = on_tape.parameters(variables, f)
        values |= {name: tape.constant(column) for name, column in observed.covariates.items()}
        log_loss = tape.node(f["log"](law.evaluate(values, f))) + np.zeros(observed.log_loss.size)
        scales = [tape.node(f["exp"](x[name])) for name in noise.parameters]
        program = tape.program()
        slots = [tape.node(total).slot, log_loss.slot, *(s.slot for s in scales)]
        return cls(law, noise, observed, coordinates, names, program, program.offsets[slots].astype(np.int64))

    @property
    def size(self) -> int:
        return len(self.names) + (self.observed.runs if self.noise.explicit_effects else 0)

    def function(self) -> Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
        """A function x -> (log density, gradient), with memory of its own (one per thread)."""
        state = self.state()

        def logp(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            gradient = np.empty(x.size)
            return evaluate(*state, x, gradient), gradient

        return logp

    def state(self) -> tuple[Any, ...]:
        """The leading arguments of `evaluate`, with memory of their own."""
        program, o = self.program, self.observed
        flags = np.array([self.noise.student, self.noise.run_effect])
        memory, slope = program.memory.copy(), np.zeros_like(program.memory)
        return program.code, memory, slope, program.inputs, self.outputs, flags, o.log_loss, o.starts

    def draws(self, x: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Parameters of law and noise, arrays (S,), from coordinates (S, size); run effects, if explicit, are (S, R)."""
        columns = {name: x[:, i : i + 1] for i, name in enumerate(self.names)}
        variables, _ = self.coordinates.variables(
            columns, NUMPY, lambda v: np.mean(np.asarray(v) + np.zeros((1, 1)), axis=-1, keepdims=True)
        )
        values = self.coordinates.parameters(variables, NUMPY)
        values |= {name: np.exp(columns[name]) for name in self.noise.parameters}
        draws = {name: np.broadcast_to(values[name], (x.shape[0], 1))[:, 0].copy() for name in self.names}
        if self.noise.explicit_effects:
            draws["run_effect"] = draws["sigma_run"][:, None] * x[:, len(self.names) :]
        return draws

    def start(self) -> NDArray[np.float64]:
        """Coordinates of a sensible beginning: prior medians, the losses' mean as floor, and noise of 1%."""
        x = np.zeros(self.size)
        spread = float(np.std(np.exp(self.observed.log_loss))) + 1e-3
        for i, name in enumerate(self.names):
            if name == self.law.floor:
                x[i] = float(np.mean(np.exp(self.observed.log_loss)))
            elif name in self.law.amplitudes:
                x[i] = np.log(spread / (1 + len(self.law.amplitudes)))
            elif name in noises.PRIORS:
                x[i] = np.log(20.0 if name == "dof" else 0.01)
            else:
                median = float(self.law.parameters[name].prior.scipy.median())
                support = self.law.parameters[name].prior.support
                x[i] = {"positive": np.log(max(median, 1e-12)), "unit": np.log(median / (1 - median)), "real": median}[support]
        return x


@jit
def evaluate(
    code: NDArray[np.int64],
    memory: NDArray[np.float64],
    slope: NDArray[np.float64],
    inputs: NDArray[np.int64],
    outputs: NDArray[np.int64],
    flags: NDArray[np.bool_],
    y: NDArray[np.float64],
    starts: NDArray[np.int64],
    x: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> float:
    """Log density at the coordinates x; its gradient goes into `gradient`."""
    student, run_effect = flags[0], flags[1]
    k = inputs.size
    for i in range(k):
        memory[inputs[i]] = x[i]
    tapes.forward(code, memory)
    slope[:] = 0.0
    prior, first, point = outputs[0], outputs[1], outputs[2]
    logp = memory[prior]
    slope[prior] = 1.0
    mu, d_mu = memory[first : first + y.size], slope[first : first + y.size]
    sigma = memory[point]
    gradient[:] = 0.0
    if student:
        tau = memory[outputs[3]] if run_effect else 0.0
        last = outputs[outputs.size - 1]
        effects, d_effects = x[k:], gradient[k:]
        part, d_sigma, d_dof, d_tau = noises.student_density(y, mu, starts, sigma, memory[last], tau, effects, d_mu, d_effects)
        slope[point] += d_sigma
        slope[last] += d_dof
        if run_effect:
            slope[outputs[3]] += d_tau
            for j in range(effects.size):
                part -= 0.5 * effects[j] * effects[j]
                d_effects[j] -= effects[j]
    else:
        tau = memory[outputs[3]] if run_effect else 0.0
        part, d_v, d_t = noises.normal_density(y, mu, starts, sigma * sigma, tau * tau, d_mu)
        slope[point] += 2 * sigma * d_v
        if run_effect:
            slope[outputs[3]] += 2 * tau * d_t
    tapes.backward(code, memory, slope)
    for i in range(k):
        gradient[i] = slope[inputs[i]]
    return logp + part
