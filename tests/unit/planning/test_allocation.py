"""Compute split into parameters and tokens; what a pre-trained start is worth: published numbers, numeric against closed form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.planning.allocation import allocate, numeric, powers_of
from bayeslaw.planning.domain_loss import stages
from bayeslaw.planning.transfer import transfer
from bayeslaw.plots.decisions import plot_frontier, plot_savings
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.posteriors import posterior, scattered

ZHENG = dict(load_law("cpt-joint").published["Zheng et al. 2024, table 2"])
NO_POWERS = ("chinchilla-nd", "kaplan", "repeated-epochs", "transfer-source", "transfer-target")


def given(name: str, scatter: float = 0.03, size: int = 200, **changed: float) -> Fit:
    law = load_law(name)
    return posterior(law, scattered(oracles.typical(law) | changed, size, 1, scatter))


def others(fit: Fit) -> dict[str, float]:
    values = {"r": 0.25, "ptpp": 31.0, "U": 1e11}
    return {k: values[k] for k in fit.law.measured if k in values}


@pytest.fixture(scope="module")
def zheng() -> Fit:
    return posterior("cpt-joint", {k: np.full(8, v) for k, v in ZHENG.items()})


@pytest.mark.parametrize(
    ("stage", "printed"),
    [("scratch", ("0.324", "0.429", "0.514", "0.571")), ("cpt", ("4.79", "0.385", "0.035", "0.615"))],
)
def test_zhengs_published_parameters_give_their_published_allocation(zheng: Fit, stage: str, printed: tuple[str, ...]) -> None:
    """Zheng et al. 2024, eqs. 8 and 9: N_opt = .324 C^.429, D_opt = .514 C^.571; 4.79 C^.385, .035 C^.615."""
    made = allocate(zheng, "1e19:1e22:4", stage)
    assert made.method == "closed form"
    medians = made.powers()["median"]
    for name, digits in zip(("N_coefficient", "N_exponent", "D_coefficient", "D_exponent"), printed, strict=True):
        assert f"{medians[name]:.{len(digits) - 2}f}" == digits, name
    np.testing.assert_allclose(made.N[0], medians["N_coefficient"] * made.compute ** medians["N_exponent"], rtol=1e-9)
    np.testing.assert_allclose(6 * made.N * made.D, np.broadcast_to(made.compute, made.N.shape), rtol=1e-12)


@pytest.mark.parametrize("name", ["chinchilla", "cpt-joint", "d-cpt", "ptpp-floor", "ptpp-gate", "ptpp-gate-floor"])
def test_the_closed_form_is_the_numeric_optimum(name: str) -> None:
    fit = given(name)
    for stage in ("scratch", "cpt") if name == "cpt-joint" else (None,):
        made = allocate(fit, "1e18:1e21:4", stage, settings=others(fit))
        assert made.method == "closed form"
        found = numeric(made.stages[0], made.compute)
        inside = ~made.corner
        np.testing.assert_allclose(np.log(found["N"])[inside], np.log(made.N)[inside], atol=2e-6)
        np.testing.assert_allclose(found["loss"], made.loss, rtol=1e-12)


@pytest.mark.parametrize("name", NO_POWERS)
def test_other_laws_are_minimised_numerically(name: str) -> None:
    """No N of a dense grid does better."""
    fit = given(name)
    made = allocate(fit, "1e19:1e21:2", settings=others(fit))
    assert made.method == "numeric"
    for i, c in enumerate(made.compute):
        n = np.geomspace(1e5, 1e11, 2001)
        n = n[(c / (6 * n) > 1e3) & (c / (6 * n) < 1e14)]
        x = {"N": n[None], "D": c / (6 * n)[None], **others(fit)}
        least = oracles.LAWS[name]({k: fit.draws[k][:, None] for k in fit.law.parameters}, x).min(axis=1)
        assert (made.loss[:, i] <= least * (1 + 1e-12)).all()


def test_the_form_is_seen_in_the_terms_not_in_the_name() -> None:
    card = load_law("chinchilla").card.replace('name   = "chinchilla"', 'name = "mine"').replace("B/D**beta", "B*exp(-beta*log(D))")
    plain = load_law("chinchilla")
    fit = posterior(parse_card(card, "mine"), scattered(oracles.typical(plain), 40, 2), frame=oracles.table(plain))
    terms = powers_of(stages(fit, {})[0])
    assert terms is not None
    for ours, theirs in (("E", "E"), ("A", "A"), ("alpha", "alpha"), ("B", "B"), ("beta", "beta")):
        np.testing.assert_allclose(terms[ours], fit.draws[theirs], rtol=1e-6)
    np.testing.assert_allclose(terms["gamma"], 0.0, atol=1e-9)


def test_which_stage_is_meant_is_said(zheng: Fit) -> None:
    silent = allocate(zheng, 1e20)
    assert "for training from scratch (cpt = 0); the other stage is 'cpt'" in silent.notes
    np.testing.assert_array_equal(silent.N, allocate(zheng, 1e20, "scratch").N)


def test_corners_are_named() -> None:
    """With beta' <= gamma the loss falls with N at every compute: the largest model; with alpha <= gamma tokens shrink."""
    corner = allocate(posterior("cpt-joint", {k: np.full(8, v) for k, v in (ZHENG | {"gamma": 0.25}).items()}), 1e20, "cpt")
    assert corner.corner.all()
    assert "beta <= gamma" in corner.notes[0]
    assert corner.N[0, 0] == pytest.approx(1e13) or corner.D[0, 0] == pytest.approx(1e2)
    tokens_shrink = ZHENG | {"alpha": 0.35, "beta_cpt": 0.5, "gamma": 0.4, "B_cpt": 7e7}
    shrinking = allocate(posterior("cpt-joint", {k: np.full(8, v) for k, v in tokens_shrink.items()}), "1e18:1e19:2", "cpt")
    assert any("alpha <= gamma" in n for n in shrinking.notes)
    assert np.diff(shrinking.D, axis=1).max() < 0
    summary = corner.summary()
    assert summary["corner"].tolist() == [1.0]


