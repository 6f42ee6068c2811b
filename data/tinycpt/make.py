"""Train the models of tinycpt and log their losses.

    python data/tinycpt/make.py                      # the committed slice, about an hour on one core
    python data/tinycpt/make.py --width 24 --ptpp 15 # a part of it

Every size is pre-trained once at a constant learning rate on the source domain. At each stage (PTPP) a branch decays the
rate to a tenth over the last 15% of the stage's tokens: that branch is the checkpoint, the trunk goes on undecayed. Each
checkpoint is adapted to the target domain at several replay shares, at a constant rate after a short warm-up, with both
validation losses logged along the way. Finished pieces lie in `.cache` under names that say what they are, so an
interrupted run goes on where it stopped; `runs.csv` is assembled from whole runs only.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import corpora
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import transformer as tf
from numpy.typing import NDArray

CACHE = corpora.CACHE
SIZES = {24: 2, 32: 2, 40: 3, 48: 4, 64: 4}  # width: depth
STAGES = (15, 31, 62, 124)
REPLAY = (0.1, 0.25, 0.5)
ATPP = np.geomspace(0.5, 20, 12).round(3)
STEPS_PER_TOKEN_PER_PARAMETER = 192  # the batch grows with N, so that ATPP 1 is about this many steps at every size
PEAK, WARMUP = 4e-3, 100
DECAY_SHARE, DECAY_TO = 0.15, 0.1
ADAPT_RATE, ADAPT_WARMUP = 2e-3, 5
CHUNK = 2_000
VALIDATION_WINDOWS = 2_048


class Data(NamedTuple):
    """Both training corpora in one device array, the lengths to draw from, and fixed validation windows."""

    corpus: jax.Array
    lengths: dict[str, int]
    validation: dict[str, jax.Array]


class Model(NamedTuple):
    """One pre-training trajectory: an architecture and a seed."""

    width: int
    seed: int

    @property
    def depth(self) -> int:
        return SIZES[self.width]

    @property
    def N(self) -> int:
        return tf.size(self.width, self.depth)

    @property
    def batch(self) -> int:
        """Windows per step."""
        return max(1, round(self.N / STEPS_PER_TOKEN_PER_PARAMETER / tf.CONTEXT))

    @property
    def name(self) -> str:
        return f"w{self.width}-s{self.seed}"

    def steps(self, tokens_per_parameter: float) -> int:
        return round(tokens_per_parameter * self.N / (self.batch * tf.CONTEXT))


def read_data() -> Data:
    texts = corpora.load()

    def windows(text: NDArray[np.uint8]) -> jax.Array:
        starts = np.linspace(0, text.size - tf.CONTEXT - 2, VALIDATION_WINDOWS).astype(np.int64)
        return jnp.asarray(text[starts[:, None] + np.arange(tf.CONTEXT + 1)].reshape(-1, 64, tf.CONTEXT + 1))

    return Data(
        jnp.asarray(np.concatenate([texts["source"]["train"], texts["target"]["train"]])),
        {domain: int(splits["train"].size) for domain, splits in texts.items()},
        {domain: windows(splits["validation"]) for domain, splits in texts.items()},
    )


def window_starts(data: Data, domain: str, counter: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Offset of the counter-th window of a domain: every window once per epoch, in an order fixed by the seed."""
    blocks = data.lengths[domain] // tf.CONTEXT - 1
    rng = np.random.default_rng([seed, len(domain)])
    stride = int(rng.integers(blocks // 3, blocks // 2))
    while np.gcd(stride, blocks) != 1:
        stride += 1
    offset = 0 if domain == "source" else data.lengths["source"]
    return offset + tf.CONTEXT * ((int(rng.integers(blocks)) + stride * counter) % blocks)


def mixed_starts(data: Data, model: Model, begin: int, steps: int, r: float, seed: int) -> NDArray[np.int32]:
    """Window offsets (steps, batch) from step `begin` on, a share r of them from the source, spread evenly."""
    i = np.arange(begin * model.batch, (begin + steps) * model.batch, dtype=np.int64)
    from_source = np.floor((i + 1) * r + 1e-9) - np.floor(i * r + 1e-9) > 0
    count_source = np.floor(i * r + 1e-9).astype(np.int64)
    starts = np.where(
        from_source, window_starts(data, "source", count_source, seed), window_starts(data, "target", i - count_source, seed)
    )
    return starts.reshape(steps, model.batch).astype(np.int32)


def advance(data: Data, model: Model, state: tf.State, begin: int, rates: NDArray[np.float32], r: float, seed: int) -> tf.State:
    """Take len(rates) steps starting at step `begin`, in calls of at most CHUNK steps."""
    for at in range(0, rates.size, CHUNK):
        steps = min(CHUNK, rates.size - at)
        starts = np.zeros((CHUNK, model.batch), np.int32)
        starts[:steps] = mixed_starts(data, model, begin + at, steps, r, seed)
        padded = np.zeros(CHUNK, np.float32)
        padded[:steps] = rates[at : at + steps]
        state = tf.train(data.corpus, state, jnp.asarray(starts), jnp.asarray(padded), steps)
    return state


def losses(data: Data, state: tf.State) -> dict[str, float]:
    return {domain: float(tf.validate(state.weights, windows)) for domain, windows in data.validation.items()}


def write(path: Path, content: bytes | str) -> None:
    """Write under a temporary name, then rename: a killed run leaves no half file."""
    temporary = path.with_name(path.name + f".{os.getpid()}.tmp")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    temporary.replace(path)


def save_state(path: Path, state: tf.State) -> None:
    temporary = path.with_name(path.name + f".{os.getpid()}.tmp")
    with temporary.open("wb") as handle:
        np.savez(handle, *[np.asarray(leaf) for leaf in jax.tree.leaves(state)])
    temporary.replace(path)


def load_state(path: Path, like: tf.State) -> tf.State:
    with np.load(path) as arrays:
        leaves = [jnp.asarray(arrays[f"arr_{i}"]) for i in range(len(arrays.files))]
    state: tf.State = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return state


def trunk_rates(model: Model, begin: int, end: int) -> NDArray[np.float32]:
    steps = np.arange(begin, end)
    return (PEAK * np.minimum(1.0, (steps + 1) / WARMUP)).astype(np.float32)


def checkpoints(data: Data, model: Model, stages: Iterable[int]) -> Iterable[tuple[int, tf.State]]:
    """Yield (ptpp, checkpoint) for each stage, training what is not in the cache."""
    state = tf.fresh(tf.initialise(model.width, model.depth, model.seed))
    at = 0
    for ptpp in sorted(stages):
        end = model.steps(ptpp)
        branch = end - round(DECAY_SHARE * end)
        trunk_path = CACHE / f"trunk-{model.name}-p{ptpp}.npz"
        path = CACHE / f"checkpoint-{model.name}-p{ptpp}.npz"
        if trunk_path.exists() and path.exists():
            state, at = load_state(trunk_path, state), branch
        else:
            state = advance(data, model, state, at, trunk_rates(model, at, branch), 1.0, model.seed)
            at = branch
            rates = np.linspace(PEAK, DECAY_TO * PEAK, end - branch, dtype=np.float32)
            decayed = advance(data, model, state, branch, rates, 1.0, model.seed)
            save_state(path, decayed)
            save_state(trunk_path, state)
        yield ptpp, load_state(path, state)


def base_rows(data: Data, model: Model, ptpp: int, state: tf.State) -> list[dict[str, Any]]:
    name = f"{model.name}-p{ptpp}"
    row = {"run": name, "checkpoint": name, "seed": model.seed, "N": model.N, "width": model.width, "depth": model.depth}
    row |= {"ptpp": ptpp, "r": None, "step": 0, "D": 0, "lr": DECAY_TO * PEAK, "flops": 6 * model.N**2 * ptpp}
    return [row | {"domain": domain, "loss": loss} for domain, loss in losses(data, state).items()]


def adaptation_rows(data: Data, model: Model, ptpp: int, state: tf.State, r: float) -> list[dict[str, Any]]:
    """Adapt one checkpoint at one replay share; one row per domain and logged step."""
    name = f"{model.name}-p{ptpp}-r{r:g}"
    seed = zlib.crc32(name.encode())
    state, begin, rows = tf.fresh(state.weights), 0, []
    for atpp in ATPP:
        end = model.steps(atpp)
        rates = (ADAPT_RATE * np.minimum(1.0, (np.arange(begin, end) + 1) / ADAPT_WARMUP)).astype(np.float32)
        state, begin = advance(data, model, state, begin, rates, r, seed), end
        D = end * model.batch * tf.CONTEXT
        row = {"run": name, "checkpoint": f"{model.name}-p{ptpp}", "seed": model.seed, "N": model.N, "width": model.width}
        row |= {"depth": model.depth, "ptpp": ptpp, "r": r, "step": end, "D": D, "lr": ADAPT_RATE, "flops": 6 * model.N * D}
        rows += [row | {"domain": domain, "loss": loss} for domain, loss in losses(data, state).items()]
    return rows


def generate(models: list[Model], stages: list[int], replay: list[float]) -> None:
    """Train whatever of the grid is not in the cache, smallest model first."""
    data = read_data()
    for model in models:
        for ptpp, state in checkpoints(data, model, stages):
            for r in (None, *replay):
                label = "base" if r is None else f"r{r:g}"
                path = CACHE / f"rows-{model.name}-p{ptpp}-{label}.json"
                if path.exists():
                    continue
                start = time.perf_counter()
                rows = base_rows(data, model, ptpp, state) if r is None else adaptation_rows(data, model, ptpp, state, r)
                write(path, json.dumps(rows))
                print(f"{path.stem}  {time.perf_counter() - start:.1f} s", flush=True)


def assemble() -> pd.DataFrame:
    """Collect every finished run into runs.csv, in a fixed order."""
    rows = [row for path in CACHE.glob("rows-*.json") for row in json.loads(path.read_text())]
    frame = pd.DataFrame(rows).sort_values(["N", "seed", "ptpp", "r", "D", "domain"], na_position="first")
    columns = ["run", "checkpoint", "seed", "N", "width", "depth", "ptpp", "r", "step", "D", "domain", "loss", "lr", "flops"]
    frame = frame[columns].assign(loss=frame["loss"].round(6))
    write(corpora.HERE / "runs.csv", frame.to_csv(index=False))
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--ptpp", type=int, nargs="+", default=list(STAGES))
    parser.add_argument("--replay", type=float, nargs="+", default=list(REPLAY))
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--assemble", action="store_true", help="only collect finished runs into runs.csv")
    arguments = parser.parse_args()
    if not arguments.assemble:
        generate([Model(w, s) for w in arguments.width for s in arguments.seed], arguments.ptpp, arguments.replay)
    print(f"runs.csv: {len(assemble())} rows")


if __name__ == "__main__":
    main()
