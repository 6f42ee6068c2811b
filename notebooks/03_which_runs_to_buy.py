# %% [markdown]
# # 3. Which runs to buy
#
# You can afford some more small runs. Which of them reduce the uncertainty of the loss that you care about most? All losses
# here are **measured**, those of [notebook 1](01_losses_to_forecast.ipynb). So the chosen runs can be "bought" from the table,
# and the result can be compared with the measured losses of the large runs.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import bayeslaw
from bayeslaw.cli.demo import write_tables

tables = write_tables(Path("tinycpt"))
runs = bayeslaw.read_runs(tables["target"])
fit = bayeslaw.fit("transfer-target", runs.where("ptpp <= 31"), progress=False)
print("passed" if fit.passed else fit.failures)

# %% [markdown]
# ## Targets and candidates
#
# The target is the loss of the largest model at the longest pre-training, after 10 tokens of adaptation per parameter. The
# candidates are runs of the three smaller sizes at pre-trainings of 62, 124 and 279 tokens per parameter. The table of
# candidates has a row for each evaluation and no losses.

# %%
largest = runs.where("N == 196608 and ptpp == 279 and D > 0").frame
near = largest["D"].iloc[(largest["D"] - 10 * 196608).abs().argmin()]
wanted = pd.DataFrame({"N": 196608, "ptpp": 279, "r": [0.1, 0.25, 0.5], "D": near})

pool = runs.where("ptpp > 31 and N < 100000 and D > 0").frame
candidates = pool.drop(columns="loss")
print(f"{candidates['run'].nunique()} candidate runs of {candidates['checkpoint'].nunique()} checkpoints")
print(f"the large run would cost {6 * 196608 * near:.2g} FLOPs, its pre-training {6 * 196608**2 * 279:.2g}")

# %% [markdown]
# Runs cost 6 N D, unless `cost=` names a column. A checkpoint that has no run yet must be trained first and is paid for once.
# `discrepancy` is the relative error of the law that you expect at the target. The concerns about the fit say by how much it misses
# the fitted runs; a design that trusts a wrong law buys cheap runs that mislead it.

# %%
choice = bayeslaw.anchors(fit, candidates, wanted, budget=2e12, discrepancy="1%")
print(choice.text)
columns = ["run", "N", "r", "ptpp", "cost", "checkpoint_cost", "spent", "gain", choice.width_name, "informs", "worth"]
choice.picks[columns].round(4).assign(**{c: choice.picks[c].map("{:.2g}".format) for c in ("cost", "checkpoint_cost", "spent")})

# %% [markdown]
# The runs are in the order of purchase. `gain` is the share of the variance at the targets that a run removes, `informs` is by
# how much the sd of parameters narrows, and `worth` says whether this run and the later ones are worth their price. The run
# that pays for a checkpoint is judged with those that branch from it afterwards.

# %%
figure, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
ax = bayeslaw.plots.plot_anchors(choice, ax)

# %% [markdown]
# ## Update the fit with the new runs
#
# Their measured losses join the fit. First the new losses are compared with the predictions of the old fit.

# %%
new = pool[pool["run"].isin(choice.picks["run"])]
made = bayeslaw.update(fit, new, targets=wanted, progress=False)
print(made.text)

# %% [markdown]
# One of them differs: the law misses the *shape* of some curve there by more than its noise. That is worth knowing before more
# money is spent, because more runs of this kind don't fix it. State a discrepancy, or [compare laws](02_which_law.ipynb).
#
# The table has the intervals at the targets before and after the purchase, and the `ratio` of their widths. They are intervals of
# the loss that a run would log (`extrapolated`), with its noise, which no purchase removes, and with the error of laws beyond their
# runs. So they narrow less than the widths that `anchors` predicted.

# %%
made.widths.round(4) if made.widths is not None else None

# %% [markdown]
# ## Was it worth it?
#
# The fits before and after are scored on the measured losses of the largest model at PTPP 279, from 2 adaptation tokens per
# parameter on, together with a fit to a *random* choice of the same candidates for the same budget.

# %%
random = choice.rows(choice.random_designs(1)[0])["run"].unique()
other = bayeslaw.update(fit, pool[pool["run"].isin(random)], progress=False)
settled = largest[largest["D"] >= 2 * largest["N"]]
fits = {"before": fit, f"{new['run'].nunique()} chosen runs": made.fit, f"{len(random)} random runs": other.fit}
scores = pd.concat({name: bayeslaw.score(one, settled) for name, one in fits.items()}).droplevel(1)
scores[["rows", "mae_rel", "cover_eti90", "width_eti90", "crps"]].round(4)

# %% [markdown]
# One target and one random choice are an example, not a verdict: what chosen runs are worth on simulated truths and on measured
# pools, beside random and optimal designs, is in `benchmarks/results/anchors.md`, `purchases.md` and `pools.md`.
#
# Next: [a replay plan](04_replay_plan.ipynb). More: [how-to](../docs/howto/which-runs.md).
