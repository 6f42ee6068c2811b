"""Plans with served tokens, uncertain costs and menus of checkpoints, from fixed draws, against brute force."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.inference.point import PointFit
from bayeslaw.planning.menu import PlanMenu, plan_menu
from bayeslaw.planning.plan import Plan, plan
from bayeslaw.plots.decisions import plot_menu
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.legends import labels
from tests.posteriors import BASE, LIMIT, MODEL, SOURCE, TARGET, best_of, law_named, repeated
from tests.values import present

SIZES = (3e9, 8.1e9, 2e10)
LEVEL, REPLAY = 0.9, 0.5
DEVICE = {"peak": 1e15, "utilisation": 0.4, "served-utilisation": 0.1}
LIMITED: dict[str, Any] = {
    "on": "latent", "max_forgetting": "2%", "max_loss": 1.01 * LIMIT, "confidence": LEVEL, "levels": (LEVEL,), "replay": REPLAY,
}  # fmt: skip


def base_of(n: float) -> float:
    """The base loss of a checkpoint of n parameters, 2% below that of the plan of Goffinet et al."""
    x = {k: np.array([v]) for k, v in ({**MODEL, "N": n} | {"D": 8.9 * n, "r": 0.34}).items()}
    return float(oracles.ptpp_floor(SOURCE, x)[0]) / 1.02


def menu_of(source: Fit, target: Fit, sizes: tuple[float, ...] = SIZES, **changed: Any) -> PlanMenu:
    models = [{**MODEL, "N": n} for n in sizes]
    return plan_menu(source, target, models, **(LIMITED | {"base_loss": [base_of(n) for n in sizes]} | changed))


def satisfied(source: Fit, target: Fit, draws: np.ndarray, n: float, tokens: np.ndarray) -> np.ndarray:
    """Whether both constraints hold by the oracle's laws, (s, m)."""
    x = {**MODEL, "N": n, "D": tokens[None, :], "r": REPLAY}
    kept = oracles.ptpp_floor({k: source.draws[k][draws, None] for k in SOURCE}, x) <= 1.02 * base_of(n)
    return np.asarray(kept & (oracles.ptpp_gate_floor({k: target.draws[k][draws, None] for k in TARGET}, x) <= 1.01 * LIMIT))


def some(menu: PlanMenu, number: int) -> Plan:
    own = present(menu.plans[number])
    assert own.best is not None
    return own


@pytest.fixture(scope="module")
def served(source: Fit, target: Fit) -> PlanMenu:
    return menu_of(source, target, served="1e11:1e12:90%")


@pytest.mark.slow
def test_a_menu_costs_as_brute_force_says(source: Fit, target: Fit, served: PlanMenu) -> None:
    """Tokens from a fine grid at each size; FLOPs of the whole life; the share of draws in which each size is the cheapest."""
    size = source.draws["E"].size
    grid = np.exp(np.arange(math.log(1e10), math.log(5e12), 2e-3))
    own, means = np.empty((size, len(SIZES))), []
    for i, n in enumerate(SIZES):
        best = some(served, i)
        draws = best.draws
        good = satisfied(source, target, np.arange(size), n, grid)
        needed = math.ceil(LEVEL * draws.size - 1e-9)
        tokens = grid[(good[draws].sum(axis=0) >= needed).argmax()]
        assert best_of(best).tokens == pytest.approx(tokens, rel=2.1e-3)
        amount = best.problem.prices.life.served
        means.append(6 * n * best_of(best).tokens + 2 * n * amount.mean())
        least = np.where(good.any(axis=1), grid[good.argmax(axis=1)], np.inf)
        own[:, i] = 6 * n * least + 2 * n * amount
    np.testing.assert_allclose(served.table["flops"], means, rtol=1e-9)
    assert served.number == int(np.argmin(means))
    assert served.best is served.plans[int(np.argmin(means))]
    any_is = np.isfinite(own).any(axis=1)
    shares = [((own.argmin(axis=1) == i) & any_is).mean() for i in range(len(SIZES))]
    np.testing.assert_allclose(served.table["probability_best"], shares, atol=0.005)


def test_uncertain_amounts_are_the_same_for_all_sizes(served: PlanMenu) -> None:
    first, *others = (some(served, i).problem.prices.life.served for i in range(len(SIZES)))
    assert np.ptp(first) > 0
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.slow
def test_served_tokens_cost_the_same_in_all_plans_of_a_checkpoint(source: Fit, target: Fit) -> None:
    options = LIMITED | {"base_loss": BASE}
    plain, served = (plan(source, target, MODEL, minimise="flops", served=s, **options) for s in (0.0, 1e12))
    assert (best_of(served).tokens, best_of(served).replay) == (best_of(plain).tokens, best_of(plain).replay)
    assert best_of(served).flops == pytest.approx(best_of(plain).flops + 2 * MODEL["N"] * 1e12)
    assert best_of(served).served_flops == 2 * MODEL["N"] * 1e12
    assert "served_flops" in served.frontier
    assert "served_flops" not in plain.frontier
    assert "for serving)" in served.lines()[1]


