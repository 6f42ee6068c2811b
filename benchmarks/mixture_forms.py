"""Which form of the law `mixture-scaling` forecasts fitted mixtures and sizes best where they are held out: SlimPajama, 7 domains.

    BAYESLAW_SHARED_DATA=… python benchmarks/mixture_forms.py > benchmarks/results/mixture_forms.md

Only the runs that `mixtures.py` fits have a part: 122M and 310M, without the mixtures of 1.2B and 2.7B, whose errors are shown last
for the form that is chosen. Each form is fitted by its
posterior mode to some of them and forecasts others. N and D are counted from the middle of the runs and the worth of a mixture from
that of the mean mixture, so that priors of terms are priors of their scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from mixtures import DOMAINS, EARLY, LARGE, SMALL, runs
from numpy.typing import NDArray
from scipy.optimize import least_squares
from tables import banner, markdown_table

Array = NDArray[np.float64]
Prior = dict[str, tuple[float, float]]  # mean and sd of each parameter's logarithm
MIDDLE = {"N": 2e8, "D": 1.3e10}
SIGMA = 0.008  # of log losses
WIDTH_OF_WORTH = 2.0  # sd of u, as in the card
EARLIER: Prior = {"E": (0.3, 0.5), "A": (-0.9, 1.0), "alpha": (-1.05, 0.4), "B": (-0.9, 1.0), "beta": (-0.8, 0.5)}
CARD: Prior = {"E": (0.3, 0.6), "A": (-0.5, 1.0), "alpha": (-1.5, 0.6), "B": (-0.5, 1.0), "beta": (-1.2, 0.6)}
ADDED: Prior = {"C": (-1.1, 1.0), "gamma": (-0.7, 0.6)}
TIMES: Prior = {"gamma": (-2.3, 0.7)}

HEAD = """{banner}

Fitted and held-out rows are of 122M and 310M and {mixtures} mixtures, those that `mixtures.py` fits; no larger run and no mixture
of one has a part. Means over the {domains} domains, signed and absolute, of the relative error of posterior modes. a = A/N^alpha,
b = B/D^beta, w = worth. Early checkpoints are left out up to the share of a run that is named. Held out:

- larger: fitted to 122M and half of the mixtures, all checkpoints; held out is 310M with the other half
- later: fitted to 122M, and to 310M with half of the mixtures up to 60% of the run; held out are ends of 310M with the other half
- ends: fitted to both sizes with half of the mixtures up to 60%; held out are ends with the other half
- mixtures: fitted to both sizes with half of the mixtures; held out are ends with the other half
"""

BEYOND = """
What was chosen, at 1.2B and 2.7B on other mixtures: errors of posterior modes, signed and absolute, fitted to all fitted runs from
40% on. They had no part in the choice, but those of the form that adds had been seen before it, by posterior medians. Intervals
need whole posteriors: `mixtures.md`.
"""


def added(v: dict[str, Any], a: Array, b: Array, log_n: Array, log_worth: Array) -> Array:
    """The terms of size, tokens and mixture add."""
    return np.asarray(v["E"] + _met(v, a, b) + v["C"] * np.exp(-v["gamma"] * log_worth))


def times(v: dict[str, Any], a: Array, b: Array, log_n: Array, log_worth: Array) -> Array:
    """A power of the mixture's worth multiplies the loss."""
    return np.asarray((v["E"] + _met(v, a, b * np.exp(v.get("k", 0.0) * log_n))) * np.exp(-v["gamma"] * log_worth))


def _met(v: dict[str, Any], a: Array, b: Array) -> Array:
    return np.exp(np.logaddexp(v["p"] * np.log(a), v["p"] * np.log(b)) / v["p"]) if "p" in v else a + b


FORMS: dict[str, tuple[Callable[..., Array], Prior]] = {
    "E + a + b + C/w^gamma": (added, EARLIER | ADDED),
    "the same, the card's priors": (added, CARD | ADDED),
    "(E + a + b)/w^gamma": (times, EARLIER | TIMES),
    "(E + a + N^k b)/w^gamma": (times, EARLIER | TIMES | {"k": (-2.0, 1.0)}),
    "E + (a^p + b^p)^(1/p) + C/w^gamma": (added, EARLIER | ADDED | {"p": (0.5, 0.5)}),
    "(E + (a^p + b^p)^(1/p))/w^gamma": (times, EARLIER | TIMES | {"p": (0.5, 0.5)}),
    "the same, the card's priors: the card": (times, CARD | TIMES | {"p": (0.7, 0.7)}),
}


def fitted(form: str, rows: pd.DataFrame, domain: str, middle: Array) -> Callable[[pd.DataFrame], Array]:
    """Return the forecast of the form's posterior mode, given the losses of a domain."""
    formula, prior = FORMS[form]
    mean, sd = np.array([*prior.values()]).T

    def columns(rows: pd.DataFrame) -> tuple[Array, Array, Array]:
        log_n, log_d = (np.log(rows[x].to_numpy() / MIDDLE[x]) for x in MIDDLE)
        return log_n, log_d, rows[[*DOMAINS]].to_numpy()

    def log_loss(at: Array, log_n: Array, log_d: Array, shares: Array) -> Array:
        v, worth = dict(zip(prior, np.exp(at[: mean.size]), strict=True)), np.exp(at[mean.size :])
        log_worth = np.log(shares @ worth) - np.log(middle @ worth)
        return np.log(formula(v, v["A"] * np.exp(-v["alpha"] * log_n), v["B"] * np.exp(-v["beta"] * log_d), log_n, log_worth))

    known, measured = columns(rows), np.log(rows["loss"].to_numpy())

    def misfit(at: Array) -> Array:
        residual = (log_loss(at, *known) - measured) / SIGMA
        return np.concatenate([residual, (at[: mean.size] - mean) / sd, at[mean.size :] / WIDTH_OF_WORTH])

    start = np.concatenate([mean, np.where(np.array(DOMAINS) == domain, 2.0, 0.0)])
    mode = least_squares(misfit, start, method="lm", max_nfev=4000).x
    return lambda rows: np.exp(log_loss(mode, *columns(rows)))


