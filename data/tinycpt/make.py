"""Train the models of a sweep (tinycpt unless told otherwise) and log their losses.

    python data/tinycpt/make.py                                                     # everything that is committed
    python data/tinycpt/make.py --sweep tinycpt2                                    # the same of the second sweep
    python data/tinycpt/make.py --width 24 --ptpp 15 --replay 0.25 --seed 0         # one run of it (and its checkpoint)
    python data/tinycpt/make.py --assemble                                          # collect what is finished

Every size is pre-trained once at a constant learning rate on the source domain. At each stage (PTPP) a branch decays the
rate to a tenth over the last 15% of the stage's tokens: that is the annealed checkpoint; the trunk continues without decay,
and its own state at the stage is the constant checkpoint, which tinycpt2 adapts too. Each checkpoint is adapted to the
target domain at several replay shares, at a constant rate after a short warm-up, with both validation losses logged along
the way. Finished pieces are kept in `.cache` under descriptive names, so an interrupted run continues where it stopped. The
committed tables are written anew when the whole grid is finished; the finished runs of a part of it are a table in `.cache`.
What the sweeps consist of is in `sweeps.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import corpora
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import transformer as tf
from numpy.typing import NDArray
from sweeps import SWEEPS, Part, Sweep

ATPP = np.geomspace(0.5, 20, 12).round(3)
STEPS_PER_TOKEN_PER_PARAMETER = 192  # the batch grows with N, so that ATPP 1 is about this many steps at every size
PEAK, WARMUP = 4e-3, 100
DECAY_SHARE, DECAY_TO = 0.15, 0.1
ADAPT_RATE = 2e-3
CHUNK = 2_000
WINDOWS_TOGETHER = 2_048  # windows of all runs that are trained at a time on an accelerator


class Data(NamedTuple):
    """All training corpora in one device array, where each starts and its length, and fixed validation windows."""

    corpus: jax.Array
    offsets: dict[str, int]
    lengths: dict[str, int]
    validation: dict[str, jax.Array]


class Model(NamedTuple):
    """One pre-training trajectory: an architecture and a seed."""

    width: int
    depth: int
    seed: int

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


class Base(NamedTuple):
    """A checkpoint: a model after some tokens per parameter, at the trunk's constant rate or after annealing it."""

    model: Model
    ptpp: int
    anneal: str

    @property
    def name(self) -> str:
        return f"{self.model.name}-p{self.ptpp}" + ("" if self.anneal == "annealed" else f"-{self.anneal}")

    @property
    def rate(self) -> float:
        """The learning rate it ends on."""
        return DECAY_TO * PEAK if self.anneal == "annealed" else PEAK


def read_data(sweep: Sweep) -> Data:
    texts = corpora.load(sweep)

    def windows(text: NDArray[np.uint8]) -> jax.Array:
        starts = np.linspace(0, text.size - tf.CONTEXT - 2, sweep.validation_windows).astype(np.int64)
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


def losses(data: Data, state: tf.State, target: str = "target") -> dict[str, float]:
    """Validation losses in nats per byte, {"source": …, "target": …}, the target being the corpus of that name."""
    corpora_of = {"source": "source", "target": target}
    return {domain: float(tf.validate(state.weights, data.validation[corpus])) for domain, corpus in corpora_of.items()}


def stacked(states: Sequence[tf.State]) -> tf.State:
    """Return states of one size as one, along a new first axis."""
    together: tf.State = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return together


def advance_together(
    data: Data,
    model: Model,
    states: tf.State,
    begin: int,
    rates: NDArray[np.float32],
    r: Sequence[float],
    seeds: Sequence[int],
    target: str,
) -> tf.State:
    """Do as `advance` does for several runs, each with its replay share and seed; a single one goes through `advance`."""
    if len(r) == 1:
        alone: tf.State = jax.tree.map(lambda leaf: leaf[0], states)
        return stacked([advance(data, model, alone, begin, rates, r[0], seeds[0], target)[0]])
    for at in range(0, rates.size, CHUNK):
        steps = min(CHUNK, rates.size - at)
        starts = np.zeros((len(r), CHUNK, model.batch), np.int32)
        for run, (share, seed) in enumerate(zip(r, seeds, strict=True)):
            starts[run, :steps] = mixed_starts(data, model, begin + at, steps, share, seed, target)
        padded = np.zeros((len(r), CHUNK), np.float32)
        padded[:, :steps] = rates[at : at + steps]
        states, _ = tf.train_together(data.corpus, states, jnp.asarray(starts), jnp.asarray(padded), steps)
    return states


