"""Fits to public losses in a folder next to the checkout; skipped if the folder is absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.data.notes import out_by_note
from tests.posteriors import best_of

FOLDER = Path(os.environ.get("BAYESLAW_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = [
    pytest.mark.statistical,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no folder {FOLDER.name} of public losses; name it by BAYESLAW_SHARED_DATA"),
]


def chinchilla() -> pd.DataFrame:
    table = pd.read_csv(FOLDER / "chinchilla.csv")
    return table[~table["excluded_by_epoch"].astype(bool)]


def test_point_fit_reproduces_the_published_refit_of_chinchilla() -> None:
    """Besiroglu et al. 2024: plain Huber(1e-3) grid over 240 points."""
    point = bayeslaw.point_fit("chinchilla", chinchilla())
    assert point.observed.response.size == 240
    assert point.objective == pytest.approx(0.00101827, abs=1e-6)
    published = {"E": 1.81724, "A": 477.84, "B": 2143.86, "alpha": 0.34731, "beta": 0.36718}
    for name, value in published.items():
        assert point.parameters[name] == pytest.approx(value, rel=0.005), name


def test_posterior_of_chinchilla_lies_in_the_published_intervals() -> None:
    fit = bayeslaw.fit("chinchilla", chinchilla(), progress=False, discrepancy="none")
    assert fit.passed, [str(c) for c in fit.checks]
    assert fit.noise.student
    published = fit.law.published["Besiroglu et al. 2024, bootstrap median and 95% interval"]
    for name in ("E", "A", "B", "alpha", "beta"):
        assert published[f"{name}_lo"] < np.median(fit.draws[name]) < published[f"{name}_hi"], name
    share = fit.draws["beta"] / (fit.draws["alpha"] + fit.draws["beta"])
    low, high = np.quantile(share, [0.05, 0.95])
    assert low < 0.513 < high


def repeated_epochs() -> pd.DataFrame:
    return pd.read_csv(FOLDER / "anchor_pool_data_constrained.csv").drop(columns=["group", "split"])


@pytest.mark.parametrize(
    ("law", "table"), [("kaplan", chinchilla), ("chinchilla-nd", chinchilla), ("repeated-epochs", repeated_epochs)]
)
def test_other_laws_for_training_from_scratch_pass_their_checks(law: str, table: Callable[[], pd.DataFrame]) -> None:
    fit = bayeslaw.fit(law, table(), progress=False, discrepancy="none")
    stats = fit.tree["sample_stats"]
    assert fit.passed, [str(c) for c in fit.checks]
    assert int(stats["diverging"].sum()) == 0
    assert float(stats["n_steps"].mean()) <= 40


@pytest.mark.parametrize("train_set", ["c4_original", "rpj"])
def test_over_trained_models_forecast_from_small_ones(train_set: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fit models under 1B, forecast the C4 validation loss of 1.4B and 6.9B; the coverage is printed, not asserted."""
    table = pd.read_csv(FOLDER / "overtraining.csv")
    table = table[(table["val_set"] == "c4_val") & (table["train_set"] == train_set)]
    small, large = table[table["N"] < 1e9], table[table["N"] > 1e9]
    assert len(small) >= 20
    assert len(large) >= 3
    fit = bayeslaw.fit("chinchilla", small[["run", "N", "D", "loss"]], progress=False)
    assert fit.passed, [str(c) for c in fit.checks]
    held = large[["run", "N", "D", "loss"]]
    scores = bayeslaw.score(fit, held).iloc[0]
    forecast = fit.forecast(held).summary()
    with capsys.disabled():
        print(f"\n{train_set}: {len(small)} models under 1B fitted, {len(large)} larger ones forecast")
        print(forecast.assign(loss=held["loss"].to_numpy()).drop(columns="run").round(4).to_string())
        print(scores[["mae_rel", "cover_eti50", "cover_eti90", "width_eti90"]].to_string())
    assert np.isfinite(forecast["run_eti90_ub"]).all()
    assert scores["mae_rel"] < 0.1


def pile() -> pd.DataFrame:
    """The 22 Pile domains of the replay runs, weighted into one loss; 10^6 tokens a step."""
    table = pd.read_csv(FOLDER / "cpt_replay_pythia70m.csv")
    table = table.merge(pd.read_csv(FOLDER / "cpt_replay_pile_weights.csv"), on="val_domain")
    table["weighted"] = table["loss"] * table["weight"]
    sums = table.groupby(["replay_pile", "step"], dropna=False)[["weighted", "weight"]].sum().reset_index()
    share = sums["replay_pile"]
    run = ["base" if np.isnan(r) else f"replay {r:g}" for r in share]
    return pd.DataFrame({"run": run, "r": share, "D": sums["step"] * 1e6, "loss": sums["weighted"] / sums["weight"]})


def test_the_least_replay_that_preserves_the_pile_loss_is_planned_from_three_ratios() -> None:
    """After 10,000 steps the measured losses cross the base loss at a share of .29; the held-out ratio .25 is next to it."""
    table = pile()
    base = float(table.loc[table["D"] == 0, "loss"].iloc[0])
    assert base == pytest.approx(2.87337, abs=1e-5)
    last = table[table["D"] == 1e10].sort_values("r")
    crossing = float(np.interp(-base, -last["loss"], last["r"]))
    seen, held = table[table["r"] != 0.25], table[table["r"] == 0.25]
    fit = bayeslaw.fit("replay-source", seen, progress=False)
    assert fit.passed, [str(c) for c in fit.checks]
    forecast = fit.forecast(held.drop(columns="loss")).summary().set_index("D").loc[1e10]
    assert forecast["run_eti90_lb"] < float(held.loc[held["D"] == 1e10, "loss"].iloc[0]) < forecast["run_eti90_ub"]
    plan = bayeslaw.plan(fit, None, {}, on="run", max_forgetting=0.0, tokens=1e10, minimise="replay")
    assert plan.base_losses["source"].kind == "measured"
    row = plan.losses.loc["replay that suffices, draw by draw"]
    assert row["eti90_lb"] < crossing < row["eti90_ub"]
    assert crossing < best_of(plan).replay < 0.5


def test_sound_runs_are_not_called_out_by_a_thousand_and_most_of_those_put_out_are() -> None:
    """The limits of the note were chosen on these tables, among others."""
    law, named = bayeslaw.load_law("chinchilla"), list[bool]()
    for _, ladder in pd.read_csv(FOLDER / "ladders.csv").groupby(["source", "set"]):
        frame = ladder[["run", "N", "D", "loss"]].set_axis(range(1, len(ladder) + 1))
        assert out_by_note(frame, law) == ""
        ends = frame.groupby("run")["D"].idxmax()
        for run in ends.index[:: max(1, len(ends) // 5)]:
            out = frame.assign(D=frame["D"].where(frame["run"] != run, frame["D"] / 1000))
            named.append("1,000 times too small" in out_by_note(out, law))
    assert np.mean(named) > 0.5
