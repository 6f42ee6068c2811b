"""Stacks: weights against other weights, draws against those of their fits, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeslaw.core.errors import FitError
from bayeslaw.evaluation.scores import draw_scores, point_scores, score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import (
    LEAST,
    TURNS,
    Stack,
    by_label,
    errors_in_words,
    load_fit,
    paired,
    rest_of_errors,
    stacking,
    with_error,
)
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails, faults
from tests.fixed import stand_in_fit
from tests.oracles import LAWS, Array
from tests.posteriors import learning
from tests.values import present

AT = pd.DataFrame({"N": [1e8, 1e9, 1e10], "D": [1e9, 1e10, 1e11], "r": [0.1, 0.3, 0.5], "ptpp": [15.0, 31.0, 279.0]})


# --- weights --------------------------------------------------------------------------------------------------------


def mixture(densities: pd.DataFrame, weights: Array) -> float:
    """Mean log density of the runs under the weighted fits, less a constant."""
    shifted = densities.to_numpy() - densities.to_numpy().max(axis=1, keepdims=True)
    return float(np.log(np.exp(shifted) @ weights).mean())


@pytest.mark.parametrize("scale", [0.1, 2.0, 50.0])
def test_no_other_weights_predict_the_runs_better(scale: float, rng: np.random.Generator) -> None:
    """Against 2,000 weights all over the simplex, runs' densities lying far beyond what exp can hold."""
    noise = scale * rng.standard_normal((30, 3))
    densities = pd.DataFrame(noise + 2000 * rng.standard_normal((30, 1)), columns=["a", "b", "c"])
    table = stacking(densities)
    weights = table["weight"].loc[["a", "b", "c"]].to_numpy()
    assert weights.sum() == pytest.approx(1)
    others = max(mixture(densities, other) for other in rng.dirichlet([0.5, 0.5, 0.5], 2000))
    assert mixture(densities, weights) > others - 1e-3
    assert table["elpd"].is_monotonic_decreasing
    np.testing.assert_allclose(table["elpd"], densities.sum().loc[table.index])
    difference = densities.sub(densities[table.index[0]], axis=0)[table.index]
    np.testing.assert_allclose(table["elpd_diff"], difference.sum(), atol=1e-9)
    np.testing.assert_allclose(table["dse"], np.sqrt(30) * difference.std(ddof=0), atol=1e-9)
    np.testing.assert_allclose(table["se"], np.sqrt(30) * densities.std(ddof=0).loc[table.index])


def test_weights_are_the_shares_of_runs_that_each_law_predicts() -> None:
    """Three runs that only the first fit predicts and one that only the second does."""
    densities = pd.DataFrame({"a": [0.0, 0, 0, -500], "b": [-500.0, -500, -500, 0]})
    assert stacking(densities)["weight"].to_dict() == pytest.approx({"a": 0.75, "b": 0.25}, abs=1e-3)


def test_a_fit_alone_and_a_useless_one() -> None:
    alone = stacking(pd.DataFrame({"a": [-3.0, -4.0]}))
    assert alone["weight"].tolist() == [1.0]
    assert alone["elpd"].tolist() == [-7.0]
    beside = stacking(pd.DataFrame({"a": [-30.0, -40.0, -50.0], "b": [-3.0, -4.0, -5.0]}))
    assert beside["weight"].to_dict() == {"b": 1.0, "a": 0.0}


# --- draws ----------------------------------------------------------------------------------------------------------


