"""The two verdicts that checks end in, and what to do about failed sampling."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import xarray as xr

from bayeslaw.laws.card import load_law
from bayeslaw.posterior.diagnostics import (
    LONGER,
    Check,
    Subject,
    distrusted,
    model_label,
    model_verdict,
    sampling_label,
    sampling_verdict,
)
from bayeslaw.posterior.fit import EXTRAPOLATION
from tests import oracles
from tests.fixed import stand_in_fit


def check(name: str, subject: Subject, *, passed: bool = False, advice: str = "") -> Check:
    return Check(name, passed, f"text of {name}", subject, pd.DataFrame(), advice)


def test_a_concern_leaves_sampling_passed() -> None:
    checks = [
        check("r_hat", "sampling", passed=True),
        check("misfit", "model"),
        check("outliers", "model"),
        check("informed", "note"),
    ]
    assert (sampling_verdict(checks), sampling_label(checks)) == ("passed", "passed")
    assert (model_verdict(checks), model_label(checks)) == ("concerns (misfit, outliers)", "concerns")
    assert model_verdict(checks[:1]) == "no concerns"


def test_a_model_is_not_assessed_by_draws_that_failed() -> None:
    checks = [check("r_hat", "sampling", advice=LONGER), check("misfit", "model")]
    assert sampling_verdict(checks) == f"FAILED (r_hat). {LONGER}."
    assert model_label(checks) == "not assessed"


@pytest.mark.parametrize("others", [(), ("r_hat", "ess_bulk")])
def test_more_draws_are_not_advised_where_draws_diverged(others: tuple[str, ...]) -> None:
    checks = [check(name, "sampling", advice=LONGER) for name in others]
    checks.append(check("divergences", "sampling", advice="More draws don't help: tune longer"))
    for text in (sampling_verdict(checks), str(distrusted("Sampling of a law", checks))):
        assert "Sample longer" not in text
        assert "tune longer" in text
        assert all(name in text for name in others)


def test_other_runs_come_first_where_these_do_not_identify_the_parameters() -> None:
    checks = [check("r_hat", "sampling", advice=LONGER), check("values", "model")]
    assert sampling_verdict(checks).startswith("FAILED (r_hat). Add runs by which all parameters are identified")
    assert LONGER in sampling_verdict(checks)


def test_a_line_ends_with_what_to_do() -> None:
    assert str(check("outliers", "model", advice="Look at it")) == "concern: text of outliers. Look at it."
    assert str(check("outliers", "model", passed=True, advice="Look at it")) == "passed: text of outliers"
    assert str(check("informed", "note")) == "note: text of informed"


def test_a_fit_says_that_draws_of_the_law_with_its_error_mix_slowly() -> None:
    """Forecasts outside the runs, which these draws make, would be refused after a fit that passed."""
    table = oracles.table(load_law("chinchilla"), runs=8)
    fit = stand_in_fit("chinchilla", table, draws=1000)
    assert fit.info["discrepancy"]["learned"]
    assert "mix slowly" not in fit.learnt()
    tree = fit.tree.copy(deep=True)
    draws = tree[EXTRAPOLATION].to_dataset()
    tree[EXTRAPOLATION] = xr.DataTree(draws.assign(E=draws["E"] * xr.DataArray([1.0, 1.2], dims="chain")))
    assert "Draws of the law with this error mix slowly (R-hat" in replace(fit, tree=tree).learnt()
