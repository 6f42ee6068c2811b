# %% [markdown]
# # 4. A replay plan
#
# You adapt a checkpoint to a new domain. The target loss must fall below a value, and the source loss may rise by a given
# percentage only. How many tokens and what share of replay do you need? The losses are **measured**, on the domain of the
# adaptation (`target.csv`) and on that of the pre-training (`source.csv`); see [notebook 1](01_losses_to_forecast.ipynb).

# %%
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayeslaw
from bayeslaw.cli.demo import write_tables

tables = write_tables(Path("tinycpt"))
target_runs, source_runs = (bayeslaw.read_runs(tables[name]) for name in ("target", "source"))
target = bayeslaw.fit("transfer-target", target_runs.where("ptpp <= 31"), progress=False)
source = bayeslaw.fit("transfer-source", source_runs.where("ptpp <= 31"), progress=False)
print("target", "passed" if target.passed else target.failures)
print("source", "passed" if source.passed else source.failures)

# %% [markdown]
# ## The problem
#
# The plan is for the largest model after the longest pre-training, which the fits have not seen. The two constraints work
# against each other: more tokens lower the target loss, and more replay preserves the source loss but slows the target down.
# Only replay shares that were measured are allowed, so that the plan can be compared with measured losses below.
#
# `on` is required: with `"run"` the constraints are on the losses that the next run will log, with `"latent"` on the expected
# losses of the laws.

# %%
model = {"N": 196608, "ptpp": 279}
shares = [0.05, 0.1, 0.25, 0.5]
plan = bayeslaw.plan(source, target, model, on="run", max_forgetting="15%", max_loss=1.4, confidence=0.9, replay=shares)
print("\n".join(plan.lines()))
for note in plan.notes:
    print("note:", note)

# %% [markdown]
# The search uses half of the posterior draws. The other, held-out half gives the probability that the plan satisfies both
# constraints. The deterministic plan is the one you would choose if the fitted curves were the truth.
#
# The first table shows what other confidences cost, and which constraint is active at each; the second has the losses that the
# plan leads to:

# %%
plan.frontier[["confidence", "plan", "tokens", "atpp", "r", "held_out", "held_out_se", "active"]].round(3)

# %%
plan.losses.round(3)

# %% [markdown]
# The pictures cover all replay shares. The contours show the probability that both constraints hold, and the colours the median
# forgetting and the median target loss. The star is the plan, and the diamond the deterministic plan.

# %%
free = bayeslaw.plan(source, target, model, on="run", max_forgetting="15%", max_loss=1.4, confidence=0.9)
figure, axes = plt.subplots(2, 1, figsize=(6.4, 8.4), layout="constrained")
for ax, of in zip(axes, free.landscapes, strict=True):
    bayeslaw.plots.plot_plan(free, ax, of=of)
print(f"any share allowed: {free.best.tokens:.3g} tokens at r = {free.best.replay:.2f}" if free.best else "infeasible")

# %% [markdown]
# ## The measured losses
#
# These are the measured losses of this model at the replay shares and tokens of the plans, interpolated linearly in log D
# between logged points:


# %%
def logged(table: bayeslaw.Runs, replay: float, tokens: float) -> float:
    """The measured loss of the largest model at PTPP 279."""
    curve = table.where("N == 196608 and ptpp == 279 and D > 0").frame.query("r == @replay").sort_values("D")
    return float(np.interp(np.log(tokens), np.log(curve["D"]), curve["loss"]))


base = float(source_runs.where("N == 196608 and ptpp == 279 and D == 0").frame["loss"].iloc[0])
rows: dict[str, dict[str, Any]] = {}
for name, choice in (("plan at 90%", plan.best), ("deterministic plan", plan.deterministic)):
    if choice is not None:
        loss, rise = logged(target_runs, choice.replay, choice.tokens), logged(source_runs, choice.replay, choice.tokens) / base - 1
        rows[name] = {"tokens": choice.tokens, "r": choice.replay, "target loss": loss, "at most 1.4": loss <= 1.4}
        rows[name] |= {"forgetting": rise, "at most 15%": rise <= 0.15}
print(f"measured base loss of the source: {base:.3f} nats/token")
pd.DataFrame(rows).T

# %% [markdown]
# Here both plans satisfied the constraints, the deterministic plan only just. One run says little about a probability.
# `benchmarks/results/plans.md` and `plan_cases.md` report how often such plans satisfy their constraints on simulated truths
# and on measured losses, with a case where they do so less often than planned.
#
# ## Limited tokens
#
# Which target loss is reached with 90% probability if the tokens are limited?

# %%
results = []
limits: dict[str, Any] = {"on": "run", "max_forgetting": "15%", "replay": shares}
for most in (5e5, 1e6, 2e6):
    limited = bayeslaw.plan(source, target, model, max_tokens=most, minimise="target-loss", **limits)
    values = (limited.best.tokens, limited.best.replay, limited.best.value) if limited.best else (None, None, None)
    results.append((most, *values))
pd.DataFrame(results, columns=["at most tokens", "tokens", "replay", "target loss at 90%"]).round(3)

# %% [markdown]
# To find the runs that would make the plan more certain, use `plan.anchors(candidates, budget=…)`, as in [notebook
# 3](03_which_runs_to_buy.ipynb). `help(bayeslaw.plan)` explains prices, frozen stages and other quantities to minimise.
#
# Next: [learning-rate schedules](05_dynamics.ipynb). More: [how-to](../docs/howto/replay-plan.md).