def test_representations_are_short(stack: Stack, sound_fit: Fit) -> None:
    result = sound_fit.forecast(grid(sound_fit, {"N": 1e9, "D": [1e9, 1e10]}), force=True)
    assert repr(sound_fit).splitlines() == [
        "<Fit of chinchilla to 40 losses of 8 runs: 2 chains of 1,500 draws, sampling", "  passed, model no concerns>",
    ]  # fmt: skip
    single = sound_fit.tree.isel(chain=[0])
    assert "1 chain of 1,500 draws" in repr(replace(sound_fit, tree=single))
    assert repr(sound_fit.law) == "<Law chinchilla: loss = E + A/N**alpha + B/D**beta>"
    assert repr(result) == "<Forecast by chinchilla at 2 settings: 3,000 draws>"
    assert repr(stack) == "<Stack of " + ", ".join(f"{name} ({weight:.3g})" for name, weight in stack.weights.items()) + ">"


def test_numbers_of_draws_are_proportional_to_weights(stack: Stack) -> None:
    (ptpp, many), (chinchilla, few) = stack.selections  # heaviest first
    assert (ptpp.name, chinchilla.name) == ("ptpp-floor", "chinchilla")
    assert (many.size, few.size) == (2100, 900)  # of 3,000, as many as the smaller fit has
    for chosen, size in ((many, 4000), (few, 3000)):
        assert chosen.min() >= 0
        assert chosen.max() < size
        steps = np.diff(chosen)
        assert steps.min() >= size // chosen.size
        assert steps.max() <= size // chosen.size + 1


@pytest.mark.slow
def test_latent_draws_are_those_of_the_laws(stack: Stack) -> None:
    result = forecast(stack, AT)
    latent = result.draws["latent"].values
    assert latent.shape == (3000, 3)
    expected = []
    for fit, chosen in stack.selections:
        values = {name: draws[chosen][:, None] for name, draws in fit.draws.items()}
        expected.append(LAWS[fit.name](values, {str(c): AT[c].to_numpy() for c in AT}))
    np.testing.assert_allclose(latent, np.concatenate(expected), rtol=1e-11)
    assert stack.forecast(AT).draws.identical(result.draws)
    assert not np.isclose(forecast(stack, AT, seed=1).draws["run"], result.draws["run"], rtol=1e-9).any()


@pytest.mark.slow
def test_disagreement_of_laws_widens_the_interval(stack: Stack) -> None:
    """Where the laws disagree, the interval covers those of both."""
    whole = forecast(stack, AT).summary()
    one, other = (forecast(fit, AT).summary() for fit in stack.members.values())
    low, high = (np.array([one[f"latent_eti90_{end}"], other[f"latent_eti90_{end}"]]) for end in ("lb", "ub"))
    apart = low.max(axis=0) > high.min(axis=0)
    assert apart.any()
    assert (whole["latent_eti90_lb"] < low.min(axis=0) * 1.01)[apart].all()
    assert (whole["latent_eti90_ub"] > high.max(axis=0) * 0.99)[apart].all()


@pytest.mark.slow
def test_a_stack_of_one_is_that_fit(sound_fit: Fit) -> None:
    stack = Stack.of({"a": sound_fit}, {"a": 1.0})
    assert forecast(stack, AT, seed=2).draws.identical(forecast(sound_fit, AT, seed=2).draws)


@pytest.mark.slow
def test_distances_are_the_largest_of_any_fit(stack: Stack, sound_fit: Fit, ptpp_fit: Fit) -> None:
    outside, one, other = (forecast(f, AT).outside for f in (stack, sound_fit, ptpp_fit))
    assert list(outside) == ["N", "D", "r", "ptpp"]
    np.testing.assert_array_equal(outside["D"], np.maximum(one["D"], other["D"]))
    np.testing.assert_array_equal(outside["ptpp"], other["ptpp"])
    turned = Stack({name: stack.members[name] for name in [*stack.members][::-1]}, dict([*stack.weights.items()][::-1]))
    pd.testing.assert_frame_equal(forecast(turned, AT).outside[list(outside)], outside)


@pytest.mark.slow
def test_a_row_of_a_stack_does_not_depend_on_the_others(stack: Stack) -> None:
    many = pd.concat([AT] * 15, ignore_index=True)
    whole, few = (forecast(stack, at, discrepancy=0.01).draws for at in (many, many.head(3)))
    for spread in ("latent", "run", "discrepancy"):
        np.testing.assert_allclose(whole[spread].values[:, :3], few[spread].values, rtol=1e-12)


