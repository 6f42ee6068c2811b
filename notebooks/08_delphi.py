# %% [markdown]
# # 8. Which base should have been bought?
#
# A team adapts a family of base models to mathematics and wants to know how good the largest will be. They own the small bases.
# Which further base should they train to know the largest, and what is it worth? Here the answer can be checked, because all of
# them were trained: the losses are those of the **Delphi** mid-training of Marin, with bases from 447 million to 2.5 billion
# parameters. They are public and don't come with bayeslaw; `fetch_dataset` downloads them.

# %%
import matplotlib.pyplot as plt
import pandas as pd

import bayeslaw

fetched = bayeslaw.fetch_dataset("delphi")
table = pd.read_csv(fetched.paths[0], dtype={"checkpoint": str})
bases = table.groupby("checkpoint", sort=False).agg(N=("N", "first"), ptpp=("ptpp", "first"), runs=("run", "size"))
bases.assign(N=bases["N"].map("{:.3g}".format)).round(1)

# %% [markdown]
# A base is named by its nominal pre-training compute in FLOPs. Every base was adapted in five runs: with 1, 2, 4 and 8 billion
# tokens, and with 20% of its own pre-training tokens. The losses are final ones, on the validation set that the authors call
# clean.
#
# Some things can't be learnt from this table, whatever is bought. Size and PTPP (pre-training tokens per parameter) grow nearly
# together, so their effects are hardly separate. There is one seed, one replay share and one learning-rate factor, and the
# batch sizes differ between bases.
#
# ## What the small bases say
#
# The law is fitted to the four smallest bases and forecasts the largest, 3e20. With one replay share the runs say nothing about
# `c`, the effect of replay, which stays at its prior.

# %%
columns = ["run", "checkpoint", "N", "D", "r", "ptpp", "loss"]
owned = table["checkpoint"].isin(["3e18", "9e18", "2e19", "3e19"])
largest = table.loc[table["checkpoint"] == "3e20", columns]
wanted = largest[["N", "D", "r", "ptpp"]]

fit = bayeslaw.fit("transfer-target", table.loc[owned, columns], progress=False)
print("passed" if fit.passed else fit.failures)
print("\n".join(str(concern) for concern in fit.concerns))

# %% [markdown]
# The forecast has two intervals. `latent` is that of the law's curve, and it is right if the law is. `extrapolated` adds the
# error that such laws have had beyond their runs, and is the one to report here.


# %%
def at_the_largest(one: bayeslaw.Fit) -> pd.DataFrame:
    """The forecast of each budget at the largest base beside the measured loss."""
    shown = ["D", *(f"{kind}_{end}" for kind in ("latent", "extrapolated") for end in ("median", "eti90_lb", "eti90_ub"))]
    return bayeslaw.forecast(one, largest).summary()[shown].assign(measured=largest["loss"].to_numpy())


at_the_largest(fit).sort_values("D").round(3)

# %% [markdown]
# ## What a base would be worth
#
# Two bases lie between the owned ones and the largest, 9e19 and 2e20. `bayeslaw.anchors` chooses runs of them that would narrow
# the interval at the largest most for a budget. A run costs 6 N D, and the first run of a base pays for its pre-training as well.
# The losses of the candidates are not used.

# %%
between = table.loc[table["checkpoint"].isin(["9e19", "2e20"]), columns]
candidates = between.drop(columns="loss")
choice = bayeslaw.anchors(fit, candidates, wanted, budget=3e20)
print(choice.text)
shown = choice.picks[["run", "D_last", "cost", "checkpoint_cost", "spent", "gain", choice.width_name, "worth"]]
shown.round(4).assign(**{c: shown[c].map("{:.3g}".format) for c in ("D_last", "cost", "checkpoint_cost", "spent")})

# %% [markdown]
# The design spends the money on bases and not on runs: it buys one run of each. The table has the predicted widths and the
# prices of this design and of each base alone with its five runs. The last line is training the largest itself with five runs.

# %%
designs = {
    "all runs of 9e19": between[between["checkpoint"] == "9e19"],
    "all runs of 2e20": between[between["checkpoint"] == "2e20"],
    "one run of each": between[between["run"].isin(choice.picks["run"])],
}
predicted = {}
for name, bought in designs.items():
    whole = bayeslaw.anchors(fit, bought.drop(columns="loss"), wanted, budget=1e22)  # enough for all of them
    predicted[name] = {"price": whole.spent, "predicted width": whole.width(whole.bought)}
