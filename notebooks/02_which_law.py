# %% [markdown]
# # 2. Which law
#
# Every law describes the runs that it was fitted to. What counts is how it foretells others, and how sure it was of that. The
# losses are **measured**, those of [notebook 1](01_losses_to_forecast.ipynb), from 50,000 adaptation tokens on: published forms
# describe the settled part of a run and are infinite at its beginning.

# %%
from pathlib import Path

import matplotlib.pyplot as plt

import bayeslaw
from bayeslaw.cli.demo import write_tables

tables = write_tables(Path("tinycpt"))
runs = bayeslaw.read_runs(tables["target"], "D > 50000")
laws = ["transfer-target", "ptpp-gate-floor", "d-cpt"]
for name in laws:
    law = bayeslaw.load_law(name)
    print(f"{name:16} loss = {law.loss.text}   [{law.source}]")

# %% [markdown]
# `d-cpt` knows nothing of the pre-training's length; the other two do.
#
# ## Among runs that you have
#
# Left out one after the other (the default), by importance weights: which law foretells a run *between* the others?

# %%
figures = ["elpd", "elpd_diff", "dse", "weight", "k_max", "refits", "checks"]
within = bayeslaw.compare(runs.where("ptpp <= 31"), laws[1:], progress=False)
within.weights[figures].round(2)

# %% [markdown]
# `elpd` is the log density of the left-out runs, larger is better; `dse` is the standard error of the difference. Two laws whose
# difference is no larger than its error can't be told apart by these runs.
#
# ## Out there
#
# Leave out what resembles your question. Here: what happens at longer pre-trainings than any that was fitted?

# %%
out = bayeslaw.compare(runs, laws, holdout="ptpp > 31", starts=10, progress=False)
scored = ["law", "fit", "checks", "rows", "mae_rel", "slope", "cover_eti50", "cover_eti90", "width_eti90", "crps"]
out.scores[scored].round(3)

# %% [markdown]
# - `mae_rel`: mean relative error. `point` rows are fits as the papers make them (Huber loss, several starts), for comparison.
# - `cover_eti90` against .9: whether the interval keeps its word. `width_eti90`, nats: of two intervals that do, the narrow one
#   is the better. `crps`, nats, weighs both; less is better.

# %%
for one in out.scores[out.scores["fit"] == "posterior"].itertuples():
    print(f"{one.law:16} misses by {one.mae_rel:.1%}, {one.cover_eti90:.0%} of the losses in its 90% intervals")

# %% [markdown]
# So the two laws that hardly differ among the runs at hand differ a lot beyond them: **a comparison within the runs doesn't
# answer a question about outside**. And no law here is right: one whose intervals hold clearly less than 90% was too sure of
# itself.
#
# Which law foretold the held-out runs best, run by run:

# %%
figure, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
ax = bayeslaw.plots.plot_comparison(out.weights, ax)

# %% [markdown]
# ## One stage at a time
#
# The same scores for each held-out stage show whether errors grow with the distance. `stack` is made of the laws' fits, weighted
# so that together they foretell the left-out runs best. It is used like a fit, is saved like one, and its intervals know that the
# law is in doubt, as far as the weights leave it so.

# %%
stack = out.stack
print({name: round(weight, 3) for name, weight in zip(out.weights.index, out.weights["weight"], strict=True)})
for p in (62, 124, 279):
    score = bayeslaw.score(stack, runs.where(f"ptpp == {p} and N > 100000"))
    error, cover = score["mae_rel"].item(), score["cover_eti90"].item()
    print(f"PTPP {p:3}, the two largest sizes: error {error:.1%}, in the 90% interval {cover:.0%}")
for note in out.notes:
    print("note:", note)

# %% [markdown]
# Compare noises the same way: `noise=["normal", "normal-checkpoint", "student"]`, by whole runs. Many laws over worker processes:
# `executor="processes"` (in a script, under `if __name__ == "__main__":`).
#
# Next: [which runs to buy](03_which_runs_to_buy.ipynb). More: [how-to](../docs/howto/which-law.md).