def test_grids_and_faults_are_of_all_laws(stack: Stack) -> None:
    assert list(grid(stack, {"N": 1e9, "D": 1e10, "r": 0.1, "ptpp": [15, 31]})) == ["N", "D", "r", "ptpp"]
    with fails("missing-covariate", "r, ptpp"):
        grid(stack, {"N": 1e9, "D": 1e10})
    with faults(("out-of-support", 2, "N"), ("missing-column", None, "ptpp")):  # each once, though both laws have the first
        forecast(stack, AT.drop(columns="ptpp").assign(N=[1e8, 8.1, 1e10]))


@pytest.mark.slow
def test_a_stack_is_scored_like_a_fit(stack: Stack) -> None:
    held = oracles.table(load_law("ptpp-floor"), seed=8, runs=4)
    base = held.head(1).assign(D=0.0, run="base")
    table = score(stack, pd.concat([held, base]), seed=5)
    assert table[["law", "fit", "spread", "rows", "base_rows_left_out"]].values.tolist() == [
        ["stack of second, first", "posterior", "run", 20, 1]
    ]
    draws, loss = forecast(stack, held, seed=5).draws["run"].values, held["loss"].to_numpy()
    expected = point_scores(loss, np.median(draws, axis=0)) | draw_scores(loss, draws)
    assert table[list(expected)].iloc[0].to_dict() == expected


@pytest.mark.slow
def test_failed_checks_of_any_law_are_refused_unless_forced(sound_fit: Fit, small_fit: Fit) -> None:
    stack = Stack.of({"sound": sound_fit, "short": small_fit}, {"sound": 0.9, "short": 0.1})
    assert not stack.passed
    assert stack.failures == "; ".join(f"short: {c.text}" for c in small_fit.checks if c.required and not c.passed)
    assert stack.verdicts == (small_fit.verdicts[0], "not assessed, since the draws can't be trusted")
    assert stack.remedy == small_fit.remedy
    with fails("failed-checks", "short: ", kind=FitError):
        forecast(stack, AT)
    assert (forecast(stack, AT, force=True).summary()["checks"] == "FAILED (forced)").all()
    without = Stack.of({"sound": sound_fit, "short": small_fit}, {"sound": 1.0, "short": 0.0})
    assert list(without.members) == ["sound"]
    assert (forecast(without, AT).summary()["checks"] == "passed").all()


@pytest.mark.parametrize("weights", [{"a": 0.5}, {"a": 1.5}, {"a": -1.0}, {"a": float("nan")}, {"b": 1.0}, {}])
def test_impossible_weights_are_refused(sound_fit: Fit, weights: dict[str, float]) -> None:
    with fails("wrong-weights" if "a" in weights else "missing-weights"):
        Stack({"a": sound_fit}, weights)
    for pair in ({"a": 1.0, "b": 0.0}, {"a": 0.5, "b": 0.495}):
        with fails("wrong-weights"):
            Stack({"a": sound_fit, "b": sound_fit}, pair)


def test_fits_of_a_stack_have_names(sound_fit: Fit) -> None:
    with fails("missing-weights", "list", "{'first': fit, 'second': other}"):
        Stack([sound_fit, sound_fit], [0.5, 0.5])  # type: ignore[arg-type]
    with fails("not-a-fit", "list", "{'first': fit, 'second': other}"):
        by_label([sound_fit, sound_fit])  # type: ignore[arg-type]


@pytest.mark.slow
def test_names_of_fits_in_a_stack_may_be_numbers(sound_fit: Fit) -> None:
    numbered: Any = {1: sound_fit, 2: sound_fit}
    stack = Stack(numbered, {1: 0.5, 2: 0.5})  # type: ignore[dict-item]
    assert stack.name == "stack of 1, 2"
    assert [name for name, _ in stack.weights.items()] == [*stack.members] == ["1", "2"]