price = 6 * largest["N"].iloc[0] * (largest["N"].iloc[0] * largest["ptpp"].iloc[0] + largest["D"].sum())
predicted["the largest itself"] = {"price": price, "predicted width": 0.0}
prediction = pd.DataFrame(predicted).T
print(f"width of the {choice.width_name.removesuffix('_width')} now: {choice.width([]):.3f} nats/token")
prediction.assign(price=prediction["price"].map("{:.3g}".format)).round(4)

# %% [markdown]
# ## What buying each would have given
#
# The measured losses of each design join the fit, and the new fits are scored at the largest base.

# %%
fits = {"before": fit}
for name, bought in designs.items():
    made = bayeslaw.update(fit, bought, targets=wanted, progress=False)
    fits[name] = made.fit
    print(f"{name}: {'passed' if made.fit.passed else made.fit.failures}. {made.text}")

# %%
scores = pd.concat({name: bayeslaw.score(one, largest) for name, one in fits.items()}).droplevel(1)
widths = {}
for name, one in fits.items():
    ends = at_the_largest(one)
    widths[name] = (ends["extrapolated_eti90_ub"] - ends["extrapolated_eti90_lb"]).mean()
scores.insert(0, "width", pd.Series(widths))
scores.insert(0, "predicted width", prediction["predicted width"].reindex(scores.index).fillna(choice.width([])))
scores[["predicted width", "width", "mae_rel", "cover_eti50", "cover_eti90", "crps"]].round(4)

# %% [markdown]
# The picture shows by how much each forecast differs from the measured loss (zero) at the five budgets, from the fewest tokens on
# the left to the most on the right.

# %%
figure, ax = plt.subplots(figsize=(8.4, 4.2), layout="constrained")
for place, one in enumerate(fits.values()):
    ends = at_the_largest(one).sort_values("D")
    error = ends.drop(columns="D").div(ends["measured"], axis=0).sub(1).mul(100)
    at = [place + 0.14 * (i - 2) for i in range(len(ends))]
    thin = ax.vlines(at, error["extrapolated_eti90_lb"], error["extrapolated_eti90_ub"], color="C0", linewidth=1)
    thick = ax.vlines(at, error["latent_eti90_lb"], error["latent_eti90_ub"], color="C0", linewidth=4, alpha=0.5)
    (dots,) = ax.plot(at, error["extrapolated_median"], "o", color="black", markersize=4)
measured = ax.axhline(0, color="grey", linewidth=1)
legend = {"extrapolated 90% interval": thin, "latent 90% interval": thick, "extrapolated median": dots, "measured loss": measured}
ax.legend(legend.values(), legend, frameon=False)
ax.set_xticks(range(len(fits)), list(fits))
label = ax.set_ylabel("forecast minus measured loss [%]")

# %% [markdown]
# **Which base should have been bought?** To know the largest as precisely as possible, buy 2e20, as predicted: its runs leave a
# third of the interval, those of 9e19 two thirds. But 9e19 costs 60% as much, and it already lowers the error from 2.6 to .1%; with
# 2e20 it is .3%. A new base teaches more than further runs of it: one run of each base gives nearly the interval that
# all runs of 2e20 give, for less. Neither is cheap beside the largest, which with one run of 2 billion tokens costs 3.1e20
# FLOPs.
#
# **What the advice got wrong.** The order of the two bases was right. The predicted widths were too small: actual ones are 1.1
# times as wide for each base alone, and 2.4 times for one run of each. The design assumes that new bases also teach the
# law's own error, but a fit of this law does not learn that from so few. Trust the order of a design more than its last width, and
# run `bayeslaw update` after each purchase.
#
# **What this does not show.** There are five measured losses of one largest base, with one seed, so errors of .1 and .3% hardly
# differ. Before the purchase none of these losses lay in its 90% intervals: the latent ones are narrow and wrong, and the
# extrapolated ones begin up to .6% above the losses, since with four small bases the law errs more than such laws mostly do. With
# any of the three designs all of them lay in the extrapolated ones. Larger bases of Delphi exist; they are kept to judge laws on
# and don't appear here.
#
# More: [which runs to buy](03_which_runs_to_buy.ipynb), [how-to](../docs/howto/which-runs.md), [limits](../docs/limits.md).