def losses_together(data: Data, states: tf.State, target: str) -> list[dict[str, float]]:
    """Return the `losses` of each of several runs."""
    if states.updates.size == 1:
        return [losses(data, jax.tree.map(lambda leaf: leaf[0], states), target)]
    measured = {
        domain: np.asarray(tf.validate_together(states.weights, data.validation[corpus]))
        for domain, corpus in (("source", "source"), ("target", target))
    }
    return [{domain: float(of[run]) for domain, of in measured.items()} for run in range(states.updates.size)]


def save_state(path: Path, state: tf.State) -> None:
    """Write a state as `corpora.write` writes: a killed run leaves no half file."""
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


def checkpoints(data: Data, model: Model, part: Part, cache: Path) -> Iterable[tuple[Base, tf.State]]:
    """Yield every checkpoint of a part's stages, training what is not in the cache."""
    state = tf.fresh(tf.initialise(model.width, model.depth, model.seed))
    at = 0
    for ptpp in sorted(part.stages):
        end = model.steps(ptpp)
        branch = end - round(DECAY_SHARE * end)
        trunk_path = cache / f"trunk-{model.name}-p{ptpp}.npz"
        if trunk_path.exists():
            state = load_state(trunk_path, state)
        else:
            state, _ = advance(data, model, state, at, trunk_rates(model, at, branch), 1.0, model.seed)
            save_state(trunk_path, state)
        at, trunk = branch, state
        for base in [Base(model, ptpp, anneal) for anneal in part.anneals]:
            path = cache / f"checkpoint-{base.name}.npz"
            if not path.exists():
                rates = np.linspace(PEAK, base.rate, end - branch, dtype=np.float32)
                save_state(path, advance(data, model, trunk, branch, rates, 1.0, model.seed)[0])
            reached = load_state(path, trunk)
            yield base, reached
            if base.anneal == "constant":  # the trunk itself at the end of its stage: it goes on from here
                at, state = end, reached


class Run(NamedTuple):
    """One adaptation: a checkpoint with its weights, the replay share and the name of the run."""

    base: Base
    weights: tf.Weights
    r: float
    name: str


def head(base: Base) -> dict[str, Any]:
    """Return what all rows of a checkpoint have in common."""
    model = base.model
    row = {"checkpoint": base.name, "seed": model.seed, "N": model.N, "width": model.width, "depth": model.depth}
    return row | {"ptpp": base.ptpp, "anneal": base.anneal}


def base_rows(data: Data, base: Base, state: tf.State, target: str) -> list[dict[str, Any]]:
    row = head(base) | {"run": base.name, "r": None, "step": 0, "D": 0, "lr": base.rate}
    row |= {"flops": 6 * base.model.N**2 * base.ptpp}
    return [row | {"domain": domain, "loss": loss} for domain, loss in losses(data, state, target).items()]


def adaptation_rows(data: Data, runs: Sequence[Run], sweep: Sweep, target: str) -> dict[str, list[dict[str, Any]]]:
    """Adapt checkpoints of one size, together where there are several; {run: one row per domain and logged step}."""
    model, begin = runs[0].base.model, 0
    rows: dict[str, list[dict[str, Any]]] = {run.name: [] for run in runs}
    seeds = [zlib.crc32(run.name.encode()) for run in runs]
    state = stacked([tf.fresh(run.weights) for run in runs])
    for atpp in ATPP:
        end = model.steps(atpp)
        rates = (ADAPT_RATE * np.minimum(1.0, (np.arange(begin, end) + 1) / sweep.adaptation_warmup)).astype(np.float32)
        state = advance_together(data, model, state, begin, rates, [run.r for run in runs], seeds, target)
        begin = end
        D = end * model.batch * tf.CONTEXT
        for run, of_domain in zip(runs, losses_together(data, state, target), strict=True):
            row = head(run.base) | {"run": run.name, "r": run.r, "step": end, "D": D, "lr": ADAPT_RATE, "flops": 6 * model.N * D}
            rows[run.name] += [row | {"domain": domain, "loss": loss} for domain, loss in of_domain.items()]
    return rows


def models(sweep: Sweep, part: Part) -> list[Model]:
    return [Model(width, sweep.depths[width], seed) for width in part.widths for seed in part.seeds]


def pieces(sweep: Sweep, part: Part, model: Model) -> dict[tuple[Base, float | None], str]:
    """Return the name of every piece of a part's table for one model: the checkpoints (r None) and their runs."""
    bases = [Base(model, ptpp, anneal) for ptpp in part.stages for anneal in part.anneals]
    return {
        (base, r): f"{base.name}-{'base' if r is None else f'r{r:g}'}{sweep.suffix(part.shift)}"
        for base in bases
        for r in (None, *part.replay)
    }


