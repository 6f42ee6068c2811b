# %% [markdown]
# # 2. Which law
#
# Every law describes the runs that it was fitted to. What matters is how well it predicts other runs, and whether its intervals
# are calibrated. The losses are **measured**, those of [notebook 1](01_losses_to_forecast.ipynb), from 50,000 adaptation tokens
# on: published forms describe the settled part of a run and are infinite at its beginning.

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
    print(f"{name:16} loss = {law.formula.text}   [{law.source}]")

# %% [markdown]
# `d-cpt` does not depend on the length of the pre-training; the other two laws do.
#
# ## Among runs that you have
#
# By default `compare` leaves out each run in turn, by importance weights: which law best predicts a run *between* the others?

# %%
figures = ["elpd", "elpd_diff", "dse", "weight", "k_max", "refits", "checks"]
within = bayeslaw.compare(runs.where("ptpp <= 31"), laws[1:], progress=False)
within.weights[figures].round(2)

# %% [markdown]
# `elpd` is the log density of the left-out runs, larger is better; `dse` is the standard error of the difference. These runs
# can't distinguish two laws whose difference is no larger than its standard error.
#
# ## Beyond the runs
#
# Hold out runs that resemble your question. Here the question is the loss after a longer pre-training than any that was fitted.

# %%
out = bayeslaw.compare(runs, laws, holdout="ptpp > 31", starts=10, progress=False)
scored = ["law", "fit", "checks", "rows", "mae_rel", "slope", "cover_eti50", "cover_eti90", "width_eti90", "crps"]
out.scores[scored].round(3)

# %% [markdown]
# - `mae_rel`: mean relative error. `point` rows are fits as the papers make them (Huber loss, several starts), for comparison.
# - `cover_eti90` against .9: the interval is calibrated if they are equal. `width_eti90`, nats: of two calibrated intervals the
#   narrower one is better. `crps`, nats, combines both; smaller is better.

# %%
for one in out.scores[out.scores["fit"] == "posterior"].itertuples():
    print(f"{one.law:16} misses by {one.mae_rel:.1%}, {one.cover_eti90:.0%} of the losses in its 90% intervals")

# %% [markdown]
# The two laws that hardly differ among the fitted runs differ a lot beyond them: **a comparison within the runs does not answer
# a question about extrapolation**. No law here is right: a law whose 90% intervals contain clearly less than 90% of the losses
# is overconfident.
#
# The picture shows which law predicted the held-out runs best, run by run:

# %%
figure, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
ax = bayeslaw.plots.plot_comparison(out.weights, ax)

# %% [markdown]
# ## One stage at a time
#
# The same scores for each held-out stage show whether errors grow with the distance. `stack` combines the fits of the laws with
# weights that predict the left-out runs best. It is used and saved like a fit. Its intervals include the uncertainty about
# which law is right, as far as the weights leave it open.

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
# Compare models of the noise in the same way: `noise=["normal", "normal-checkpoint", "student"]`, by whole runs. Compare many
# laws in worker processes with `executor="processes"`.
#
# Next: [which runs to buy](03_which_runs_to_buy.ipynb). More: [how-to](../docs/howto/which-law.md).
