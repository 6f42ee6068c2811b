"""Comparison of new runs with predictions, against exact normal probabilities; and updates."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.linalg import block_diag

import bayeslaw
from bayeslaw.core.errors import FitError
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.design import update as updating
from bayeslaw.design.update import ALARM, TOGETHER, compare_with_predictions
from bayeslaw.forecasting.stack import Stack, load_fit
from bayeslaw.posterior.fit import Fit
from tests import fixed, oracles
from tests.errors import fails
from tests.fixed import stand_in_fit, typical_fit, without_sampling
from tests.oracles import Array
from tests.outcomes import NAMES, outcome_fit, table
from tests.purchases import curvature
from tests.values import present

line_fit = cache(fixed.line_fit)  # no test changes a fit
X = np.array([0.5, 1.0, 1.5, 2.0, 0.0, 1.0])
RUN = np.array([0, 0, 0, 0, 1, 1])


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


@pytest.fixture
def refitted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments of the new fit, which is replaced by one with half the spread."""
    given: dict[str, Any] = {}

    def half_spread(law: Any, runs: Runs, **options: Any) -> Fit:
        given.update(options, law=law, runs=runs)
        narrow, tree = line_fit(), line_fit().tree.copy()
        draws = tree["posterior"].to_dataset()
        tree["posterior"] = draws.mean() + 0.5 * (draws - draws.mean())
        return replace(narrow, tree=tree)

    monkeypatch.setattr(updating, "make_fit", half_spread)
    return given


WITHIN = block_diag(np.ones((4, 4)), np.ones((2, 2)))
NOISES: dict[str, tuple[dict[str, Any], dict[str, Any], Array, Array | float]] = {
    "normal": ({}, {}, 1e-4 * WITHIN, 1e-4),
    "no-run": ({"noise": "normal-no-run"}, {}, np.zeros((6, 6)), 1e-4),
    "checkpoint": ({"noise": "normal-checkpoint"}, {"checkpoint": "new"}, 1e-4 * WITHIN + 4e-4, 1e-4),
    "known": ({}, {"loss_se": 0.1}, 1e-4 * WITHIN, np.nan),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("size", [0.3, 2.5])
def test_probabilities_are_those_of_normal_errors(name: str, size: float) -> None:
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
        predictions = table.loc[run, ["predicted_eti90_lb", "predicted_median", "predicted_eti90_ub"]].to_numpy(float)
        np.testing.assert_allclose(predictions, ends, rtol=0.005)
        assert table["loss"][run] == pytest.approx(np.exp(mean + e.mean()))
        assert table["error_percent"][run] == pytest.approx(100 * np.expm1(e.mean()), abs=0.3)
        assert bool(table["inside_eti90"][run]) == (table["p_level"][run] >= 0.1)
    joint, e = means @ covariance @ means.T, means @ errors
    z = e.mean() / np.sqrt(joint.mean())
    assert table["p_level"][TOGETHER] == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.02)
    assert table["p_curve"][TOGETHER] == pytest.approx(stats.chi2.sf(e @ np.linalg.solve(joint, e), 2), abs=0.02)
    assert (table["p_adjusted"] >= table[["p_level", "p_curve"]].min(axis=1) - 0.01).all()