def test_tables_of_a_stack(stack: Stack, ptpp_fit: Fit) -> None:
    assert stack.table["weight"].to_dict() == {"second": 0.7, "first": 0.3}
    assert stack.table["law"].to_dict() == {"second": "ptpp-floor", "first": "chinchilla"}
    pd.testing.assert_frame_equal(stack.summary(0.5).loc[["second"]].droplevel("law"), ptpp_fit.summary(0.5))
    assert {c.text.partition(":")[0] for c in stack.checks} == {"first", "second"}
    assert LEAST < 0.01


# --- pairs, and errors of laws -----------------------------------------------------------------------------------------


def test_laws_of_a_second_stack_take_turns(stack: Stack) -> None:
    other = Stack(dict(stack.members), dict(stack.weights))
    first, second, again, fit = paired([stack, other, stack, stack.members["first"]])
    assert (first, again, fit) == (stack, stack, stack.members["first"])
    assert isinstance(second, Stack)
    assert len(second.selections) == TURNS * len(stack.selections)
    for name in stack.members:
        own, turned = (
            np.concatenate([draws for fit, draws in of.selections if fit is stack.members[name]]) for of in (stack, second)
        )
        np.testing.assert_array_equal(own, turned)
    assert [p.turns for p in paired([first, second]) if isinstance(p, Stack)] == [1, TURNS]  # a second time changes nothing
    three = paired([Stack(dict(stack.members), dict(stack.weights)) for _ in range(3)])
    laws = [np.concatenate([np.full(draws.size, fit.law.name) for fit, draws in each.selections]) for each in three]
    assert len({*zip(*laws, strict=True)}) == 8  # draws of all laws of three stacks meet


def multiplied(fit: Fit, name: str, factor: float) -> Fit:
    """A fit of a law of another name, whose losses are those of this one times a factor."""
    posterior = fit.tree["posterior"].to_dataset()
    tree = fit.tree.copy()
    tree["posterior"] = xr.DataTree(posterior.assign({k: factor * posterior[k] for k in ("E", "A", "B", "C", "F")}))
    return replace(fit, law=replace(fit.law, name=name), tree=tree)


@pytest.mark.slow
def test_what_the_laws_of_a_stack_differ_by_is_a_part_of_their_error(ptpp_fit: Fit) -> None:
    """Losses that differ by a factor f lie log f / 2 from their middle, which is taken from the usual size in squares."""
    one_law = learning(ptpp_fit)
    draws = np.arange(4000)

    def size(*selections: tuple[Fit, Any]) -> dict[str, float]:
        """The sd of the error an e-fold beyond the runs along each axis."""
        away = present(with_error(one_law, list(selections)))
        drawn, most = present(away.discrepancy).drawn(draws, (1,)), {k: v.max() for k, v in one_law.observed.covariates.items()}
        places = {axis: {k: np.array([v * (np.e if k == axis else 1.0)]) for k, v in most.items()} for axis in ("N", "ptpp")}
        return {axis: float(drawn.at(at).std()) for axis, at in places.items()}

    alone = size((one_law, draws))
    assert size((one_law, draws), (one_law, draws)) == alone  # one law in two turns
    assert size((one_law, draws), (multiplied(one_law, "same", 1.0), draws)) == pytest.approx(alone)
    near, far = multiplied(one_law, "near", np.exp(0.016)), multiplied(one_law, "far", 1.2)
    assert size((one_law, draws), (far, draws)) == dict.fromkeys(alone, 0.0)
    some = size((one_law, draws), (near, draws))
    usual = present(present(one_law.extrapolation).discrepancy).walk.usual
    for axis, whole in alone.items():
        assert some[axis] == pytest.approx(whole * np.sqrt(1 - (0.008 / usual[axis]) ** 2), rel=0.01)
    few = size((one_law, draws), (far, draws[:4]))
    assert all(0.8 * alone[axis] < few[axis] < alone[axis] for axis in alone)  # a law with hardly any draws
    at = AT.assign(N=1e12, ptpp=1000.0)
    both = Stack({"one": one_law, "other": near}, {"one": 0.5, "other": 0.5})
    for posterior in (one_law, both):
        assert forecast(posterior, at, force=True).spreads == ("latent", "run", "extrapolated")
    assert "differ by" in forecast(both, at, force=True).error
    assert "differ by" in errors_in_words(both)["one"]
    assert "differ by" not in forecast(one_law, at, force=True).error


