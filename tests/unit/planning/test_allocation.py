"""Compute split into parameters and tokens: published numbers, and the numeric search against the closed form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from bayeslaw.core.errors import FitError
from bayeslaw.design import read_candidates
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import parse_card
from bayeslaw.planning import allocation
from bayeslaw.planning.allocation import allocate
from bayeslaw.planning.arguments import NOTED
from bayeslaw.planning.life import whole_life
from bayeslaw.planning.optimum import numeric, powers_of
from bayeslaw.planning.stages import stages
from bayeslaw.planning.versus import versus
from bayeslaw.plots.allocation import plot_frontier, plot_isoflops
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.domains import two_domains
from tests.errors import fails
from tests.fixed import stand_in_fit
from tests.legends import labels, note
from tests.posteriors import ZHENG, law_named, learning, posterior, repeated, scattered
from tests.values import present

NO_POWERS = ("kaplan", "repeated-epochs", "transfer-target")


def scattered_fit(name: str, scatter: float = 0.03, size: int = 100) -> Fit:
    law = law_named(name)
    return posterior(law, scattered(oracles.typical(law), size, 1, scatter))


def other_settings(fit: Fit) -> dict[str, float]:
    values = {"r": 0.25, "ptpp": 31.0, "U": 1e11}
    return {k: values[k] for k in fit.law.measured if k in values}


@pytest.fixture(scope="module")
def chinchilla() -> Fit:
    return scattered_fit("chinchilla")


@pytest.mark.parametrize(
    ("stage", "printed"),
    [("scratch", ("0.324", "0.429", "0.514", "0.571")), ("cpt", ("4.79", "0.385", "0.035", "0.615"))],
)
def test_zhengs_published_parameters_give_their_published_allocation(zheng: Fit, stage: str, printed: tuple[str, ...]) -> None:
    """Zheng et al. 2024, eqs. 8 and 9: N_opt = .324 C^.429, D_opt = .514 C^.571; 4.79 C^.385, .035 C^.615."""
    result = allocate(zheng, "1e19:1e22:4", stage)
    assert result.method == "closed form"
    medians = result.powers()["median"]
    for name, digits in zip(("N_coefficient", "N_exponent", "D_coefficient", "D_exponent"), printed, strict=True):
        assert f"{medians[name]:.{len(digits) - 2}f}" == digits, name
    np.testing.assert_allclose(result.N[0], medians["N_coefficient"] * result.compute ** medians["N_exponent"], rtol=1e-9)
    np.testing.assert_allclose(6 * result.N * result.D, np.broadcast_to(result.compute, result.N.shape), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpt-joint", "d-cpt", "ptpp-gate-floor"])
def test_the_closed_form_is_the_numeric_optimum(name: str) -> None:
    fit = scattered_fit(name)
    for stage in ("scratch", "cpt") if name == "cpt-joint" else (None,):
        result = allocate(fit, "1e18:1e21:2", stage, settings=other_settings(fit))
        assert result.method == "closed form"
        optimum = numeric(result.stages[0], result.compute)
        inside = ~result.corner
        np.testing.assert_allclose(np.log(optimum.N)[inside], np.log(result.N)[inside], atol=2e-6)
        np.testing.assert_allclose(optimum.loss, result.loss, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_POWERS)
def test_other_laws_are_minimised_numerically(name: str) -> None:
    """No N of a dense grid does better."""
    fit = scattered_fit(name)
    result = allocate(fit, "1e19:1e21:2", settings=other_settings(fit))
    assert result.method == "numeric"
    for i, c in enumerate(result.compute):
        n = np.geomspace(1e5, 1e11, 2001)
        n = n[(c / (6 * n) > 1e3) & (c / (6 * n) < 1e14)]
        x = {"N": n[None], "D": c / (6 * n)[None], **other_settings(fit)}
        least = oracles.LAWS[name]({k: fit.draws[k][:, None] for k in fit.law.parameters}, x).min(axis=1)
        assert (result.loss[:, i] <= least * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", ["from-base-source", "injection"])
def test_no_size_is_chosen_at_the_base_loss_of_one_checkpoint(name: str) -> None:
    """A base loss that is held while N changes made a model of 200k parameters the best."""
    law = law_named(name)
    fit = posterior(law, scattered(oracles.typical(law), 40, 1))
    settings = {c: float(values[0]) for c, values in fit.observed.covariates.items() if c not in ("N", "D")}
    for choose in (allocate, whole_life):
        with fails("base-loss-of-one-size", law.name, "base_loss"):
            choose(fit, compute=1e20, settings=settings)
    with fails("base-loss-of-one-size", law.name, "base_loss"):
        versus(fit, fit, compute=1e20, settings=settings)
    assert versus(fit, fit, {"N": 1e9, "D": 2e10, **settings}).difference.shape[1] == 1  # N is given


def test_the_form_is_read_off_the_terms_not_the_name() -> None:
    law = law_named("chinchilla")
    card = law.card.replace('name   = "chinchilla"', 'name = "mine"').replace("B/D**beta", "B*exp(-beta*log(D))")
    fit = posterior(parse_card(card, "mine"), scattered(oracles.typical(law), 40, 2), frame=oracles.table(law))
    terms = present(powers_of(stages(fit.selections, {})[0]))
    for name in ("E", "A", "alpha", "B", "beta"):
        np.testing.assert_allclose(terms[name], fit.draws[name], rtol=1e-6)
    np.testing.assert_allclose(terms["gamma"], 0.0, atol=1e-9)


def test_compute_of_an_adaptation_leaves_out_the_pre_training() -> None:
    law = law_named("transfer-target")
    fit = posterior(law, scattered(oracles.typical(law), 400, 1, 0.01))
    notes = allocate(fit, 1e20, settings={"r": 0.1, "ptpp": 31}).notes
    assert any("pre-training each N on ptpp x N tokens is not counted" in note for note in notes)


def test_compute_of_a_mixture_of_experts_is_that_of_all_parameters() -> None:
    """At a compute of C / active the active parameters take C FLOPs, and the loss is the least at these."""
    law, compute, active = law_named("sparse-experts"), 1e20, 0.1
    fit = posterior(law, scattered(oracles.typical(law), 40, 1, 0.01))
    result = allocate(fit, compute / active, settings={"active": active}, discrepancy="none")
    assert any("uses the share `active`" in note and "C / active" in note for note in result.notes)
    np.testing.assert_allclose(6 * active * result.N * result.D, compute)
    n = np.geomspace(1e6, 1e13, 4000)
    x = {"N": n, "D": compute / (6 * active * n), "active": np.full(n.size, active)}
    least = oracles.LAWS["sparse-experts"]({k: fit.draws[k][:, None] for k in law.parameters}, x).min(axis=1)
    np.testing.assert_allclose(result.loss[:, 0], least, rtol=1e-5)
    assert versus(fit, fit, compute=1e20, settings={"active": 0.1}).notes[0] in result.notes
    dense = law_named("chinchilla")
    assert not any("active" in note for note in allocate(posterior(dense, scattered(oracles.typical(dense), 40, 1)), 1e20).notes)
    pool = pd.DataFrame({"run": ["x", "y"], "N": 1e9, "D": 2e10, "active": [0.1, 1.0]})
    assert any("6 N D with all N" in note for note in read_candidates([(law, fit.observed)], pool).notes)


def test_training_from_scratch_is_meant_unless_a_stage_is_given(zheng: Fit) -> None:
    default = allocate(zheng, 1e20)
    assert "for training from scratch (cpt = 0); the other stage is 'cpt'" in default.notes
    np.testing.assert_array_equal(default.N, allocate(zheng, 1e20, "scratch").N)


def test_a_stage_among_the_settings_chooses_it_or_is_refused(zheng: Fit) -> None:
    chosen = allocate(zheng, 1e20, settings={"cpt": 1})
    np.testing.assert_array_equal(chosen.N, allocate(zheng, 1e20, "cpt").N)
    assert not any("from scratch" in note for note in chosen.notes)
    for stage, value in (("cpt", 0), ("scratch", 1)):
        with fails("contradicting-stage", f"cpt = {value}", repr(stage)):
            allocate(zheng, 1e20, stage, settings={"cpt": value})


def test_corners_are_counted_and_noted() -> None:
    """With beta' <= gamma the loss falls with N at every compute: the largest model; with alpha <= gamma tokens shrink."""
    corner = allocate(repeated("cpt-joint", ZHENG | {"gamma": 0.25}), 1e20, "cpt")
    assert corner.corner.all()
    assert "beta <= gamma" in corner.notes[0]
    assert corner.N[0, 0] == pytest.approx(1e13) or corner.D[0, 0] == pytest.approx(1e2)
    assert corner.summary()["corner"].tolist() == [1.0]
    tokens_shrink = ZHENG | {"alpha": 0.35, "beta_cpt": 0.5, "gamma": 0.4, "B_cpt": 7e7}
    shrinking = allocate(repeated("cpt-joint", tokens_shrink), "1e18:1e19:2", "cpt")
    assert any("alpha <= gamma" in note for note in shrinking.notes)
    assert np.diff(shrinking.D, axis=1).max() < 0


