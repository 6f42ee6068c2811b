"""Successive forecasts: what was stated stays, a log that goes back begins anew, and fits are made again where they must be."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.executors import Result
from bayeslaw.data.curves import Curves, read_curves
from bayeslaw.dynamics import RunForecasts, follow
from bayeslaw.dynamics.follow import Follower
from bayeslaw.inference.batch import Task
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests.errors import fails
from tests.fixed import fixed_fit
from tests.unit.dynamics.test_monitor import WHOLE, table, without

pytestmark = pytest.mark.slow


def so_far(step: int, factor: float = 1.0) -> Curves:
    frame = table()
    frame = frame[(frame["run"] == "done") | (frame["step"] <= step)]
    return read_curves(frame.assign(loss=frame["loss"].where(frame["run"] == "done", frame["loss"] * factor)), warmup=100)


@cache
def refitted() -> Fit:
    """A fit to both runs, the second 10% above the first."""
    fit, _ = without()
    draws = {name: values.copy() for name, values in fit.draws.items()}
    return fixed_fit(load_law("annealing"), so_far(1000, 1.1).frame, draws | {"L0": draws["L0"] * 1.1}, noise="normal-drift")


def test_what_was_stated_of_a_loss_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(without()[0], "now", WHOLE, refit="never")
    first = follower.update(so_far(1000))
    second = follower.update(so_far(1200))
    assert second.stated["step"].tolist() == list(range(200, 1201, 100))
    np.testing.assert_array_equal(first.stated["pit"], second.stated["pit"][:9])


def test_what_follows_a_run_shows_how_far_it_is() -> None:
    follower, forecasts = Follower(without()[0], "now", WHOLE, refit="never"), RunForecasts(without()[0], WHOLE)
    assert repr(follower) == "<Follower: no loss yet of 'now', whose schedule has 4,000 steps, by annealing>"
    assert repr(forecasts) == "<RunForecasts: no loss yet of 'running', whose schedule has 4,000 steps>"
    follower.update(so_far(1000))
    forecasts.add(1000, 3.8)
    assert repr(follower) == "<Follower: step 1,000 of 4,000 of 'now', by annealing>"
    assert repr(forecasts).startswith("<RunForecasts: Watch of running, step 1,000 of 4,000: loss at the end")


def test_of_many_losses_each_is_stated_with_those_just_before_it_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else neighbours miss together, and far more than one run of twenty would leave its band by chance."""
    whole = Follower(without()[0], "now", WHOLE, refit="never").update(so_far(2000)).stated
    monkeypatch.setattr("bayeslaw.dynamics.monitor.MOST_ROWS", 8)
    follower = Follower(without()[0], "now", WHOLE, refit="never")
    first = follower.update(so_far(1700)).stated
    assert first["step"].tolist() == [200, 600, 900, 1300, 1400, 1500, 1600, 1700]
    for step in (1800, 1900, 2000):
        later = follower.update(so_far(step)).stated
    assert later["step"].tolist() == [*first["step"], 1800, 1900, 2000]  # none of those that were passed over
    np.testing.assert_array_equal(later["pit"][:8], first["pit"])
    np.testing.assert_allclose(later["pit"][8:], whole["pit"][-3:], atol=1e-3)


def test_a_log_that_goes_back_begins_anew() -> None:
    follower = Follower(without()[0], "now", WHOLE, refit="never")
    follower.update(so_far(1200))
    back = follower.update(so_far(800, 1.001))
    assert back.step == 800
    assert any("was replaced, or the run was resumed" in note for note in back.notes)
    assert back.stated["step"].max() == 800
    assert back.stated["loss"].iloc[0] == pytest.approx(table().query("run == 'now'")["loss"].iloc[0] * 1.001)


@pytest.mark.parametrize("end", [1200, 1400])
def test_a_log_with_other_losses_than_before_begins_anew(end: int) -> None:
    """A run that was resumed may have logged its last step again, or be further on, when one looks the next time."""
    follower = Follower(without()[0], "now", WHOLE, refit="never")
    follower.update(so_far(1200))
    resumed = follower.update(so_far(end, 1.001))
    anew = Follower(without()[0], "now", WHOLE, refit="never").update(so_far(end, 1.001))
    assert any("step 200: it was replaced, or the run was resumed" in note for note in resumed.notes)
    pd.testing.assert_frame_equal(resumed.stated, anew.stated)


def test_a_fit_whose_draws_can_not_be_weighted_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Task] = []

    def fit_many(tasks: list[Task], **_: Any) -> list[Result[Fit]]:
        asked.extend(tasks)
        return [Result(0, refitted())]

    monkeypatch.setattr(follow, "fit_many", fit_many)
    follower = Follower(without()[0], "now", WHOLE, refit="wait")
    watched = follower.update(so_far(1000, 1.1))
    assert follower.refits == 1
    assert watched.reliable
    rows = asked[0].runs
    assert not isinstance(rows, (str, pd.DataFrame))
    assert (rows.frame["run"] == "now").sum() == 9  # type: ignore[union-attr]
    assert watched.stated["step"].tolist() == list(range(200, 1001, 100))  # as stated by the first fit, before the refit
    follower.update(so_far(1100, 1.1))
    assert follower.refits == 1
    never = Follower(without()[0], "now", WHOLE, refit="never").update(so_far(1000, 1.1))
    assert not never.reliable
    assert "Fit the law again" in never.summary()


def test_a_fit_that_can_not_be_made_again_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "fit_many", lambda *_, **__: [Result.failed(0, "fit", "no memory")])
    watched = Follower(without()[0], "now", WHOLE, refit="wait").update(so_far(1000, 1.1))
    assert any("no memory" in note for note in watched.notes)
    assert not watched.reliable
    with fails("unknown-option", "'often'", "background"):
        Follower(without()[0], "now", WHOLE, refit="often")  # type: ignore[arg-type]
