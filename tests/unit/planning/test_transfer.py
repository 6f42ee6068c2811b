"""The worth of a pre-trained start: published numbers, and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.forecasting.stack import Stack
from bayeslaw.planning.transfer import transfer
from bayeslaw.plots.decisions import plot_savings
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.posteriors import ZHENG, law_named, posterior

CHINCHILLA = {k: ZHENG[k] for k in law_named("chinchilla").parameters}


def repeated(name: str, values: dict[str, float], size: int = 8) -> Fit:
    """A fit all of whose draws are the same."""
    return posterior(name, {k: np.full(size, v) for k, v in values.items()})


@pytest.fixture(scope="module")
def zheng() -> Fit:
    return repeated("cpt-joint", ZHENG)


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


@pytest.mark.slow
def test_a_stack_is_compared_with_a_fit_and_with_another_stack(scratch: Fit) -> None:
    fits = [scratch, repeated("chinchilla", CHINCHILLA)]
    first, second = (Stack.of({"a": fits[i], "b": fits[1 - i]}, {"a": 0.5, "b": 0.5}) for i in range(2))
    assert np.isfinite(transfer(first, {"N": 2e9, "D": 1e9}, continued=second).saved).all()
    assert np.isfinite(transfer(first, {"N": 2e9, "D": 1e9}, continued=fits[0]).saved).all()


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


def test_the_picture_shows_savings_over_tokens(zheng: Fit) -> None:
    result, axes = transfer(zheng, {"N": "5e8,2e9", "D": "1e8:4e10:6"}), Figure().subplots()
    assert plot_savings(result, axes) is axes
    np.testing.assert_allclose(np.asarray(axes.get_lines()[0].get_ydata()), 100 * result.saved[0, :6])
