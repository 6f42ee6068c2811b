"""The density in JAX is that of the kernels, and NumPyro's posterior that of nutpie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import arviz as az
import numpy as np
import pytest
import xarray as xr

from bayeslaw.engine import tape as tapes
from bayeslaw.engine.binning import compress
from bayeslaw.engine.density import Density
from bayeslaw.engine.tape import FUNCTIONS, Tape
from bayeslaw.engine.transport import BEYOND, whiten
from bayeslaw.inference.fit import fit
from bayeslaw.inference.sample import Stretch, _run_of
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from tests import oracles, test_tape
from tests.test_compression import repeated
from tests.test_density import NOISES, rows_for

jax = pytest.importorskip("jax", reason="the sampler numpyro is an extra: JAX is not installed")
pytest.importorskip("numpyro.infer", reason="the sampler numpyro is an extra: NumPyro is not installed")
jaxdensity = pytest.importorskip("bayeslaw.engine.jaxdensity")


@pytest.fixture(autouse=True)
def _compiled_quickly() -> Iterator[None]:
    """Most of what these tests take is XLA at work on functions that are called a few times."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def assert_same(
    function: Any, arguments: tuple[Any, ...], expected: oracles.LogDensity, x: oracles.Array, rtol: float = 1e-10
) -> None:
    """A function of JAX, taken one operation at a time, has the value and the gradient expected at x."""
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(function, argnums=len(arguments))(*arguments, x)
        assert value.dtype == gradient.dtype == np.float64
        value, gradient = np.asarray(value), np.asarray(gradient)
    known, slopes = expected(x)
    assert np.isfinite(known)
    np.testing.assert_allclose(value, known, rtol=rtol)
    np.testing.assert_allclose(gradient, slopes, rtol=rtol, atol=rtol * np.abs(slopes).max())


@pytest.mark.parametrize("noise", NOISES)
def test_value_and_gradient_are_those_of_the_kernels(law: Law, noise: str, rng: np.random.Generator) -> None:
    density = Density.of(law, rows_for(law, noise), NOISES[noise])
    traced, expected = jaxdensity.JaxDensity.of(density), density.function()
    x = density.start() + 0.5 * rng.standard_normal(density.size)
    rtol = 1e-8 if noise == "skew" else 1e-10  # JAX's log_ndtr ends in a short series
    assert_same(traced.log_density, (traced.data,), expected, x, rtol)


@pytest.mark.parametrize("noise", ["normal", "normal-no-run"])
def test_rows_that_stand_for_several_points(noise: str, rng: np.random.Generator) -> None:
    law = load_law("chinchilla")
    observed = oracles.observed(law, repeated(law, rng))
    density = Density.of(law, observed, NOISES[noise], compress(law, observed))
    assert density.count.max() > 1
    traced, expected = jaxdensity.JaxDensity.of(density), density.function()
    assert_same(traced.log_density, (traced.data,), expected, density.start() + 0.1 * rng.standard_normal(density.size))


@pytest.mark.parametrize("bends", [False, True])
@pytest.mark.parametrize("spine", [False, True])
def test_the_map_is_that_of_the_kernels(spine: bool, bends: bool, rng: np.random.Generator) -> None:
    """Straight, along a spine and beyond its ends, all elements but the last bent or none."""
    density = Density.of(load_law("ptpp-gate"), oracles.observations(load_law("ptpp-gate")), NOISES["normal"])
    whitening = whiten(density, range(len(density.law.shapes)) if spine else [])
    assert (whitening.spine is not None) == spine
    if bends:
        skewed = rng.standard_normal((200, density.size))
        whitening = whitening.refined(density, skewed + 0.2 * skewed**2, density.size - 1)
        whitening = replace(whitening, hinges=np.array([[0, 2, 0.5], [0, 5, -0.8], [3, 5, 0.4]]))
    traced, expected = jaxdensity.JaxDensity.of(density), whitening.function(density)
    ends = whitening.knots[np.abs(whitening.knots) < BEYOND / 2]
    far = ends[[0, -1]] + [-0.5, 0.5] if spine else np.array([-2.5, 2.5])
    for first in (*far, -0.7, 0.4):
        z = np.array([first, *rng.standard_normal(density.size - 1)])
        assert_same(traced.whitened, (traced.data, whitening.way), expected, z)


def assert_steps_are_right(tape: Tape, result: tapes.Node, inputs: oracles.Array) -> None:
    """Values of a node, and the gradient of their sum, are those that the kernels give."""
    program = tape.program()
    out = program.offsets[[result.slot]]
    steps = jaxdensity.Steps.of(program, out)

    def values(x: Any) -> Any:
        made = steps.run(steps.columns, {(int(slot), 0): x[i] for i, slot in enumerate(program.inputs)})
        return jax.numpy.broadcast_to(made[int(out[0]), 0], tape.lengths[result.slot])  # one number stands for all rows

    expected, slopes = test_tape.run(tape, result, inputs)
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.asarray(values(inputs)), expected, rtol=1e-13)
        np.testing.assert_allclose(np.asarray(jax.grad(lambda x: values(x).sum())(inputs)), slopes, rtol=1e-12)


