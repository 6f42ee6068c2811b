# %% [markdown]
# # 7. Reading the checks
#
# Every fit and every forecast is checked, and the checks end in a verdict. Some decide: where one of them fails there are no
# intervals. The others are notes: they name what no number of draws mends. The losses are **measured**, those of [notebook
# 1](01_losses_to_forecast.ipynb).

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import bayeslaw
from bayeslaw.cli.demo import write_tables
from bayeslaw.evaluation.scores import transforms

tables = write_tables(Path("tinycpt"))
runs = bayeslaw.read_runs(tables["target"])
seen, unseen = runs.where("ptpp <= 31"), runs.where("ptpp > 31 and D > 50000")


def report(fit: bayeslaw.Fit) -> None:
    """What the checks found."""
    print(fit.name, "passed" if fit.passed else "FAILED")
    for check in fit.checks:
        if not check.passed:
            print(f"  {check.name}: {check}")


# %% [markdown]
# ## Did the sampler do its work?
#
# `r_hat`, `ess_bulk`, `ess_tail`, `divergences` and `e_bfmi` decide. Here is a fit that is far too short:

# %%
short = bayeslaw.fit("transfer-target", seen, draws=40, tune=50, chains=2, progress=False)
report(short)
at = bayeslaw.grid(short, {"N": 196608, "ptpp": 279, "r": 0.25, "D": [2e5, 2e6]})
try:
    short.forecast(at)
except bayeslaw.core.FitError as error:
    print("\nforecast refused:", error)

# %% [markdown]
# There are no intervals from it, unless you force them; then every row is marked, in tables, CSV and LaTeX.

# %%
forced = short.forecast(at, force=True).summary()
forced[["D", "run_median", "run_eti90_lo", "run_eti90_hi", "checks"]].round(3)

# %% [markdown]
# With the default number of draws:

# %%
fit = bayeslaw.fit("transfer-target", seen, progress=False)
report(fit)
fit.summary()[["median", "eti90_lo", "eti90_hi", "r_hat", "ess_bulk", "ess_tail", "prior_overlap"]].round(3)

# %% [markdown]
# What remains are notes.
#
# - `run_effect`: whole runs lie off the law by more than seeds explain. The law misses something.
# - `intra_class_correlation`: runs of one checkpoint err together.
# Both have one cause here: single sizes lie off any smooth law of N.
#
# ## Can the runs tell what I ask?
#
# A table that is too poor: two sizes, one replay share.

# %%
poor = bayeslaw.fit("transfer-target", seen.where("N < 25000 and (r == 0.25 or D == 0)"), progress=False)
report(poor)

# %% [markdown]
# `values` names the parameters that these runs can't tell apart, and the covariate of which other values would help. `informed`
# names parameters whose posterior is mostly their prior. Before (dashed) and after (filled) the losses were seen:

# %%
figure, axes = plt.subplots(2, 3, figsize=(9, 4.6), layout="constrained")
for row, one, title in zip(axes, (poor, fit), ("poor table", "all runs"), strict=True):
    for ax, name in zip(row, ("alpha", "c", "eta"), strict=True):
        bayeslaw.plots.plot_prior_posterior(one, ax, name)
        ax.set_title(title, fontsize=9)

# %% [markdown]
# A parameter that isn't informed is no harm where the forecast doesn't lean on it. `sensitivity` says by how much each parameter,
# and the loss at the far end of the runs, moves when the priors of the law, or those of the noise, are made a little stronger or
# weaker.

# %%
found = {"poor table": poor.sensitivity(), "all runs": fit.sensitivity()}
for name, table in found.items():
    print(f"{name}:", ", ".join(f"{count} {says or 'no remark'}" for says, count in table["says"].value_counts().items()))
pd.concat({name: table.iloc[[-1]] for name, table in found.items()}, names=["fit to", "quantity"]).round(3)

# %% [markdown]
# From .05 on something has a say. *Weak likelihood*: the law's priors have, and the losses don't. *Conflict*: both have, and may
# pull to different sides. With the poor table that is true of the forecast; with all runs the law's priors hardly matter to it.
#
# *Prior of the noise*: that of a run's luck is narrow on purpose, for a law shall not pass what it misses off as luck. Here it is
# pulled to its edge (last row of the first picture in [notebook 1](01_losses_to_forecast.ipynb)), as `run_effect` found.
#
# ## Do points of a run go together?
#
# Without a run's luck in the noise every point counts as independent. The fit is surer, and wrong:

# %%
alone = bayeslaw.fit("transfer-target", seen, noise="normal-no-run", progress=False)
report(alone)

# %% [markdown]
# `independence` notes it. What it does to forecasts of stages that were not fitted (`cover_eti90` should be .9):

# %%
scores = {"with a run's luck": bayeslaw.score(fit, unseen), "every point independent": bayeslaw.score(alone, unseen)}
pd.concat(scores).droplevel(1)[["rows", "mae_rel", "cover_eti50", "cover_eti90", "width_eti90"]].round(3)

# %% [markdown]
# ## What no check of a fit sees
#
# `d-cpt` knows nothing of the pre-training's length. Fitted to the same runs, from 50,000 tokens on, its draws are perfect:

# %%
blind = bayeslaw.fit("d-cpt", seen.where("D > 50000"), progress=False)
report(blind)

# %%
held = unseen.frame
shares = {one.name: transforms(held["loss"].to_numpy(), one.forecast(held).predictive) for one in (fit, blind)}
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
left = bayeslaw.plots.plot_coverage(shares, axes[0], runs=held["run"].nunique())
right = bayeslaw.plots.plot_transforms(shares, axes[1])

# %% [markdown]
# Left: intervals that hold what they say lie on the diagonal. Right: a law whose forecasts are right fills all bins alike; one
# that foretells too high piles up at the left.
#
# Checks look at draws and residuals. A law that fits all runs and bends afterwards passes them. That is why the far end of your
# runs should be [held out](02_which_law.ipynb) once, and why a discrepancy is stated by you.
#
# More: [how-to](../docs/howto/checks.md), [limits](../docs/limits.md).
