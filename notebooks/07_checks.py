# %% [markdown]
# # 7. Reading the checks
#
# Every fit and every forecast is checked, and there are two verdicts. If a check of the sampling fails, there are no intervals.
# Concerns about the model are problems that more draws do not fix. The losses are **measured**, those of [notebook
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
    """Print the checks that did not pass."""
    print(fit.name, *fit.verdicts, sep=" | ")
    for check in fit.checks:
        if not check.passed:
            print(f"  {check.name}: {check}")


# %% [markdown]
# ## Has the sampler converged?
#
# `r_hat`, `ess_bulk`, `ess_tail`, `divergences` and `e_bfmi` are checks of the sampling. Here is a fit that is far too short:

# %%
short = bayeslaw.fit("transfer-target", seen, draws=40, tune=50, chains=2, progress=False)
report(short)
at = bayeslaw.grid(short, {"N": 196608, "ptpp": 279, "r": 0.25, "D": [2e5, 2e6]})
try:
    short.forecast(at)
except bayeslaw.core.FitError as error:
    print("\nforecast refused:", error)

# %% [markdown]
# Such a fit gives no intervals unless you force them; then every row is marked in tables, CSV and LaTeX.

# %%
forced = short.forecast(at, force=True).summary()
forced[["D", "run_median", "run_eti90_lb", "run_eti90_ub", "checks"]].round(3)

# %% [markdown]
# With the default number of draws:

# %%
fit = bayeslaw.fit("transfer-target", seen, progress=False)
report(fit)
fit.summary()[["median", "eti90_lb", "eti90_ub", "r_hat", "ess_bulk", "ess_tail", "prior_overlap"]].round(3)

# %% [markdown]
# The sampling has passed. What remains are concerns about the model.
#
# - `run_effect`: whole runs deviate from the law by more than seeds explain. The law misses something.
# - `intra_class_correlation`: runs of one checkpoint have correlated errors.
# - `misfit`: the mean residual depends on N, and changes its sign twice from the smallest size to the largest. These three have the
#   same cause here: single sizes deviate from any smooth law of N.
# - `autocorrelation`: neighbouring points of a run err together by more than the run effect explains.
#
# ## Do the runs identify the parameters?
#
# The next fit is to a table that is too poor, with two sizes and one replay share:

# %%
poor = bayeslaw.fit("transfer-target", seen.where("N < 25000 and (r == 0.25 or D == 0)"), progress=False)
report(poor)

# %% [markdown]
# `values` names the parameters that these runs can't identify, and the covariate for which more values would help. `informed`
# names parameters whose posterior is mostly their prior. The pictures show priors (dashed) and posteriors (filled):

# %%
figure, axes = plt.subplots(2, 3, figsize=(9, 4.6), layout="constrained")
for row, one, title in zip(axes, (poor, fit), ("poor table", "all runs"), strict=True):
    for ax, name in zip(row, ("alpha", "c", "eta"), strict=True):
        bayeslaw.plots.plot_prior_posterior(one, name, ax)
        ax.set_title(title, fontsize=9)

# %% [markdown]
# A parameter that is not informed does no harm if the forecast does not depend on it. `sensitivity` says by how much each
# parameter, and the loss at the far end of the runs, moves when the priors of the law, or those of the noise, are made a little
# stronger or weaker.

# %%
found = {"poor table": poor.sensitivity(), "all runs": fit.sensitivity()}
for name, table in found.items():
    print(f"{name}:", ", ".join(f"{count} {says or 'no note'}" for says, count in table["says"].value_counts().items()))
pd.concat({name: table.iloc[[-1]] for name, table in found.items()}, names=["fit to", "quantity"]).round(3)

# %% [markdown]
# From .05 on the quantity is sensitive. *Weak likelihood* means that it is sensitive to the priors of the law but not to the
# losses. *Conflict* means that it is sensitive to both, which may disagree. With the poor table this holds for the forecast. With
# all runs the priors of the law hardly matter to the forecast, although most parameters are sensitive to them.
#
# *Prior of the noise*: the prior of the run effect is narrow on purpose, so that a law can't explain its own errors as run
# effects. Here the run effect is at the edge of its prior (last row of the first picture in [notebook
# 1](01_losses_to_forecast.ipynb)), as the check `run_effect` says.
#
# ## Are points of a run correlated?
#
# Without a run effect in the noise every point counts as independent. The fit is then overconfident:

# %%
alone = bayeslaw.fit("transfer-target", seen, noise="normal-no-run", progress=False)
report(alone)

# %% [markdown]
# The check `independence` reports it. The table shows the effect on forecasts of stages that were not fitted (`cover_eti90`
# should be .9):

# %%
scores = {"with a run effect": bayeslaw.score(fit, unseen), "every point independent": bayeslaw.score(alone, unseen)}
pd.concat(scores).droplevel(1)[["rows", "mae_rel", "cover_eti50", "cover_eti90", "width_eti90"]].round(3)

# %% [markdown]
# ## What checks of the sampling do not detect
#
# `d-cpt` does not depend on the length of the pre-training. Fitted to the same runs, from 50,000 tokens on, its sampling passes.
# That the law is wrong stands among the concerns, in `unknown_covariates` and in the misfit over `ptpp`:

# %%
blind = bayeslaw.fit("d-cpt", seen.where("D > 50000"), progress=False)
report(blind)

# %%
held = unseen.frame
shares = {one.name: transforms(held["loss"].to_numpy(), one.forecast(held).predictive) for one in (fit, blind)}
figure, axes = plt.subplots(2, 1, figsize=(6.4, 8.4), layout="constrained")
above = bayeslaw.plots.plot_coverage(shares, axes[0], runs=held["run"].nunique())
below = bayeslaw.plots.plot_transforms(shares, axes[1])

# %% [markdown]
# Above: calibrated intervals lie on the diagonal. Below: calibrated forecasts fill all bins equally; forecasts that are too high
# pile up at the left.
#
# Checks use the draws and the fitted runs, and do not say by how much a forecast errs. A law that fits all runs and errs beyond
# them passes all checks. So hold out the far end of your runs [once](02_which_law.ipynb), and state a discrepancy.
#
# More: [how-to](../docs/howto/checks.md), [limits](../docs/limits.md).
