"""How far runs lie from a law of training dynamics, and forecasts of new runs with that distance."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from bayeslaw.forecasting.forecast import forecast
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.run_distance import FEWEST, RunDistance
from tests.dynamics import NOISE, SOURCE, curves
from tests.fixed import fixed_fit, typical_fit
from tests.values import present

OFF, WHITE = 0.02, 0.01


def asked(fit: Fit) -> Fit:
    """The fit as if an error of its law had been asked for, and none learnt."""
    return replace(fit, info={**fit.info, "discrepancy": {"asked": "learned", "reason": "it is a test"}})


def settings() -> pd.DataFrame:
    """Many settings along each run, without the first steps of pre-training."""
    table = curves(25)
    return table[(table["S1_cpt"] > 0) | (table["step"] >= 1000)].reset_index(drop=True)


def off_law(seed: int = 0, white: float = WHITE, off: float = OFF) -> tuple[Fit, np.ndarray]:
    """A fit whose runs lie off the law, each by a number of its own, with white noise around that; and those numbers."""
    rng, table, law = np.random.default_rng(seed), settings(), load_law("cpt-dynamics")
    draws = {k: np.full(40, v) for k, v in (SOURCE | NOISE).items()}
    loss = law.predict({k: v[:1] for k, v in draws.items()}, {k: table[k].to_numpy() for k in law.covariates})[0]
    code, names = pd.factorize(table["run"])
    effect = off * rng.standard_normal(len(names))
    table = table.assign(loss=loss * np.exp(effect[code] + white * rng.standard_normal(len(table))))
    return asked(fixed_fit(law, table, draws, noise="normal")), effect


def test_distance_is_what_losses_of_a_run_share() -> None:
    fit, effect = off_law()
    distance = present(RunDistance.of(fit))
    assert distance.runs == effect.size
    # The mean of some hundred products has a standard error of a few hundredths of the squares.
    assert distance.size == pytest.approx(np.sqrt(np.mean(effect**2)), rel=0.05)


def test_white_noise_is_no_distance() -> None:
    distance = present(RunDistance.of(off_law(off=0.0)[0]))
    assert distance.size < WHITE / 4


def test_order_of_rows_does_not_matter() -> None:
    fit, _ = off_law()
    code = pd.factorize(settings()["run"])[0]
    mixed = settings().assign(loss=3 * np.exp(OFF * np.sin(code))).sample(frac=1, random_state=0)
    fit = asked(fixed_fit(fit.law, mixed.sort_index(), fit.draws, noise="normal"))
    again = asked(fixed_fit(fit.law, mixed, fit.draws, noise="normal"))
    one, other = present(RunDistance.of(fit)), present(RunDistance.of(again))
    assert other.size == pytest.approx(one.size, rel=1e-9)


def test_none_where_none_is_asked_for_or_the_law_has_no_schedule() -> None:
    fit, _ = off_law()
    assert RunDistance.of(replace(fit, info={**fit.info, "discrepancy": {"asked": "none"}})) is None
    assert RunDistance.of(asked(typical_fit("chinchilla"))) is None
    few = fit.observed.select(np.arange(FEWEST - 1))
    assert RunDistance.of(replace(fit, observed=few)) is None


def test_new_runs_are_forecast_with_it_and_known_ones_without() -> None:
    fit, _ = off_law()
    there = settings()
    known, new = there[there["run"] == "wsd-low"], there[there["run"] == "wsd-low"].assign(run="other")
    result = forecast(fit, pd.concat([known, new], ignore_index=True).drop(columns="loss"))
    assert set(result.headlines[: len(known)]) == {"run"}
    assert set(result.headlines[len(known) :]) == {"extrapolated"}
    exact, off = (np.log(result.draws[name].values[:, len(known) :]) for name in ("run", "extrapolated"))
    added = off - exact
    assert np.abs(np.diff(added, axis=1)).max() < 1e-12  # the same along the run
    assert "distance of the fitted runs" in result.error
    assert "%" in fit.learnt().split("fitted runs:")[1]


def test_distances_have_the_tails_of_few_runs() -> None:
    draws = RunDistance(0.02, 4).drawn(np.array([0, 0, 1, -1]), 200_000, (1,))
    assert (draws[0] == draws[1]).all()
    assert not draws[3].any()
    inner = np.quantile(np.abs(draws[2]), 0.9)
    assert inner == pytest.approx(0.02 * t(4).ppf(0.95), rel=0.02)
    assert abs(np.corrcoef(draws[0], draws[2])[0, 1]) < 0.05
