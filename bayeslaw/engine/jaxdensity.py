"""The same density in JAX, and NumPyro's NUTS on it: for large tables, on a GPU where JAX has one.

The density is made from the tape that the kernels run, so both are of one model by construction. The tape is changed in one way:
it gathers what rows share, which spares a CPU exponentials, but whose derivative is a scattered sum, slow on a GPU and added
up in no fixed order. Here each operation works on whole rows instead; gathers are done once, on the columns it begins with.

Numbers are of 64 bits: a million rows leave no digits of 32 for the differences that a sampler goes by. That is switched on while
this module works and for its thread alone; what else a process does with JAX is left as it is.

Importing this module imports JAX. A process that has done so must not be forked; start workers with `spawn`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.scipy.special import gammaln, log_ndtr
from numpy.typing import NDArray
from numpyro.infer.hmc import hmc
from numpyro.infer.util import ParamInfo

from bayeslaw.engine import ops
from bayeslaw.engine.compiled import Map
from bayeslaw.engine.density import Density
from bayeslaw.engine.tape import Program
from bayeslaw.engine.transport import Whitening
from bayeslaw.noise.noise import GROUPED, Noise, kind

Array = Any  # of JAX, or a tracer of one
Key = tuple[int, int]  # a slot's offset, and the number of the rows' order it is seen in (0 for its own)


def _log(x: Array) -> Array:
    """-inf for what is not positive, without a derivative there, which would be nan."""
    positive = x > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, x, 1.0)), -jnp.inf)


_FUNCTIONS: dict[int, tuple[int, Callable[..., Array]]] = {
    ops.ADD: (2, jnp.add), ops.SUB: (2, jnp.subtract), ops.MUL: (2, jnp.multiply), ops.DIV: (2, jnp.divide),
    ops.POW: (2, jnp.power), ops.NEG: (1, jnp.negative), ops.EXP: (1, jnp.exp), ops.EXPM1: (1, jnp.expm1), ops.LOG: (1, _log),
    ops.LOG1P: (1, jnp.log1p), ops.SQRT: (1, jnp.sqrt), ops.TANH: (1, jnp.tanh), ops.SIGMOID: (1, jax.nn.sigmoid),
    ops.SOFTPLUS: (1, jax.nn.softplus), ops.MIN: (2, lambda a, b: jnp.where(a < b, a, b)),
    ops.MAX: (2, lambda a, b: jnp.where(a < b, b, a)),
    ops.SELECT: (3, lambda c, a, b: jnp.where(c > 0.5, a, b)), ops.SUM: (1, jnp.sum), ops.GATHER: (1, lambda a: a),
}  # fmt: skip
"""Number of arguments and function of each operation; derivatives as in `kernels_tape.backward`."""


@dataclass(frozen=True)
class Steps:
    """A tape whose arrays are gathered before it begins.

    Attributes
    ----------
    lines : tuple of (operation, result, arguments)
        In order.
    numbers, columns : dict
        Constants: single numbers, and arrays.
    """

    lines: tuple[tuple[int, Key, tuple[Key, ...]], ...]
    numbers: dict[Key, float]
    columns: dict[Key, NDArray[np.float64]]

    @classmethod
    def of(cls, program: Program, outputs: NDArray[np.int64]) -> Steps:
        """Go through a program from its end, asking of every slot in which orders of the rows it is needed."""
        lengths = dict(zip(program.offsets.tolist(), program.lengths.tolist(), strict=True))
        needed: dict[int, set[int]] = {slot: set() for slot in lengths}
        orders: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        known: dict[bytes, int] = {}

        def need(slot: int, order: int) -> Key:
            key = slot, order if lengths[slot] > 1 else 0
            needed[slot].add(key[1])
            return key

        def through(index: NDArray[np.int64], order: int) -> int:
            """The order that first gathers by an index and then by an order."""
            whole = index[orders[order]] if order else index
            number = known.setdefault(whole.tobytes(), len(orders))
            if number == len(orders):
                orders.append(whole)
            return number

        for slot in outputs.tolist():
            need(slot, 0)
        lines = []
        for op, out, n, *rest in reversed(program.code.tolist()):
            for order in sorted(needed[out]):
                if op == ops.GATHER:
                    index = program.memory[rest[2] : rest[2] + n].astype(np.int64)
                    arguments: tuple[Key, ...] = (need(rest[0], through(index, order)),)
                else:
                    arguments = tuple(need(slot, order) for slot in rest[: 2 * _FUNCTIONS[op][0] : 2])
                lines.append((op, (out, order), arguments))
        made = {int(out) for out in program.code[:, 1]} | set(program.inputs.tolist())
        constants = {
            (slot, order): program.memory[slot : slot + lengths[slot]][orders[order] if order else slice(None)]
            for slot in lengths.keys() - made
            for order in needed[slot]
        }
        return cls(
            tuple(reversed(lines)),
            {key: float(v[0]) for key, v in constants.items() if v.size == 1},
            {key: v for key, v in constants.items() if v.size > 1},
        )

    def run(self, columns: dict[Key, Array], inputs: dict[Key, Array]) -> dict[Key, Array]:
        """The value of every slot, with the columns given as arrays of JAX."""
        values = {**self.numbers, **columns, **inputs}
        for op, out, arguments in self.lines:
            values[out] = _FUNCTIONS[op][1](*(values[a] for a in arguments))
        return values


class Parts(NamedTuple):
    """Parts of an array that lie one after the other: the part of each element, and where each part begins."""

    code: Array
    starts: Array

    @classmethod
    def of(cls, starts: NDArray[np.int64]) -> Parts:
        return cls(np.repeat(np.arange(starts.size - 1), np.diff(starts)), starts)


class Data(NamedTuple):
    """Arrays that the density is a function of, so that no million numbers are compiled into it.

    Attributes
    ----------
    columns : dict of Key to array
        Those of `Steps`.
    y : array (n,)
        Log losses of rows sorted by checkpoint and run.
    rows, checkpoints : Parts
        How rows make up runs, and runs checkpoints.
    group : int array (R,)
        The group of each run.
    count : array (n,)
        Points that each row is the mean of.
    scatter : array (R,)
        For each run, the sum of squares of the points around the means of their rows.
    squared : array (n,) or number
        Known variances of rows, 0 where there are none.
    time : array (n,)
        The rows' clock, ascending within runs; empty unless the noise drifts.
    """

    columns: dict[Key, Array]
    y: Array
    rows: Parts
    checkpoints: Parts
    group: Array
    count: Array
    scatter: Array
    squared: Array
    time: Array


@jax.custom_vjp
def totals(e: Array, parts: Parts) -> Array:
    """Sums of a column over each part. As differences of one running sum, for a GPU adds up scattered numbers in no fixed order."""
    running = jnp.concatenate([jnp.zeros(1), jnp.cumsum(e)])
    return jnp.diff(running[parts.starts])


@jax.custom_vjp
def spread(v: Array, parts: Parts) -> Array:
    """The column with the value of its part at each row; the derivative of `totals`, as `totals` is of this."""
    return v[parts.code]


totals.defvjp(lambda e, parts: (totals(e, parts), parts), lambda parts, g: (spread(g, parts), None))
spread.defvjp(lambda v, parts: (spread(v, parts), parts), lambda parts, g: (totals(g, parts), None))


def normal_density(e: Array, v: Array, t: Array, omega: Array | float, slack: Array | None, data: Data) -> Array:
    """As `kernels_noise.normal_density`, of residuals e; slack is None where runs don't err upward."""
    variance = spread(v[data.group], data.rows) + data.squared
    weight, total = totals(data.count / variance, data.rows), totals(data.count * e / variance, data.rows)
    spreads = t[data.group]
    s = 1 + spreads * weight
    squares = (data.count * e * e / variance).sum() + (data.scatter / v[data.group]).sum() - (spreads * total**2 / s).sum()
    logs = (data.count * jnp.log(variance)).sum() + jnp.log(s).sum() + data.count.sum() * math.log(2 * math.pi)
    a, b = weight / s, total / s
    if slack is not None:
        x = (b - 1 / slack) / jnp.sqrt(a)
        upward = 0.5 * jnp.log(2 * math.pi / a) - jnp.log(slack) + 0.5 * x * x + log_ndtr(x)
        return upward.sum() - 0.5 * (squares + logs)
    whole_a, whole_b = totals(a, data.checkpoints), totals(b, data.checkpoints)
    z = 1 + omega * whole_a
    return 0.5 * ((omega * whole_b**2 / z - jnp.log(z)).sum() - squares - logs)


