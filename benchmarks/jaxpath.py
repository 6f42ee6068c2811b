"""A million rows of Form 3: one value and gradient by the kernels, and by JAX on the CPU and on a GPU if there is one.

python benchmarks/jaxpath.py         # prints the table kept in benchmarks/results/jaxpath.md
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from forecasts import banner, markdown_table

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.engine.density import Density
from bayeslaw.engine.jaxdensity import JaxDensity
from bayeslaw.noise.noise import Noise

sys.path.insert(0, str(Path(__file__).parents[1]))  # the truth is that of the tests
from tests.test_statistical import TRUTHS, simulate

RUNS, CHECKPOINTS, CHAINS = 10_000, 100, 4


def table(law: bayeslaw.Law, seed: int = 0) -> pd.DataFrame:
    """Runs of 20 sizes, 4 stages and 10 replay shares at random; each row has tokens of its own."""
    rng = np.random.default_rng(seed)

    def by_run(values: Any) -> Any:
        return np.repeat(rng.choice(values, RUNS), CHECKPOINTS)

    size = by_run(np.geomspace(1e8, 1e10, 20))
    tokens = size * np.exp(rng.uniform(np.log(0.5), np.log(20), size.size))
    columns = {"N": size, "D": tokens, "r": by_run(np.linspace(0.05, 0.5, 10)), "ptpp": by_run([15.0, 31.0, 62.0, 124.0])}
    run = np.repeat(np.arange(RUNS), CHECKPOINTS)
    return simulate(law, TRUTHS["ptpp-gate-floor"], pd.DataFrame(columns).assign(run=run), seed)


def milliseconds(call: Callable[[], Any]) -> str:
    """The least of ten calls after the first."""
    call()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return f"{1e3 * min(times):.1f}"


def rows(law: bayeslaw.Law, observed: Observations, noise: str) -> list[dict[str, Any]]:
    """Times of one noise, by the kernels and on a device of every kind."""
    density = Density.of(law, observed, Noise.choose(noise, observed))
    logp, x = density.function(), density.start()
    expected = logp(x)[0]
    found = [{"noise": noise, "by": "kernels, one core", "chains at once": 1, "ms": milliseconds(lambda: logp(x))}]
    traced = JaxDensity.of(density)
    gradient = jax.value_and_grad(traced.log_density, argnums=1)
    cases = ((gradient, x), (jax.vmap(gradient, in_axes=(None, 0)), np.tile(x, (CHAINS, 1))))
    for device in {d.platform: d for d in (*jax.devices("cpu"), *jax.devices())}.values():
        for function, at in cases:
            with jax.enable_x64(True):
                call = partial(jax.jit(function), *jax.device_put((traced.data, at), device))
                value = float(np.ravel(call()[0])[0])
                if not np.isclose(value, expected, rtol=1e-10):
                    raise SystemExit(f"the log density by {device} is {value}, by the kernels {expected}")
                took = milliseconds(call)
            found.append({"noise": noise, "by": f"JAX, {device.device_kind}", "chains at once": at.size // x.size, "ms": took})
    return found


def main() -> None:
    law = bayeslaw.load_law("ptpp-gate-floor")
    observed = Observations.of(law, bayeslaw.read_runs(table(law)))
    print("# The density of a million rows\n\n" + banner("jaxpath") + f", jax {jax.__version__}\n")
    print(f"Form 3, {observed.log_loss.size:,} rows of {observed.runs:,} runs; one value and gradient.\n")
    print(markdown_table([row for noise in ("normal", "student-no-run") for row in rows(law, observed, noise)]))


if __name__ == "__main__":
    main()
