"""Runs of Hugging Face's Trainer, tiny models of bytes on a processor, and forecasts inside some of them.

    python benchmarks/watching_trainer.py --curves    # trains `SEEN`, writes data/trainer/curves.csv; needs bayeslaw[trainer]
    python benchmarks/watching_trainer.py             # prints benchmarks/results/watching_trainer.md

A training is a small GPT-2, its text (files of Python's standard library), batch and peak rate. It has three short runs
(`EARLIER`) and four longer ones (`WATCHED`). Curves of `SEEN` are kept: what laws err by is learnt from them too
(`watching.py`).

The report is of a training of its own (`NEW`), on which nothing was chosen: the law `annealing` is fitted to its short runs from
step `BEGIN` on, with the memory that forecasts these runs best when they are left out. Then each longer run is trained with the
callback, which forecasts the final loss at every evaluation. Scored are forecasts from a third of the run on: the 90% interval
of the last logged loss. Times are those of the callback, while the model trains.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from tables import PACKAGES, banner, markdown_table

import bayeslaw
from bayeslaw.core.files import write_text
from bayeslaw.data.curves import read_curves
from bayeslaw.dynamics.callbacks import RunForecasts, trainer_callback
from bayeslaw.dynamics.memory import compare_memories
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import Schedule

EARLIER = (
    "constant:steps=700,peak={peak},warmup=40",
    "cosine:steps=700,peak={peak},final=0.1,warmup=40",
    "wsd:steps=700,peak={peak},decay=0.3,final=0.1,warmup=40",
)
WATCHED = (
    "cosine:steps=1400,peak={peak},final=0.1,warmup=40",
    "constant:steps=1400,peak={peak},warmup=40",
    "wsd:steps=1200,peak={peak},decay=0.2,final=0.1,warmup=40",
    "linear:steps=1000,peak={peak},final=0.1,warmup=40",
)
BEGIN, EVERY, BLOCK = 100, 25, 32
EVALUATED, MOST_BYTES = 256, 6_000_000  # blocks; of a text
CURVES = Path(__file__).parents[1] / "data" / "trainer" / "curves.csv"


@dataclass(frozen=True)
class Training:
    """A model and its text: a pattern of files of the standard library."""

    name: str
    text: str
    layers: int
    width: int
    batch: int
    peak: str

    def blocks(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Blocks of bytes to train on, and others to evaluate."""
        files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob(self.text))
        text = np.frombuffer(b"".join(path.read_bytes() for path in files)[:MOST_BYTES], dtype=np.uint8).astype(np.int64)
        blocks = text[: text.size // BLOCK * BLOCK].reshape(-1, BLOCK)
        blocks = blocks[np.random.default_rng(0).permutation(len(blocks))]
        rows = [{"input_ids": block, "labels": block} for block in blocks]
        return rows[EVALUATED:], rows[:EVALUATED]


SEEN = (Training("code", "*.py", 1, 48, 16, "2e-3"), Training("prose", "pydoc_data/topics.py", 2, 32, 16, "6e-4"))
NEW = Training("packages", "[a-o]*/*.py", 1, 64, 32, "4e-3")


def train(training: Training, schedule: Schedule, seed: int, callbacks: list[Any]) -> pd.DataFrame:
    """Train under a schedule, and return the logged losses and rates."""
    transformers.set_seed(seed)
    train_on, evaluate_on = training.blocks()
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=BLOCK, n_embd=training.width, n_layer=training.layers, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.0)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(schedule.rates[min(step, len(schedule) - 1)]))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=len(schedule), per_device_train_batch_size=training.batch, per_device_eval_batch_size=64, seed=seed,
            eval_strategy="steps", eval_steps=EVERY, logging_steps=EVERY, save_strategy="no", report_to=[], use_cpu=True,
            disable_tqdm=True,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, arguments, train_dataset=train_on, eval_dataset=evaluate_on, optimizers=(optimizer, rates), callbacks=callbacks
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        history = trainer.state.log_history
    rows = [{"step": row["step"], "loss": row["eval_loss"]} for row in history if "eval_loss" in row]
    return pd.DataFrame(rows).assign(lr=lambda t: schedule.rates[t["step"] - 1])


def curves(training: Training, schedules: tuple[str, ...], seed: int) -> pd.DataFrame:
    """Train under schedules, each with a seed of its own, and return the logged losses and rates."""
    parts = []
    for number, form in enumerate(schedules, start=seed):
        text = form.format(peak=training.peak)
        part = train(training, bayeslaw.data.parse_schedule(text), number, [])
        parts.append(part.assign(training=training.name, run=f"{text.partition(':')[0]}-{number}", schedule=text))
        print(training.name, text, float(part["loss"].iloc[-1]), file=sys.stderr, flush=True)
    return pd.concat(parts, ignore_index=True)[["training", "run", "schedule", "step", "lr", "loss"]]


