"""The worth of a pre-trained start: published numbers, and closed forms."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import FitError
from bayeslaw.forecasting.stack import Posterior, Stack, paired
from bayeslaw.laws.card import parse_card
from bayeslaw.planning.recipe_paths import drawn_errors
from bayeslaw.planning.transfer import transfer
from bayeslaw.plots.allocation import plot_savings
from bayeslaw.plots.style import BAR
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.legends import labels
from tests.posteriors import ZHENG, law_named, learning, posterior, repeated, scattered

CHINCHILLA = {k: ZHENG[k] for k in law_named("chinchilla").parameters}


def selected(fit: Posterior) -> dict[str, oracles.Array]:
    """The draws (S,) of the parameters of chinchilla in the order in which a decision takes them."""
    parts = [{k: member.draws[k][draws] for k in CHINCHILLA} for member, draws in fit.selections]
    return {k: np.concatenate([part[k] for part in parts]) for k in CHINCHILLA}


def tokens_for(loss: oracles.Array, p: dict[str, oracles.Array], n: float) -> oracles.Array:
    """D at which E + A / N^alpha + B / D^beta is the loss; inf where the other terms alone exceed it."""
    left = loss - p["E"] - p["A"] / n ** p["alpha"]
    return np.where(left > 0, (p["B"] / np.maximum(left, 1e-9)) ** (1 / p["beta"]), np.inf)


@pytest.fixture(scope="module")
def scratch() -> Fit:
    return repeated("chinchilla", CHINCHILLA)


def test_settings_outside_the_runs_are_noted(zheng: Fit) -> None:
    logged = zheng.observed.covariates
    size, tokens = float(logged["N"].max()), float(logged["D"].max())
    notes = transfer(zheng, {"N": 3 * size, "D": tokens}).notes
    assert f"N lies up to {np.log(3):.1f} e-folds outside the runs of cpt-joint" in notes[0]
    assert not any(note.startswith("D ") for note in notes)
    assert transfer(zheng, {"N": size, "D": float(np.median(logged["D"]))}).notes == ()


def test_pre_training_may_be_written_with_a_suffix(scratch: Fit) -> None:
    continued = repeated("transfer-target", oracles.typical(law_named("transfer-target")))
    settings = {"N": 1e9, "D": 1e9, "r": 0.25}
    notes = transfer(scratch, settings | {"ptpp": "1k"}, continued=continued).notes
    assert any(note.startswith("ptpp lies up to") for note in notes)
    assert notes == transfer(scratch, settings | {"ptpp": 1000}, continued=continued).notes


def test_the_stage_is_no_setting_and_rows_are_not_crossed(zheng: Fit) -> None:
    with fails("contradicting-stage", "cpt", "leave it out"):
        transfer(zheng, {"N": 1e9, "D": 1e9, "cpt": 1})
    rows: Any = pd.DataFrame({"N": [3e8, 1e9], "D": [1e9, 2e10]})
    with fails("not-a-mapping", "DataFrame"):
        transfer(zheng, rows)


def test_tokens_from_scratch_have_the_same_loss(zheng: Fit) -> None:
    result = transfer(zheng, {"N": "5e8,2e9", "D": "1e8:4e10:6"})
    n, d = (result.settings[k].to_numpy() for k in ("N", "D"))
    from_scratch = oracles.cpt_joint(ZHENG, {"N": n, "D": result.scratch[0], "cpt": 0.0})
    np.testing.assert_allclose(from_scratch, oracles.cpt_joint(ZHENG, {"N": n, "D": d, "cpt": 1.0}), rtol=1e-9)
    np.testing.assert_allclose(result.transferred, result.scratch - d)
    np.testing.assert_allclose(result.saved, 1 - d / result.scratch)
    assert (np.diff(result.saved[0, :6]) < 0).all()  # savings fall during training, as their figure 2 shows


@pytest.mark.slow
def test_zhengs_savings(zheng: Fit) -> None:
    """They report 25 to 50% of FLOPs saved during training to 20 tokens per parameter.

    The parameters as printed, to two digits, give that from .27 to .92 tokens per parameter at 2B and cost more than scratch from
    2.2 on; others that round to the same digits give 25 to 50% over the last two thirds of the training.
    """
    early = transfer(zheng, {"N": 2e9, "atpp": "0.275:0.92:5"}).saved[0]
    assert ((early > 0.25) & (early < 0.51)).all()
    assert transfer(zheng, {"N": 2e9, "D": 2.3 * 2e9}).saved[0, 0] < 0
    unrounded = ZHENG | {"beta": 0.296, "beta_cpt": 0.2049, "gamma": 0.0849}
    assert all(round(unrounded[k], 2) == round(ZHENG[k], 2) for k in unrounded)
    late = transfer(repeated("cpt-joint", unrounded), {"N": "2e9,5.5e9", "atpp": "7:20:5"}).saved[0]
    assert ((late > 0.25) & (late < 0.51)).all(), late


@pytest.mark.slow
def test_a_pair_of_fits_gives_the_savings_of_one_fit_of_both_stages(zheng: Fit, scratch: Fit) -> None:
    continued = repeated("chinchilla", CHINCHILLA | {"B": 433.3 / 2e9**0.08, "beta": 0.2})
    joint = transfer(zheng, {"N": 2e9, "D": "1e8:1e10:4"})
    pair = transfer(scratch, {"N": 2e9, "D": "1e8:1e10:4"}, continued=continued)
    np.testing.assert_allclose(joint.saved, pair.saved, rtol=1e-8)
    with fails("unpaired-draws", "8", "16"):
        transfer(scratch, {"N": 2e9, "D": 1e9}, continued=repeated("chinchilla", CHINCHILLA, 16))
    with fails("unknown-setting", "'ptp'"):
        transfer(scratch, {"N": 2e9, "D": 1e9, "ptp": 31}, continued=continued)


def test_a_law_of_both_stages_that_goes_on_from_scratch_is_in_its_other_stage(zheng: Fit, scratch: Fit) -> None:
    settings = {"N": 2e9, "D": "1e8,1e10"}
    joint = transfer(zheng, settings)
    for stage in (None, "cpt"):
        pair = transfer(scratch, settings, continued=zheng, stage=stage)
        np.testing.assert_allclose(pair.loss, joint.loss, rtol=1e-12)
        np.testing.assert_allclose(pair.saved, joint.saved, rtol=1e-8)
    np.testing.assert_allclose(transfer(scratch, settings | {"cpt": 1}, continued=zheng).loss, joint.loss, rtol=1e-12)
    for unknown in ("scratch", "sft"):
        with fails("unknown-stage"):
            transfer(scratch, settings, continued=zheng, stage=unknown)


def test_of_several_stages_the_one_of_continual_pre_training_is_named(scratch: Fit) -> None:
    """A law of two indicators, the second of which lowers the loss by .1."""
    card = law_named("cpt-joint").card.replace("\ncpt = ", '\nsft = { unit = "1 tuned", support = [0, 1], at_least = 2 }\ncpt = ')
    law = parse_card(card.replace('"E + A/N**alpha + (', '"E + A/N**alpha - 0.1*sft + ('))
    table = oracles.table(law_named("cpt-joint")).assign(sft=lambda t: (t.index % 3 == 0).astype(float))
    fit = posterior(law, {k: np.full(8, v) for k, v in ZHENG.items()}, frame=table)
    at = {"N": 2e9, "D": 1e9}
    place = {k: np.array([v]) for k, v in at.items()}
    for stage, lower, cpt in (("sft", 0.1, 0.0), ("cpt", 0.0, 1.0)):
        expected = -lower + oracles.cpt_joint(ZHENG, place | {"cpt": np.array([cpt])})
        for result in (transfer(fit, at, stage=stage), transfer(scratch, at, continued=fit, stage=stage)):
            np.testing.assert_allclose(result.loss[0], expected, rtol=1e-12)
    for first, second in ((fit, None), (scratch, fit)):
        with fails("one-stage-only" if second is None else "unknown-stage", "sft", "cpt"):
            transfer(first, at, continued=second)


def test_a_fit_of_several_domains_is_compared_in_the_one_that_is_named(scratch: Fit) -> None:
    frame = pd.concat([oracles.table(law_named("chinchilla")).assign(domain=d) for d in ("web", "code")])
    values = {k: np.full(8, v) for k, v in CHINCHILLA.items() if k != "E"}
    values |= {"E_spread": np.full(8, 0.1), "E_web": np.full(8, 1.4), "E_code": np.full(8, 1.1)}
    values["E"] = values["E_web"]
    pooled, n = posterior("chinchilla", values, frame=frame, by={"E": "domain"}), 2e9
    result = transfer(pooled, {"N": n, "D": 1e9, "domain": "code"}, continued=scratch)
    expected = tokens_for(result.loss[:, 0], {k: np.full(8, v) for k, v in (CHINCHILLA | {"E": 1.1}).items()}, n)
    np.testing.assert_allclose(result.scratch[:, 0], expected, rtol=1e-6)


def test_a_stack_is_compared_with_a_fit_draw_by_draw() -> None:
    """By the closed form of the law; in some draws training from scratch ends above the loss, however long it is."""
    fits = [
        posterior("chinchilla", scattered(CHINCHILLA | {"E": e}, 60, seed, 0.01)) for e, seed in ((1.6, 1), (1.75, 2), (1.6, 3))
    ]
    stack, n = Stack({"a": fits[0], "b": fits[1]}, {"a": 0.7, "b": 0.3}), 2e9
    result = transfer(stack, {"N": n, "D": "1e10,3e12"}, continued=fits[2])
    after, d = {k: v[:, None] for k, v in selected(fits[2]).items()}, np.array([1e10, 3e12])
    loss = after["E"] + after["A"] / n ** after["alpha"] + after["B"] / d ** after["beta"]
    expected = tokens_for(loss, {k: v[:, None] for k, v in selected(stack).items()}, n)
    np.testing.assert_allclose(result.loss, loss, rtol=1e-12)
    np.testing.assert_allclose(result.scratch, expected, rtol=1e-6)
    np.testing.assert_allclose(result.saved, 1 - d / expected, atol=1e-6)
    never = np.isinf(expected).mean(axis=0)
    assert 0.1 < never[1] < 0.9
    assert result.summary()["never"].tolist() == never.tolist()


def test_every_law_of_a_stack_is_compared_with_every_law_of_another() -> None:
    fits = [repeated("chinchilla", CHINCHILLA | {"E": e}, 12) for e in (1.5, 1.6, 1.7, 1.8)]
    first, second = (Stack({"a": a, "b": b}, {"a": 0.5, "b": 0.5}) for a, b in itertools.batched(fits, 2))
    result = transfer(first, {"N": 2e9, "D": 1e9}, continued=second)
    of_first, of_second = (selected(stack)["E"] for stack in paired([first, second]))
    assert len({*zip(of_first, of_second, strict=True)}) == 4
    np.testing.assert_allclose(result.loss[:, 0] - result.loss.min(), of_second - 1.7, atol=1e-12)
    np.testing.assert_allclose(
        result.scratch[:, 0], tokens_for(result.loss[:, 0], selected(paired([first, second])[0]), 2e9), rtol=1e-6
    )


def test_the_fewest_tokens_count_where_a_loss_rises_again_before_it_falls() -> None:
    """A curve with two minima in log D, at which the loss is E: (z^2 - w)^2 = q has its smallest root at -sqrt(w + sqrt q)."""
    card = law_named("chinchilla").card.replace(
        "E + A/N**alpha + B/D**beta", "E + A/N**alpha + B*((log(D) - 20)**2 - 25)**2/D**beta"
    )
    law = parse_card(card)
    values = {"E": 2.0, "A": 400.0, "alpha": 0.3, "B": 1e-3, "beta": 1e-12}
    fit = posterior(law, {k: np.full(8, v) for k, v in values.items()})
    at = {"N": 1e9, "D": float(np.exp(26.0))}  # q = (36 - 25)^2, where the loss is reached for the third time
    result = transfer(fit, at, continued=fit)
    np.testing.assert_allclose(np.log(result.scratch), 20 - 6, rtol=1e-9)


def test_fits_whose_checks_failed_are_refused_or_marked(scratch: Fit) -> None:
    failed = replace(scratch, checks=(Check("r_hat", False, "largest R-hat 1.2", "sampling", pd.DataFrame()),))
    for pair in ((failed, scratch), (scratch, failed)):
        with fails("failed-checks", "largest R-hat 1.2", kind=FitError):
            transfer(pair[0], {"N": 2e9, "D": 1e9}, continued=pair[1])
        assert (
            transfer(pair[0], {"N": 2e9, "D": 1e9}, continued=pair[1], force=True).summary()["checks"].item() == "FAILED (forced)"
        )
    assert transfer(scratch, {"N": 2e9, "D": 1e9}, continued=scratch).summary()["checks"].item() == "passed"


def test_notes_are_of_the_runs_of_each_fit_and_of_the_median_tokens_from_scratch(zheng: Fit) -> None:
    law = law_named("chinchilla")
    frame = oracles.table(law).assign(D=lambda table: table["D"] / 10)  # up to 1.5e9
    short = posterior(law, scattered(CHINCHILLA, 8, 0, 0.01), frame=frame)
    result = transfer(short, {"N": 3e9, "D": 1e10}, continued=zheng)
    size, own_size, tokens = result.notes
    assert size.startswith("N lies up to 1.1 e-folds outside the runs of cpt-joint")
    assert own_size.startswith("N lies up to 1.1 e-folds outside the runs of chinchilla")
    distance = np.log(np.median(result.scratch) / 1.5e9)
    assert tokens.startswith(f"the number of tokens from scratch lies up to {distance:.1f} e-folds outside the runs of chinchilla")


def test_a_loss_that_scratch_never_reaches_is_counted(scratch: Fit) -> None:
    better = repeated("chinchilla", CHINCHILLA | {"E": 1.0})
    result = transfer(scratch, {"N": 1e9, "D": 1e12}, continued=better)
    assert np.isinf(result.scratch).all()
    row = result.summary().iloc[0]
    assert (row["never"], row["saved_median"], row["transferred_median"]) == (1.0, 1.0, np.inf)


def test_a_fit_of_one_stage_or_sizes_that_are_missing_are_refused(zheng: Fit, scratch: Fit) -> None:
    with fails("one-stage-only"):
        transfer(scratch, {"N": 1e9, "D": 1e9})
    with fails("one-stage-only", "cpt"):
        transfer(zheng, {"N": 1e9, "D": 1e9}, stage="sft")
    with fails("missing-setting", "N", "D"):
        transfer(scratch, {"N": 1e9}, continued=scratch)
    for none in ({"N": 0, "D": 1e9}, {"N": 1e9, "D": 0}):
        with fails("setting-not-positive"):
            transfer(scratch, none, continued=scratch)


@pytest.mark.parametrize(
    ("settings", "named"), [({"N": 7, "D": 1e9}, ["N = 7", "millions"]), ({"N": 1e9, "D": 1e16}, ["D = 1e+16"])]
)
def test_sizes_and_tokens_that_laws_do_not_describe_are_refused(scratch: Fit, settings: dict[str, float], named: list[str]) -> None:
    """As forecasts refuse them: 7 is 7 billion, and would save all FLOPs."""
    with fails("out-of-support", "chinchilla", *named):
        transfer(scratch, settings, continued=scratch)


# --- errors of laws ---------------------------------------------------------------------------------------------------


def log_losses(fit: Fit, n: float, d: oracles.Array, side: int, seed: int) -> oracles.Array:
    """Log losses (S,) at N and each draw's own D, with the errors of a side."""
    away = fit.extrapolation
    assert away is not None
    error = drawn_errors(away, np.arange(fit.size), seed, 0, side)
    assert error is not None
    p = {k: fit.draws[k] for k in CHINCHILLA}
    law = p["E"] + p["A"] / n ** p["alpha"] + p["B"] / d ** p["beta"]
    return np.log(law) + error.along({"N": np.full(d.size, n), "D": d})