def test_the_summary_has_intervals_of_every_quantity(chinchilla: Fit) -> None:
    result = allocate(chinchilla, [1e20, 1e21])
    table = result.summary(0.8)
    quantities = {"N": result.N, "D": result.D, "tokens_per_parameter": result.D / result.N, "loss": result.loss}
    for name, draws in quantities.items():
        np.testing.assert_allclose(table[f"{name}_median"], np.median(draws, axis=0))
        np.testing.assert_allclose(table[f"{name}_eti80_lb"], np.quantile(draws, 0.1, axis=0))
        np.testing.assert_allclose(table[f"{name}_eti80_ub"], np.quantile(draws, 0.9, axis=0))
    assert (table["loss_median"].diff().dropna() < 0).all()
    assert result.name == chinchilla.name


def test_a_single_compute_shows_no_power() -> None:
    powers = allocate(scattered_fit("kaplan"), 1e20).powers()
    assert powers.drop(columns="checks").isna().all(axis=None)


@pytest.mark.slow
def test_a_stack_has_the_power_laws_of_all_its_laws_or_none() -> None:
    """At a single compute a law without a closed form shows none; those of the other law are not the stack's."""
    stack = Stack({name: scattered_fit(name) for name in ("chinchilla", "kaplan")}, {"chinchilla": 0.5, "kaplan": 0.5})
    single, several = (allocate(stack, compute, discrepancy="none") for compute in (1e20, "1e19:1e21:3"))
    assert single.powers().drop(columns="checks").isna().all(axis=None)
    assert any("kaplan" in note for note in single.notes)
    slopes = np.polyfit(np.log(several.compute), np.log(several.N).T, 1)[0]
    assert several.powers().loc["N_exponent", "median"] == pytest.approx(np.median(slopes), rel=1e-6)


