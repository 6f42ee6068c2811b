"""Fits that used to pass without a word: each now has a concern that says what is wrong and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.cli.demo import ONE_SEED, SEEN, SETTLED, table_path
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import twins
from tests.commands import Command

LAW = load_law("chinchilla")


def twin() -> pd.DataFrame:
    return twins.simulate(LAW, twins.TRUTHS["chinchilla"], twins.settings(LAW), 1)


def concerns_of(fit: Fit) -> dict[str, str]:
    assert fit.passed, fit.failures
    return {check.name: str(check) for check in fit.concerns}


def test_a_sound_table_has_two_good_verdicts() -> None:
    fit = bayeslaw.fit("chinchilla", twin(), seed=1, progress=False, discrepancy="none")
    assert fit.verdicts == ("passed", "no concerns")
    assert fit.summary()["model"].unique().tolist() == ["no concerns"]


def test_a_diverged_run_among_sound_ones_is_an_outlier(command: Command, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    table = twin()
    table.loc[17, "loss"] = 9.74
    table.to_csv("runs.csv", index=False)
    done = command("fit", "chinchilla", "runs.csv", "-o", "fit.nc", "--discrepancy", "none", "-q")
    assert "concern: 1 of 240 rows is more than 5 sd of its noise off: row 18 (" in done.out
    assert "\nSampling: passed\nModel: concerns (outliers" in done.out


def test_four_rows_of_one_size_are_a_concern() -> None:
    table = twin()
    some = table[table["run"] == table["run"][0]].iloc[::3].drop(columns="run")
    found = concerns_of(bayeslaw.fit("chinchilla", some, seed=1, progress=False, discrepancy="none"))
    assert "N has one value" in found["values"]
    assert "4 settings are too few for 5 parameters" in found["values"]
    assert found["values"].endswith("Add runs at other values.")


def test_a_law_that_knows_no_pretraining_errs_along_it() -> None:
    """d-cpt on tinycpt covers 10% of unseen stages: its residuals show it at the two stages that it is fitted to."""
    whole = read_runs(table_path(), f"domain == 'target' and {ONE_SEED}")
    settled = Runs(whole.frame[whole.frame["D"] >= SETTLED * whole.frame["N"]], "tinycpt").where(SEEN)
    found = concerns_of(bayeslaw.fit("d-cpt", settled, progress=False))
    assert "ptpp: +2.6%, -2.6%" in found["misfit"]
    assert {"run_effect", "autocorrelation", "prior_conflict"} <= {*found}


@pytest.mark.parametrize(("eta", "decided"), [(0.15, True), (0.28, False)])
def test_a_forecast_says_where_priors_decide_it(eta: float, decided: bool) -> None:
    """Two stages don't tell an exponent of PTPP that lies far from its prior; a truth near the prior's median is no concern."""
    law = load_law("transfer-target")
    truth = twins.TRUTHS["transfer-target"] | {"eta": eta}
    table = twins.simulate(law, truth, twins.settings(law, sizes=(241e6, 517e6, 1.4e9, 2.8e9)), 0)
    fit = bayeslaw.fit(law, table, progress=False, draws=600)
    at = pd.DataFrame({"N": 8.1e9, "ptpp": 279.0, "r": 0.25, "D": 8.1e9 * np.array([8.0, 9.0])})
    forecast = fit.forecast(at)
    check = next(check for check in forecast.checks if check.name == "priors")
    assert check.passed is not decided
    if decided:
        assert "the priors have a say in the latent loss at 2 of 2 settings (rows 1–2)" in check.text
        assert set(forecast.summary()["model"]) == {"concerns"}
