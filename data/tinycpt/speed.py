"""Measure the speed of a training step: tokens/s at every size, the share of the peak, and the gain from replicas.

    python data/tinycpt/speed.py             # prints the table in README.md

The peak is that of a 2,048 x 2,048 float32 product, measured on the same threads. Replicas are several models trained
in one call (vmap over weights and data), with the tokens of all of them counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import make
import numpy as np
import transformer as tf
from sweeps import TINYCPT

wait: Callable[[Any], Any] = jax.block_until_ready
STEPS = 100
REPEATS = 5


def best(call: Callable[[], Any]) -> float:
    """Return the shortest time of several calls in seconds, after a first call that compiles."""
    wait(call())
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        wait(call())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak() -> float:
    """Return the FLOP/s of a large matrix product."""
    square = jnp.ones((2_048, 2_048), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    return 2 * 2_048**3 / best(lambda: product(square))


def flops_per_token(model: make.Model) -> float:
    """Forward and backward: 6 for each weight that multiplies, embedding as output included, and the attention scores."""
    return 6 * (model.N + tf.VOCABULARY * model.width) + 12 * model.depth * tf.CONTEXT * model.width


def tokens_per_second(model: make.Model, replicas: int) -> float:
    rng = np.random.default_rng(0)
    corpus = jnp.asarray(rng.integers(32, 127, 2_000_000, dtype=np.uint8))
    starts = jnp.asarray(rng.integers(0, 1_900_000, (replicas, STEPS, model.batch)).astype(np.int32))
    rates = jnp.full(STEPS, 1e-3, jnp.float32)
    states = [tf.fresh(tf.initialise(model.width, model.depth, seed)) for seed in range(replicas)]
    if replicas == 1:
        seconds = best(lambda: tf.train(corpus, states[0], starts[0], rates, STEPS))
    else:
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        step = jax.jit(jax.vmap(tf.train, in_axes=(None, 0, 0, None, None)))
        seconds = best(lambda: step(corpus, together, starts, rates, STEPS))
    return replicas * STEPS * model.batch * tf.CONTEXT / seconds


def main() -> None:
    top = peak()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, peak {top / 1e9:.0f} GFLOP/s\n")
    print("| N | batch (windows) | tokens/s | GFLOP/s | share of peak | tokens/s, 4 replicas |\n|---|---|---|---|---|---|")
    for width, depth in TINYCPT.depths.items():
        model = make.Model(width, depth, 0)
        alone, four = tokens_per_second(model, 1), tokens_per_second(model, 4)
        rate = alone * flops_per_token(model)
        print(f"| {model.N:,} | {model.batch} | {alone:,.0f} | {rate / 1e9:.1f} | {rate / top:.0%} | {four:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
