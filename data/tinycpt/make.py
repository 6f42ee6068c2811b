"""Train the models of tinycpt and log their losses.

    python data/tinycpt/make.py                                                     # everything that is committed
    python data/tinycpt/make.py --width 24 --ptpp 15 --replay 0.25 --seed 0         # one run of it (and its checkpoint)
    python data/tinycpt/make.py --assemble                                          # collect what is finished

Every size is pre-trained once at a constant learning rate on the source domain. At each stage (PTPP) a branch decays the
rate to a tenth over the last 15% of the stage's tokens: that branch is the checkpoint; the trunk continues without decay. Each
checkpoint is adapted to the target domain at several replay shares, at a constant rate after a short warm-up, with both
validation losses logged along the way. Finished pieces are kept in `.cache` under descriptive names, so an
interrupted run continues where it stopped; `runs.csv` (shift to C++ headers) and `runs-docs.csv` (shift to English
documentation) contain complete runs only.
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
STAGES = (15, 31, 62, 124, 279)
SHIFTS = {"headers": "target", "docs": "docs"}  # shift: the corpus adapted to
ATPP = np.geomspace(0.5, 20, 12).round(3)
STEPS_PER_TOKEN_PER_PARAMETER = 192  # the batch grows with N, so that ATPP 1 is about this many steps at every size
PEAK, WARMUP = 4e-3, 100
DECAY_SHARE, DECAY_TO = 0.15, 0.1
ADAPT_RATE, ADAPT_WARMUP = 2e-3, 5
CHUNK = 2_000
VALIDATION_WINDOWS = 2_048


class Part(NamedTuple):
    """A block of the grid: every combination of its entries."""

    widths: tuple[int, ...]
    seeds: tuple[int, ...]
    stages: tuple[int, ...]
    replay: tuple[float, ...]
    shift: str


GRID = (
    Part((24, 32), (0, 1, 2), STAGES, (0.05, 0.1, 0.25, 0.5), "headers"),
    Part((40, 48, 64), (0,), STAGES, (0.05, 0.1, 0.25, 0.5), "headers"),
    Part((32,), (0,), STAGES, (0.0, 1.0), "headers"),
    Part((24, 32, 40), (0,), STAGES, (0.1, 0.25, 0.5), "docs"),
)


class Data(NamedTuple):
    """All training corpora in one device array, where each starts and its length, and fixed validation windows."""

    corpus: jax.Array
    offsets: dict[str, int]
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

    lengths = {domain: int(splits["train"].size) for domain, splits in texts.items()}
    ends = np.cumsum(list(lengths.values()))
    return Data(
        jnp.asarray(np.concatenate([splits["train"] for splits in texts.values()])),
        dict(zip(lengths, (ends - list(lengths.values())).tolist(), strict=True)),
        lengths,
        {domain: windows(splits["validation"]) for domain, splits in texts.items()},
    )


def window_starts(data: Data, domain: str, counter: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Offset of the counter-th window of a domain: every window once per epoch, in an order fixed by the seed."""
    blocks = data.lengths[domain] // tf.CONTEXT - 1
    rng = np.random.default_rng([seed, len(domain)])
    stride = int(rng.integers(blocks // 3, blocks // 2))
    while np.gcd(stride, blocks) != 1:
        stride += 1
    return data.offsets[domain] + tf.CONTEXT * ((int(rng.integers(blocks)) + stride * counter) % blocks)


def mixed_starts(
    data: Data, model: Model, begin: int, steps: int, r: float, seed: int, target: str = "target"
) -> NDArray[np.int32]:
    """Window offsets (steps, batch) from step `begin` on, a share r of them from the source, spread evenly."""
    i = np.arange(begin * model.batch, (begin + steps) * model.batch, dtype=np.int64)
    from_source = np.floor((i + 1) * r + 1e-9) - np.floor(i * r + 1e-9) > 0
    count_source = np.floor(i * r + 1e-9).astype(np.int64)
    starts = np.where(
        from_source, window_starts(data, "source", count_source, seed), window_starts(data, target, i - count_source, seed)
    )
    return starts.reshape(steps, model.batch).astype(np.int32)


def advance(
    data: Data,
    model: Model,
    state: tf.State,
    begin: int,
    rates: NDArray[np.float32],
    r: float,
    seed: int,
    target: str = "target",
) -> tuple[tf.State, NDArray[np.float32]]:
    """Take len(rates) steps starting at step `begin`, in calls of at most CHUNK steps; return the state and each step's loss."""
    batch = []
    for at in range(0, rates.size, CHUNK):
        steps = min(CHUNK, rates.size - at)
        starts = np.zeros((CHUNK, model.batch), np.int32)
        starts[:steps] = mixed_starts(data, model, begin + at, steps, r, seed, target)
        padded = np.zeros(CHUNK, np.float32)
        padded[:steps] = rates[at : at + steps]
        state, losses = tf.train(data.corpus, state, jnp.asarray(starts), jnp.asarray(padded), steps)
        batch.append(np.asarray(losses)[:steps])
    return state, np.concatenate(batch)


def losses(data: Data, state: tf.State, shift: str) -> dict[str, float]:
    """Validation losses in nats per byte, {"source": …, "target": …}, the target being the corpus of the shift."""
    corpora_of = {"source": "source", "target": SHIFTS[shift]}
    return {domain: float(tf.validate(state.weights, data.validation[corpus])) for domain, corpus in corpora_of.items()}


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
            state, _ = advance(data, model, state, at, trunk_rates(model, at, branch), 1.0, model.seed)
            at = branch
            rates = np.linspace(PEAK, DECAY_TO * PEAK, end - branch, dtype=np.float32)
            decayed, _ = advance(data, model, state, branch, rates, 1.0, model.seed)
            save_state(path, decayed)
            save_state(trunk_path, state)
        yield ptpp, load_state(path, state)


def base_rows(data: Data, model: Model, ptpp: int, state: tf.State, shift: str) -> list[dict[str, Any]]:
    name = f"{model.name}-p{ptpp}"
    row = {"run": name, "checkpoint": name, "seed": model.seed, "N": model.N, "width": model.width, "depth": model.depth}
    row |= {"ptpp": ptpp, "r": None, "step": 0, "D": 0, "lr": DECAY_TO * PEAK, "flops": 6 * model.N**2 * ptpp}
    return [row | {"domain": domain, "loss": loss} for domain, loss in losses(data, state, shift).items()]


def adaptation_rows(data: Data, model: Model, ptpp: int, state: tf.State, r: float, shift: str) -> list[dict[str, Any]]:
    """Adapt one checkpoint at one replay share; one row per domain and logged step."""
    name = f"{model.name}-p{ptpp}-r{r:g}" + suffix(shift)
    seed = zlib.crc32(name.encode())
    state, begin, rows = tf.fresh(state.weights), 0, []
    for atpp in ATPP:
        end = model.steps(atpp)
        rates = (ADAPT_RATE * np.minimum(1.0, (np.arange(begin, end) + 1) / ADAPT_WARMUP)).astype(np.float32)
        state, _ = advance(data, model, state, begin, rates, r, seed, SHIFTS[shift])
        begin = end
        D = end * model.batch * tf.CONTEXT
        row = {"run": name, "checkpoint": f"{model.name}-p{ptpp}", "seed": model.seed, "N": model.N, "width": model.width}
        row |= {"depth": model.depth, "ptpp": ptpp, "r": r, "step": end, "D": D, "lr": ADAPT_RATE, "flops": 6 * model.N * D}
        rows += [row | {"domain": domain, "loss": loss} for domain, loss in losses(data, state, shift).items()]
    return rows


def suffix(shift: str) -> str:
    return "" if shift == "headers" else f"-{shift}"


def generate(part: Part, data: Data) -> None:
    """Train whatever of a part of the grid is not in the cache, smallest model first."""
    for model in [Model(width, seed) for width in part.widths for seed in part.seeds]:
        wanted = {
            (ptpp, r): CACHE / f"rows-{model.name}-p{ptpp}-{'base' if r is None else f'r{r:g}'}{suffix(part.shift)}.json"
            for ptpp in part.stages
            for r in (None, *part.replay)
        }
        if all(path.exists() for path in wanted.values()):
            continue
        for ptpp, state in checkpoints(data, model, part.stages):
            for r in (None, *part.replay):
                path = wanted[ptpp, r]
                if path.exists():
                    continue
                start = time.perf_counter()
                if r is None:
                    rows = base_rows(data, model, ptpp, state, part.shift)
                else:
                    rows = adaptation_rows(data, model, ptpp, state, r, part.shift)
                write(path, json.dumps(rows))
                print(f"{path.stem}  {time.perf_counter() - start:.1f} s", flush=True)


def assemble(shift: str) -> int:
    """Collect every finished run of a shift into its table, in a fixed order, and return the number of rows."""
    paths = [path for path in CACHE.glob("rows-*.json") if path.stem.endswith("-docs") == (shift == "docs")]
    if not paths:
        return 0
    frame = pd.DataFrame([row for path in paths for row in json.loads(path.read_text())])
    frame = frame.sort_values(["N", "seed", "ptpp", "r", "D", "domain"], na_position="first")
    columns = ["run", "checkpoint", "seed", "N", "width", "depth", "ptpp", "r", "step", "D", "domain", "loss", "lr", "flops"]
    frame = frame[columns].assign(loss=frame["loss"].round(6), shift=shift)
    write(corpora.HERE / f"runs{suffix(shift)}.csv", frame.to_csv(index=False))
    return len(frame)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, nargs="+", choices=list(SIZES), help="only these widths")
    parser.add_argument("--ptpp", type=int, nargs="+", help="only these stages and those below them")
    parser.add_argument("--replay", type=float, nargs="+", help="only these replay shares")
    parser.add_argument("--seed", type=int, nargs="+", help="only these seeds")
    parser.add_argument("--shift", nargs="+", choices=list(SHIFTS), help="only these shifts")
    parser.add_argument("--assemble", action="store_true", help="only collect finished runs into the tables")
    arguments = parser.parse_args()
    if not arguments.assemble:
        data = read_data()
        for part in GRID:
            if arguments.shift is None or part.shift in arguments.shift:
                generate(narrowed(part, arguments), data)
    for shift in SHIFTS:
        print(f"runs{suffix(shift)}.csv: {assemble(shift)} rows")


def narrowed(part: Part, arguments: argparse.Namespace) -> Part:
    """Return the part of the grid given on the command line; lower stages stay, because the trajectory passes through them."""
    return Part(
        tuple(w for w in part.widths if arguments.width is None or w in arguments.width),
        tuple(s for s in part.seeds if arguments.seed is None or s in arguments.seed),
        tuple(p for p in part.stages if arguments.ptpp is None or p <= max(arguments.ptpp)),
        tuple(r for r in part.replay if arguments.replay is None or r in arguments.replay),
        part.shift,
    )


if __name__ == "__main__":
    main()