OF_NOISE: dict[str, tuple[str, dict[str, Any]]] = {
    "new-checkpoints": ("normal-checkpoint", {"checkpoint": list("aaaabb")}),
    "known-checkpoint": ("normal-checkpoint", {"checkpoint": "k0"}),
    "skew": ("skew", {}),
    "continues": ("normal", {"run": ["r0"] * 4 + ["v"] * 2}),
    "drift": ("normal-drift", {"step": [100.0, 200, 300, 400, 100, 300]}),
    "drift-continues": ("normal-drift", {"run": ["r0"] * 4 + ["v"] * 2, "step": [500.0, 600, 700, 800, 100, 300]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OF_NOISE, "count"])
def test_the_mean_distance_of_simulated_runs_is_their_number_of_points(name: str) -> None:
    """As it is if errors are measured by their own covariance: a chi-squared with k degrees of freedom."""
    if name == "count":
        fit, frame = outcome_fit("count", size=4000), table("count")[6:12].assign(run=list("uuuuvv"))
    else:
        noise, columns = OF_NOISE[name]
        fit, frame = line_fit(noise=noise, run=0.05), pd.DataFrame({"x": X, "loss": 3.0, "run": list("uuuuvv")} | columns)
    predicted = replace(fit.forecast(frame, force=True), beyond=())
    errors = updating._errors(predicted, frame, RUN)
    for each, points in zip(errors, (4, 2, 2), strict=True):
        assert each.curve[1:].mean() == pytest.approx(points, rel=5 * np.sqrt(2 / (points * 4000)))


def test_losses_of_the_other_domain_are_the_reason_of_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = typical_fit("transfer-target")
    monkeypatch.setattr(updating, "make_fit", lambda *_, **__: fit)
    new = oracles.table(fit.law, seed=5, runs=2)
    new["run"] = "new " + new["run"]
    new["loss"] *= 2
    for domain, blamed in (("source", False), ("target", True)):
        column = f"eval/loss_{domain}"
        text = fit.update(read_runs(new.rename(columns={"loss": column}), columns={"loss": column}), progress=False).text
        assert "OUTSIDE the predictions" in text
        assert ("The law or the noise is wrong there" in text) is blamed
        assert ("The losses are of column eval/loss_source" in text) is not blamed


@pytest.mark.slow
def test_an_error_that_all_runs_share_shows_in_all_runs_together(refitted: dict[str, Any]) -> None:
    """Ten runs, each 1.7 sd of its run effect too high: none is far out by itself."""
    fit = line_fit(size=2000, run=0.05)
    table = pd.DataFrame({"x": 0.0, "run": [f"n{i}" for i in range(10)], "loss": np.exp(fit.draws["a"].mean() + 1.7 * 0.054)})
    predictions = compare_with_predictions(fit, read_runs(table)).set_index("run")
    assert (predictions["p_level"].drop(TOGETHER) > 0.05).all()
    assert predictions["p_adjusted"][TOGETHER] < ALARM
    updated = bayeslaw.update(fit, table, progress=False)
    assert not updated.as_predicted
    assert "OUTSIDE the predictions: all new runs lie " in updated.text


@pytest.mark.slow
def test_scattered_points_are_distinguished_from_a_level(refitted: dict[str, Any]) -> None:
    fit = line_fit(size=2000)
    updated = bayeslaw.update(fit, new_runs(fit, 0.06 * np.array([1.0, -1, 1, -1, 0, 0])), progress=False)
    assert updated.predictions["p_level"][0] > 0.5
    assert updated.predictions["p_curve"][0] < ALARM
    assert "the losses of run 'u' have another shape or scatter" in updated.text


@pytest.mark.slow
def test_an_outlier_is_likelier_under_heavy_tailed_noise() -> None:
    """One point at 7 times the noise's scale, with 5 degrees of freedom and with normal noise."""
    errors = np.array([0.0, 0.07, 0, 0, 0, 0])
    p_curve = {
        noise: compare_with_predictions(fit, new_runs(fit, errors))["p_curve"][0]
        for noise in ("normal", "student")
        if (fit := line_fit(noise=noise))
    }
    assert p_curve["normal"] < 0.001
    assert p_curve["student"] > 0.005


@pytest.mark.slow
def test_known_errors_widen_heavy_tailed_noise_as_a_larger_scale_does() -> None:
    fit, wider = (line_fit(noise="student", point=point) for point in (0.01, 0.05))
    new = new_runs(fit, 0.03 * np.array([1.0, 2, 0, -1, 1, -2]))
    known = replace(new, frame=new.frame.assign(loss_se=new.frame["loss"] * np.sqrt(0.05**2 - 0.01**2)))
    pd.testing.assert_frame_equal(compare_with_predictions(fit, known), compare_with_predictions(wider, new), rtol=1e-9)


@pytest.mark.slow
def test_long_curves_are_compared_at_500_points() -> None:
    fit = line_fit(size=2000)
    x = np.linspace(-1, 1, 1200)
    loss = np.exp(
        curvature(x).T @ [fit.draws[name].mean() for name in "abc"] + 0.01 * np.random.default_rng(0).standard_normal(1200)
    )
    predictions = compare_with_predictions(fit, read_runs(pd.DataFrame({"x": x, "loss": loss, "run": "long"})))
    assert predictions[["run", "rows", "compared"]].to_numpy().tolist() == [["long", 1200, 500]]
    assert predictions["p_curve"][0] > 0.01


@pytest.mark.slow
def test_a_run_that_continues_and_rows_without_a_run() -> None:
    fit = line_fit(size=2000)
    table = pd.DataFrame({"x": [3.0, 4, 5], "loss": [4.0, 5, 6], "run": ["r0", None, None]})
    predictions = compare_with_predictions(fit, read_runs(table))
    assert predictions["run"].tolist() == ["r0", "row 2", "row 3", TOGETHER]
    assert predictions["continues"].tolist() == [True, False, False, False]


# --- an update ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_update_fits_with_the_same_settings_and_compares_intervals(refitted: dict[str, Any]) -> None:
    fit = line_fit(noise="normal-checkpoint")
    new = new_runs(fit, np.zeros(6), checkpoint="new")
    targets = pd.DataFrame({"x": [0.0, 1.0]})
    updated = bayeslaw.update(fit, new, targets=targets, seed=9, cores=1, progress=False)
    assert updated.as_predicted
    assert updated.text.startswith("The new runs agree with the predictions; the farthest out is run ")
    assert len(refitted["runs"]) == 18
    assert {k: refitted[k] for k in ("noise", "seed", "cores", "progress", "draws")} == {
        "noise": "normal-checkpoint", "seed": 9, "cores": 1, "progress": False, "draws": 1000,
    }  # fmt: skip
    assert updated.widths is not None
    np.testing.assert_allclose(updated.widths["ratio"], 0.5, rtol=1e-6)
    low, high = np.exp(np.quantile(fit.draws["a"], [0.05, 0.95]))
    assert updated.widths["before_latent_eti90_lb"][0] == pytest.approx(low)
    assert updated.widths["before_eti90_percent"][0] == pytest.approx(100 * np.log(high / low))
    assert updated.widths["checks"].tolist() == ["passed", "passed"]
    assert bayeslaw.update(fit, new, progress=False).widths is None
    of_mapping = bayeslaw.update(fit, new, targets={"x": [0.0, 1.0]}, seed=9, progress=False).widths
    assert of_mapping is not None
    pd.testing.assert_frame_equal(of_mapping, updated.widths)


@pytest.mark.slow
def test_losses_far_from_the_predictions_are_reported(refitted: dict[str, Any]) -> None:
    fit = line_fit()
    updated = bayeslaw.update(fit, new_runs(fit, np.full(6, 0.3)), progress=False)
    assert not updated.as_predicted
    assert updated.text.startswith("The new runs are OUTSIDE the predictions: ")
    # Of the measured run and 4,000 simulated ones, it is the farthest out.
    assert updated.predictions[["p_level", "p_adjusted"]].min().to_list() == pytest.approx([1 / 4001] * 2)


@pytest.mark.slow
def test_there_are_no_intervals_if_the_new_fit_fails_its_checks(refitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fit = line_fit()
    monkeypatch.setattr(updating, "make_fit", lambda *_, **__: line_fit(passed=False))
    new, targets = new_runs(fit, np.zeros(6)), pd.DataFrame({"x": [0.0]})
    updated = bayeslaw.update(fit, new, targets=targets, progress=False)
    assert updated.widths is None
    assert "largest R-hat 1.4" in updated.text
    forced = bayeslaw.update(fit, new, targets=targets, progress=False, force=True)
    assert present(forced.widths)["checks"].tolist() == ["FAILED (forced)"]


@pytest.mark.slow
def test_an_update_refuses_faulty_input_before_it_fits(refitted: dict[str, Any]) -> None:
    fit = line_fit()
    new = new_runs(fit, np.zeros(6))
    with fails("failed-checks", "R-hat 1.4", kind=FitError):
        bayeslaw.update(line_fit(passed=False), new)
    with fails("too-few-draws", 400, 200, kind=FitError):
        bayeslaw.update(line_fit(size=200), new)
    with fails("faulty-table", "column x"):
        bayeslaw.update(fit, new, targets=pd.DataFrame({"x": [np.nan]}))
    assert refitted == {}
    forced = bayeslaw.update(line_fit(passed=False), new, force=True, progress=False)
    assert (forced.predictions["checks"] == "FAILED (forced)").all()


def test_new_runs_without_losses_are_not_compared() -> None:
    fit, new = line_fit(), pd.DataFrame({"x": [0.0, 0.5], "run": ["n", "m"], "loss": [2.7, np.nan]})
    with fails("missing-column", "loss"):
        compare_with_predictions(fit, read_runs(new.drop(columns="loss")))
    with fails("missing-value", "loss is missing", "row 2"):
        compare_with_predictions(fit, read_runs(new))


@pytest.mark.slow
def test_base_checkpoints_are_left_out() -> None:
    fit = typical_fit("chinchilla")
    table = pd.DataFrame({"N": 1e9, "D": [0.0, 3e10], "loss": [5.0, 1.9], "run": "new"})
    predictions = compare_with_predictions(fit, read_runs(table))
    assert predictions[["rows", "compared"]].to_numpy().tolist() == [[1, 1]]
    with fails("only-base-checkpoints"):
        compare_with_predictions(fit, read_runs(table.head(1)))


# --- stacks ---------------------------------------------------------------------------------------------------------


def two_levels() -> Stack:
    """A stack of two fits that lie 10% apart and have other noises, with three quarters and one quarter of the weight."""
    low, high = line_fit(size=8000), line_fit(size=8000, noise="normal-checkpoint", point=0.03)
    tree, draws = high.tree.copy(), high.tree["posterior"].to_dataset()
    tree["posterior"] = draws.assign(a=draws["a"] + 0.1)
    return Stack.of({"low": low, "high": replace(high, tree=tree)}, {"low": 0.75, "high": 0.25})


def mixture(stack: Stack, size: int = 200_000) -> Array:
    """Log losses (size, 6) of the two new runs, of one new checkpoint, that the laws of `two_levels` draw."""
    rng = np.random.default_rng(3)
    losses = []
    for name, point, checkpoint in (("low", 0.01, 0.0), ("high", 0.03, 0.02)):
        law, count = latent(stack.members[name]), int(stack.weights[name] * size)
        effects = 0.01 * rng.standard_normal((count, 2))[:, RUN] + checkpoint * rng.standard_normal((count, 1))
        losses.append(law[rng.integers(0, len(law), count)] + effects + point * rng.standard_normal((count, 6)))
    return np.concatenate(losses)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.3, 2.5])
