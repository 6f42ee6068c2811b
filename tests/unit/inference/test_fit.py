"""Arguments of a fit that are refused before anything is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.inference.batch import Task
from bayeslaw.inference.fit import _about_areas, numbers_of, settings_of_runs
from bayeslaw.inference.refit import refit_task
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.formula import Expression
from bayeslaw.laws.pooling import with_by
from tests import oracles
from tests.cards import POSITIVE, card
from tests.errors import fails
from tests.fixed import loaded_fit, stand_in_fit
from tests.outcomes import law as outcome_law
from tests.outcomes import table as outcome_table


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ({"by": "E=domain"}, "not-a-mapping", "{'E': 'domain'}, not 'E=domain'"),
        ({"by": ["E"]}, "not-a-mapping", "not ['E']"),
        ({"by": {"E": " "}}, "not-a-text", "not ' '"),  # for which E varied by nothing
        ({"priors": "E=LogNormal(0, 1)"}, "not-a-mapping", "{'E': 'LogNormal(0.5, 0.2)'}"),
        ({"priors": {"E": 3}}, "not-a-prior", "3 is not a prior"),
        ({"target_accept": "0.9"}, "bad-target-accept", "'0.9'"),
        ({"draws": "300"}, "not-a-whole-number", "not '300'"),
    ],
)
def test_arguments_as_the_command_line_has_them_are_refused_in_words(given: dict[str, Any], code: str, named: str) -> None:
    with fails(code, named):
        bayeslaw.fit("chinchilla", pd.DataFrame({"N": [1e8], "D": [1e9], "loss": [3.0]}), **given)


@pytest.mark.parametrize(
    ("name", "suggested"), [("sigma_runs", "Did you mean 'sigma_run'?"), ("alfa", "Did you mean 'alpha'?"), ("Z", "sigma_point")]
)
def test_a_prior_of_an_unknown_name_names_the_parameters_of_law_and_noise(name: str, suggested: str) -> None:
    table = oracles.table(bayeslaw.load_law("chinchilla")).assign(run=lambda rows: rows["N"])
    with fails("unknown-parameter", f"{name} is", "E, A, alpha, B, beta", "sigma_point", suggested):
        bayeslaw.fit("chinchilla", table, priors={name: "HalfNormal(.01)"}, progress=False)


def test_what_is_no_list_of_tasks_is_named_in_a_line() -> None:
    """Tables in the place of tasks were printed, and of a mapping or a text the first name or letter."""
    table = pd.DataFrame({"N": [1e8], "D": [1e9], "loss": [3.0]})
    task = Task("chinchilla", table)
    for given, named in (
        ([table], "not a DataFrame."),
        ({"web": task}, "not a dict of them."),
        ("chinchilla", "not 'chinchilla'."),
    ):
        with fails("not-a-task", "Give a list of tasks", named):
            bayeslaw.fit_many(cast("Any", given), progress=False)


def test_a_noise_of_ones_own_can_be_given_other_priors() -> None:
    """As a refit gives them; they were taken for the law's."""

    def own(error: Any, width: Any = "HalfNormal(0.1)") -> Any:
        return -0.5 * (error / width) ** 2 - pt.log(width)

    table = oracles.table(bayeslaw.load_law("chinchilla"))
    with fails("wrong-support", "width"):
        bayeslaw.fit("chinchilla", table, noise=own, priors={"width": "Normal(0, 1)"}, progress=False)
    with fails("unknown-parameter", "width", "widht"):
        bayeslaw.fit("chinchilla", table, noise=own, priors={"widht": "HalfNormal(1)"}, progress=False)


def test_a_covariate_is_not_called_like_what_files_keep_beside_them() -> None:
    """Files had the steps of the clock in its place, and of `row_group` names of groups, so that they could not be read."""
    law = parse_card(card("E + clock/N**a", {"N": (1.0, 1e12), "clock": (0.0, 9.0)}, E=POSITIVE, a=POSITIVE))
    table = pd.DataFrame(
        {"N": 1e8, "clock": [1.0, 2.0] * 4, "run": list("aabbccdd"), "step": range(8), "loss": np.arange(3, 7, 0.5)}
    )
    with fails("name-used-twice", "'clock'", "rename it in the card"):
        bayeslaw.fit(law, table, noise="normal-drift", progress=False)
    counted = parse_card(outcome_law("count").card.replace('"items"', '"row_group"').replace("items = {", "row_group = {"))
    shares = outcome_table("count").rename(columns={"items": "row_group"}).assign(task=lambda t: np.where(t.index % 2, "x", "y"))
    with fails("name-used-twice", "'row_group'"):
        bayeslaw.fit(counted, shares, noise_by="task", progress=False)


