"""A small decoder-only byte transformer in JAX, and one fused call that takes many training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

CONTEXT = 64
HEAD = 8
VOCABULARY = 256
BETA1, BETA2, EPSILON, CLIP, DECAY = 0.9, 0.99, 1e-8, 1.0, 0.01

Weights = dict[str, Any]


class State(NamedTuple):
    """Weights, both Adam moments and the number of updates taken since the moments were zero."""

    weights: Weights
    first: Weights
    second: Weights
    updates: jax.Array


def size(width: int, depth: int) -> int:
    """Non-embedding parameters N = 12 depth width^2."""
    return 12 * depth * width**2


def initialise(width: int, depth: int, seed: int) -> Weights:
    """Weights of a fresh model; the draws come from NumPy so that they do not depend on the JAX version."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> jax.Array:
        return jnp.asarray(rng.normal(0, scale, shape), dtype=jnp.float32)

    spread = width**-0.5
    return {
        "bytes": normal(VOCABULARY, width, scale=0.02),
        "positions": normal(CONTEXT, width, scale=0.02),
        "qkv": normal(depth, width, 3 * width, scale=spread),
        "out": normal(depth, width, width, scale=spread / (2 * depth) ** 0.5),
        "up": normal(depth, width, 4 * width, scale=spread),
        "down": normal(depth, 4 * width, width, scale=0.5 * spread / (2 * depth) ** 0.5),
        "gains": jnp.ones((depth, 2, width), dtype=jnp.float32),
        "gain": jnp.ones((width,), dtype=jnp.float32),
    }


def fresh(weights: Weights) -> State:
    """Optimiser state with zero moments, as at the start of pre-training and again of adaptation."""
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return State(weights, zeros, zeros, jnp.zeros((), jnp.int32))


def _normalise(x: jax.Array, gain: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def token_losses(weights: Weights, windows: jax.Array) -> jax.Array:
    """Mean cross-entropy of each window in nats per byte; windows (B, CONTEXT + 1) of byte ids."""
    inputs, targets = windows[:, :-1].astype(jnp.int32), windows[:, 1:].astype(jnp.int32)
    batch, width = inputs.shape[0], weights["gain"].shape[0]
    x = weights["bytes"][inputs] * width**0.5 + weights["positions"]
    mask = jnp.tril(jnp.ones((CONTEXT, CONTEXT), dtype=bool))
    for layer in range(weights["qkv"].shape[0]):
        h = _normalise(x, weights["gains"][layer, 0])
        qkv = (h @ weights["qkv"][layer]).reshape(batch, CONTEXT, 3, width // HEAD, HEAD)
        scores = jnp.einsum("bqhc,bkhc->bhqk", qkv[:, :, 0], qkv[:, :, 1]) * HEAD**-0.5
        shares = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        mixed = jnp.einsum("bhqk,bkhc->bqhc", shares, qkv[:, :, 2]).reshape(batch, CONTEXT, width)
        x = x + mixed @ weights["out"][layer]
        h = _normalise(x, weights["gains"][layer, 1])
        x = x + jax.nn.gelu(h @ weights["up"][layer]) @ weights["down"][layer]
    logits = _normalise(x, weights["gain"]) @ weights["bytes"].T
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked, axis=-1)


def _step(corpus: jax.Array, starts: jax.Array, rates: jax.Array, i: jax.Array, state: State) -> tuple[State, jax.Array]:
    """One update, and the loss on its batch before it."""
    windows = jax.vmap(lambda s: lax.dynamic_slice(corpus, (s,), (CONTEXT + 1,)))(starts[i])
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean(token_losses(w, windows)))(state.weights)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, CLIP / (norm + 1e-9)), gradient)
    count = state.updates + 1
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state.first, gradient)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, state.second, gradient)
    low1, low2 = 1 - BETA1**count, 1 - BETA2**count

    def update(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return w - rates[i] * ((m / low1) / (jnp.sqrt(v / low2) + EPSILON) + DECAY * w)

    return State(jax.tree.map(update, state.weights, first, second), first, second, count), loss


def _train(corpus: jax.Array, state: State, starts: jax.Array, rates: jax.Array, steps: int) -> tuple[State, jax.Array]:
    """Take the first `steps` of the steps given by starts (capacity, B) and rates (capacity,) in one call.

    The number of steps is an input, so calls of any length up to the capacity share one compiled program. Returned
    are the state after them and the loss of every step's batch before it, (capacity,) in nats per byte.
    """

    def step(i: jax.Array, at: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        state, losses = at
        state, loss = _step(corpus, starts, rates, i, state)
        return state, losses.at[i].set(loss)

    after: tuple[State, jax.Array] = lax.fori_loop(0, steps, step, (state, jnp.zeros(rates.shape, jnp.float32)))
    return after


def _validate(weights: Weights, windows: jax.Array) -> jax.Array:
    """Mean loss in nats per byte over windows (batches, B, CONTEXT + 1)."""
    return jnp.mean(lax.map(lambda w: token_losses(weights, w), windows))


train: Callable[..., tuple[State, jax.Array]] = jax.jit(_train)
validate: Callable[[Weights, jax.Array], jax.Array] = jax.jit(_validate)
# The same for several runs of one size, stacked along the first axis of states, starts and rates.
train_together: Callable[..., tuple[State, jax.Array]] = jax.jit(jax.vmap(_train, in_axes=(None, 0, 0, 0, None)))
validate_together: Callable[[Weights, jax.Array], jax.Array] = jax.jit(jax.vmap(_validate, in_axes=(0, None)))