def test_the_summary_has_bands_of_everything() -> None:
    fit = given("chinchilla")
    made = allocate(fit, [1e20, 1e21])
    table = made.summary(0.8)
    for name, draws in {"N": made.N, "D": made.D, "tokens_per_parameter": made.D / made.N, "loss": made.loss}.items():
        np.testing.assert_allclose(table[f"{name}_median"], np.median(draws, axis=0))
        np.testing.assert_allclose(table[f"{name}_eti80_lo"], np.quantile(draws, 0.1, axis=0))
        np.testing.assert_allclose(table[f"{name}_eti80_hi"], np.quantile(draws, 0.9, axis=0))
    assert (table["loss_median"].diff().dropna() < 0).all()


@pytest.mark.parametrize(
    ("call", "fragments"),
    [
        (lambda f: allocate(f, "0:1:2"), ("not FLOPs above 0",)),
        (lambda f: allocate(f, "1e19:1e20:99999"), ("give 1 to 2,000",)),
        (lambda f: allocate(f, 1e20, "cpt"), ("chinchilla has no stage 'cpt'; its stages: one only",)),
        (lambda f: allocate(f, 1e20, settings={"r": 0.3}), ("chinchilla takes no 'r' here",)),
        (lambda f: allocate(f, 1.0), ("leave no N and D in the supports of chinchilla",)),
        (lambda f: transfer(f, {"N": 1e9, "D": 1e9}), ("knows one stage", "--stage")),
        (lambda f: transfer(f, {"N": 1e9}, continued=f), ("Give N and D",)),
    ],
)  # fmt: skip
def test_what_allocation_and_transfer_refuse(call: Any, fragments: tuple[str, ...]) -> None:
    with pytest.raises(BayeslawError) as refused:
        call(given("chinchilla"))
    for fragment in fragments:
        assert fragment in str(refused.value)


def test_failed_checks_are_refused_or_marked(small_fit: Fit) -> None:
    with pytest.raises(FitError, match="The fit's checks failed"):
        allocate(small_fit, 1e20)
    forced = allocate(small_fit, 1e20, force=True)
    for table in (forced.summary(), forced.powers()):
        assert (table["checks"] == "FAILED (forced)").all()
    assert (allocate(given("chinchilla"), 1e20).powers()["checks"] == "passed").all()


# --- transfer --------------------------------------------------------------------------------------------------------


def test_tokens_from_scratch_have_the_same_loss(zheng: Fit) -> None:
    made = transfer(zheng, {"N": "5e8,2e9", "D": "1e8:4e10:6"})
    for i, row in made.settings.iterrows():
        n, k = row["N"], int(str(i))
        scratch = oracles.cpt_joint(ZHENG, {"N": n, "D": made.scratch[0, k], "cpt": 0.0})
        assert scratch == pytest.approx(oracles.cpt_joint(ZHENG, {"N": n, "D": row["D"], "cpt": 1.0}), rel=1e-9)
    np.testing.assert_allclose(made.transferred, made.scratch - made.settings["D"].to_numpy())
    np.testing.assert_allclose(made.saved, 1 - made.settings["D"].to_numpy() / made.scratch)
    assert (np.diff(made.saved[0, :6]) < 0).all()  # savings fall during training, as their figure 2 shows


