"""Stacks: weights against plain optima, draws against those of their fits, files, refusals, the command line."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import BayeslawError, FitError, TableError
from bayeslaw.evaluation.scores import draw_scores, point_scores, score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import LEAST, Stack, load_fit, stacking
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, refused
from tests.oracles import LAWS, Array

AT = pd.DataFrame({"N": [1e8, 1e9, 1e10], "D": [1e9, 1e10, 1e11], "r": [0.1, 0.3, 0.5], "ptpp": [15.0, 31.0, 279.0]})


@pytest.fixture(scope="module")
def stack(sound_fit: Fit, ptpp_fit: Fit) -> Stack:
    return Stack.of({"first": sound_fit, "second": ptpp_fit}, {"first": 0.3, "second": 0.7})


# --- weights --------------------------------------------------------------------------------------------------------


def mixture(densities: pd.DataFrame, weights: Array) -> float:
    """Mean log density of the runs under the weighted fits, less a constant."""
    shifted = densities.to_numpy() - densities.to_numpy().max(axis=1, keepdims=True)
    return float(np.log(np.exp(shifted) @ weights).mean())


@pytest.mark.parametrize("scale", [0.1, 2.0, 50.0])
def test_no_other_weights_foretell_the_runs_better(scale: float, rng: np.random.Generator) -> None:
    """Against 2,000 weights all over the simplex, runs' densities lying far beyond what exp can hold."""
    noise = scale * rng.standard_normal((30, 3))
    densities = pd.DataFrame(noise + 2000 * rng.standard_normal((30, 1)), columns=["a", "b", "c"])
    found = stacking(densities)
    weights = found["weight"].loc[["a", "b", "c"]].to_numpy()
    assert weights.sum() == pytest.approx(1)
    others = max(mixture(densities, other) for other in rng.dirichlet([0.5, 0.5, 0.5], 2000))
    assert mixture(densities, weights) > others - 1e-3
    assert found["elpd"].is_monotonic_decreasing
    np.testing.assert_allclose(found["elpd"], densities.sum().loc[found.index])
    difference = densities.sub(densities[found.index[0]], axis=0)[found.index]
    np.testing.assert_allclose(found["elpd_diff"], difference.sum(), atol=1e-9)
    np.testing.assert_allclose(found["dse"], np.sqrt(30) * difference.std(ddof=0), atol=1e-9)
    np.testing.assert_allclose(found["se"], np.sqrt(30) * densities.std(ddof=0).loc[found.index])


def test_weights_are_shares_of_the_runs_where_each_has_its_own_law() -> None:
    """Three runs that only the first can foretell and one that only the second can."""
    densities = pd.DataFrame({"a": [0.0, 0, 0, -500], "b": [-500.0, -500, -500, 0]})
    assert stacking(densities)["weight"].to_dict() == pytest.approx({"a": 0.75, "b": 0.25}, abs=1e-3)


def test_a_fit_alone_and_a_useless_one() -> None:
    alone = stacking(pd.DataFrame({"a": [-3.0, -4.0]}))
    assert alone["weight"].tolist() == [1.0]
    assert alone["elpd"].tolist() == [-7.0]
    beside = stacking(pd.DataFrame({"a": [-30.0, -40.0, -50.0], "b": [-3.0, -4.0, -5.0]}))
    assert beside["weight"].to_dict() == {"b": 1.0, "a": 0.0}


# --- draws ----------------------------------------------------------------------------------------------------------


def test_what_is_shown_at_a_prompt_is_a_line(stack: Stack, sound_fit: Fit) -> None:
    made = sound_fit.forecast(grid(sound_fit, {"N": 1e9, "D": [1e9, 1e10]}), force=True)
    assert repr(sound_fit) == "<Fit of chinchilla to 40 losses of 8 runs: 2 chains of 1,500 draws, checks passed>"
    assert repr(sound_fit.law) == "<Law chinchilla: loss = E + A/N**alpha + B/D**beta>"
    assert repr(made) == "<Forecast by chinchilla at 2 settings: 3,000 draws>"
    assert repr(stack) == "<Stack of " + ", ".join(f"{name} ({weight:.3g})" for name, weight in stack.weights.items()) + ">"


def test_draws_come_in_proportion_to_the_weights(stack: Stack) -> None:
    (ptpp, many), (chinchilla, few) = stack.selections  # heaviest first
    assert (ptpp.name, chinchilla.name) == ("ptpp-floor", "chinchilla")
    assert (many.size, few.size) == (2100, 900)  # of 3,000, as many as the smaller fit has
    for chosen, size in ((many, 4000), (few, 3000)):
        assert chosen.min() >= 0
        assert chosen.max() < size
        steps = np.diff(chosen)
        assert steps.min() >= size // chosen.size
        assert steps.max() <= size // chosen.size + 1


