"""The model's log density and its gradient, in the coordinates of `coordinates`.

It equals that of `inference.model.pymc_model` with the Jacobian of the change of variables, up to a constant; run effects of normal
noise are integrated out in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.data.observations import Observations
from bayeslaw.engine import tape as tapes
from bayeslaw.engine.binning import Compressed
from bayeslaw.engine.compiled import IDENTITY, Map, addresses, describe, logp_by_address, workspace
from bayeslaw.engine.coordinates import Coordinates
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior
from bayeslaw.noise import noise as noises
from bayeslaw.noise.noise import Noise


def log_prior(prior: Prior, x: Any) -> Any:
    """Log density, up to a constant, of the unconstrained value x (log, logit or the value itself), Jacobian included."""
    a, functions = prior.args, tapes.FUNCTIONS
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


def _log_around(x: Any, typical: Any, log_spread: Any) -> Any:
    """Log density, up to a constant, of an unconstrained value that is normal around a typical one."""
    z = (x - typical) * tapes.FUNCTIONS["exp"](-log_spread)
    return -0.5 * z * z - log_spread


START = {"dof": 20.0, "drift": 0.1}  # for noise parameters that are not scales of errors
SMALLER = 40  # times that the terms of a starting point may be made smaller


@dataclass(frozen=True)
class Function:
    """A compiled log density with gradient, called from Python or, by its description, from a sampler without Python.

    The description points to the arrays; see `compiled.describe`.
    """

    size: int
    arrays: tuple[Any, ...]
    description: Index

    def __call__(self, z: Array) -> tuple[float, Array]:
        values, gradients = self.many(z[None])
        return float(values[0]), gradients[0]

    def many(self, z: Array) -> tuple[Array, Array]:
        """Values (S,) and gradients (S, size) at points z (S, size), with little overhead of Python."""
        z, k = np.ascontiguousarray(z, dtype=np.float64), self.size
        if z.ndim != 2 or z.shape[1] != k:
            raise ValueError(f"the density takes points of {k} coordinates, not an array {z.shape}")
        values, gradients, logp = np.empty(len(z)), np.empty_like(z), logp_by_address()
        point, gradient, value, description = (a.ctypes.data for a in (z, gradients, values, self.description))
        for i in range(len(z)):
            logp(k, point + 8 * k * i, gradient + 8 * k * i, value + 8 * i, description)
        return values, gradients


@dataclass(frozen=True)
class Density:
    """Log density and gradient over a flat vector of coordinates: the law's, the noise's, then run effects if explicit."""

    law: Law
    noise: Noise
    observed: Observations
    coordinates: Coordinates
    names: tuple[str, ...]
    program: tapes.Program
    outputs: Index
    count: Array
    scatter: Array

    @classmethod
    def of(cls, law: Law, observed: Observations, noise: Noise, compressed: Compressed | None = None) -> Density:
        """Write the tape of a law on its runs or, with normal noise, on the fewer rows of `binning.compress`."""
        coordinates = Coordinates.of(law, observed)  # of all points, so that compression does not change them
        count, scatter = np.ones(observed.log_loss.size), np.zeros(observed.runs)
        if compressed is not None:
            observed, count, scatter = compressed.observed, compressed.count, compressed.scatter
        tape, f = tapes.Tape(), tapes.FUNCTIONS
        # Shapes first: given them, levels are nearly normal, and a triangular map can follow how their widths depend on shapes.
        levels = tuple(n for n in law.parameters if n not in law.shapes)
        names = (*law.shapes, *noise.parameters, *levels)
        x = {name: tape.input() for name in names}
        parameters, variables, total = coordinates.on_tape(tape, x)
        variables |= {name: x[name] for name in noise.parameters}
        priors = {k: p.prior for k, p in law.parameters.items()} | {k: noises.prior(k) for k in noise.parameters}
        for name in names:
            around = law.parameters[name].around if name in law.parameters else None
            if around is None:
                total = total + log_prior(priors[name], variables[name])
            else:
                total = total + _log_around(variables[name], variables[around[0]], variables[around[1]])
        log_loss = coordinates.log_loss(tape, parameters, observed)
        scales = [tape.node(noises.LEAST.get(name, 0.0) + f["exp"](x[name])) for name in noise.parameters]
        program = tape.program()
        slots = [tape.node(total).slot, log_loss.slot, *(s.slot for s in scales)]
        return cls(law, noise, observed, coordinates, names, program, program.offsets[slots].astype(np.int64), count, scatter)

    @property
    def size(self) -> int:
        return len(self.names) + (self.observed.runs if self.noise.explicit_effects else 0)

    def function(self, arrays: Map = IDENTITY, threads: int = 1) -> Function:
        """The log density and its gradient as a function of the coordinates, or of the arguments of a map to them."""
        program, o = self.program, self.observed
        noise, groups = self.noise, max(len(self.noise.groups), 1)
        flags = [noise.student, noise.run_effect, noise.checkpoint_effect, noise.skew or noise.drift, groups, program.live]
        memory = np.tile(program.memory, (threads, 1))
        count = o.time if noise.drift else self.count  # see `likelihoods.ou_density`
        families = o.families if noise.checkpoint_effect else np.arange(o.runs + 1, dtype=np.int64)
        rows = (o.log_loss, o.starts, count, self.scatter, o.se**2, families, noise.groups_of(o))
        work = (program.code, memory, np.zeros_like(memory))
        run = addresses("forward", "backward", "student" if noise.student else "ou" if noise.drift else "normal", "evaluate")
        state = (*work, program.inputs, self.outputs, np.array(flags, np.int64), *rows, run)
        busy = np.zeros(threads, dtype=np.int64)
        whole = (*state, *arrays, busy, workspace(self.size, arrays, groups, threads))
        return Function(self.size, whole, describe(whole))

    def draws(self, x: Array) -> dict[str, Array]:
        """Parameters of law and noise, arrays (S,), from coordinates (S, size); run effects, if explicit, are (S, R)."""
        columns = {name: x[:, i : i + 1] for i, name in enumerate(self.names)}
        draws = self.coordinates.draws(columns) | {
            name: noises.LEAST.get(name, 0.0) + np.exp(columns[name][:, 0]) for name in self.noise.parameters
        }
        if self.noise.explicit_effects:
            spreads = self.noise.scales(draws, "sigma_run")[self.noise.groups_of(self.observed)]
            draws["run_effect"] = spreads.T * x[:, len(self.names) :]
        return draws

    def start(self) -> Array:
        """Coordinates of a starting point: prior medians, the losses' mean as floor, and noise of 1%."""
        x = np.zeros(self.size)
        spread = float(np.std(np.exp(self.observed.log_loss))) + 1e-3
        terms = [n for n in self.coordinates.scaled if self.law.parameters[n].prior.support == "positive"]
        for i, name in enumerate(self.names):
            if name in self.law.floors:
                x[i] = float(np.mean(np.exp(self.observed.log_loss)))
            elif name in terms:
                x[i] = np.log(spread / (1 + len(terms)))
            elif name in self.coordinates.scaled:
                x[i] = 0.0  # of either sign
            elif name in self.noise.parameters:
                x[i] = np.log(START.get(name, 0.01))
            else:
                prior = self.law.parameters[name].prior
                median = float(prior.scipy.median())
                logit = np.log(median / (1 - median)) if prior.support == "unit" else median
                x[i] = np.log(max(median, 1e-12)) if prior.support == "positive" else logit
        logp, levels = self.function(), [i for i, name in enumerate(self.names) if name in terms]
        for _ in range(SMALLER):
            if math.isfinite(logp(x)[0]):
                break
            x[levels] -= 1.0  # a few losses far above the others make terms that leave no room for the floor
        return x