OPERATIONS: dict[str, test_tape.Function] = {
    **test_tape.ARITHMETIC,
    "functions": lambda a, b: sum(FUNCTIONS[f](a * b) for f in FUNCTIONS if f not in ("select", "minimum", "maximum")),
    "minimum": lambda a, b: FUNCTIONS["minimum"](a, b) + FUNCTIONS["minimum"](b, a),
    "maximum": lambda a, b: FUNCTIONS["maximum"](a, b) + FUNCTIONS["maximum"](b, a),
    "select": lambda a, b: FUNCTIONS["select"](a, a * b, b) + FUNCTIONS["select"](b - 1.9, a * b, b),
    "sum": lambda a, b: (a * b).sum() * a,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    tape = Tape()
    a, b = tape.input(), tape.input()
    assert_steps_are_right(tape, OPERATIONS[name](a * test_tape.ROWS, b) * OPERATIONS[name](a, b), np.array([0.7, 1.9]))


@pytest.mark.parametrize("name", test_tape.ON_ROWS)
def test_columns_are_gathered_before_the_tape_begins(name: str) -> None:
    tape = Tape()
    x = {k: tape.rows(v) for k, v in test_tape.columns().items()}
    result = tape.every_row(test_tape.ON_ROWS[name](tape.input(), tape.input(), x), 80)
    assert_steps_are_right(tape, result, np.array([0.7, 1.3]))


def test_logarithm_of_what_is_not_positive_is_minus_infinity_without_slope() -> None:
    with jax.enable_x64(True):
        values, slopes = jax.vmap(jax.value_and_grad(jaxdensity._log))(np.array([-1.0, 0.0, 2.0]))
        np.testing.assert_array_equal(values, [-np.inf, -np.inf, np.log(2.0)])
        np.testing.assert_array_equal(slopes, [0.0, 0.0, 0.5])


# --- sampling -------------------------------------------------------------------------------------------------------


def test_numpyros_posterior_is_nutpies(sound_fit: Fit) -> None:
    """Means and standard deviations agree within Monte Carlo error, and JAX's own numbers stay of 32 bits."""
    law = load_law("chinchilla")
    made = fit(law, oracles.table(law, runs=8), draws=1500, tune=300, chains=2, seed=1, sampler="numpyro", progress=False)
    assert made.passed, made.checks
    assert made.info["settings"]["sampler"] == "numpyro"
    assert {"jax", "numpyro"} <= set(made.info["versions"])
    assert jax.numpy.ones(1).dtype == np.float32
    for moment, method in ((np.mean, "mean"), (np.std, "sd")):
        values, errors = {}, {}
        for who, one in (("nutpie", sound_fit), ("numpyro", made)):
            data = xr.Dataset({k: (("chain", "draw"), v) for k, v in one.by_chain.items()})
            errors[who] = az.mcse(data, method=method)
            values[who] = {k: moment(v) for k, v in one.draws.items()}
        for name in sound_fit.draws:
            allowed = 4 * np.hypot(float(errors["nutpie"][name]), float(errors["numpyro"][name]))
            assert values["numpyro"][name] == pytest.approx(values["nutpie"][name], rel=0, abs=allowed), (name, method)


def test_the_same_seed_gives_the_same_draws_and_ctrl_c_keeps_them() -> None:
    density = Density.of(load_law("chinchilla"), oracles.observations(load_law("chinchilla")), NOISES["normal-no-run"])
    whitening, run, told = whiten(density, []), _run_of("numpyro"), []

    def stop(chains: Any) -> None:
        told.append([c.finished_draws for c in chains])
        if len(told) == 45:
            raise KeyboardInterrupt

    z, stats, interrupted = run(density, whitening, Stretch(20, 30, 2, 1, 1, 0.9), None)
    assert not interrupted
    assert z.shape == (2, 20, density.size)
    assert np.isfinite(z).all()
    assert {k: v.dtype.kind for k, v in stats.items()} == {"diverging": "b", "n_steps": "i", "energy": "f", "step_size_bar": "f"}
    again, _, interrupted = run(density, whitening, Stretch(20, 30, 2, 1, 1, 0.9), stop)
    assert interrupted
    assert told == [[i, i] for i in range(1, 46)]
    np.testing.assert_array_equal(again, z[:, :15])
    assert not np.any(z[0] == z[1])
