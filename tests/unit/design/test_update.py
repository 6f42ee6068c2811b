"""Whether new runs came as foretold, against exact normal probabilities; and what an update says and refuses."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.linalg import block_diag

import bayeslaw
from bayeslaw.core.errors import BayeslawError, FitError, TableError
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.design import update as updating
from bayeslaw.design.update import ALARM, TOGETHER, compare_with_predictions
from bayeslaw.forecasting.stack import Stack
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, refused, snapshot
from tests.fixed import line_fit, loaded_fit
from tests.oracles import Array

X = np.array([0.5, 1.0, 1.5, 2.0, 0.0, 1.0])
RUN = np.array([0, 0, 0, 0, 1, 1])


def curvature(x: Array) -> Array:
    return np.stack([np.ones_like(x), x, x**2])


def latent(fit: Fit) -> Array:
    """Log losses (S, 6) at X, without noise."""
    return np.stack([fit.draws[name] for name in "abc"], axis=1) @ curvature(X)


def new_runs(fit: Fit, errors: Array, **columns: Any) -> Runs:
    """Two new runs whose log losses lie off the prediction."""
    loss = np.exp(latent(fit).mean(axis=0) + errors)
    return read_runs(pd.DataFrame({"x": X, "loss": loss, "run": np.array(["u", "v"])[RUN]} | columns))


def predictive(fit: Fit, shared: Array, point: Array | float) -> Array:
    """Covariance (6, 6) of the new losses."""
    return np.cov(latent(fit).T) + shared + np.eye(6) * point


WITHIN = block_diag(np.ones((4, 4)), np.ones((2, 2)))
NOISES: dict[str, tuple[dict[str, Any], dict[str, Any], Array, Array | float]] = {
    "normal": ({}, {}, 1e-4 * WITHIN, 1e-4),
    "no-run": ({"noise": "normal-no-run"}, {}, np.zeros((6, 6)), 1e-4),
    "checkpoint": ({"noise": "normal-checkpoint"}, {"checkpoint": "new"}, 1e-4 * WITHIN + 4e-4, 1e-4),
    "known": ({}, {"loss_se": 0.1}, 1e-4 * WITHIN, np.nan),
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("size", [0.3, 1.0, 2.5])
def test_chances_are_those_of_normal_errors(name: str, size: float) -> None:
    options, columns, shared, point = NOISES[name]
    fit = line_fit(size=8000, **options)
    errors = size * np.array([0.02, 0.03, -0.01, 0.05, -0.04, -0.03])
    new = new_runs(fit, errors, **columns)
    point = 1e-4 + (0.1 / new.frame["loss"].to_numpy()) ** 2 if name == "known" else point
    covariance, table = predictive(fit, shared, point), compare_with_predictions(fit, new).set_index("run")
    assert table.index.tolist() == ["u", "v", TOGETHER]
    means = np.stack([RUN == 0, RUN == 1]) / np.array([[4], [2]])
    for run, rows in (("u", RUN == 0), ("v", RUN == 1)):
        own, e = covariance[np.ix_(rows, rows)], errors[rows]
        z = e.mean() / np.sqrt(own.mean())
        assert table["error_sd"][run] == pytest.approx(z, rel=0.05, abs=0.05)
        assert table["p_level"][run] == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.02)
        assert table["p_curve"][run] == pytest.approx(stats.chi2.sf(e @ np.linalg.solve(own, e), rows.sum()), abs=0.02)
        mean = latent(fit).mean(axis=0)[rows].mean()
        ends = np.exp(mean + stats.norm.ppf([0.05, 0.5, 0.95]) * np.sqrt(own.mean()))
        found = table.loc[run, ["predicted_eti90_lo", "predicted_median", "predicted_eti90_hi"]].to_numpy(float)
        np.testing.assert_allclose(found, ends, rtol=0.005)
        assert table["loss"][run] == pytest.approx(np.exp(mean + e.mean()))
        assert table["error_percent"][run] == pytest.approx(100 * np.expm1(e.mean()), abs=0.3)
        assert bool(table["inside_eti90"][run]) == (table["p_level"][run] >= 0.1)
    joint, e = means @ covariance @ means.T, means @ errors
    z = e.mean() / np.sqrt(joint.mean())
    assert table["p_level"][TOGETHER] == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.02)
    assert table["p_curve"][TOGETHER] == pytest.approx(stats.chi2.sf(e @ np.linalg.solve(joint, e), 2), abs=0.02)
    assert (table["p_adjusted"] >= table[["p_level", "p_curve"]].min(axis=1) - 0.01).all()


def test_many_runs_raise_no_more_alarms() -> None:
    """Six statistics of runs that the fit draws itself: the smallest adjusted chance is uniform."""
    fit, rng = line_fit(size=1000), np.random.default_rng(2)
    smallest = []
    for draw in rng.integers(0, 1000, 60):
        noise = 0.01 * rng.standard_normal(6) + 0.01 * rng.standard_normal(2)[RUN]
        losses = latent(fit)[draw] - latent(fit).mean(axis=0) + noise
        smallest.append(compare_with_predictions(fit, new_runs(fit, losses))["p_adjusted"].min())
    assert stats.kstest(smallest, "uniform").pvalue > 0.01


def test_an_error_that_all_runs_share_is_told_by_all_together() -> None:
    """Ten runs, each 1.7 sd of its own luck too high: none is far out by itself."""
    fit = line_fit(size=2000, run=0.05)
    table = pd.DataFrame({"x": 0.0, "run": [f"n{i}" for i in range(10)], "loss": np.exp(fit.draws["a"].mean() + 1.7 * 0.054)})
    found = compare_with_predictions(fit, read_runs(table)).set_index("run")
    assert (found["p_level"].drop(TOGETHER) > 0.05).all()
    assert found["p_adjusted"][TOGETHER] < ALARM
    assert "OUTSIDE what was predicted: all new runs lie " in updating._verdict(found.reset_index(), "")


def test_points_that_scatter_are_told_apart_from_a_level() -> None:
    fit = line_fit(size=2000)
    found = compare_with_predictions(fit, new_runs(fit, 0.06 * np.array([1.0, -1, 1, -1, 0, 0])))
    assert found["p_level"][0] > 0.5
    assert found["p_curve"][0] < ALARM
    text = updating._verdict(found, "3 of 6 settings lie far outside the runs")
    assert "the losses of run 'u' have another shape or scatter" in text
    assert text.endswith("or state a discrepancy, such as 1%, for what you forecast. 3 of 6 settings lie far outside the runs.")


def test_heavy_tails_are_no_surprise_under_heavy_tailed_noise() -> None:
    """One point at 7 times the noise's scale, with 5 degrees of freedom and with normal noise."""
    errors = np.array([0.0, 0.07, 0, 0, 0, 0])
    chance = {
        noise: compare_with_predictions(fit, new_runs(fit, errors))["p_curve"][0]
        for noise in ("normal", "student")
        if (fit := line_fit(noise=noise))
    }
    assert chance["normal"] < 0.001
    assert chance["student"] > 0.005