def test_latent_draws_are_those_of_the_laws(stack: Stack) -> None:
    made = forecast(stack, AT)
    latent = made.draws["latent"].values
    assert latent.shape == (3000, 3)
    expected = []
    for fit, chosen in stack.selections:
        values = {name: draws[chosen][:, None] for name, draws in fit.draws.items()}
        expected.append(LAWS[fit.name](values, {str(c): AT[c].to_numpy() for c in AT}))
    np.testing.assert_allclose(latent, np.concatenate(expected), rtol=1e-11)
    assert stack.forecast(AT).draws.identical(made.draws)
    assert not np.isclose(forecast(stack, AT, seed=1).draws["run"], made.draws["run"], rtol=1e-9).any()


def test_not_knowing_the_law_widens_the_interval(stack: Stack) -> None:
    """Where the laws disagree, the interval reaches from the one's to the other's."""
    whole = forecast(stack, AT).summary()
    one, other = (forecast(fit, AT).summary() for fit in stack.members.values())
    low, high = (np.array([one[f"latent_eti90_{end}"], other[f"latent_eti90_{end}"]]) for end in ("lo", "hi"))
    apart = low.max(axis=0) > high.min(axis=0)
    assert apart.any()
    assert (whole["latent_eti90_lo"] < low.min(axis=0) * 1.01)[apart].all()
    assert (whole["latent_eti90_hi"] > high.max(axis=0) * 0.99)[apart].all()


def test_a_stack_of_one_is_that_fit(sound_fit: Fit) -> None:
    stack = Stack.of({"a": sound_fit}, {"a": 1.0})
    assert forecast(stack, AT, seed=2).draws.identical(forecast(sound_fit, AT, seed=2).draws)


def test_distances_are_the_largest_of_any_fit(stack: Stack, sound_fit: Fit, ptpp_fit: Fit) -> None:
    outside, one, other = (forecast(f, AT).outside for f in (stack, sound_fit, ptpp_fit))
    assert list(outside) == ["N", "D", "r", "ptpp"]
    np.testing.assert_array_equal(outside["D"], np.maximum(one["D"], other["D"]))
    np.testing.assert_array_equal(outside["ptpp"], other["ptpp"])


def test_a_row_of_a_stack_does_not_depend_on_the_others(stack: Stack) -> None:
    many = pd.concat([AT] * 15, ignore_index=True)
    whole, few = (forecast(stack, at, discrepancy=0.01).draws for at in (many, many.head(3)))
    for spread in ("latent", "run", "discrepancy"):
        np.testing.assert_allclose(whole[spread].values[:, :3], few[spread].values, rtol=1e-12)


def test_grids_and_faults_are_of_all_laws(stack: Stack) -> None:
    assert list(grid(stack, {"N": 1e9, "D": 1e10, "r": 0.1, "ptpp": [15, 31]})) == ["N", "D", "r", "ptpp"]
    with pytest.raises(BayeslawError, match="needs N, D, r, ptpp; give r, ptpp too"):
        grid(stack, {"N": 1e9, "D": 1e10})
    with pytest.raises(TableError) as caught:
        forecast(stack, AT.drop(columns="ptpp").assign(N=[1e8, 8.1, 1e10]))
    billions, missing = sorted(map(str, caught.value.faults))  # each once, though both laws find the first
    assert billions == "N 8.1 is outside [10000, 1e+13]: is it in billions? Give the number of parameters (row 2, column N)"
    assert missing.startswith("column ptpp is missing: ptpp-floor needs N, D, r, ptpp; there are N, D, r")


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


def test_failed_checks_of_any_law_are_refused_unless_forced(sound_fit: Fit, small_fit: Fit) -> None:
    stack = Stack.of({"sound": sound_fit, "short": small_fit}, {"sound": 0.9, "short": 0.1})
    assert not stack.passed
    with pytest.raises(FitError, match=r"The fit's checks failed \(short: .*force it and have every row marked"):
        forecast(stack, AT)
    assert (forecast(stack, AT, force=True).summary()["checks"] == "FAILED (forced)").all()
    without = Stack.of({"sound": sound_fit, "short": small_fit}, {"sound": 1.0, "short": 0.0})
    assert list(without.members) == ["sound"]
    assert (forecast(without, AT).summary()["checks"] == "passed").all()


@pytest.mark.parametrize("weights", [{"a": 0.5}, {"a": 1.5}, {"a": -1.0}, {"a": float("nan")}, {"b": 1.0}, {}])
def test_weights_that_are_none(sound_fit: Fit, weights: dict[str, float]) -> None:
    with pytest.raises(BayeslawError, match="weight"):
        Stack({"a": sound_fit}, weights)


def test_tables_of_a_stack(stack: Stack, ptpp_fit: Fit) -> None:
    assert stack.table["weight"].to_dict() == {"second": 0.7, "first": 0.3}
    assert stack.table["law"].to_dict() == {"second": "ptpp-floor", "first": "chinchilla"}
    pd.testing.assert_frame_equal(stack.summary(0.5).loc[["second"]].droplevel("law"), ptpp_fit.summary(0.5))
    assert {c.text.partition(":")[0] for c in stack.checks} == {"first", "second"}
    assert LEAST < 0.01


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(stack: Stack, tmp_path: Path) -> Path:
    stack.save(tmp_path / "stack.nc")
    return tmp_path / "stack.nc"