def with_values(law: str, table: pd.DataFrame, **values: float) -> Fit:
    """A fit that asked for an error and learnt none, all of whose draws are typical values, or the given ones."""
    fit = stand_in_fit(law, table, draws=400)
    typical = {k: float(v) for k, v in oracles.typical(fit.law).items()} | values
    posterior = fit.tree["posterior"].to_dataset()
    tree = fit.tree.copy()
    tree["posterior"] = xr.DataTree(posterior.assign({k: xr.full_like(posterior[k], v) for k, v in typical.items()}))
    return learning(replace(fit, tree=tree))


def rest(*fits: Fit) -> dict[str, float]:
    return rest_of_errors([(fit, np.arange(400)) for fit in fits])


def test_laws_are_compared_an_e_fold_beyond_the_runs_along_each_axis() -> None:
    """The second law is the first with another scale and exponent of ptpp, by which both agree at the largest ptpp."""
    law = load_law("transfer-target")
    table = oracles.table(law, runs=8, checkpoints=8)
    most, typical = table["ptpp"].max(), {k: float(v) for k, v in oracles.typical(law).items()} | {"F": 5.0}
    one = with_values("transfer-target", table, **typical)
    values = {"eta": typical["eta"] + 1, "F": typical["F"] * most}
    other = with_values("transfer-target", table, **values)
    other = replace(other, law=replace(law, name="other"))
    shares = rest(one, other)
    assert shares["N"] == pytest.approx(1.0, abs=1e-3)
    started = table[table["D"] > 0]
    at = {name: started[name].to_numpy() for name in ("D", "r", "N")}
    at["D"] = at["D"] / at["N"] * table["N"].max()
    at |= {"N": np.full(len(started), table["N"].max()), "ptpp": np.full(len(started), np.e * most)}
    both = [np.log(oracles.transfer_target(p, at)) for p in (typical, typical | values)]
    differ = np.mean(((both[0] - both[1]) / 2) ** 2)
    usual = present(present(one.extrapolation).discrepancy).walk.usual
    assert shares["ptpp"] == pytest.approx(np.sqrt(1 - differ / usual["ptpp"] ** 2), abs=0.01)
    assert 0.1 < shares["ptpp"] < 0.95


def test_laws_are_compared_by_their_mean_log_losses_over_the_draws() -> None:
    """Half of the second law's losses are 20% above the first's, and half as far below."""
    one = with_values("plateau-source", oracles.table(load_law("plateau-source"), runs=8, checkpoints=8))
    factor = xr.DataArray(np.exp(0.2 * np.repeat([1.0, -1.0], 200)), dims="draw")
    posterior = one.tree["posterior"].to_dataset()
    tree = one.tree.copy()
    tree["posterior"] = xr.DataTree(posterior.assign({k: posterior[k] * factor for k in "EUSJ"}))
    other = replace(one, law=replace(one.law, name="other"), tree=tree)
    assert rest(one, other) == pytest.approx({"N": 1.0, "ptpp": 1.0}, abs=1e-6)


