"""What a comparison says of its stack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.data.table import Runs
from bayeslaw.evaluation.compare import compare
from bayeslaw.evaluation.comparison import Work, comparison_of
from bayeslaw.evaluation.loo import Loo, held_out_density, leave_one_run_out
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import line_fit, without_sampling

LAWS = {"law": ["a", "b", "stack"], "noise": ["auto", "auto", ""], "fit": ["posterior", "posterior", "stack"]}


def notes(first: float, second: float, stack: float) -> tuple[str, ...]:
    """Of a comparison whose laws' and whose stack's 90% intervals hold these shares."""
    return notes_of(pd.DataFrame(LAWS).assign(rows=40, cover_eti90=[first, second, stack]))


def notes_of(*scores: pd.DataFrame) -> tuple[str, ...]:
    """Of a comparison with these scores of its parts."""
    work: Any = SimpleNamespace(scores=scores, notes=["another note"])
    return comparison_of(work, pd.DataFrame(), {}, Stack.of({"a": line_fit(size=400)}, {"a": 1.0}), pd.DataFrame()).notes


def test_a_stack_that_holds_less_than_every_one_of_its_laws_is_noted() -> None:
    other, narrow = notes(0.89, 0.96, 0.75)
    assert other == "another note"
    assert "hold 75%" in narrow
    assert "89% or more" in narrow


@pytest.mark.parametrize("shares", [(0.89, 0.96, 0.86), (0.6, 0.96, 0.7), (0.89, 0.96, float("nan"))])
def test_other_stacks_are_not(shares: tuple[float, float, float]) -> None:
    assert notes(*shares) == ("another note",)


def test_parts_count_by_their_rows() -> None:
    few, many = (pd.DataFrame(LAWS).assign(rows=rows) for rows in (1, 99))
    assert notes_of(few.assign(cover_eti90=[1.0, 1.0, 0.0]), many.assign(cover_eti90=[0.95, 0.95, 0.93])) == ("another note",)
    # Laws that hold nothing of one small part hold 94% and 93% of all.
    _, narrow = notes_of(few.assign(cover_eti90=0.0), many.assign(cover_eti90=[0.95, 0.94, 0.8]))
    assert "hold 79%" in narrow
    assert "93% or more" in narrow


@pytest.mark.parametrize("name", ["seed", "noise"])
def test_an_argument_of_its_own_is_refused_among_the_options(name: str) -> None:
    with fails("own-argument", f"{name}="):
        compare(oracles.table(load_law("chinchilla")), "chinchilla", options={name: 1}, progress=False)


@pytest.mark.parametrize("way", [{}, {"loo": True}, {"at": {"N": 1e11, "D": 1e12}}])
def test_a_bootstrap_needs_point_fits(way: dict[str, Any]) -> None:
    with fails("no-point-fits", "bootstrap="):
        compare(oracles.table(load_law("chinchilla")), "chinchilla", bootstrap=100, progress=False, **way)


@pytest.mark.slow
def test_runs_with_base_checkpoints_that_no_law_describes_are_scored_without_these() -> None:
    table = oracles.table(load_law("chinchilla"))
    base = table.drop_duplicates("run").assign(D=0.0, loss=9.0)
    options: dict[str, Any] = {"loo": True, "noise": "normal", "options": {"chains": 2, "draws": 500}, "progress": False}
    with without_sampling():
        with_base, alone = (compare(rows, "chinchilla", force=True, **options) for rows in (pd.concat([base, table]), table))
    assert with_base.scores["rows"].item() == len(table)
    for one, other in ((with_base.scores, alone.scores), (with_base.runs, alone.runs)):
        pd.testing.assert_frame_equal(one.drop(columns="checks", errors="ignore"), other.drop(columns="checks", errors="ignore"))
    assert with_base.rows["run"].value_counts().to_dict() == table["run"].value_counts().to_dict()
    assert set(with_base.rows["held_out"]) == set(with_base.scores["held_out"]) == {"each run"}
    assert with_base.notes[0].startswith(f"{len(base)} base-checkpoint rows (D = 0) are left out for every law")
    with without_sampling():
        with_base = compare(pd.concat([base.head(1), table]), "chinchilla", force=True, **options)
    assert with_base.notes[0].startswith("1 base-checkpoint row (D = 0) is left out for every law")


@pytest.mark.slow
def test_rows_are_those_that_were_held_out() -> None:
    table = oracles.table(load_law("chinchilla"))
    with without_sampling():
        result = compare(
            table, "chinchilla", holdout="N > 2e8 or D > 2e10", options={"chains": 2, "draws": 500}, starts=2, force=True,
            progress=False,
        )  # fmt: skip
    held = table.query("N > 2e8 or D > 2e10")
    assert result.rows["run"].value_counts().to_dict() == held["run"].value_counts().to_dict()
    assert set(result.rows["held_out"]) == set(result.scores["held_out"])


@pytest.mark.parametrize("way", [{"holdout": "D > 1e10"}, {}])
def test_a_law_whose_densities_are_not_finite_is_shown_with_them(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows were held out its column was missing; where single runs were left out it was there."""

    def impossible(fit: Fit, *tables: Runs) -> pd.Series:
        return held_out_density(fit, *tables) - (np.inf if fit.law.name == "overtraining" else 0.0)

    def unreliable(fit: Fit) -> Loo:
        loo = leave_one_run_out(fit)
        return loo.refitted("run 0", -np.inf) if fit.law.name == "overtraining" else loo

    monkeypatch.setattr("bayeslaw.evaluation.compare.held_out_density", impossible)
    monkeypatch.setattr("bayeslaw.evaluation.compare.leave_one_run_out", unreliable)
    table, laws = oracles.table(load_law("chinchilla")), ["chinchilla", "overtraining"]
    options = {"draws": 100, "chains": 2, "discrepancy": "none"}
    with without_sampling():
        result = compare(table, laws, starts=2, options=options, force=True, progress=False, **way)
    assert list(result.runs) == laws
    assert result.stack.weights == {"chinchilla": 1.0}
    assert any(note.startswith("overtraining has no weight: its losses are not finite") for note in result.notes)


@pytest.mark.parametrize("code", ["no-number", ""])
def test_scoring_that_fails_costs_its_own_row_alone(code: str) -> None:
    """Errors other than those of fits ended a comparison after all its fits."""

    def impossible() -> pd.DataFrame:
        raise BayeslawError("a loss is no number", code=code) if code else FitError("sampling failed")

    nothing: Any = None
    work = Work(nothing, nothing, (), {}, 0, False, nothing, False, [])
    work.add("D > 1e10", "chinchilla", "normal", "posterior", "passed", impossible)
    work.add("D > 1e10", "overtraining", "normal", "posterior", "passed", lambda: pd.DataFrame([{"crps": 0.1}]))
    assert [len(scores) for scores in work.scores] == [1, 1]
    (note,) = work.notes
    assert note.startswith("chinchilla (posterior), D > 1e10: not scored. ")