def test_a_law_whose_parameters_were_made_to_vary_is_read_again(tmp_path: Path) -> None:
    """The file had the card alone, whose law has other parameters than the draws."""
    law, table = bayeslaw.load_law("chinchilla"), oracles.table(bayeslaw.load_law("chinchilla"))
    table = table.assign(dom=np.where(table.index % 2, "web", "code"))
    fit = stand_in_fit(with_by(law, {"E": "dom"}), table, discrepancy="none", draws=20)
    for again in (fit, stand_in_fit(fit.law, table, discrepancy="none", draws=20)):
        again.save(tmp_path / "fit.nc")
        assert loaded_fit(tmp_path / "fit.nc").law.parameters == fit.law.parameters
        assert refit_task(again, read_runs(table)).options["by"] == {"E": "dom"}
    assert stand_in_fit(law, table, discrepancy="none", draws=20).info["by"] == {}


def test_a_law_that_was_changed_in_python_is_not_fitted() -> None:
    """Its file had the formula of the card, by which a forecast of the file was another one."""
    law, table = bayeslaw.load_law("chinchilla"), oracles.table(bayeslaw.load_law("chinchilla"))
    for changed, named in (
        (replace(law, formula=Expression.parse("E + A/N**alpha + 2*B/D**beta")), "The formula of chinchilla is"),
        (replace(law, covariates={**law.covariates, "N": replace(law.covariates["N"], support=(1.0, 2e9))}), "The covariates"),
    ):
        with fails("not-its-card", named):
            bayeslaw.fit(changed, table, progress=False)


@pytest.mark.parametrize("name", ["coefficients", "loadings", "squares", "multiple", "component", "knot"])
def test_a_parameter_is_not_called_like_what_a_learnt_error_has(name: str) -> None:
    """Its draws were replaced, so that forecasts ended in a KeyError, or the file could not be read."""
    law = parse_card(card(f"{name} + A/N**a", {"N": (1.0, 1e12)}, A=POSITIVE, a=POSITIVE, **{name: POSITIVE}))
    table = pd.DataFrame({"N": [1e7, 1e8, 1e9, 1e10], "loss": [3.0, 2.8, 2.7, 2.6]})
    with fails("name-used-twice", repr(name), "discrepancy='none'"):
        bayeslaw.fit(law, table, progress=False)


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("power", "high", "power high at row 2 is no number from 0 on"),
        ("power", -0.1, "power -0.1 at row 2"),
        ("memory", 1.0, "memory 1.0 at row 2 is no number from 0 to below 1"),
        ("reference_batch", np.inf, "reference_batch inf at row 2"),
    ],
)
def test_what_areas_cannot_be_computed_with_is_refused_before_sampling(column: str, value: Any, named: str) -> None:
    """A file of such a fit could not be read again."""
    law = bayeslaw.load_law("annealing-lr-weighted")
    table = oracles.table(law)
    cells = pd.Series([None, value] + [None] * (len(table) - 2), dtype=object if isinstance(value, str) else float)
    with fails("invalid-areas", named, "another name"):
        bayeslaw.fit(law, table.assign(**{column: cells}))


def test_skills_of_a_law_of_accuracies_are_no_areas() -> None:
    """Its covariates are named S1 and S2, too."""
    law = bayeslaw.load_law("observational-skill")
    table = oracles.table(law)
    own = {"memory": np.arange(len(table)), "reference_batch": np.arange(len(table))}  # such as gigabytes
    assert _about_areas(law, read_runs(table.assign(**own))) == {}


def test_residuals_are_judged_along_learning_rates_by_which_runs_differ() -> None:
    """A third of the runs with a rate that is far too high made a fit without concerns."""
    law = bayeslaw.load_law("chinchilla")
    table = oracles.table(law)
    rates = np.where(pd.factorize(table["run"])[0] % 3 == 0, 1e-2, 3e-4)
    table["learning_rate"], table["train/lr"], table["config.lr"] = rates, np.arange(len(table)), 1e-3
    runs = read_runs(table)
    observed = Observations.of(law, runs)
    found = settings_of_runs(law, observed, numbers_of(runs.frame, observed))
    assert list(found) == ["lr"]
    assert set(found["lr"]) == {1e-2, 3e-4}
    assert settings_of_runs(bayeslaw.load_law("lr-batch"), observed, found) == {}