def test_errors_of_laws_that_can_not_be_compared_stay_whole() -> None:
    """A base loss beyond the runs is one that nobody has measured, and laws with other axes err along these."""
    table = oracles.table(load_law("from-base-source"), runs=8, checkpoints=8)
    fits = {name: with_values(name, table) for name in ("from-base-source", "plateau-source", "transfer-source", "d-cpt")}
    assert rest(fits["from-base-source"], fits["plateau-source"]) == {}
    assert rest(fits["plateau-source"], fits["d-cpt"]) == {}
    assert {*rest(fits["plateau-source"], fits["transfer-source"])} == {"N", "ptpp"}
    assert rest(fits["plateau-source"], with_values("plateau-source", table)) == {}  # two fits of one law
    learnt = replace(fits["transfer-source"])
    away = present(learnt.extrapolation)
    walk = replace(present(away.discrepancy).walk, exact=False)
    vars(learnt)["extrapolation"] = replace(away, discrepancy=replace(present(away.discrepancy), walk=walk))
    assert rest(fits["plateau-source"], learnt) == rest(learnt, fits["plateau-source"]) == {}  # one has learnt its error
    infinite = with_values("transfer-source", table, A=np.inf)
    assert rest(fits["plateau-source"], infinite) == {"N": 1.0, "ptpp": 1.0}  # no setting at which both are known


def test_two_noises_of_one_law_keep_its_error_beyond_the_runs() -> None:
    """They differ by less than the law errs there, whereas what several laws differ by is a part of their error."""
    law = load_law("from-base-source")
    table = oracles.table(law, runs=8, checkpoints=8)
    fits = {noise: stand_in_fit(law, table, noise=noise, draws=400) for noise in ("normal", "normal-drift")}
    other = {"from-base-source": fits["normal"], "plateau-source": stand_in_fit("plateau-source", table, draws=400)}
    nearly_alone = dict(zip(other, (0.95, 0.05), strict=True))
    stacks = (Stack(fits, dict.fromkeys(fits, 0.5)), Stack(other, nearly_alone), Stack(other, dict.fromkeys(other, 0.5)))
    far = table.tail(1).assign(ptpp=1e3, run="new").drop(columns="loss")
    forecasts = [posterior.forecast(far, force=True) for posterior in (fits["normal"], *stacks)]
    assert [f.headlines for f in forecasts] == [["extrapolated"]] * 4
    assert ["differ by" in f.error for f in forecasts] == [False] * 4  # a base loss beyond the runs is not known


def test_a_table_is_not_read_as_a_fit(tmp_path: Path) -> None:
    path = tmp_path / "my runs.csv"
    path.write_text("N,D,loss\n1e8,2e9,3.1\n")
    with fails("table-for-a-fit", "my runs.csv", f"bayeslaw fit LAW '{path}'", kind=FitError):
        load_fit(path)


def test_losses_that_can_not_be_averaged_are_refused(sound_fit: Fit) -> None:
    half = {"a": 0.5, "b": 0.5}
    in_bits = replace(sound_fit, observed=replace(sound_fit.observed, unit="bits/token"))
    with fails("different-units", "nats/token", "bits/token"):
        Stack({"a": sound_fit, "b": in_bits}, half)
    longer = [replace(sound_fit, info={**sound_fit.info, "token_length": {"bytes_per_token": length}}) for length in (4.2, 5.0)]
    with fails("different-tokenizers", "4.2", "5"):
        Stack({"a": longer[0], "b": longer[1]}, half)
    of_domains = [replace(sound_fit, info={**sound_fit.info, "domain": domain}) for domain in ("code", "web")]
    with fails("laws-of-two-domains", "code", "web"):
        Stack({"a": of_domains[0], "b": of_domains[1]}, half)


def test_one_run_tells_no_standard_errors() -> None:
    table = stacking(pd.DataFrame({"a": [1.0], "b": [0.5]}, index=["run"]))
    assert table["elpd_diff"].tolist() == [0.0, -0.5]
    assert table[["se", "dse"]].isna().all(axis=None)