@pytest.mark.slow
def test_hours_and_money_of_a_plan_by_hand(source: Fit, target: Fit) -> None:
    result = plan(
        source, target, MODEL, minimise="hours", served=1e12, device=DEVICE, prices={"hour": 2.0, "new-token": 1e-8},
        **(LIMITED | {"base_loss": BASE}),
    )  # fmt: skip
    n, tokens = MODEL["N"], best_of(result).tokens
    hours = 6 * n * tokens / (0.4e15 * 3600) + 2 * n * 1e12 / (0.1e15 * 3600)
    assert best_of(result).hours == pytest.approx(hours)
    assert best_of(result).cost == pytest.approx(2 * hours + 1e-8 * (1 - REPLAY) * tokens)
    assert "device hours" in result.lines()[1]


@pytest.mark.slow
def test_budgets_of_the_whole_life_leave_what_serving_does_not_take(source: Fit, target: Fit) -> None:
    """The least loss within a budget, as that of a plan without serving that has the rest of the budget."""
    options = LIMITED | {"base_loss": BASE, "max_loss": None, "minimise": "target-loss"}
    serving = 2 * MODEL["N"] * 1e11
    rest = plan(source, target, MODEL, max_flops=2e22, **options)
    whole = plan(source, target, MODEL, max_flops=2e22 + serving, served=1e11, **options)
    assert best_of(whole).tokens == pytest.approx(best_of(rest).tokens)
    assert best_of(whole).value == pytest.approx(best_of(rest).value)
    with fails("budget-too-small", "1.62e21", "1e21", "8.1e9"):
        plan(source, target, MODEL, max_flops=1e21, served=1e11, **options)


@pytest.mark.slow
def test_a_budget_of_something_uncertain_holds_together_with_the_losses(source: Fit, target: Fit) -> None:
    """As brute force says: the first tokens of a fine grid at which enough draws keep both losses and the budget."""
    budget = 2.2e22
    options = LIMITED | {"base_loss": BASE, "confidence": 0.8, "levels": (0.8,)}
    result = plan(source, target, MODEL, served="1e11:1e12:90%", max_flops=budget, **options)
    assert set(best_of(result).by_constraint) == {"forgetting of source", "target loss", "budget of FLOPs"}
    assert "budget of FLOPs at most 2.2e22" in result.lines()[0]
    amount = result.problem.prices.life.served
    grid = np.exp(np.arange(math.log(2e10), math.log(1e12), 1e-3))
    good = satisfied(source, target, np.arange(amount.size), MODEL["N"], grid)
    good &= 6 * MODEL["N"] * grid[None, :] + 2 * MODEL["N"] * amount[:, None] <= budget
    counts = good[result.draws].sum(axis=0)
    first = grid[(counts >= math.ceil(0.8 * result.draws.size - 1e-9)).argmax()]
    assert best_of(result).tokens == pytest.approx(first, rel=1.1e-3)
    near = np.abs(grid / best_of(result).tokens - 1).argmin()
    assert best_of(result).held_out == pytest.approx(good[result.held_out][:, near].mean(), abs=0.003)
    row = result.losses.loc["whole life (FLOPs)"]
    assert row["eti90_lb"] < row["median"] < row["eti90_ub"]
    assert set(result.margins) == {"forgetting of source", "target loss"}  # no run tells anything about served tokens


@pytest.mark.slow
def test_deterministic_plans_choose_a_size_too(source: Fit, target: Fit, served: PlanMenu) -> None:
    values = [own.deterministic.flops for own in served.plans if own is not None and own.deterministic is not None]
    assert served.deterministic == int(np.argmin(values))
    by_loss = menu_of(source, target, served=1e11, max_flops=2e22, minimise="target-loss", max_loss=None)
    assert by_loss.deterministic is not None
    values = by_loss.table["value"].tolist()
    assert by_loss.number == int(np.nanargmin(values))
    own, other = (
        PointFit(fit.law, values, 0.0, 1e-3, pd.DataFrame(), fit.observed, np.zeros(len(values)))
        for fit, values in ((source, SOURCE), (target, TARGET))
    )
    fixed = plan(
        source, target, MODEL, served="1e11:1e12:90%", max_flops=2e22, points=(own, other), **(LIMITED | {"base_loss": BASE})
    )
    assert fixed.deterministic_by == "point fits"
    assert fixed.deterministic is not None