def drift_density(e: Array, v: Array, t: Array, length: Array, data: Data) -> Array:
    """As `kernels_noise.drift_density`, of residuals e; what follows from row to row is worked out by halves, as a GPU can.

    The predicted variance, in units of the run effect's, is a fraction of linear functions of the one before, and such functions
    go together as 2 x 2 matrices do; the predicted mean is a linear function of the one before.
    """
    first = jnp.zeros(e.size, bool).at[data.rows.starts[:-1]].set(True)
    step = jnp.where(first, 0.0, jnp.diff(data.time, prepend=data.time[:1]))
    rho = jnp.where(first, 0.0, jnp.exp(-step / length))
    gained = jnp.where(first, 1.0, -jnp.expm1(-2 * step / length))
    variance, luck = spread(v[data.group], data.rows) + data.squared, spread(t[data.group], data.rows)
    own = variance / luck
    decay, fresh, there = rho[1:] ** 2, gained[1:], own[:-1]

    def product(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
        c = b[0] * a[0] + b[1] * a[2], b[0] * a[1] + b[1] * a[3], b[2] * a[0] + b[3] * a[2], b[2] * a[1] + b[3] * a[3]
        size = c[2] + c[3]  # of no consequence, but that products stay finite
        return tuple(part / size for part in c)

    def after(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return b[0] * a[0], b[0] * a[1] + b[1]

    steps = (decay * there + fresh, fresh * there, jnp.ones_like(there), there)
    p = jax.lax.associative_scan(product, steps)
    before = luck * jnp.concatenate([jnp.ones(1), (p[0] + p[1]) / (p[2] + p[3])])
    whole = before + variance
    gain = before / whole
    kept = rho[1:] * (1 - gain[:-1])
    mean = jnp.concatenate([jnp.zeros(1), jax.lax.associative_scan(after, (kept, rho[1:] * gain[:-1] * e[:-1]))[1]])
    return -0.5 * ((e - mean) ** 2 / whole + jnp.log(2 * math.pi * whole)).sum()


def student_density(e: Array, sigma: Array, dof: Array) -> Array:
    """As `kernels_noise.student_density`, of residuals e from which the run effects are taken and a scale for each."""
    front = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * jnp.log(dof * math.pi)
    return e.size * front - jnp.log(sigma).sum() - 0.5 * (dof + 1) * jnp.log1p((e / sigma) ** 2 / dof).sum()


def bent(bends: Array, hinges: Array, z: Array) -> tuple[Array, Array]:
    """As `kernels_maps.bent`, and the log of its Jacobian."""
    m, s, e, d = bends.T
    first, rest = z[: m.size], z[m.size :]
    a = (jnp.arcsinh(first) + e) / d
    slope = s * jnp.cosh(a) / (d * jnp.sqrt(1 + first * first))
    y, (one, other, by) = jnp.concatenate([m + s * jnp.sinh(a), rest]), hinges.T
    at = z[one.astype(int)]
    return y.at[other.astype(int)].add(by * (at - 2 * jnp.tanh(0.5 * at))), jnp.log(slope).sum()


def ridge(way: tuple[Array, ...], y: Array) -> tuple[Array, Array]:
    """As `kernels_maps.ridge`, and the log of its Jacobian, which is left out where it is constant."""
    centre, scale, order, knots, pieces, *_ = way
    if order.size == 0:
        return centre + scale @ y, 0.0
    inside = jnp.clip(y[0], knots[0], knots[-1])
    j = jnp.clip(jnp.searchsorted(knots, inside) - 1, 0, knots.size - 2)
    h, c = inside - knots[j], pieces[:, j]
    slope = (3 * c[0] * h + 2 * c[1]) * h + c[2]
    value = ((c[0] * h + c[1]) * h + c[2]) * h + c[3] + slope * (y[0] - inside)
    n = y.size - 1
    spine, middle, stretch, below = jnp.split(value, [1, 1 + n, 1 + 2 * n])
    lower = jnp.zeros((n, n)).at[np.tril_indices(n, -1)].set(below)
    others = middle + jnp.exp(stretch) * y[1:] + lower @ y[1:]
    x = jnp.zeros_like(y).at[order].set(jnp.concatenate([spine, others]))
    return x, jnp.log(slope[0]) + stretch.sum()


@dataclass(frozen=True)
class JaxDensity:
    """A density as functions that JAX can trace; `data` is what they are to be given."""

    steps: Steps
    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]
    noise: Noise
    data: Data

    @classmethod
    def of(cls, density: Density) -> JaxDensity:
        steps, o = Steps.of(density.program, density.outputs), density.observed
        inputs, outputs = (tuple((slot, 0) for slot in a.tolist()) for a in (density.program.inputs, density.outputs))
        noise, squared = density.noise, o.se**2 if o.se.size else np.zeros(())
        nested = (Parts.of(o.starts), Parts.of(noise.families_of(o)), noise.groups_of(o))
        rows = (*nested, density.count, density.scatter, squared, o.time)
        return cls(steps, inputs, outputs, noise, Data(steps.columns, o.log_loss, *rows))

    def log_density(self, data: Data, x: Array) -> Array:
        """Log density at the coordinates x, as `Density.function` gives it."""
        k = len(self.inputs)
        values = self.steps.run(data.columns, dict(zip(self.inputs, x[:k], strict=True)))
        prior, mu, *others = (values[key] for key in self.outputs)
        scales = dict(zip(self.noise.parameters, others, strict=True))
        zero, e = jnp.zeros(max(len(self.noise.groups), 1)), data.y - mu
        own = {name: [v for n, v in scales.items() if kind(n) == name] for name in GROUPED}
        sigma, tau = (jnp.stack(own[name]) if own[name] else zero for name in GROUPED)
        if self.noise.drift:
            return prior + drift_density(e, sigma**2, tau**2, scales["drift"], data)
        if not self.noise.student:
            omega = scales.get("sigma_checkpoint", 0.0) ** 2
            return prior + normal_density(e, sigma**2, tau**2, omega, scales.get("slack"), data)
        if self.noise.explicit_effects:
            effects = x[k:]
            e, prior = e - spread(tau[data.group] * effects, data.rows), prior - 0.5 * (effects * effects).sum()
        scale = jnp.sqrt(spread(sigma[data.group], data.rows) ** 2 + data.squared)
        return prior + student_density(e, scale, scales["dof"])

    def whitened(self, data: Data, way: Map, z: Array) -> Array:
        """Log density of z, as `Whitening.function` gives it."""
        y, bending = bent(way[5], way[6], z)
        x, stretching = ridge(way, y)
        return self.log_density(data, x) + stretching + bending


def run(
    density: Density,
    whitening: Whitening,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    target_accept: float,
    report: Callable[[Any], None] | None,
) -> tuple[dict[str, xr.Dataset], bool]:
    """One run of all chains side by side: posterior and statistics, nan for draws not made, and whether Ctrl-C ended it.

    NumPyro's kernel is called a draw at a time, and not through its `MCMC`, so that Ctrl-C and the progress bar work as they do
    with nutpie, and the rows are an argument of what is compiled.
    """
    z = np.full((chains, draws, density.size), np.nan)
    stats = {"diverging": np.zeros((chains, draws), bool), "n_steps": np.zeros((chains, draws), np.int64)}
    stats |= {name: np.zeros((chains, draws)) for name in ("energy", "step_size_bar")}
    interrupted = False
    try:
        with jax.enable_x64(True):
            state, step = _begun(density, whitening, tune, chains, seed, target_accept)
            for i in range(tune + draws):
                state = step(state)
                found = jax.device_get((state.diverging, state.num_steps, state.energy, state.adapt_state.step_size, state.z))
                if i >= tune:
                    for values, value in zip((*stats.values(), z), found, strict=True):
                        values[:, i - tune] = value
                if report:
                    report([SimpleNamespace(finished_draws=i + 1)] * chains)
    except KeyboardInterrupt:
        interrupted = True
    dims = ("chain", "draw")
    trace = {
        "posterior": xr.Dataset({"z": ((*dims, "k"), z)}),
        "sample_stats": xr.Dataset({k: (dims, v) for k, v in stats.items()}),
    }
    return trace, interrupted


def _begun(
    density: Density, whitening: Whitening, tune: int, chains: int, seed: int, target_accept: float
) -> tuple[Any, Callable[[Any], Any]]:
    """The chains' first state, for whose gradients nothing is compiled, and a function from one state to the next."""
    traced, logp = JaxDensity.of(density), whitening.function(density)
    arguments = jax.device_put((traced.data, whitening.way))
    begin, move = hmc(potential_fn_gen=lambda data, way: lambda z: -traced.whitened(data, way, z), algo="NUTS")
    z = 0.5 * np.random.default_rng(seed).standard_normal((chains, density.size))
    values, gradients = zip(*(logp(row) for row in z), strict=True)

    def start(place: ParamInfo, key: Array) -> Any:
        return begin(place, tune, target_accept_prob=target_accept, model_args=arguments, rng_key=key)

    places = ParamInfo(z, -np.array(values), -np.array(gradients))
    first = jax.jit(jax.vmap(start))(places, jax.random.split(jax.random.key(seed), chains))
    step = jax.jit(jax.vmap(move, in_axes=(0, None)))
    return first, lambda state: step(state, arguments)