def test_zhengs_savings() -> None:
    """They report 25 to 50% of FLOPs saved during training to 20 tokens per parameter.

    The parameters as printed, to two digits, give that from .27 to .92 tokens per parameter at 2B and cost more than scratch from
    2.2 on; others that round to the same digits give 25 to 50% over the last two thirds of the training.
    """
    printed = posterior("cpt-joint", {k: np.full(8, v) for k, v in ZHENG.items()})
    early = transfer(printed, {"N": 2e9, "atpp": "0.275:0.92:5"}).saved[0]
    assert ((early > 0.25) & (early < 0.51)).all()
    assert transfer(printed, {"N": 2e9, "D": 2.3 * 2e9}).saved[0, 0] < 0
    unrounded = ZHENG | {"beta": 0.296, "beta_cpt": 0.2049, "gamma": 0.0849}
    assert all(round(unrounded[k], 2) == round(ZHENG[k], 2) for k in unrounded)
    late = transfer(
        posterior("cpt-joint", {k: np.full(8, v) for k, v in unrounded.items()}), {"N": "2e9,5.5e9", "atpp": "7:20:5"}
    ).saved[0]
    assert ((late > 0.25) & (late < 0.51)).all(), late


def test_a_pair_of_fits_does_as_one_of_both() -> None:
    chinchilla = load_law("chinchilla")
    scratch = posterior(chinchilla, {k: np.full(8, ZHENG[k]) for k in chinchilla.parameters})
    continued = posterior(
        chinchilla,
        {k: np.full(8, ZHENG[k]) for k in chinchilla.parameters} | {"B": np.full(8, 433.3 / 2e9**0.08), "beta": np.full(8, 0.2)},
    )
    one = transfer(posterior("cpt-joint", {k: np.full(8, v) for k, v in ZHENG.items()}), {"N": 2e9, "D": "1e8:1e10:4"})
    two = transfer(scratch, {"N": 2e9, "D": "1e8:1e10:4"}, continued=continued)
    np.testing.assert_allclose(one.saved, two.saved, rtol=1e-8)
    few = posterior(chinchilla, {k: np.full(16, ZHENG[k]) for k in chinchilla.parameters})
    with pytest.raises(BayeslawError, match="unpaired: 8 and 16"):
        transfer(scratch, {"N": 2e9, "D": 1e9}, continued=few)


def test_two_stacks_are_not_paired() -> None:
    """Draws of a law would go with those of whichever law has their number in the other stack."""
    chinchilla = load_law("chinchilla")
    fits = [posterior(chinchilla, {k: np.full(8, ZHENG[k]) for k in chinchilla.parameters}) for _ in range(2)]
    one, two = (Stack.of({"a": fits[i], "b": fits[1 - i]}, {"a": 0.5, "b": 0.5}) for i in range(2))
    with pytest.raises(BayeslawError, match=r"Two stacks can't be paired.*Compare a stack with a fit"):
        transfer(one, {"N": 2e9, "D": 1e9}, continued=two)
    assert np.isfinite(transfer(one, {"N": 2e9, "D": 1e9}, continued=fits[0]).saved).all()


def test_what_scratch_never_reaches_is_counted() -> None:
    chinchilla = load_law("chinchilla")
    values = oracles.typical(chinchilla)
    scratch = posterior(chinchilla, {k: np.full(8, v) for k, v in values.items()})
    better = posterior(chinchilla, {k: np.full(8, v) for k, v in (values | {"E": 1.0}).items()})
    made = transfer(scratch, {"N": 1e9, "D": 1e12}, continued=better)
    assert np.isinf(made.scratch).all()
    row = made.summary().iloc[0]
    assert (row["never"], row["saved_median"], row["transferred_median"]) == (1.0, 1.0, np.inf)


# --- pictures --------------------------------------------------------------------------------------------------------


def test_the_title_of_a_frontier_fits_its_picture(zheng: Fit) -> None:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")  # as save_panels makes it
    made = replace(allocate(zheng, "1e19:1e22:5", "scratch"), failed=True)
    title = plot_frontier([made], figure.subplots()).title
    figure.draw_without_rendering()
    assert title.get_text().endswith("\nCHECKS FAILED")
    assert title.get_window_extent().x0 > 0
    assert title.get_window_extent().x1 < figure.bbox.x1


def test_pictures_are_drawn_into_the_axes_given(zheng: Fit) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    both = [allocate(zheng, "1e19:1e22:5", stage) for stage in ("scratch", "cpt")]
    assert plot_frontier(both, left, ci_prob=0.8) is left
    assert "80% equal-tailed bands" in left.get_title()
    legend = left.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["best N, scratch", "best N, cpt"]
    made = transfer(zheng, {"N": "5e8,2e9", "D": "1e8:4e10:6"})
    assert plot_savings(made, right) is right
    np.testing.assert_allclose(np.asarray(right.get_lines()[0].get_ydata()), 100 * made.saved[0, :6])
    with pytest.raises(BayeslawError, match="at least two values of compute"):
        plot_frontier([allocate(zheng, 1e20, "cpt")], left)
    assert isinstance(made.summary(), pd.DataFrame)
