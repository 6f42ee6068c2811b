# %% [markdown]
# # 1. Your losses to a forecast
#
# You have logged validation losses of some runs. You want to predict the loss of a run that has not been made, with a
# calibrated interval.
#
# The losses here are **measured**. They come with the package: small transformers (14 to 197 thousand parameters) that were
# pre-trained on one domain for 15 to 279 tokens per parameter, then continued on another with some replay of the first. To use
# your own, give `bayeslaw.read_runs` the path of your table (CSV, TSV, Parquet or JSON lines) or a DataFrame.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import bayeslaw
from bayeslaw.cli.demo import write_tables

tables = write_tables(Path("tinycpt"))  # target.csv, source.csv, curves.csv
runs = bayeslaw.read_runs(tables["target"])
print(f"{len(runs)} losses of {runs.frame['run'].nunique()} runs, in {runs.unit}")
runs.frame.iloc[[0, 1, 2, 13, 14]]

# %% [markdown]
# One row is one evaluation: `N` parameters, `D` adaptation tokens, `r` share of replay, `ptpp` pre-training tokens per
# parameter, `loss` in nats per token. `run` names the points of one curve, whose errors are correlated. A row with `D = 0` is a
# base checkpoint.
#
# ## Is the table sound?
#
# Every fault is reported with its row and column. No row is dropped. Here are the faults of the table as it is, and with two
# errors in it:

# %%
law = bayeslaw.load_law("transfer-target")
print("faults as it is:", bayeslaw.data.check(runs, law))

faulty = runs.frame.copy()
faulty.loc[2, "loss"] = -1.2
faulty.loc[13, "r"] = 25  # percent
for fault in bayeslaw.data.check(bayeslaw.read_runs(faulty), law):
    print("fault:", fault)

# %% [markdown]
# ## Fit
#
# Only the two shortest pre-trainings are fitted; the losses of the longer ones are held out to check the forecast. `fit` takes
# 4 chains of 1,000 draws by NUTS. Every fit is checked.

# %%
fit = bayeslaw.fit(law, runs.where("ptpp <= 31"), progress=False)
print(f"{fit.observed.runs} runs at PTPP 15 and 31. Sampling passed: {fit.passed}\n")
for check in fit.checks:
    print(check)

# %% [markdown]
# The lines that begin with **concern** are about the model, and do not withhold the intervals. In this table single sizes
# deviate from any smooth law of N, because depth and width change together, and the law attributes that to run effects. A
# forecast of a *new size* will have an error of about that size. Notebook 7 goes through the checks.
#
# The picture shows the position of each parameter in its prior (grey band), and its value:

# %%
figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
ax = bayeslaw.plots.plot_parameters(fit, ax)

# %% [markdown]
# ## Forecast
#
# `grid` makes a table of settings; any DataFrame with the law's covariates works as well. `latent` is the law's loss, `run` is
# the loss that the next run would log, with its run effect and its noise: use `run` for a decision about one run.
# `extrapolation` says how far outside the fitted runs the setting lies. `extrapolated` adds the error that laws have beyond the
# runs of other ladders (sets of runs of increasing size): report it outside the runs.

# %%
at = bayeslaw.grid(fit, {"N": [13824, 57600, 196608], "ptpp": 279, "r": 0.25, "D": "3e4:4e6:40"})
forecast = fit.forecast(at)
shown = forecast.summary(ci_prob=0.9)
columns = ["N", "D", "latent_median", "run_median", "run_eti90_lb", "run_eti90_ub"]
columns += ["extrapolated_eti90_lb", "extrapolated_eti90_ub", "extrapolation"]
shown.loc[[80, 100, 119], columns].round(3)

# %% [markdown]
# The points in the picture are measured losses at PTPP 279, a pre-training nine times as long as any that was fitted.

# %%
measured = runs.where("ptpp == 279 and r == 0.25 and D > 0").frame
figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
ax = bayeslaw.plots.plot_forecast(forecast, ax, measured=measured, unit="adaptation tokens")

# %% [markdown]
# ## Was it right?
#
# `score` compares the forecast with losses that were not fitted: mean relative error of the median, share of losses in the 50%
# and 90% intervals, and the width of the latter.

# %%
held = {f"PTPP {p}": runs.where(f"ptpp == {p} and D > 0") for p in (62, 124, 279)}
scores = pd.concat({name: bayeslaw.score(fit, some) for name, some in held.items()}).droplevel(1)
scores[["rows", "mae_rel", "cover_eti50", "cover_eti90", "width_eti90", "crps"]].round(3)

# %% [markdown]
# A mean over all rows hides where a law fails. The next table has the error by size and by the progress of the adaptation
# (tokens per parameter):

# %%
rows = runs.where("ptpp > 31 and D > 0").frame
error = 100 * (fit.forecast(rows).summary()["run_median"].to_numpy() / rows["loss"] - 1)
part = pd.cut(rows["D"] / rows["N"], [0, 1, 2, 5, 20], labels=["up to 1", "1 to 2", "2 to 5", "5 to 20"])
table = rows.assign(error=error, part=part).pivot_table(index="N", columns="part", values="error", observed=True)
print("mean of predicted over measured loss, minus 1, in percent, by adaptation tokens per parameter")
table.rename_axis(columns="tokens per parameter").round(1)

# %% [markdown]
# The first tokens of an adaptation are the hardest to predict: the law is too low there at every size. Later it is much more
# accurate, except at the smallest size and the largest, where it ends too high. Make such a table of your own held-out runs before
# you trust a law.
#
# ## Save the fit
#
# A fit is saved as one NetCDF file. The same commands in a shell are `bayeslaw fit transfer-target target.csv -o fit.nc --where
# "ptpp <= 31"`, then `bayeslaw forecast fit.nc …`, `bayeslaw score fit.nc …`.

# %%
fit.save("T.nc")
again = bayeslaw.load_fit("T.nc")
print(again.name, "passed" if again.passed else again.failures)

# %% [markdown]
# Next: [which law](02_which_law.ipynb). More on this page's subject: [how-to](../docs/howto/forecast.md).