def test_a_stack_predicts_new_runs_as_the_mixture_of_its_laws(size: float) -> None:
    stack = two_levels()
    drawn, errors = mixture(stack), size * np.array([0.02, 0.03, -0.01, 0.05, -0.04, -0.03])
    middle = drawn.mean(axis=0)
    new = read_runs(pd.DataFrame({"x": X, "loss": np.exp(middle + errors), "run": np.array(["u", "v"])[RUN], "checkpoint": "new"}))
    table = compare_with_predictions(stack, new).set_index("run")
    means = np.stack([RUN == 0, RUN == 1]) / np.array([[4], [2]])
    both = {"u": (drawn[:, RUN == 0], errors[RUN == 0]), "v": (drawn[:, RUN == 1], errors[RUN == 1])}
    for run, (losses, e) in (both | {TOGETHER: (drawn @ means.T, means @ errors)}).items():
        away = losses - losses.mean(axis=0)
        level, inverse = away.mean(axis=1), np.linalg.inv(np.cov(away.T))
        curve = ((away @ inverse) * away).sum(axis=1)
        assert table["error_sd"][run] == pytest.approx(e.mean() / level.std(), rel=0.05, abs=0.02)
        assert table["p_level"][run] == pytest.approx((np.abs(level) >= abs(e.mean())).mean(), abs=0.02)
        assert table["p_curve"][run] == pytest.approx((curve >= e @ inverse @ e).mean(), abs=0.02)
        ends = np.exp(np.quantile(losses.mean(axis=1), [0.05, 0.5, 0.95]))
        predictions = table.loc[run, ["predicted_eti90_lb", "predicted_median", "predicted_eti90_ub"]].to_numpy(float)
        np.testing.assert_allclose(predictions, ends, rtol=0.005)


