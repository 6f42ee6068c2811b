"""Whole training curves under several learning-rate schedules, in both phases, at one size.

    python data/tinycpt/curves.py

Pre-training on the source domain under a constant, a cosine and a WSD schedule; from the end of each, and from two
earlier points of the constant one, adaptation to the C++ headers under schedules that keep, re-warm or anneal the rate.
The loss of every step's batch is logged, and both validation losses often. Finished curves are kept in `.cache`;
`curves.csv` contains complete curves only.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import corpora
import make
import numpy as np
import pandas as pd
import transformer as tf
from make import ADAPT_RATE, DECAY_TO, PEAK, WARMUP, Data, Model
from numpy.typing import NDArray
from sweeps import TINYCPT

CACHE, ADAPT_WARMUP = TINYCPT.cache, TINYCPT.adaptation_warmup
MODEL = Model(40, TINYCPT.depths[40], 0)
PRETRAIN, ADAPT = 31, 10  # tokens per parameter
DECAY = 0.2  # share of a WSD schedule's steps
BETWEEN = 96  # steps between two validations
EARLY = (0, 5, 10, 20, 40, 64)  # early steps that are also validated

Rates = NDArray[np.float64]


def constant(steps: int, peak: float, warm_up: int) -> Rates:
    rates: Rates = peak * np.minimum(1.0, (np.arange(steps) + 1) / warm_up)
    return rates


def cosine(steps: int, peak: float, warm_up: int) -> Rates:
    along = np.clip((np.arange(steps) + 1 - warm_up) / (steps - warm_up), 0, 1)
    fall = DECAY_TO + (1 - DECAY_TO) * (1 + np.cos(np.pi * along)) / 2
    rates: Rates = constant(steps, peak, warm_up) * fall
    return rates


def wsd(steps: int, peak: float, warm_up: int) -> Rates:
    along = np.clip((np.arange(steps) + 1 - (1 - DECAY) * steps) / (DECAY * steps), 0, 1)
    rates: Rates = constant(steps, peak, warm_up) * (1 - (1 - DECAY_TO) * along)
    return rates


class Schedule(NamedTuple):
    """A shape, its peak rate and its steps of warm-up."""

    shape: Callable[[int, float, int], Rates]
    peak: float
    warm_up: int


PRETRAINING = {name: Schedule(shape, PEAK, WARMUP) for name, shape in (("constant", constant), ("cosine", cosine), ("wsd", wsd))}
ADAPTATION = {
    "constant": Schedule(constant, ADAPT_RATE, ADAPT_WARMUP),
    "kept": Schedule(constant, DECAY_TO * PEAK, 1),  # the rate an annealed checkpoint ended on
    "rewarmed-cosine": Schedule(cosine, PEAK, WARMUP),
    "wsd": Schedule(wsd, ADAPT_RATE, ADAPT_WARMUP),
}


class Curve(NamedTuple):
    """One phase of training: its schedule, the tokens per parameter before it, its mixture, and the run and step it continues."""

    run: str
    phase: str
    schedule: str
    rates: Rates
    ptpp: float
    r: float
    parent: str | None = None
    parent_step: int | None = None


def pretraining(name: str) -> Curve:
    """Return the pre-training under a schedule."""
    schedule = PRETRAINING[name]
    return Curve(
        f"pretrain-{name}", "pretrain", name, schedule.shape(MODEL.steps(PRETRAIN), schedule.peak, schedule.warm_up), 0, 1.0
    )


def adaptations(name: str) -> list[Curve]:
    """Return the adaptations of a pre-training: every schedule from its end; for the constant one also two earlier points."""
    branches = []
    for ptpp in (8, 16, PRETRAIN) if name == "constant" else (PRETRAIN,):
        for other, schedule in ADAPTATION.items():
            if ptpp < PRETRAIN and other != "constant":
                continue
            for r in (0.0, 0.5) if (name, other, ptpp) == ("constant", "constant", PRETRAIN) else (0.0,):
                rates = schedule.shape(MODEL.steps(ADAPT), schedule.peak, schedule.warm_up)
                run = f"{name}-p{ptpp}-{other}-r{r:g}"
                branches.append(Curve(run, "adapt", other, rates, ptpp, r, f"pretrain-{name}", MODEL.steps(ptpp)))
    return branches


def follow(data: Data, curve: Curve, state: tf.State, keep: tuple[int, ...]) -> tuple[dict[int, tf.State], pd.DataFrame]:
    """Train along a curve; return the states after the steps in `keep`, and one row a step."""
    total = curve.rates.size
    stops = sorted({*EARLY, *range(0, total, BETWEEN), total, *keep})
    seed = MODEL.seed if curve.phase == "pretrain" else zlib.crc32(curve.run.encode())
    rates = curve.rates.astype(np.float32)
    kept, rows, batch = {}, [], [np.array([np.nan])]  # before the first step there is no batch
    for begin, end in zip(stops, [*stops[1:], total], strict=True):
        rows.append({"step": begin, **{f"{k}_loss": v for k, v in make.losses(data, state).items()}})
        if begin in keep:
            kept[begin] = state
        if end > begin:
            state, losses = make.advance(data, MODEL, state, begin, rates[begin:end], curve.r, seed)
            batch.append(losses)
    frame = pd.DataFrame({"step": np.arange(total + 1), "lr": [np.nan, *curve.rates], "train_loss": np.concatenate(batch)})
    frame = frame.merge(pd.DataFrame(rows), on="step", how="left")
    frame.insert(1, "D", frame["step"] * MODEL.batch * tf.CONTEXT)
    head: dict[str, Any] = {
        "run": curve.run,
        "phase": curve.phase,
        "schedule": curve.schedule,
        "N": MODEL.N,
        "ptpp": curve.ptpp,
        "r": curve.r,
    }
    return kept, frame.assign(**head)[[*head, *frame.columns]]


def cached(data: Data, curve: Curve, state: tf.State, keep: tuple[int, ...] = ()) -> dict[int, tf.State]:
    """Train along a curve unless that was done before; return the states after the steps in `keep`."""
    paths = {step: CACHE / f"curve-state-{curve.run}-{step}.npz" for step in keep}
    table = CACHE / f"curve-{curve.run}.json"
    if not table.exists() or not all(path.exists() for path in paths.values()):
        kept, frame = follow(data, curve, state, keep)
        for step, path in paths.items():
            make.save_state(path, kept[step])
        corpora.write(table, json.dumps(frame.to_dict("list")))
        print(f"{curve.run}: {len(frame)} rows", flush=True)
    return {step: make.load_state(path, state) for step, path in paths.items()}


def generate() -> None:
    data = make.read_data(TINYCPT)
    for name in PRETRAINING:
        branches = adaptations(name)
        keep = tuple(sorted({branch.parent_step for branch in branches if branch.parent_step is not None}))
        states = cached(data, pretraining(name), tf.fresh(tf.initialise(MODEL.width, MODEL.depth, MODEL.seed)), keep)
        for branch in branches:
            if branch.parent_step is not None:
                cached(data, branch, tf.fresh(states[branch.parent_step].weights))


def assemble() -> int:
    """Collect every finished curve into curves.csv and return the number of rows."""
    paths: list[Any] = sorted(CACHE.glob("curve-*.json"))
    frame = pd.concat([pd.DataFrame(json.loads(path.read_text())) for path in paths], ignore_index=True)
    branches = {branch.run: branch for name in PRETRAINING for branch in adaptations(name)}
    known = frame["run"].map(branches)  # missing for pre-training
    frame.insert(2, "parent", known.map(lambda branch: branch.parent, na_action="ignore"))
    frame.insert(3, "parent_step", known.map(lambda branch: branch.parent_step, na_action="ignore").astype("Int64"))
    frame = frame.assign(lr=frame["lr"].map("{:.6g}".format).replace("nan", ""))
    rounded = frame.round(dict.fromkeys(("train_loss", "source_loss", "target_loss"), 4))
    corpora.write(TINYCPT.folder / "curves.csv", rounded.to_csv(index=False))
    return len(frame)


if __name__ == "__main__":
    generate()
    print(f"curves.csv: {assemble()} rows")