@pytest.mark.parametrize(
    ("compute", "options", "code", "named"),
    [
        ("0:1:2", {}, "unreadable-compute", ["'0:1:2'"]),
        ("1e19:1e20:99999", {}, "too-many-values", ["99999", "2,000"]),
        (1e20, {"stage": "cpt"}, "unknown-stage", ["chinchilla", "'cpt'"]),
        (1e20, {"settings": {"r": 0.3}}, "unknown-setting", ["chinchilla", "'r'"]),
        (1.0, {}, "compute-out-of-support", ["chinchilla"]),
    ],
)
def test_compute_stages_and_settings_that_can_not_be_used_are_refused(
    chinchilla: Fit, compute: Any, options: dict[str, Any], code: str, named: list[str]
) -> None:
    with fails(code, *named):
        allocate(chinchilla, compute, **options)


@pytest.mark.parametrize(
    ("settings", "code", "named"),
    [
        ({"r": 0.3}, "missing-setting", ["ptpp"]),
        ({}, "missing-setting", ["give r, ptpp among the settings (--set, settings="]),
        ({"r": 30, "ptpp": 31}, "out-of-support", ["r 30", "percentage"]),
        ({"r": "much", "ptpp": 31}, "setting-not-a-number", ["'much'"]),
    ],
)
def test_settings_are_checked_against_the_law(settings: dict[str, Any], code: str, named: list[str]) -> None:
    with fails(code, *named):
        allocate(scattered_fit("ptpp-floor"), 1e20, settings=settings)