def test_both_starts_have_errors_of_their_laws() -> None:
    """At the tokens that are found the loss from scratch is the other start's, and nowhere with fewer."""
    a, b = (learning(posterior("chinchilla", scattered(CHINCHILLA, 300, seed, 0.01))) for seed in (1, 2))
    n, d = 1e12, 3e12
    result = transfer(a, {"N": n, "D": d}, continued=b, seed=3)
    assert result.extrapolated
    assert "independent ones" in result.notes[-1]
    np.testing.assert_allclose(np.log(result.loss[:, 0]), log_losses(b, n, np.full(300, d), 1, 3), rtol=1e-12)
    some = np.isfinite(result.scratch[:, 0])
    assert 0.5 < some.mean() < 1
    tokens = np.where(some, result.scratch[:, 0], d)
    np.testing.assert_allclose(log_losses(a, n, tokens, 0, 3)[some], np.log(result.loss[some, 0]), atol=1e-8)
    for fewer in (0.9, 0.3, 0.01):
        assert (log_losses(a, n, fewer * tokens, 0, 3)[some] > np.log(result.loss[some, 0])).all()
    exact = transfer(a, {"N": n, "D": d}, continued=b, discrepancy="none")
    assert not exact.extrapolated
    assert np.subtract(*np.quantile(result.saved, [0.95, 0.05])) > 2 * np.subtract(*np.quantile(exact.saved, [0.95, 0.05]))
    with fails("unknown-discrepancy", "'1%'"):
        transfer(a, {"N": n, "D": d}, continued=b, discrepancy="1%")  # type: ignore[arg-type]