def test_a_stack_is_read_as_it_was_written(stack: Stack, path: Path) -> None:
    read = load_fit(path)
    assert isinstance(read, Stack)
    assert read.weights == stack.weights
    assert forecast(read, AT, seed=3).draws.identical(forecast(stack, AT, seed=3).draws)
    read.save(path)
    assert forecast(load_fit(path), AT, seed=3).draws.identical(forecast(stack, AT, seed=3).draws)
    assert sorted(p.name for p in path.parent.iterdir()) == ["stack.nc"]


def test_a_fit_is_loaded_as_a_fit(sound_fit: Fit, tmp_path: Path) -> None:
    sound_fit.save(tmp_path / "fit.nc")
    read = load_fit(tmp_path / "fit.nc")
    assert isinstance(read, Fit)
    pd.testing.assert_frame_equal(read.summary(), sound_fit.summary())


def test_a_stack_is_not_a_fit(path: Path) -> None:
    with pytest.raises(FitError, match=r"stack.nc is a stack of fits, not one; read it with `bayeslaw.load_fit`"):
        bayeslaw.load_fit(path)


def edit(path: Path, **attributes: object) -> None:
    with h5py.File(path, "r+") as file:
        for name, value in attributes.items():
            file.attrs[name] = value


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"bayeslaw_stack": 2}, "stack.nc is not a bayeslaw stack of format 1 (found 2)."),
        (
            {"weights": json.dumps({"second": 0.8, "first": 0.3})},
            "stack.nc is damaged: The weights of a stack are positive and add",
        ),
        ({"weights": json.dumps({"second": 0.7, "first": 0.2, "third": 0.1})}, "stack.nc is damaged: "),
        ({"weights": "half"}, "stack.nc is damaged: "),
        ({"weights": "[0.7, 0.3]"}, "stack.nc is damaged: "),
    ],
)
def test_tampered_weights(path: Path, change: dict[str, object], text: str) -> None:
    edit(path, **change)
    with pytest.raises(FitError) as caught:
        load_fit(path)
    assert str(caught.value).startswith(text)


def test_a_tampered_fit_in_a_stack(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["fit1/posterior/E"][0, 0] *= 1.01
    with pytest.raises(FitError, match=r"stack.nc can't be used: its draws changed since it was written"):
        load_fit(path)


def test_a_truncated_stack(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(FitError, match=r"stack.nc can't be read as a fit: it is damaged or no NetCDF file"):
        load_fit(path)
    with pytest.raises(FitError, match="There is no file"):
        load_fit(path.with_name("none.nc"))


# --- the command line -----------------------------------------------------------------------------------------------


def test_commands_take_a_stack(command: Command, folder: Path, stack: Stack) -> None:
    stack.save("stack.nc")
    at = ("--set", "N=1e8,1e9", "--set", "D=1e9:1e11:3", "--set", "r=0.1", "--set", "ptpp=31")
    done = command("forecast", "stack.nc", *at, "--seed", "4", "-o", "out.csv", "--plot", "fan.png")
    assert (done.status, done.err) == (0, "")
    settings = grid(stack, {"N": "1e8,1e9", "D": "1e9:1e11:3", "r": "0.1", "ptpp": "31"})
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), forecast(stack, settings, seed=4).summary(), rtol=1e-14)
    shown = command("show", "stack.nc").out
    assert shown.startswith("stack of second, first\n")
    assert "0.7000" in shown
    assert shown.endswith("verdict: passed\n")
    read = pd.read_csv(io.StringIO(command("show", "stack.nc", "--csv").out), index_col=["law", "parameter"])
    pd.testing.assert_frame_equal(read, stack.summary(), rtol=1e-14)
    scored = pd.read_csv(io.StringIO(command("score", "stack.nc", "ptpp.csv", "--csv").out))
    pd.testing.assert_frame_equal(scored, score(stack, pd.read_csv("ptpp.csv")), rtol=1e-14)


def test_commands_that_a_stack_cannot_do(command: Command, folder: Path, stack: Stack, small_fit: Fit) -> None:
    stack.save("stack.nc")
    refused(command("show", "stack.nc", "--latex"), "stack.nc is a stack of fits; --latex and --sensitivity are for one.")
    refused(command("forecast", "stack.nc", "--set", "N=1e9", "--set", "D=1e9"), "give r, ptpp too.")
    replace(stack, members={**stack.members, "first": small_fit}).save("stack.nc")
    at = ("--set", "N=1e8", "--set", "D=1e9", "--set", "r=0.1", "--set", "ptpp=31")
    refused(command("forecast", "stack.nc", *at), "checks failed (first: ")
    assert "FAILED (forced)" in command("forecast", "stack.nc", *at, "--force").out