@pytest.mark.slow
def test_a_stack_of_one_fit_predicts_as_the_fit() -> None:
    fit = line_fit(size=2000, noise="normal-checkpoint")
    new = new_runs(fit, np.full(6, 0.01), checkpoint="new")
    of_stack = compare_with_predictions(Stack.of({"line": fit}, {"line": 1.0}), new)
    pd.testing.assert_frame_equal(of_stack, compare_with_predictions(fit, new))


OF_SOURCE = oracles.table(bayeslaw.load_law("from-base-source"), runs=8)
MORE = OF_SOURCE.head(5).assign(N=2e7, ptpp=62.0, run="new")


def test_anchors_say_that_errors_will_count_from_the_bought_runs() -> None:
    alone, targets = stack_of_source().members["from-base-source"], MORE.tail(1)[["N", "D", "r", "ptpp", "base_loss"]]
    far = targets.assign(ptpp=500.0)
    notes = {d: bayeslaw.anchors(alone, MORE, far, budget=1e30, discrepancy=d).notes for d in (None, "none")}
    assert [any("counts it from these" in note for note in notes[d]) for d in (None, "none")] == [True, False]


def test_anchors_say_so_of_errors_that_are_learnt_from_the_runs_too() -> None:
    law = bayeslaw.load_law("chinchilla")
    learnt = stand_in_fit(law, oracles.table(law), draws=400)
    away = learnt.extrapolation
    assert away is not None
    assert away.discrepancy is not None
    assert not away.discrepancy.walk.exact
    more = pd.DataFrame({"run": ["a", "b"], "N": [3e9, 5e9], "D": [6e10, 1e11]})
    notes = bayeslaw.anchors(learnt, more, pd.DataFrame({"N": [1e11], "D": [2e12]}), budget=1e30).notes
    assert any("counts it from these" in note for note in notes)