def held_out(table: pd.DataFrame) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Return which rows are fitted and which are held out, for each hold-out."""
    small, half = table["N"] < MIDDLE["N"], table["mixture"].isin(sorted(table["mixture"].unique())[::2])
    late, end = table["share"] > 0.65, table["end"]
    return {
        "larger": (small & half, ~small & ~half),
        "later": (small | (half & ~late), ~small & ~half & end),
        "ends": (half & ~late, ~half & end),
        "mixtures": (half, ~half & end),
    }


def errors(form: str, table: pd.DataFrame) -> dict[str, str]:
    """Return signed and absolute mean errors of a form in every hold-out."""
    middle, cells = table[[*DOMAINS]].to_numpy().mean(axis=0), {}
    for name, (known, asked) in held_out(table).items():
        means = []
        for domain in DOMAINS:
            rows = table.assign(loss=table[f"{domain}_loss"])
            rows = rows[rows["loss"].notna()]
            forecast = fitted(form, rows[known[rows.index]], domain, middle)
            held = rows[asked[rows.index]]
            error = 100 * (forecast(held) / held["loss"].to_numpy() - 1)
            means.append((error.mean(), np.abs(error).mean()))
        signed, absolute = np.mean(means, axis=0)
        cells[name] = f"{signed:+.2f}%, {absolute:.2f}%"
    return cells


def beyond(form: str, known: pd.DataFrame, large: pd.DataFrame) -> list[dict[str, Any]]:
    """Return errors of a form at the large models, fitted to all fitted runs."""
    middle, parts = known[[*DOMAINS]].to_numpy().mean(axis=0), []
    for domain in DOMAINS:
        seen, held = (rows.assign(loss=rows[f"{domain}_loss"]).dropna(subset="loss") for rows in (known, large))
        error = 100 * (fitted(form, seen, domain, middle)(held) / held["loss"] - 1)
        parts.append(held[["N", "end"]].assign(domain=domain, error=error))
    every = pd.concat(parts)
    groups = {f"all, {n / 1e9:.2f}B": every["N"] == n for n in sorted(every["N"].unique())}
    groups |= {f"{name}, ends of runs": rows & every["end"] for name, rows in groups.items()}
    groups |= {d: every["domain"] == d for d in DOMAINS} | {"all": every["N"] > 0}
    cells = {name: f"{every.loc[r, 'error'].mean():+.1f}%, {every.loc[r, 'error'].abs().mean():.1f}%" for name, r in groups.items()}
    return [{"losses of": name, form: cell} for name, cell in cells.items()]


def gaps(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return by how much losses of 310M lie below those of 122M along the runs, in the mean over mixtures that have both."""
    lines = []
    for domain in DOMAINS:
        wide = table.assign(share=table["share"].round(1)).pivot_table(f"{domain}_loss", ["mixture", "share"], "N")
        gap = (wide.iloc[:, 0] - wide.iloc[:, 1]).groupby("share").mean()
        lines.append({"losses of": domain, **{f"{100 * s:.0f}%": f"{gap[s]:.3f}" for s in (0.2, 0.4, 0.6, 0.8, 1.0)}})
    return lines


def weighted(share: pd.Series) -> pd.Series:
    """Tokens, in those of a whole run, weighted by a learning rate that falls to a tenth as a cosine does."""
    level: pd.Series = (0.1 * share + 0.45 * (share + np.sin(np.pi * share) / np.pi)) / 0.55
    return level


def main() -> None:
    whole = runs(early=0.0)
    large, held = runs(), whole.loc[whole["N"] > LARGE, "mixture"].unique()
    large = large[large["N"] > LARGE]
    whole = whole[(whole["N"] < SMALL) & ~whole["mixture"].isin(held)].reset_index(drop=True)
    whole["share"] = whole["D"] / whole.groupby("run")["D"].transform("max")
    print("# Forms of the law of mixtures, by hold-outs among the fitted runs\n")
    print(HEAD.format(banner=banner("mixture_forms"), mixtures=whole["mixture"].nunique(), domains=len(DOMAINS)))
    kept, lines = whole[whole["share"] > EARLY].reset_index(drop=True), []
    for form in FORMS:
        lines.append({"form": form, "left out up to": "40%", **errors(form, kept)})
    card = form
    more = whole[whole["share"] > 0.15].reset_index(drop=True)
    lines += [{"form": f, "left out up to": "15%", **errors(f, more)} for f in ("E + a + b + C/w^gamma", card)]
    lines.append({"form": "the card, tokens weighted by learning rate (cosine to a tenth)", "left out up to": "40%"})
    lines[-1] |= errors(card, kept.assign(D=kept["D"].max() * weighted(kept["share"])))
    print(markdown_table(lines))
    print("\nBy how much losses of 310M lie below those of 122M at a share of the run, in nats/token (the same if terms add):\n")
    print(markdown_table(gaps(whole)))
    print(BEYOND)
    lines = [a | b for a, b in zip(*(beyond(form, kept, large) for form in (next(iter(FORMS)), card)), strict=True)]
    print(markdown_table(lines))


if __name__ == "__main__":
    main()