def test_known_errors_widen_heavy_tailed_noise_as_a_larger_scale_does() -> None:
    fit, wider = (line_fit(noise="student", point=point) for point in (0.01, 0.05))
    new = new_runs(fit, 0.03 * np.array([1.0, 2, 0, -1, 1, -2]))
    known = replace(new, frame=new.frame.assign(loss_se=new.frame["loss"] * np.sqrt(0.05**2 - 0.01**2)))
    pd.testing.assert_frame_equal(compare_with_predictions(fit, known), compare_with_predictions(wider, new), rtol=1e-9)


def test_long_curves_are_compared_at_some_points_and_say_so() -> None:
    fit = line_fit(size=2000)
    x = np.linspace(-1, 1, 1200)
    loss = np.exp(
        curvature(x).T @ [fit.draws[name].mean() for name in "abc"] + 0.01 * np.random.default_rng(0).standard_normal(1200)
    )
    found = compare_with_predictions(fit, read_runs(pd.DataFrame({"x": x, "loss": loss, "run": "long"})))
    assert found[["run", "rows", "compared"]].to_numpy().tolist() == [["long", 1200, 500]]
    assert found["p_curve"][0] > 0.01


def test_a_run_that_goes_on_and_rows_alone() -> None:
    fit = line_fit(size=2000)
    table = pd.DataFrame({"x": [3.0, 4, 5], "loss": [4.0, 5, 6], "run": ["r0", None, None]})
    found = compare_with_predictions(fit, read_runs(table))
    assert found["run"].tolist() == ["r0", "row 2", "row 3", TOGETHER]
    assert found["continues"].tolist() == [True, False, False, False]