@cache
def stack_of_source() -> Stack:
    """A stack of two laws, of which only the second describes base checkpoints."""
    members = {name: stand_in_fit(name, OF_SOURCE, draws=400) for name in ("from-base-source", "plateau-source")}
    return Stack(members, {"from-base-source": 0.75, "plateau-source": 0.25})


def test_an_update_says_where_a_fit_of_all_rows_would_have_the_noise_of_the_card() -> None:
    law = bayeslaw.load_law("from-base-source")
    table = oracles.table(law, runs=8, checkpoints=8)
    early = table.groupby("run").cumcount() < 4
    fit = stand_in_fit(law, table[early], draws=400)
    with without_sampling():
        updated = bayeslaw.update(fit, table[~early], progress=False)
        again = bayeslaw.fit(law, table, chains=2, progress=False)
    assert "from-base-source keeps its noise (normal point noise with a run effect)" in updated.text
    assert (updated.fit.noise.drift, again.noise.drift) == (False, True)


@pytest.mark.slow
def test_an_update_fits_every_law_of_a_stack_again_and_keeps_the_weights(tmp_path: Path) -> None:
    stack, targets = stack_of_source(), MORE.tail(1)[["N", "D", "r", "ptpp", "base_loss"]]
    new = pd.concat([MORE, MORE.head(1).assign(D=0.0, loss=MORE["base_loss"])])
    with without_sampling():
        updated = bayeslaw.update(stack, new, targets=targets, progress=False)
        alone = bayeslaw.update(stack.members["plateau-source"], new, progress=False)
    assert dict(updated.fit.weights) == dict(stack.weights)
    assert "keeps its weights (from-base-source 0.75, plateau-source 0.25)" in updated.text
    assert "keeps its weights" not in alone.text
    assert {name: fit.observed.response.size for name, fit in updated.fit.members.items()} == {
        "from-base-source": 45, "plateau-source": 46,
    }  # fmt: skip
    np.testing.assert_array_equal(updated.fit.members["plateau-source"].draws["E"], alone.fit.draws["E"])
    assert updated.predictions[["run", "rows"]].to_numpy().tolist() == [["new", 5]]  # without the base checkpoint
    for when, posterior in (("before", stack), ("after", updated.fit)):
        summary = posterior.forecast(targets).summary()
        assert present(updated.widths)[f"{when}_latent_eti90_lb"][0] == pytest.approx(summary["latent_eti90_lb"][0])
    updated.fit.save(tmp_path / "stack.nc")
    read = load_fit(tmp_path / "stack.nc")
    assert isinstance(read, Stack)
    with without_sampling():
        again = read.update(MORE.assign(run="newer"), seed=7, progress=False).fit
    assert [(fit.observed.runs, fit.info["seed"]) for fit in again.members.values()] == [(10, 7), (10, 7)]


