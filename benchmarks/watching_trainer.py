"""Forecasts inside real runs of Hugging Face's Trainer: a tiny model of bytes, trained on a processor.

    python benchmarks/watching_trainer.py      # prints benchmarks/results/watching_trainer.md; needs torch and bayeslaw[trainer]

A GPT-2 of one layer is trained on the source text of Python's standard library, first under three short schedules (`EARLIER`).
The law `annealing` is fitted to their validation losses from step `BEGIN` on. Then each of `WATCHED` is trained with the callback,
which forecasts the final loss at every evaluation, with refits in the background. Scored are forecasts from a third of the run on:
the 90% interval of the last logged loss. No choice was made on these runs. Times are those of the callback, while the model trains.
"""

from __future__ import annotations

import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from tables import PACKAGES, banner, markdown_table

import bayeslaw
from bayeslaw.data.curves import read_curves
from bayeslaw.dynamics.callbacks import RunForecasts, trainer_callback
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import Schedule

EARLIER = (
    "constant:steps=700,peak=2e-3,warmup=40",
    "cosine:steps=700,peak=2e-3,final=0.1,warmup=40",
    "wsd:steps=700,peak=2e-3,decay=0.3,final=0.1,warmup=40",
)
WATCHED = (
    "cosine:steps=1400,peak=2e-3,final=0.1,warmup=40",
    "constant:steps=1400,peak=2e-3,warmup=40",
    "wsd:steps=1200,peak=2e-3,decay=0.2,final=0.1,warmup=40",
    "linear:steps=1000,peak=2e-3,final=0.1,warmup=40",
)
BEGIN, EVERY, BLOCK, BATCH = 100, 25, 32, 16
EVALUATED = 256  # blocks


def data() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Blocks of bytes to train on, and others to evaluate."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = np.frombuffer(b"".join(path.read_bytes() for path in files), dtype=np.uint8).astype(np.int64)
    blocks = text[: text.size // BLOCK * BLOCK].reshape(-1, BLOCK)
    blocks = blocks[np.random.default_rng(0).permutation(len(blocks))]
    rows = [{"input_ids": block, "labels": block} for block in blocks]
    return rows[EVALUATED:], rows[:EVALUATED]


def train(schedule: Schedule, seed: int, callbacks: list[Any]) -> pd.DataFrame:
    """Train under a schedule, and return the logged losses and rates."""
    transformers.set_seed(seed)
    train_on, evaluate_on = data()
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=BLOCK, n_embd=48, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.0)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(schedule.rates[min(step, len(schedule) - 1)]))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=len(schedule), per_device_train_batch_size=BATCH, per_device_eval_batch_size=64, seed=seed,
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


class Timed(RunForecasts):
    """Forecasts that keep what was stated, and the seconds that each took."""

    def __init__(self, fit: Fit, schedule: Schedule) -> None:
        super().__init__(fit, schedule, refit="background")
        self.stated: list[dict[str, Any]] = []

    def add(self, step: int, loss: float) -> dict[str, float]:
        """Forecast, and keep the forecast."""
        start = time.perf_counter()
        numbers = super().add(step, loss)
        if numbers:
            assert self.watched is not None
            self.stated.append({"step": step, "seconds": time.perf_counter() - start, "left": self.watched.left, **numbers})
        return numbers


def main() -> None:
    print(
        "# Forecasts inside runs of Hugging Face's Trainer\n\n"
        + banner("watching_trainer", (*PACKAGES, "torch", "transformers"))
        + "\n"
    )
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n", flush=True)
    parts = []
    for seed, text in enumerate(EARLIER):
        parts.append(train(bayeslaw.data.parse_schedule(text), seed, []).assign(run=text.partition(":")[0]))
        print(text, float(parts[-1]["loss"].iloc[-1]), file=sys.stderr, flush=True)
    # No rate before the first evaluation is in the log: the warm-up is stated.
    rows = read_curves(pd.concat(parts, ignore_index=True), warmup=EVERY).runs().frame
    fit = bayeslaw.fit("annealing", rows[rows["step"] >= BEGIN], noise="normal-drift", progress=False)
    scores = []
    for seed, text in enumerate(WATCHED, start=10):
        schedule = bayeslaw.data.parse_schedule(text)
        forecasts, start = Timed(fit, schedule), time.perf_counter()
        history = train(schedule, seed, [trainer_callback(forecasts)])
        minutes, final = (time.perf_counter() - start) / 60, float(history["loss"].iloc[-1])
        stated = pd.DataFrame(forecasts.stated)
        times = stated["seconds"].iloc[1:]  # the first has the checks of the fit too
        asked = stated[stated["step"] >= len(schedule) / 3]
        inside = (asked["forecast/final_eti90_lb"] <= final) & (final <= asked["forecast/final_eti90_ub"])
        width = asked["forecast/final_eti90_ub"] - asked["forecast/final_eti90_lb"]
        scores.append({
            "run": text, "minutes": f"{minutes:.1f}", "asked": len(asked), "inside eti90": f"{inside.mean():.0%}",
            "error": f"{(asked['forecast/final'] - final).abs().mean():.4f}", "width": f"{width.mean():.4f}",
            "weights reliable": f"{asked['forecast/reliable'].mean():.0%}", "refits": forecasts.follower.refits,
            "left its band by": stated["left"].iloc[-1] or "", "median s": f"{times.median():.2f}", "max s": f"{times.max():.2f}",
        })  # fmt: skip
        print(scores[-1], file=sys.stderr, flush=True)
    print(f"Fit: checks {'passed' if fit.passed else 'FAILED'}, model {'has concerns' if fit.concerns else 'without concerns'}.\n")
    print(markdown_table(scores))


if __name__ == "__main__":
    main()