def test_a_fit_whose_checks_failed_is_refused_or_its_tables_marked(chinchilla: Fit) -> None:
    failed = replace(chinchilla, checks=(Check("r_hat", False, "largest R-hat 1.2", "sampling", pd.DataFrame()),))
    with fails("failed-checks", "largest R-hat 1.2", kind=FitError):
        allocate(failed, 1e20)
    forced = allocate(failed, 1e20, force=True)
    for table in (forced.summary(), forced.powers()):
        assert (table["checks"] == "FAILED (forced)").all()
    assert (allocate(chinchilla, 1e20).powers()["checks"] == "passed").all()


@pytest.mark.slow
def test_the_title_of_a_frontier_fits_its_picture(zheng: Fit) -> None:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")  # as save_panels makes it
    failed = replace(allocate(zheng, "1e19:1e22:5", "scratch"), failed=True)
    title = plot_frontier([failed], figure.subplots()).title
    figure.draw_without_rendering()
    assert title.get_text().endswith("\nCHECKS FAILED")
    assert title.get_window_extent().x0 > 0
    assert title.get_window_extent().x1 < figure.bbox.x1


def test_frontiers_are_drawn_into_the_axes_given(zheng: Fit) -> None:
    axes = Figure().subplots()
    both = [allocate(zheng, "1e19:1e22:5", stage) for stage in ("scratch", "cpt")]
    assert plot_frontier(both, axes, ci_prob=0.8) is axes
    assert labels(axes) == [
        "best N, scratch", "best N, cpt", "outside the runs in N, D, compute or D / N", "fitted settings: 4",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="1e19:1e24:30"):
        plot_frontier([allocate(zheng, 1e20, "cpt")], axes)
    with fails("too-few-values"):
        plot_frontier([both[0], allocate(zheng, 1e20, "cpt")], axes)


def test_a_second_frontier_has_a_colour_and_a_name_and_no_second_contours(zheng: Fit) -> None:
    axes = plot_frontier(allocate(zheng, "1e19:1e20:3", "scratch"), Figure().subplots())
    contours = len(axes.collections)
    plot_frontier(allocate(zheng, "1e20:1e22:3", "cpt"), axes, label="continued")
    assert {"cpt-joint, best N, scratch", "continued, best N, cpt"} <= {*labels(axes)}
    assert "continued: 1 frontier goes on outside the picture" in note(axes)
    assert len(axes.collections) == contours + 1  # a band, and no second contours
    assert len({str(line.get_color()) for line in axes.lines if "best N" in str(line.get_label())}) == 2


def test_allocations_at_other_settings_are_told_apart() -> None:
    """Those of two corpora by one fit were called alike in pictures, and their tables did not say of which they are."""
    fit = stand_in_fit("chinchilla", two_domains(), by={"E": "domain", "alpha": "domain"}, draws=1500)
    both = [allocate(fit, "1e19:1e21:3", settings={"domain": name}, force=True) for name in ("web", "code (py)")]
    axes = plot_frontier([*both, both[1]], Figure().subplots())
    names = [f"chinchilla, domain = {name}" for name in ("web", "code (py)")]
    assert labels(axes)[:3] == [f"best N, {name}" for name in (*names, f"{names[1]} (2)")]
    assert plot_isoflops(both[1], Figure().subplots()).get_title().replace("\n", " ").startswith(names[1])
    tables = [result.summary() for result in both]
    assert [table["domain"].tolist() for table in tables] == [["web"] * 3, ["code (py)"] * 3]
    at = allocate(scattered_fit("ptpp-floor"), 1e20, settings={"r": "0.25", "ptpp": 31}).summary()
    assert at[["r", "ptpp"]].to_dict("records") == [{"r": 0.25, "ptpp": 31.0}]