def write_curves() -> None:
    """Train the runs of `SEEN` that the file does not have yet, and write it after each."""
    parts = [pd.read_csv(CURVES)] if CURVES.exists() else []
    known = {(t, r) for part in parts for t, r in part[["training", "run"]].drop_duplicates().itertuples(index=False)}
    for training in SEEN:
        for seed, form in [*enumerate(EARLIER), *enumerate(WATCHED, start=10)]:
            if (training.name, f"{form.partition(':')[0]}-{seed}") not in known:
                parts.append(curves(training, (form,), seed).round({"loss": 6}))
                write_text(CURVES, pd.concat(parts).to_csv(index=False))


class Timed(RunForecasts):
    """Forecasts that keep what was stated, and the seconds that each took."""

    def __init__(self, fit: Fit, schedule: Schedule, memory: float) -> None:
        super().__init__(fit, schedule, memory=memory, refit="background")
        self.stated: list[dict[str, Any]] = []

    def add(self, step: int, loss: float) -> dict[str, float]:
        """Forecast, and keep the forecast."""
        start = time.perf_counter()
        numbers = super().add(step, loss)
        if numbers:
            assert self.watched is not None
            self.stated.append({"step": step, "seconds": time.perf_counter() - start, "left": self.watched.left, **numbers})
        return numbers


def watched(fit: Fit, memory: float, form: str, seed: int) -> dict[str, Any]:
    """Train one run of `NEW` with the callback, and score its forecasts."""
    text = form.format(peak=NEW.peak)
    schedule = bayeslaw.data.parse_schedule(text)
    forecasts, start = Timed(fit, schedule, memory), time.perf_counter()
    history = train(NEW, schedule, seed, [trainer_callback(forecasts)])
    minutes, final = (time.perf_counter() - start) / 60, float(history["loss"].iloc[-1])
    stated = pd.DataFrame(forecasts.stated)
    times = stated["seconds"].iloc[1:]  # the first has the checks of the fit too
    asked = stated[stated["step"] >= len(schedule) / 3]
    low, high = asked["forecast/final_eti90_lb"], asked["forecast/final_eti90_ub"]
    inside = (low <= final) & (final <= high)
    return {
        "run": text, "minutes": f"{minutes:.1f}", "asked": len(asked), "inside": int(inside.sum()),
        "inside eti90": f"{inside.mean():.0%}", "error": f"{(asked['forecast/final'] - final).abs().mean():.4f}",
        "width": f"{(high - low).mean():.4f}", "weights reliable": f"{asked['forecast/reliable'].mean():.0%}",
        "refits": forecasts.follower.refits, "left its band by": stated["left"].iloc[-1] or "", "median s": f"{times.median():.2f}",
        "max s": f"{times.max():.2f}",
    }  # fmt: skip


def report() -> None:
    """Train the runs of `NEW`, and print the scores of the forecasts inside the longer ones."""
    print(
        "# Forecasts inside runs of Hugging Face's Trainer\n\n"
        + banner("watching_trainer", (*PACKAGES, "torch", "transformers"))
        + "\n"
    )
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n", flush=True)
    earlier = curves(NEW, EARLIER, 0)[["run", "step", "lr", "loss"]]
    # No rate before the first evaluation is in the log: the warm-up is stated.
    memory = float(compare_memories(earlier, "annealing", where=f"step >= {BEGIN}", warmup=EVERY)["memory"].iloc[0])
    rows = read_curves(earlier, memory=memory, warmup=EVERY).runs().frame
    fit = bayeslaw.fit("annealing", rows[rows["step"] >= BEGIN], noise="normal-drift", progress=False)
    verdicts = f"checks {'passed' if fit.passed else 'FAILED'}, model {'has concerns' if fit.concerns else 'without concerns'}"
    print(f"Fit: memory {memory:g}, {verdicts}.\n", flush=True)
    scores = []
    for seed, form in enumerate(WATCHED, start=10):
        scores.append(watched(fit, memory, form, seed))
        print(scores[-1], file=sys.stderr, flush=True)
    inside, asked = (sum(row[k] for row in scores) for k in ("inside", "asked"))
    print(markdown_table(scores))
    print(f"\nAll: {inside} of {asked} inside, {inside / asked:.0%}.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs of Hugging Face's Trainer, and forecasts inside them.")
    parser.add_argument("--curves", action="store_true", help="train the runs whose curves are kept, and write them")
    if parser.parse_args().curves:
        write_curves()
    else:
        report()


if __name__ == "__main__":
    main()
