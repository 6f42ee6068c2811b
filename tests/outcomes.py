"""Laws of outcomes other than losses, tables of them, and fits whose draws are given."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from bayeslaw.laws.card import parse_card
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from tests.fixed import fixed_fit

SHARE = "1 / (1 + exp(k * (c - log(6*N*D) / 10)))"
SECTIONS = {
    "count": 'name = "accuracy"\nunit = "share of questions"\nkind = "count"\nitems = "items"\nchance = 0.25',
    "bounded": 'name = "score"\nunit = "%"\nkind = "bounded"\nbounds = [0, 100]\nchance = 25',
    "real": 'name = "gain"\nunit = "points"\nkind = "real"\nscale = 10',
    "positive": 'name = "memory"\nunit = "GB"\nkind = "positive"',
}
FORMULAS = {
    "count": f"0.25 + 0.7 * {SHARE}", "bounded": f"25 + 70 * {SHARE}", "real": f"-30 + 70 * {SHARE}", "positive": f"80 * {SHARE}",
}  # fmt: skip
NAMES = {"count": "accuracy", "bounded": "score", "real": "gain", "positive": "memory"}
PLURALS = {"count": "accuracies", "bounded": "scores", "real": "gains", "positive": "memories"}
ITEMS = 'items = { unit = "questions", support = [1, 1e9], context = true }\n'
CARD = """\
name    = "{kind}-law"
title   = "A law of an outcome of kind {kind}"
source  = "a test"
formula = "{formula}"

[outcome]
{outcome}

[covariates]
N = {{ unit = "parameters", support = [1e3, 1e13] }}
D = {{ unit = "tokens", support = [1e3, 1e15] }}
{items}
[parameters.k]
meaning = "steepness"
prior   = {{ dist = "LogNormal", mu = 1.4, sigma = 0.3 }}

[parameters.c]
meaning = "middle"
prior   = {{ dist = "Normal", mu = 4.4, sigma = 0.2 }}
"""


def card(kind: str) -> str:
    """Return a card with the outcome of a kind."""
    items = ITEMS if kind == "count" else ""
    return CARD.format(kind=kind, formula=FORMULAS[kind], outcome=SECTIONS[kind], items=items)


def law(kind: str) -> Law:
    """The law of `card`."""
    return parse_card(card(kind))


def table(kind: str, *, items: int = 200) -> pd.DataFrame:
    """Four sizes at six numbers of tokens each, and outcomes with some noise; the largest sizes reach the bounds of counts."""
    rng, name = np.random.default_rng(3), NAMES[kind]
    frame = pd.DataFrame([{"N": n, "D": d} for n in (1e7, 1e8, 1e9, 1e10) for d in (1e9, 3e9, 1e10, 3e10, 1e11, 3e11)])
    frame["run"] = [f"run{i}" for i in range(len(frame))]
    share = 1 / (1 + np.exp(4 * (4.4 - np.log(6 * frame["N"] * frame["D"]) / 10)))
    match kind:
        case "count":
            frame = frame.assign(items=items, accuracy=rng.binomial(items, 0.25 + 0.7 * share) / items)
        case "bounded":
            share = 0.25 + 0.7 * share
            noisy = np.log(share / (1 - share)) + 0.1 * rng.standard_normal(len(frame))
            frame["score"] = 100 / (1 + np.exp(-noisy))
        case "real":
            frame["gain"] = -30 + 70 * share + rng.standard_normal(len(frame))
        case _:
            frame["memory"] = 80 * share * np.exp(0.05 * rng.standard_normal(len(frame)))
    return frame.round({name: 6})


@cache
def outcome_fit(kind: str, *, items: int = 200, size: int = 800) -> Fit:
    """`law` fitted to `table`, with draws near the values that made it."""
    rng = np.random.default_rng(1)
    scale = {"real": 1.0, "positive": 0.05}.get(kind, 0.1)
    draws = {"k": 4.0 + 0.1 * rng.standard_normal(size), "c": 4.4 + 0.01 * rng.standard_normal(size)}
    draws |= {"sigma_point": scale * np.exp(0.1 * rng.standard_normal(size)), "dof": 10 + rng.uniform(size=size)}
    return fixed_fit(law(kind), table(kind, items=items), draws)
