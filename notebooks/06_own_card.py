# %% [markdown]
# # 6. Writing your own card
#
# A law is a text file: a formula, and a prior for each parameter. It is data and cannot run code, and nothing in the package
# knows a law by name, so yours gets forecasts, plans, anchors and checks like any other.
#
# The example is a law for adaptations of checkpoints with one pre-training length, in which tokens of replay don't count.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bayeslaw
from bayeslaw.cli.demo import write_tables

CARD = """
name   = "my-law"
title  = "Adaptation with a head start, new tokens only"
source = "a notebook"
loss   = "E + A/N**alpha + B*(1 + new/D0)**(-beta)"

[let]
new = "(1 - r)*D"

[covariates]
N = { unit = "parameters", support = [1e3, 1e13] }
D = { unit = "adaptation tokens", support = [0, 1e15] }
r = { unit = "share of source data in the mixture", support = [0, 1] }

[parameters.E]
meaning = "irreducible loss"
unit    = "nats/token"
prior   = { dist = "LogNormal", mu = 0.0, sigma = 0.8 }

[parameters.A]
meaning = "scale of the model-size term"
unit    = "nats/token x parameters^alpha"
# What more parameters could still gain at the middle of the runs: 0.06 to 2.9 nats.
prior   = { dist = "LogNormal", mu = -0.9, sigma = 1.0, on = "A/N**alpha" }

[parameters.alpha]
meaning = "model-size exponent"
prior   = { dist = "LogNormal", mu = -1.05, sigma = 0.4 }

[parameters.B]
meaning = "what adaptation can gain in all"
unit    = "nats/token"
prior   = { dist = "LogNormal", mu = 0.0, sigma = 0.7 }

[parameters.D0]
meaning = "new tokens after which the loss begins to fall"
unit    = "tokens"
prior   = { dist = "LogNormal", mu = -3.0, sigma = 1.5, on = "D0/D" }

[parameters.beta]
meaning = "exponent with which it falls"
prior   = { dist = "LogNormal", mu = -1.0, sigma = 0.5 }
"""
Path("my-law.toml").write_text(CARD, encoding="utf-8")
law = bayeslaw.load_law("my-law.toml")
law

# %% [markdown]
# Most scales have no meaning by themselves: `A` depends on the unit of `N`. So state the prior of a *term*: `on = "A/N**alpha"`
# is its value at the geometric middle of your runs, whatever their size. A value outside `support` is certainly a mistake.
#
# Faults are reported with their line:

# %%
for good, slip in (
    ("beta)", "bta)"),
    ("sigma = 0.4", "sigma = -0.4"),
    ('prior   = { dist = "LogNormal", mu = -1.0, sigma = 0.5 }', ""),
):
    Path("slip.toml").write_text(CARD.replace(good, slip, 1), encoding="utf-8")
    try:
        bayeslaw.load_law("slip.toml")
    except bayeslaw.core.CardError as error:
        print(error, end="\n\n")

# %% [markdown]
# ## What does the prior allow?
#
# The picture shows draws of the prior, before any loss is seen, at settings of the runs. The runs are **measured**, those of
# [notebook 1](01_losses_to_forecast.ipynb) with one pre-training length. If the measured losses lie outside the range of the
# prior, fix the prior now, not after the fit.

# %%
tables = write_tables(Path("tinycpt"))
runs = bayeslaw.read_runs(tables["target"], "ptpp == 31 and D > 0")
at = bayeslaw.grid(law, {"N": 57600, "r": 0.25, "D": "2e4:2e6:40"})
draws = law.sample_prior(2000, law.reference(runs.frame), np.random.default_rng(0))
losses = law.predict(draws, {c: at[c].to_numpy() for c in law.covariates})
some = runs.where("N == 57600 and r == 0.25").frame

figure, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
low, middle, high = np.quantile(losses, [0.05, 0.5, 0.95], axis=0)
ax.fill_between(at["D"], low, high, alpha=0.2, lw=0, label="90% equal-tailed interval of the prior")
ax.plot(at["D"], losses[:15].T, color="0.6", lw=0.6)
ax.plot(at["D"], middle, lw=1.8, color="C0", label="median, and 15 draws")
ax.plot(some["D"], some["loss"], "o", mfc="white", mec="C1", label="measured")
ax.set(
    xscale="log", ylim=(0, 8), xlabel="D (adaptation tokens)", ylabel="loss (nats/token)", title="my-law before any loss is seen"
)
legend = ax.legend(fontsize=8, frameon=False)
# %% [markdown]
# ## Does a fit recover known parameters?
#
# The losses here are **simulated** at the same settings from one draw of the prior, with a point noise of 0.3%. A law with
# parameters that your runs can't identify shows it now.

# %%
truth = {name: values[7:8] for name, values in draws.items()}
rng = np.random.default_rng(1)
expected = law.predict(truth, {c: runs.frame[c].to_numpy() for c in law.covariates})[0]
simulated = runs.frame.assign(loss=expected * np.exp(0.003 * rng.standard_normal(len(runs))))
again = bayeslaw.fit(law, simulated, progress=False)
table = again.summary().loc[list(law.parameters), ["median", "eti90_lb", "eti90_ub", "prior_overlap", "checks"]]
table.insert(0, "truth", [float(truth[name][0]) for name in law.parameters])
table["inside"] = table["truth"].between(table["eti90_lb"], table["eti90_ub"])
table

# %% [markdown]
# One truth is only a smoke test. `python benchmarks/calibrate.py my-law`, in a checkout with the card in `models/`, uses many.
#
# ## Fit, and hold something out
#
# These are the **measured** losses again, with the two largest sizes held out. `d-cpt` is a published law of the same
# covariates. `compare` takes cards of your own by path, or as loaded.

# %%
compared = bayeslaw.compare(runs, [law, "d-cpt"], holdout="N > 100000", starts=10, progress=False)
columns = ["law", "fit", "checks", "rows", "mae_rel", "slope", "cover_eti50", "cover_eti90", "width_eti90", "crps"]
compared.scores[columns].round(3)

# %%
fit = bayeslaw.fit(law, runs.where("N < 100000"), progress=False)
at = bayeslaw.grid(fit, {"N": [57600, 110592, 196608], "r": 0.25, "D": "2e4:4e6:40"})
figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
forecast = fit.forecast(at)
ax = bayeslaw.plots.plot_forecast(forecast, ax, measured=runs.where("r == 0.25").frame, unit="adaptation tokens")
print("fit:", *fit.verdicts, sep=" | ")
print("forecast:", forecast.checks[-1])

# %% [markdown]
# **This card is not good enough for larger models**, and its fit does not show it: the sampling passed, and the concerns are
# about the runs that were fitted. It predicts too high a loss for larger models, and its 90% intervals contain few of their
# losses. Three sizes don't determine how a law continues over `N`; only held-out runs at the far end show it. Trust a law for
# its predictions, not for its fit to the runs that it has seen.
#
# Next: [reading the checks](07_checks.ipynb). More: [how-to](../docs/howto/own-card.md) and [how to add a law to the
# package](../docs/extending.md).
