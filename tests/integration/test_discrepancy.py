"""Fits of simulated runs whose truth is the law, or bends away from it: what is learnt of the law's error, and what it covers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.laws.card import load_law, parse_card
from tests import oracles

LAW = load_law("chinchilla")
SAMPLED: dict[str, Any] = {"draws": 500, "tune": 500, "chains": 2, "seed": 1, "progress": False}


def simulated(bend: float) -> pd.DataFrame:
    """42 runs of 7 sizes; the loss at the largest compute lies `bend` above the law that those of little compute follow."""
    n = np.repeat(np.geomspace(2e7, 2e9, 7), 6)
    d = np.tile(np.geomspace(5e8, 2e10, 6), 7) * np.sqrt(n / 2e8)
    share = (np.log(n * d) - np.log(n * d).min()) / np.ptp(np.log(n * d))
    noise = 0.002 * np.random.default_rng(0).standard_normal(n.size)
    loss = oracles.chinchilla(oracles.typical(LAW), {"N": n, "D": d}) * np.exp(bend * share**3 + noise)
    return pd.DataFrame({"N": n, "D": d, "loss": loss, "run": [f"r{i}" for i in range(n.size)]})


@pytest.mark.parametrize(("bend", "fewest"), [(0.0, 12), (-0.05, 12), (0.05, 11)])
def test_extrapolated_intervals_hold_whether_or_not_the_law_does(bend: float, fewest: int) -> None:
    """The third of the runs with most compute, forecast by the others: 14 losses, of which 90% intervals should hold 13.

    Real ladders bend downwards, and the law's mean error in corners counts on that.
    """
    table = simulated(bend)
    compute = table["N"] * table["D"]
    held = table[compute > compute.quantile(2 / 3)]
    fit = bayeslaw.fit(LAW, table.drop(held.index), **SAMPLED)
    assert "the law errs by " in fit.learnt()
    forecast = fit.forecast(held, force=True)
    assert set(forecast.headlines) == {"extrapolated"}
    summary, loss = forecast.summary(), held["loss"].to_numpy()
    covered = {s: ((loss > summary[f"{s}_eti90_lb"]) & (loss < summary[f"{s}_eti90_ub"])).sum() for s in ("run", "extrapolated")}
    assert len(held) == 14
    assert covered["extrapolated"] >= fewest
    assert covered["run"] >= 12 if bend == 0 else covered["run"] <= 6


def test_laws_of_differences_learn_an_error_too() -> None:
    """Losses minus 3 nats, by a law of an outcome of kind real: negative ones among them, with errors in nats."""
    outcome = '[outcome]\nname = "gap"\nunit = "nats/token"\nkind = "real"\nscale = 3.0\n'
    text = LAW.card.replace("loss   =", "formula =").replace("[covariates]", f"{outcome}\n[covariates]", 1)
    text = re.sub("corner_error.*", "", text)
    text = text.replace('dist = "LogNormal", mu = 0.3, sigma = 0.5', 'dist = "Normal", mu = -1.5, sigma = 1.0')
    law, table = parse_card(text), simulated(0.05).assign(gap=lambda t: t["loss"] - 3.0).drop(columns="loss")
    compute = table["N"] * table["D"]
    held = table[compute > compute.quantile(2 / 3)]
    fit = bayeslaw.fit(law, table.drop(held.index), **SAMPLED)
    assert "the law errs by 0." in fit.learnt()
    assert "%" not in fit.learnt().split("equal-tailed")[1]
    forecast = fit.forecast(held, force=True)
    assert set(forecast.headlines) == {"extrapolated"}
    summary, gap = forecast.summary(), held["gap"].to_numpy()
    covered = {s: ((gap > summary[f"{s}_eti90_lb"]) & (gap < summary[f"{s}_eti90_ub"])).sum() for s in ("run", "extrapolated")}
    assert covered["extrapolated"] >= 12
    assert covered["run"] <= 6