# --- an update ------------------------------------------------------------------------------------------------------


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `fit` was asked for; the answer is a fit with half the spread."""
    asked: dict[str, Any] = {}

    def answer(law: Any, runs: Runs, **options: Any) -> Fit:
        asked.update(options, law=law, runs=runs)
        narrow, tree = line_fit(), line_fit().tree.copy()
        draws = tree["posterior"].to_dataset()
        tree["posterior"] = draws.mean() + 0.5 * (draws - draws.mean())
        return replace(narrow, tree=tree)

    monkeypatch.setattr(updating, "make_fit", answer)
    return asked


def test_an_update_asks_for_the_same_fit_and_shows_what_it_brought(answered: dict[str, Any]) -> None:
    fit = line_fit(noise="normal-checkpoint")
    new = new_runs(fit, np.zeros(6), checkpoint="new")
    targets = pd.DataFrame({"x": [0.0, 1.0]})
    made = bayeslaw.update(fit, new, targets=targets, seed=9, cores=1, progress=False)
    assert made.as_predicted
    assert "within what was predicted" in made.text
    assert len(answered["runs"]) == 18
    assert {k: answered[k] for k in ("noise", "seed", "cores", "progress", "draws")} == {
        "noise": "normal-checkpoint", "seed": 9, "cores": 1, "progress": False, "draws": 1000,
    }  # fmt: skip
    assert made.widths is not None
    np.testing.assert_allclose(made.widths["ratio"], 0.5, rtol=1e-6)
    low, high = np.exp(np.quantile(fit.draws["a"], [0.05, 0.95]))
    assert made.widths["before_latent_eti90_lo"][0] == pytest.approx(low)
    assert made.widths["before_eti90_percent"][0] == pytest.approx(100 * np.log(high / low))
    assert made.widths["checks"].tolist() == ["passed", "passed"]
    assert bayeslaw.update(fit, new, progress=False).widths is None


def test_losses_off_the_prediction_are_outside(answered: dict[str, Any]) -> None:
    fit = line_fit()
    made = bayeslaw.update(fit, new_runs(fit, np.full(6, 0.3)), progress=False)
    assert not made.as_predicted
    assert "OUTSIDE what was predicted: " in made.text
    assert "% above it, " in made.text
    assert "settings lie far outside the runs: x up to 1" not in made.text  # half a span is not far
    assert "The law or the noise is wrong there: compare others" in made.text


def test_no_widths_where_the_new_fit_failed(answered: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fit = line_fit()
    monkeypatch.setattr(updating, "make_fit", lambda *_, **__: line_fit(passed=False))
    new, targets = new_runs(fit, np.zeros(6)), pd.DataFrame({"x": [0.0]})
    made = bayeslaw.update(fit, new, targets=targets, progress=False)
    assert made.widths is None
    assert "No intervals before and after: The fit's checks failed (largest R-hat 1.4)" in made.text
    forced = bayeslaw.update(fit, new, targets=targets, progress=False, force=True)
    assert forced.widths is not None
    assert forced.widths["checks"].tolist() == ["FAILED (forced)"]


def test_what_an_update_refuses_before_it_fits(answered: dict[str, Any]) -> None:
    fit = line_fit()
    new = new_runs(fit, np.zeros(6))
    with pytest.raises(FitError, match="An update takes the fit of one law, not a stack"):
        bayeslaw.update(Stack.of({"line": fit}, {"line": 1.0}), new)
    with pytest.raises(FitError, match="The fit's checks failed"):
        bayeslaw.update(line_fit(passed=False), new)
    with pytest.raises(FitError, match="needs at least 400 posterior draws and the fit has 200"):
        bayeslaw.update(line_fit(size=200), new)
    with pytest.raises(TableError, match="x is missing"):
        bayeslaw.update(fit, new, targets=pd.DataFrame({"x": [np.nan]}))
    assert answered == {}
    assert (bayeslaw.update(line_fit(passed=False), new, force=True, progress=False).predictions["checks"] == "FAILED (forced)").all()


def test_base_checkpoints_foretell_nothing(sound_fit: Fit) -> None:
    table = pd.DataFrame({"N": 1e9, "D": [0.0, 3e10], "loss": [5.0, 1.9], "run": "new"})
    found = compare_with_predictions(sound_fit, read_runs(table))
    assert found[["rows", "compared"]].to_numpy().tolist() == [[1, 1]]
    with pytest.raises(BayeslawError, match="every row is a base checkpoint"):
        compare_with_predictions(sound_fit, read_runs(table.head(1)))


# --- the command ----------------------------------------------------------------------------------------------------


def later(**columns: Any) -> pd.DataFrame:
    """The first runs of `runs.csv`, gone on."""
    table = oracles.table(bayeslaw.load_law("chinchilla"), runs=2).assign(D=lambda t: 12 * t["D"])
    truth = oracles.typical(bayeslaw.load_law("chinchilla"))
    return table.assign(loss=oracles.chinchilla(truth, {c: table[c] for c in ("N", "D")})).assign(**columns)


def test_the_command_updates_round_after_round(command: Command, folder: Path) -> None:
    later().to_csv("later.csv", index=False)
    pd.DataFrame({"N": [1e10], "D": [1e11]}).to_csv("targets.csv", index=False)
    before = snapshot(folder)
    done = command("update", "fit.nc", "later.csv", "-o", "second.nc", "--targets", "targets.csv", "-q")
    assert (done.status, done.err) == (0, "")
    assert "surprise: The new runs are within what was predicted" in done.out
    assert "chinchilla fitted to 50 rows of 8 runs; normal point noise with a run effect.\n" in done.out
    assert "before_latent_eti90" in done.out
    assert done.out.endswith("written to second.nc\n")
    second = loaded_fit("second.nc")
    first = loaded_fit("fit.nc")
    assert second.info["settings"] == first.info["settings"]
    assert second.info["data"] == f"{first.info['data']} and later.csv"
    later(D=lambda t: 2 * t["D"], loss=lambda t: 1.05 * t["loss"]).to_csv("third.csv", index=False)
    done = command(
        "update", "second.nc", "third.csv", "-o", "third.nc", "--seed", "4", "--where", "N < 5e7", "-q", "--force", "--csv"
    )
    assert done.status == 0
    third = read_runs("third.csv", "N < 5e7")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(done.out)), compare_with_predictions(second, third, force=True), rtol=1e-12)
    assert "OUTSIDE what was predicted: run 'run 0' lies " in done.err
    assert "written to third.nc" in done.err
    assert loaded_fit("third.nc").observed.log_loss.size == 55
    assert loaded_fit("third.nc").info["seed"] == 4
    assert {name: digest for name, digest in snapshot(folder).items() if name in before} == before


def test_what_the_command_refuses(command: Command, folder: Path) -> None:
    later().to_csv("later.csv", index=False)
    later(loss=-1).to_csv("faulty.csv", index=False)
    sound = loaded_fit("fit.nc")
    Stack.of({"chinchilla": sound}, {"chinchilla": 1.0}).save("stack.nc")
    before = snapshot(folder)
    refused(
        command("update", "fit.nc", "later.csv", "-o", "fit.nc"), "fit.nc is an input of this command"
    )
    refused(command("update", "fit.nc", "later.csv", "-o", "later.csv"), "A fit is written to a file ending in .nc, not later.csv.")
    refused(command("update", "fit.nc", "faulty.csv", "-o", "older.nc"), "loss -1 is not positive", "(row 1, column loss)")
    refused(command("update", "fit.nc", "runs.csv", "-o", "older.nc"), "runs.csv has 40 faults", "already: remove the row")
    refused(command("update", "fit.nc", "absent.csv", "-o", "older.nc"), "There is no file absent.csv.")
    refused(command("update", "fit.nc", "later.csv", "-o", "older.nc", "--targets", "absent.csv"), "There is no file absent.csv.")
    refused(command("update", "failed.nc", "later.csv", "-o", "older.nc"), "The fit's checks failed")
    refused(command("update", "stack.nc", "later.csv", "-o", "older.nc"), "An update takes the fit of one law, not a stack")
    refused(command("update", "damaged.nc", "later.csv", "-o", "older.nc"), "damaged.nc")
    assert snapshot(folder) == before
