"""Checks: verdicts on made-up draws that are good, stuck, apart, or hardly informed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeslaw.checks import Check, diagnostics, information_check, luck_check, overlap, sampler_checks, table_of
from tests.oracles import Array


@pytest.fixture
def draws(rng: np.random.Generator) -> dict[str, Array]:
    return {"a": rng.standard_normal((4, 1000)), "b": rng.standard_normal((4, 1000))}


def stats(rng: np.random.Generator, chains: int = 4, count: int = 1000, diverging: int = 0) -> xr.Dataset:
    flags = np.zeros((chains, count), dtype=bool)
    flags[0, :diverging] = True
    energy = rng.standard_normal((chains, count))
    return xr.Dataset({"diverging": (("chain", "draw"), flags), "energy": (("chain", "draw"), energy)})


def verdicts(checks: list[Check]) -> dict[str, bool]:
    return {check.name: check.passed for check in checks}


def test_good_draws_pass(draws: dict[str, Array], rng: np.random.Generator) -> None:
    checks = sampler_checks(draws, stats(rng))
    assert verdicts(checks) == dict.fromkeys(["r_hat", "ess_bulk", "ess_tail", "divergences", "e_bfmi"], True)
    assert all(check.required and str(check).startswith("passed: ") for check in checks)
    assert checks[3].text == "0 divergent transitions of 4000, at most 0.1% wanted"


def test_chains_apart_fail(draws: dict[str, Array], rng: np.random.Generator) -> None:
    draws["b"][0] += 5
    checks = sampler_checks(draws, stats(rng))
    assert verdicts(checks) == {"r_hat": False, "ess_bulk": False, "ess_tail": False, "divergences": True, "e_bfmi": True}
    assert "(b), at most 1.01 wanted" in checks[0].text
    assert str(checks[0]).startswith("FAILED: largest R-hat 1.")
    assert checks[0].table["r_hat"]["a"] < 1.01 < checks[0].table["r_hat"]["b"]


def test_slow_chains_fail(draws: dict[str, Array], rng: np.random.Generator) -> None:
    steps = rng.standard_normal((4, 1000))
    for i in range(1, 1000):
        steps[:, i] += 0.97 * steps[:, i - 1]
    checks = sampler_checks(draws | {"b": steps}, stats(rng))
    assert not verdicts(checks)["ess_bulk"]
    assert "of 4000 draws (b), at least 400 wanted" in checks[1].text


@pytest.mark.parametrize(("diverging", "passed"), [(4, True), (5, False)])
def test_divergences(diverging: int, passed: bool, draws: dict[str, Array], rng: np.random.Generator) -> None:
    checks = sampler_checks(draws, stats(rng, diverging=diverging))
    assert verdicts(checks)["divergences"] is passed


def test_energy_that_creeps_fails(draws: dict[str, Array], rng: np.random.Generator) -> None:
    creeping = stats(rng)
    creeping["energy"][2] = np.cumsum(rng.standard_normal(1000))
    checks = sampler_checks(draws, creeping)
    assert not verdicts(checks)["e_bfmi"]
    assert checks[-1].table["e_bfmi"].idxmin() == 2


def test_one_chain_fails(rng: np.random.Generator) -> None:
    checks = sampler_checks({"a": rng.standard_normal((1, 2000))}, stats(rng, 1, 2000))
    assert verdicts(checks) == {"r_hat": False, "ess_bulk": True, "ess_tail": True, "divergences": True, "e_bfmi": True}
    assert checks[0].text == "one chain only: R-hat needs two"


def test_draws_that_never_moved_fail(draws: dict[str, Array], rng: np.random.Generator) -> None:
    """Constant draws have no R-hat, in one parameter or in all of them."""
    still = {"b": np.ones((4, 1000))}
    frozen = stats(rng).assign(energy=(("chain", "draw"), np.ones((4, 1000))))
    for checks in (sampler_checks(draws | still, frozen), sampler_checks(still, frozen)):
        assert not any(check.passed for check in checks if check.name in ("r_hat", "e_bfmi"))
        assert "(b)" in checks[0].text


def test_diagnostics_name_every_parameter(draws: dict[str, Array]) -> None:
    table = diagnostics(draws)
    assert list(table.index) == ["a", "b"]
    assert list(table.columns) == ["r_hat", "ess_bulk", "ess_tail"]
    assert (table["ess_bulk"] > 3000).all()


def test_overlap(rng: np.random.Generator) -> None:
    same = overlap(rng.standard_normal(20_000), rng.standard_normal(20_000))
    assert same > 0.97
    assert overlap(rng.standard_normal(5000), 20 + rng.standard_normal(5000)) < 0.05
    # two unit normals a distance d apart have a common area of 2 Phi(-d/2): 0.617 for d = 1
    assert overlap(rng.standard_normal(50_000), 1 + rng.standard_normal(50_000)) == pytest.approx(0.617, abs=0.02)
    assert overlap(rng.standard_normal(50_000), np.ones(50)) < 0.1


def test_parameters_that_keep_their_priors_are_named(rng: np.random.Generator) -> None:
    prior = {"a": rng.standard_normal(4000), "b": rng.standard_normal(4000)}
    posterior = {"a": 0.1 * rng.standard_normal((4, 1000)), "b": rng.standard_normal((4, 1000))}
    check = information_check(prior, posterior)
    assert (check.passed, check.required) == (False, False)
    assert str(check) == "note: b: not informed by these data"
    assert check.table["prior_overlap"]["b"] > 0.9 > 0.3 > check.table["prior_overlap"]["a"]
    assert information_check({"a": prior["a"]}, posterior).text == "the data inform every parameter"


def test_runs_apart_from_the_law_are_noted() -> None:
    assert luck_check(np.full((2, 10), 0.004)).passed
    check = luck_check(np.full((2, 10), 0.2))
    assert (check.passed, check.required) == (False, False)
    assert check.text.startswith("runs lie 20.0% around the law beyond point noise")


def test_records_for_storage() -> None:
    check = Check("name", True, "text", False, pd.DataFrame({"x": [1.0]}, index=["a"]))
    assert table_of((check,)) == [{"name": "name", "passed": True, "required": False, "text": "text", "table": {"x": {"a": 1.0}}}]