def test_frontiers_of_one_compute_are_refused(zheng: Fit) -> None:
    with fails("too-few-values"):
        plot_frontier(allocate(zheng, [1e20, 1e20], "cpt"), Figure().subplots())


def test_a_frontier_rises_with_compute_in_whatever_order_it_was_given(zheng: Fit) -> None:
    axes = plot_frontier(allocate(zheng, [1e21, 1e19, 1e20], "scratch"), Figure().subplots())
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1e19, 1e20, 1e21]


def test_losses_at_equal_compute_are_least_at_the_best_n(chinchilla: Fit) -> None:
    axes = Figure().subplots()
    result = allocate(chinchilla, "1e19:1e22:8")
    assert plot_isoflops(result, axes, most=3) is axes
    curves = [line for line in axes.lines if np.size(line.get_xdata()) == 81 and line.get_linestyle() == "--"]
    medians = result.summary()["N_median"].to_numpy()
    for line, place in zip(curves, (0, 4, 7), strict=True):
        n, loss = (np.asarray(values, dtype=np.float64) for values in line.get_data())
        assert n[loss.argmin()] == pytest.approx(medians[place], rel=0.15)
    assert "5 of 8 budgets are not drawn" in note(axes)
    plot_isoflops(allocate(chinchilla, 1e20), Figure().subplots())  # one budget is enough
    with fails("not-a-whole-number", "most", 0):
        plot_isoflops(result, axes, most=0)


def test_curves_and_contours_have_the_error_that_the_marks_have(chinchilla: Fit) -> None:
    """A curve's band at the best N is the mark's interval: beyond the runs that of the law alone is much narrower."""
    result = allocate(learning(chinchilla), 1e26)
    assert result.extrapolated
    axes = plot_isoflops(result, Figure().subplots())
    band = next(c for c in axes.collections if isinstance(c, PolyCollection)).get_paths()[0]
    n, loss = np.asarray(band.vertices, dtype=np.float64).T
    mark = result.summary().iloc[0]
    width = float(np.ptp(loss[np.abs(np.log(n / mark["N_median"])) < 0.01]))
    assert width == pytest.approx(mark["loss_eti90_ub"] - mark["loss_eti90_lb"], rel=0.1)
    assert "curves and marks have the law's error" in note(axes)
    assert "law's error" not in note(plot_isoflops(allocate(chinchilla, 1e26, discrepancy="none"), Figure().subplots()))
    several = allocate(learning(chinchilla), [1e25, 1e26])
    assert "lines have the law's error" in note(plot_frontier(several, Figure().subplots()))


@pytest.mark.slow
def test_the_ground_outside_the_runs_is_hatched_and_contours_are_whole(chinchilla: Fit) -> None:
    axes = Figure().subplots()
    result = allocate(chinchilla, "1e19:1e22:8")
    assert len(result.runs) == len({(n, d) for n, d in result.runs.tolist()})
    plot_frontier(result, axes)
    assert any("//" in (getattr(c, "hatches", None) or []) for c in axes.collections)
    drawn = next((int(text.rpartition(" ")[2]) for text in labels(axes) if text.startswith("fitted settings")), 0)
    assert drawn == len(result.runs) or f"{len(result.runs) - drawn} of {len(result.runs)} fitted settings" in note(axes)
    with fails("too-many-lines"):
        plot_frontier([result] * 8, axes)