@pytest.mark.slow
def test_an_update_of_a_stack_refuses_what_one_of_its_laws_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "make_fit", lambda *_, **__: pytest.fail("fitted"))
    members, weights = stack_of_source().members, stack_of_source().weights
    with fails("unknown-base-loss", "base_loss"):
        bayeslaw.update(stack_of_source(), MORE.drop(columns="base_loss"))
    with fails("only-base-checkpoints", "from-base-source"):
        bayeslaw.update(stack_of_source(), MORE.head(1).assign(D=0.0, loss=MORE["base_loss"]))
    few = {**members, "plateau-source": stand_in_fit("plateau-source", OF_SOURCE, draws=100)}
    with fails("too-few-draws", 400, 200, kind=FitError):
        bayeslaw.update(Stack(few, weights), MORE)
    failed = {**members, "plateau-source": typical_fit("plateau-source", passed=False)}
    with fails("failed-checks", "plateau-source", kind=FitError):
        bayeslaw.update(Stack(failed, weights), MORE)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "off"), [("count", -0.3), ("bounded", -20.0), ("real", 15.0), ("positive", 20.0)])
def test_runs_of_other_outcomes_are_compared_on_their_own_scale(kind: str, off: float) -> None:
    fit, name = outcome_fit(kind), NAMES[kind]
    at = table(kind)[6:18].assign(run=[f"new{i}" for i in range(12)], D=lambda f: 1.1 * f["D"])
    drawn = fit.forecast(at, seed=5, force=True).draws["run"].to_numpy()[37]
    good = compare_with_predictions(fit, read_runs(at.assign(**{name: drawn})))
    assert (good["p_adjusted"] >= ALARM).all()
    error = "error_percent" if kind == "positive" else "error"
    np.testing.assert_allclose(good[name][:12], drawn, rtol=1e-12)
    apart = 100 * (good[name] / good["predicted_median"] - 1) if kind == "positive" else good[name] - good["predicted_median"]
    np.testing.assert_allclose(good[error], apart)
    low, high = fit.law.outcome.bounds
    ends = good.filter(like="eti90_").to_numpy()
    assert ((ends >= low) & (ends <= high)).all()
    bad = compare_with_predictions(fit, read_runs(at.assign(**{name: drawn + off})))
    assert (bad["p_adjusted"][[12]] < ALARM).all()
    assert np.sign(bad["error_sd"].iloc[-1]) == np.sign(off)
