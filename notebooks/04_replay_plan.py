# %% [markdown]
# # 4. A replay plan
#
# You adapt a checkpoint to a new domain. The target loss shall get under a value, the source may be forgotten by so much and no
# more. How many tokens, and what share of replay? The losses are **measured**, on the domain of the adaptation (`target.csv`) and
# on that of the pre-training (`source.csv`); see [notebook 1](01_losses_to_forecast.ipynb).

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
# ## The question
#
# The largest model after the longest pre-training, of which the fits know nothing. Two promises that bind each other: more tokens
# lower the target loss, more replay saves the source and slows the target. Only replay shares that were measured there are
# allowed, so that the answer can be held against measured losses below.
#
# `on` has to be said: `"run"` promises what the next run will log, `"latent"` the laws' expected losses.

# %%
model = {"N": 196608, "ptpp": 279}
shares = [0.05, 0.1, 0.25, 0.5]
plan = bayeslaw.plan(source, target, model, on="run", max_forgetting="15%", max_loss=1.4, confidence=0.9, replay=shares)
print("\n".join(plan.lines()))
for note in plan.notes:
    print("note:", note)

# %% [markdown]
# *Kept in … of the held-out draws*: half of the posterior's draws is searched, the other half says how often the plan keeps both
# promises. *Without uncertainty* is what you would do if the fitted curves were the truth.
#
# What other confidences would cost, and which promise stands in the way:

# %%
plan.frontier[["confidence", "plan", "tokens", "atpp", "r", "held_out", "held_out_se", "active"]].round(3)

# %%
plan.losses.round(3)

# %% [markdown]
# Over all replay shares: lines of equal probability of keeping both promises, above the median forgetting and the median target
# loss. The star is the plan, the diamond the plan without uncertainty.

# %%
free = bayeslaw.plan(source, target, model, on="run", max_forgetting="15%", max_loss=1.4, confidence=0.9)
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for ax, of in zip(axes, free.landscapes, strict=True):
    bayeslaw.plots.plot_plan(free, ax, of=of)
print(f"any share allowed: {free.best.tokens:.3g} tokens at r = {free.best.replay:.2f}" if free.best else "infeasible")

# %% [markdown]
# ## What the runs really logged
#
# The measured curves of this model at the plans' replay shares, at the plans' tokens (between logged points, straight in log D):


# %%
def logged(table: bayeslaw.Runs, replay: float, tokens: float) -> float:
    """The measured loss of the largest model at PTPP 279."""
    curve = table.where("N == 196608 and ptpp == 279 and D > 0").frame.query("r == @replay").sort_values("D")
    return float(np.interp(np.log(tokens), np.log(curve["D"]), curve["loss"]))


base = float(source_runs.where("N == 196608 and ptpp == 279 and D == 0").frame["loss"].iloc[0])
rows: dict[str, dict[str, Any]] = {}
for name, choice in (("plan at 90%", plan.best), ("without uncertainty", plan.deterministic)):
    if choice is not None:
        loss, rise = logged(target_runs, choice.replay, choice.tokens), logged(source_runs, choice.replay, choice.tokens) / base - 1
        rows[name] = {"tokens": choice.tokens, "r": choice.replay, "target loss": loss, "at most 1.4": loss <= 1.4}
        rows[name] |= {"forgetting": rise, "at most 15%": rise <= 0.15}
print(f"measured base loss of the source: {base:.3f} nats/token")
pd.DataFrame(rows).T

# %% [markdown]
# Here both kept their promises, the plan without uncertainty by a hair: one run tells little about a probability. How often such
# plans keep what they promise, on simulated truths and on measured losses, is in `benchmarks/results/plans.md` and
# `plan_cases.md`, with a case where they keep less than they promise.
#
# ## The other way round
#
# Tokens are limited. What target loss can be promised with them?

# %%
asked = []
limits: dict[str, Any] = {"on": "run", "max_forgetting": "15%", "replay": shares}
for most in (5e5, 1e6, 2e6):
    one = bayeslaw.plan(source, target, model, max_tokens=most, minimise="target-loss", **limits)
    found = (one.best.tokens, one.best.replay, one.best.value) if one.best else (None, None, None)
    asked.append((most, *found))
pd.DataFrame(asked, columns=["at most tokens", "tokens", "replay", "promised target loss"]).round(3)

# %% [markdown]
# Which runs would make the promises surer: `plan.anchors(candidates, budget=…)`, as in [notebook 3](03_which_runs_to_buy.ipynb).
# Prices, stages with frozen parts, other things to minimise: `help(bayeslaw.plan)`.
#
# Next: [learning-rate schedules](05_dynamics.ipynb). More: [how-to](../docs/howto/replay-plan.md).