def test_the_law_errs_where_the_best_size_leaves_the_runs_though_compute_does_not(chinchilla: Fit) -> None:
    fit = learning(chinchilla)
    seen = fit.observed.covariates
    most = float(6 * (seen["N"] * seen["D"]).max())
    places = allocate(fit, f"{most / 1e6}:{most}:60", discrepancy="none")
    best = np.median(places.N, axis=0), np.median(places.D, axis=0)
    far = np.max(
        [np.maximum(np.log(v / seen[c].max()), np.log(seen[c].min() / v)) for c, v in zip("ND", best, strict=True)], axis=0
    )
    assert not allocate(fit, float(places.compute[far < 0][0])).extrapolated
    beyond = float(places.compute[far > NOTED][-1])
    wide = allocate(fit, beyond)
    assert wide.extrapolated
    assert np.std(wide.loss) > np.std(allocate(fit, beyond, discrepancy="none").loss)


def test_the_law_errs_where_its_best_tokens_per_parameter_leave_the_runs(chinchilla: Fit) -> None:
    """As forecasts of these sizes and tokens do, though N, D and compute lie inside."""
    exact = allocate(chinchilla, 1e20)
    n, d = float(np.median(exact.N)), float(np.median(exact.D))
    sizes = [(ratio * n, more * d / n * ratio * n) for ratio in (0.2, 0.5, 2.0, 5.0) for more in (3.0, 10.0)]
    runs = pd.DataFrame(sizes, columns=["N", "D"]).assign(loss=3.0)
    fit = learning(posterior(chinchilla.law, {k: chinchilla.draws[k] for k in chinchilla.law.parameters}, frame=runs))
    forecast = fit.forecast({"N": n, "D": d}, force=True).summary()
    assert forecast[["headline", "extrapolation"]].iloc[0].tolist() == ["extrapolated", "FAR outside: D / N by 1.1 e-folds"]
    wide = allocate(fit, 1e20)
    assert wide.extrapolated
    assert np.std(wide.loss) > np.std(exact.loss)
    assert not allocate(fit, 1e20, discrepancy="none").extrapolated


def test_inside_the_runs_half_of_the_draws_are_of_the_law_with_an_error(chinchilla: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    none, seen = learning(chinchilla), chinchilla.observed.covariates
    fit = replace(none, info={**none.info, "discrepancy": {"asked": "learned", "learned": True, "reason": ""}})
    within = float(6 * (seen["N"] * seen["D"]).max() / 100)
    exact = allocate(fit, within, discrepancy="none")
    draws = {k: chinchilla.draws[k] for k in chinchilla.law.parameters}
    erring = posterior(chinchilla.law, draws | {"A": 2 * draws["A"]})
    of_error = allocate(erring, within, discrepancy="none")
    monkeypatch.setattr(allocation, "with_error", lambda fit, whole: erring)
    half = allocate(fit, within)
    np.testing.assert_array_equal(half.N, np.concatenate([exact.N[::2], of_error.N[1::2]]))
    assert (of_error.N > exact.N).all()
    assert not half.extrapolated
    assert "half of the draws" in half.notes[-1]
    assert [law.draws["A"].size for law in half.stages] == [exact.N[::2].size, of_error.N[1::2].size]
    np.testing.assert_array_equal(allocate(none, within).N, exact.N)


def test_laws_of_a_stack_that_agree_have_their_whole_error() -> None:
    """As in forecasts, where none of them has learnt an error from the runs."""
    one = learning(scattered_fit("chinchilla", 0.01, 2000))
    laws = {"one": one, "another": replace(one, law=replace(one.law, name="another"))}
    stack, size = Stack(laws, dict.fromkeys(laws, 0.5)), list[float]()
    assert "extrapolated" in stack.forecast({"N": 1e13, "D": 2e14}, force=True).spreads
    for fit in (one, stack):
        result, exact = (allocate(fit, 1e27, discrepancy=choice) for choice in ("learned", "none"))
        assert result.extrapolated
        size.append(float(np.median(np.abs(np.log(result.loss / exact.loss)))))
    assert size[1] == pytest.approx(size[0], rel=0.15)  # other random numbers, of a size that varies from draw to draw