def test_one_law_of_both_stages_errs_alike_in_both(zheng: Fit) -> None:
    fit, settings = learning(zheng), {"N": 1e12, "D": "1e12,1e13"}
    result = transfer(fit, settings)
    assert result.extrapolated
    assert "the same one" in result.notes[-1]
    at = {"N": np.full(8, 1e12), "D": result.scratch[:, 1]}
    error = drawn_errors(fit.extrapolation or fit, np.arange(8), 0, 0, 0)
    assert error is not None
    from_scratch = oracles.cpt_joint(ZHENG, at | {"cpt": 0.0}) * np.exp(error.along(at | {"cpt": np.zeros(8)}))
    np.testing.assert_allclose(from_scratch, result.loss[:, 1], rtol=1e-9)
    for same in (fit, replace(fit)):  # the second is what reading the file again gives
        twice = transfer(fit, settings, continued=same, stage="cpt")
        np.testing.assert_allclose(twice.saved, result.saved, rtol=1e-9)
        assert "the same one" in twice.notes[-1]


def test_savings_at_one_number_of_tokens_have_bars(zheng: Fit) -> None:
    axes = plot_savings(transfer(zheng, {"N": "5e8,2e9", "D": 1e9}), Figure().subplots())
    assert sum(line.get_linewidth() == BAR for line in axes.lines) == 2


def test_two_transfers_on_one_axes_can_be_told_apart(zheng: Fit) -> None:
    axes, saved = Figure().subplots(), transfer(zheng, {"N": "5e8,2e9", "D": "1e8:4e10:6"})
    plot_savings(saved, axes)
    assert labels(axes) == ["N = 500M", "N = 2B"]
    plot_savings(saved, axes, label="web")
    assert labels(axes) == ["transfer, N = 500M", "transfer, N = 2B", "web, N = 500M", "web, N = 2B"]
    curves = [line for line in axes.lines if line.get_label() in labels(axes)]
    assert len({str(line.get_color()) for line in curves}) == 4
    with fails("other-axes", "effectively transferred"):
        plot_savings(saved, axes, of="transferred")


def test_the_picture_shows_savings_over_tokens(zheng: Fit) -> None:
    result, axes = transfer(zheng, {"N": "5e8,2e9", "D": "1e8:4e10:6"}), Figure().subplots()
    assert plot_savings(result, axes) is axes
    np.testing.assert_allclose(np.asarray(axes.get_lines()[0].get_ydata()), 100 * result.saved[0, :6])