def generate(sweep: Sweep, part: Part, data: Data) -> None:
    """Train whatever of a part of the grid is not in the cache, smallest model first."""
    target = sweep.shifts[part.shift]
    for model in models(sweep, part):
        names = pieces(sweep, part, model)
        paths = {key: sweep.cache / f"rows-{name}.json" for key, name in names.items()}
        if all(path.exists() for path in paths.values()):
            continue
        waiting: list[Run] = []
        for base, state in checkpoints(data, model, part, sweep.cache):
            if not paths[base, None].exists():
                corpora.write(paths[base, None], json.dumps(base_rows(data, base, state, target)))
            waiting += [Run(base, state.weights, r, names[base, r]) for r in part.replay if not paths[base, r].exists()]
        size = together(model)
        for group in (waiting[i : i + size] for i in range(0, len(waiting), size)):
            start = time.perf_counter()
            for name, rows in adaptation_rows(data, group, sweep, target).items():
                corpora.write(sweep.cache / f"rows-{name}.json", json.dumps(rows))
            print(f"{', '.join(run.name for run in group)}  {time.perf_counter() - start:.1f} s", flush=True)


def together(model: Model) -> int:
    """Return how many runs of a model to train at a time: one on a processor, on an accelerator what fills and fits it."""
    return 1 if jax.default_backend() == "cpu" else max(1, WINDOWS_TOGETHER // model.batch)


def assemble(sweep: Sweep, shift: str) -> str:
    """Collect every finished run of a shift into a table, in a fixed order, and return what was written, in words.

    Only a whole grid takes the place of the table in the sweep's folder; `Sweep.table` says where parts go.
    """
    parts = [part for part in sweep.grid if part.shift == shift]
    names = {name for part in parts for model in models(sweep, part) for name in pieces(sweep, part, model).values()}
    paths = [path for name in names if (path := sweep.cache / f"rows-{name}.json").exists()]
    if not paths:
        return f"{shift}: no run is finished"
    frame = pd.DataFrame([row for path in paths for row in json.loads(path.read_text())]).assign(shift=shift)
    columns = ["run", "checkpoint", "seed", "N", "width", "depth", "ptpp", "r", "step", "D", "domain", "loss", "lr", "flops"]
    columns += ["shift"] + ["anneal"] * any(len(part.anneals) > 1 for part in parts)
    order = [column for column in ("N", "seed", "ptpp", "anneal", "r", "D", "domain") if column in columns]
    frame = frame.sort_values(order, na_position="first")[columns]
    path = sweep.table(shift, whole=len(paths) == len(names))
    corpora.write(path, frame.assign(loss=frame["loss"].round(6)).to_csv(index=False))
    return f"{path.relative_to(sweep.folder)}: {len(frame)} rows, {len(paths)} of {len(names)} checkpoints and runs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", choices=list(SWEEPS), default="tinycpt", help="which sweep (default: tinycpt)")
    parser.add_argument("--width", type=int, nargs="+", help="only these widths")
    parser.add_argument("--ptpp", type=int, nargs="+", help="only these stages and those below them")
    parser.add_argument("--replay", type=float, nargs="+", help="only these replay shares")
    parser.add_argument("--seed", type=int, nargs="+", help="only these seeds")
    parser.add_argument("--shift", nargs="+", help="only these shifts")
    parser.add_argument("--assemble", action="store_true", help="only collect finished runs into tables")
    arguments = parser.parse_args()
    sweep = SWEEPS[arguments.sweep]
    if not arguments.assemble:
        data = read_data(sweep)
        for part in sweep.grid:
            if arguments.shift is None or part.shift in arguments.shift:
                generate(sweep, narrowed(part, arguments), data)
    for shift in sweep.shifts:
        print(assemble(sweep, shift))


def narrowed(part: Part, arguments: argparse.Namespace) -> Part:
    """Return the part of the grid given on the command line; lower stages stay, because the trajectory passes through them."""
    return part._replace(
        widths=tuple(w for w in part.widths if arguments.width is None or w in arguments.width),
        seeds=tuple(s for s in part.seeds if arguments.seed is None or s in arguments.seed),
        stages=tuple(p for p in part.stages if arguments.ptpp is None or p <= max(arguments.ptpp)),
        replay=tuple(r for r in part.replay if arguments.replay is None or r in arguments.replay),
    )


if __name__ == "__main__":
    main()
