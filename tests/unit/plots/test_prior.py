"""Pictures of what priors allow, against draws of the prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bayeslaw
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.plots.prior import plot_prior, prior_outcomes
from bayeslaw.plots.style import BAR
from tests import oracles
from tests.errors import fails
from tests.legends import labels, note

CHINCHILLA = load_law("chinchilla")
GRID = bayeslaw.grid(CHINCHILLA, {"N": 1e9, "D": "1e9:1e12:20"})


def test_bands_are_those_of_the_prior_at_the_middle_of_the_settings() -> None:
    ax = plot_prior(CHINCHILLA, GRID, Figure().subplots(), draws=400, seed=2)
    draws = CHINCHILLA.sample_prior(400, CHINCHILLA.reference(GRID), np.random.default_rng(2))
    losses = oracles.chinchilla({k: v[:, None] for k, v in draws.items()}, {c: GRID[c].to_numpy()[None, :] for c in ("N", "D")})
    median = next(line for line in ax.lines if line.get_label() == "median")
    np.testing.assert_allclose(np.asarray(median.get_ydata()), np.median(losses, axis=0), rtol=1e-10)
    np.testing.assert_allclose(prior_outcomes(CHINCHILLA, GRID, 400, 2), losses, rtol=1e-10)
    assert ax.get_xlabel() == "D (training tokens)"
    assert labels(ax)[:2] == [
        "90% equal-tailed interval",
        "50% equal-tailed interval",
    ]


def test_measured_losses_are_drawn_over_the_bands() -> None:
    runs = bayeslaw.read_runs(oracles.table(CHINCHILLA))
    ax = plot_prior(CHINCHILLA, runs, Figure().subplots(), x="N")
    points = next(line for line in ax.lines if line.get_label() == "measured")
    assert sorted(np.asarray(points.get_ydata())) == pytest.approx(sorted(runs.frame["loss"]))
    assert ax.get_xlabel() == "N (parameters)"


def test_the_priors_of_every_card_can_be_drawn(law: Law) -> None:
    ax = plot_prior(law, oracles.table(law), Figure().subplots(), draws=50)
    low, high = ax.get_ylim()
    assert np.isfinite([low, high]).all()
    assert low < high


def test_what_cannot_be_drawn_is_refused() -> None:
    with fails("missing-column", "D"):
        plot_prior(CHINCHILLA, GRID[["N"]], Figure().subplots())
    with fails("unknown-covariate", "M"):
        plot_prior(CHINCHILLA, GRID, Figure().subplots(), x="M")
    with fails("unknown-law", "chinchila"):
        plot_prior("chinchila", GRID, Figure().subplots())


def test_settings_that_share_a_place_have_a_bar_there_and_no_curve() -> None:
    crossed = bayeslaw.grid(CHINCHILLA, {"N": "1e8,1e9", "D": "1e9,1e10,1e11"})
    ax = plot_prior(CHINCHILLA, crossed, Figure().subplots(), x="D", draws=50)
    assert [len(bars.get_segments()) for bars in ax.collections] == [3, 3]  # type: ignore[attr-defined]
    assert next(line for line in ax.lines if line.get_label() == "median").get_linestyle() == "None"


def test_a_single_setting_has_a_bar(ax: Axes) -> None:
    law = load_law("chinchilla")
    plot_prior(law, bayeslaw.grid(law, {"N": 1e9, "D": 1e10}), ax, draws=50)
    outer, inner = (np.ptp(np.asarray(line.get_ydata())) for line in ax.lines if line.get_linewidth() == BAR)
    assert outer > inner > 0


def test_settings_as_values_and_none_are_refused(ax: Axes) -> None:
    with fails("wrong-object", "bayeslaw.grid"):
        plot_prior("chinchilla", {"N": 1e9, "D": "1e9:1e10:3"}, ax)  # type: ignore[arg-type]
    with fails("nothing-to-draw"):
        plot_prior("chinchilla", GRID.iloc[:0], ax)


@pytest.mark.parametrize(("tokens", "code"), [("x", "not-a-number"), (-1.0, "out-of-support"), (np.nan, "missing-value")])
def test_settings_that_the_law_does_not_describe_are_refused(tokens: Any, code: str, ax: Axes) -> None:
    law = load_law("chinchilla")
    at = bayeslaw.grid(law, {"N": 1e9, "D": "1e9:1e12:3"})
    with fails(code, "D"):
        plot_prior(law, at.assign(D=[tokens, *at["D"][1:]]), ax)


def test_base_checkpoints_are_left_out_and_counted(ax: Axes) -> None:
    law = load_law("chinchilla")
    at = bayeslaw.grid(law, {"N": 1e9, "D": "1e9:1e12:3"})
    plot_prior(law, at.assign(D=[0.0, *at["D"][1:]]), ax, draws=20)
    assert note(ax) == "1 base checkpoint (D = 0) left out"
    with fails("nothing-to-draw", "D = 0"):
        plot_prior(law, at.assign(D=0.0), ax)
