"""The two verdicts that checks end in, and what to do about failed sampling."""

from __future__ import annotations

import pandas as pd
import pytest

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