@pytest.mark.slow
def test_sizes_whose_serving_takes_the_budget_are_left_out(source: Fit, target: Fit) -> None:
    menu = menu_of(source, target, served=1e12, max_flops=2e22, max_loss=None, minimise="target-loss")
    assert menu.table["plan"].tolist() == ["feasible", "feasible", "over budget"]
    assert menu.table["probability_best"].iloc[2] == 0.0
    assert "over budget" in [text.get_text() for text in plot_menu(menu, Figure().subplots()).texts]
    with fails("budget-too-small", "3e9", "menu"):
        menu_of(source, target, served=1e12, max_flops=1e21, max_loss=None, minimise="target-loss")


@pytest.mark.slow
def test_sizes_that_can_not_reach_the_loss_have_no_plan(source: Fit, target: Fit) -> None:
    """They don't keep the others from being compared."""
    menu = menu_of(source, target, (1e6, 8.1e9), served=1e11)
    assert menu.table["plan"].tolist() == ["infeasible", "feasible"]
    assert menu.number == 1
    assert "infeasible" in [text.get_text() for text in plot_menu(menu, Figure().subplots()).texts]
    with fails("unreachable-loss", "N = 1000000", "menu"):
        menu_of(source, target, (1e5, 1e6), served=1e11)


def test_checkpoints_that_a_law_can_not_tell_apart_are_refused() -> None:
    fit = repeated("replay-target", oracles.typical(law_named("replay-target")), size=2000)
    with fails("law-without-covariate", "differ in N", "replay-target"):
        plan_menu(None, fit, [{"N": 1e9}, {"N": 3e9}], on="latent", minimise="target-loss", max_tokens=1e9, tokens="1e8:1e10")


@pytest.mark.slow
def test_listed_tokens_are_compared_too(source: Fit, target: Fit) -> None:
    menu = menu_of(source, target, (3e9, 8.1e9), tokens="2e10,1e11,4e11", served=1e11)
    assert set(menu.table["tokens"].round(-5)) <= {2e10, 1e11, 4e11}
    assert menu.table["probability_best"].sum() <= 1
    assert menu.number == 0


@pytest.mark.parametrize(
    ("changed", "code", "named"),
    [
        ({"minimise": "tokens"}, "unknown-objective", ["'tokens'", "flops"]),
        ({"base_loss": [1.5]}, "values-of-menu", ["1", "3"]),
        ({"served": -1.0}, "unusable-served", ["-1", "N = 3e9"]),
        ({"prices": {"hour": 1.0}}, "missing-device", ["peak"]),
        ({"minimise": "hours"}, "missing-device", ["peak"]),
        ({"max_hours": 1e3}, "missing-device", ["peak"]),
        ({"device": {"peak": 1e15, "utilisation": 2.0}}, "unusable-device", ["2"]),
        ({"max_cost": 1e3}, "missing-price", ["--price"]),
        ({"sizes": (8.1e9,)}, "no-menu", ["--sizes"]),
        ({"sizes": (8.1e9, 8.1e9)}, "no-menu", ["--sizes"]),
        ({"sizes": (8.1, 3e9)}, "out-of-support", ["N = 8.1"]),
    ],
)
def test_menus_that_can_not_be_used_are_refused(
    source: Fit, target: Fit, changed: dict[str, Any], code: str, named: list[str]
) -> None:
    with fails(code, *named):
        menu_of(source, target, **changed)


def test_a_menu_is_of_models_not_of_numbers(target: Fit) -> None:
    with fails("no-menu", "{'N': 1e9}"):
        plan_menu(None, target, cast("Any", [1e9, 3e9]), on="latent", max_loss=2.0)


def test_served_tokens_need_the_number_of_parameters(source: Fit) -> None:
    with fails("missing-parameter-count"):
        plan(source, None, {"ptpp": 279}, **(LIMITED | {"base_loss": BASE, "max_loss": None, "tokens": 1e10, "served": 1e9}))


def test_words_notebooks_and_pictures_of_a_menu(served: PlanMenu) -> None:
    head, best, plug_in = served.lines()
    assert head.startswith("3 checkpoints, least mean FLOPs of the whole life: loss of source rises by at most +2%")
    assert best.startswith("adapt N = 3e9: ATPP ")
    assert "the best checkpoint in " in best
    assert plug_in.startswith("deterministic (plug-in) plans would adapt N = ")
    assert "adapt N = 3e9" in repr(served).replace("\n ", "")
    assert "Checkpoints" in served._repr_html_()
    assert all(note.startswith("N = ") for note in served.notes)
    axes = Figure().subplots()
    assert plot_menu(served, axes) is axes
    assert labels(axes) == ["serving", "adaptation"]
    assert [text.get_text()[:5] for text in axes.texts] == ["best "] * 3
    heights = [bar.get_height() for bar in axes.patches[:2]]  # type: ignore[attr-defined]
    assert sum(heights) == pytest.approx(served.table["flops"].iloc[0])
