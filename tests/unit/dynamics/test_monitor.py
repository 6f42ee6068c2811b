"""A run under way against the conditional normal, and what can't be asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.data.curves import Curves, read_curves
from bayeslaw.dynamics.monitor import Watch, watch
from bayeslaw.laws.card import load_law
from bayeslaw.plots.training import plot_watch
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import Schedule, constant
from tests.dynamics import spread_draws
from tests.fixed import fixed_fit

TRUTH = {"L0": 3.0, "A": 0.5, "alpha": 0.5, "C": 0.28}
WHOLE = constant(4000, 2e-4, warmup=100)
OFF = 0.004  # by which the run under way lies above the law, relative


def table() -> pd.DataFrame:
    """Two runs under one schedule: `done` to its end, on the law; `now` to step 2,000, above it."""
    steps = np.arange(200, 4001, 100)
    s1 = np.cumsum(WHOLE.rates)[steps - 1]
    loss = TRUTH["L0"] + TRUTH["A"] * s1 ** -TRUTH["alpha"]
    parts = [
        pd.DataFrame({"run": run, "step": steps[:n], "lr": WHOLE.rates[steps[:n] - 1], "loss": loss[:n] * np.exp(off)})
        for run, n, off in (("done", steps.size, 0.0), ("now", 19, OFF))
    ]
    return pd.concat(parts, ignore_index=True)


def setting(drift: float = 0.2, *, passed: bool = True, size: int = 2000) -> tuple[Fit, Curves]:
    curves = read_curves(table(), warmup=100)
    values = spread_draws({"L0": 3.0, "A": 0.5, "alpha": 0.5, "C1": 0.28}, size, scale=0.02)
    draws = {**{k: values[k] for k in ("L0", "A", "alpha")}, "C": values["C1"], "drift": np.full(size, drift)}
    draws |= {"sigma_point": np.full(size, 0.0005), "sigma_run": np.full(size, 0.003)}
    fit = fixed_fit(load_law("annealing"), curves.frame, draws, noise="normal-drift", passed=passed)
    return fit, curves


def watched(drift: float = 0.2, **options: object) -> Watch:
    fit, curves = setting(drift)
    return watch(fit, curves, "now", WHOLE, **options)  # type: ignore[arg-type]


def law_at(step: int) -> float:
    return float(TRUTH["L0"] + TRUTH["A"] * np.cumsum(WHOLE.rates)[step - 1] ** -TRUTH["alpha"])


def test_a_run_keeps_its_luck_and_forgets_it_with_its_length() -> None:
    made = watched()
    assert made.step == 2000
    assert made.steps[0] == 2000
    assert made.steps[-1] == 4000
    off = np.log(made.loss) - np.log([law_at(s) for s in made.steps.tolist()])
    span = 2800.0  # the median span of the two runs
    forgotten = np.exp(-(made.steps - 2000) / (0.2 * span))
    np.testing.assert_allclose(np.median(off, axis=0), OFF * forgotten, atol=4e-4)
    wide = 0.003 * np.sqrt(1 - forgotten**2)
    assert np.all(np.abs(off[:, 50:].std(axis=0) / np.hypot(wide[50:], 2e-4) - 1) < 0.15)
    assert off[:, 0].std() < 6e-4


def test_a_luck_of_long_memory_stays() -> None:
    off = np.median(np.log(watched(50.0).loss), axis=0)[-1] - np.log(law_at(4000))
    assert off == pytest.approx(OFF, abs=4e-4)


def test_chances_gains_and_words() -> None:
    end = law_at(4000)
    made = watched(target=end + 0.005)
    chance = made.reached
    assert np.all(np.diff(chance) >= 0)
    assert chance[0] < 0.01
    assert 0.2 < chance[-1] < 1.0
    assert made.by(4000) == chance[-1]
    exact = (made.loss.min(axis=1) <= end + 0.005).mean()
    assert chance[-1] == exact
    gain = made.gain()
    np.testing.assert_allclose(np.median(gain), law_at(2000) * np.exp(OFF) - end, atol=0.003)
    assert made.probability_of_gain(0.0) == (gain > 0).mean()
    assert made.probability_of_gain(1.0) == 0.0
    table = made.table(0.8)
    assert {"step", "run_median", "run_eti80_lo", "gain_eti80_hi", "reached", "extrapolation"} <= set(table)
    text = made.summary()
    assert "FAILED" not in text
    for words in ("step 2,000 of 4,000", "90% equal-tailed", "still to gain", "reached by step 4,000"):
        assert words in text


def test_words_are_in_the_unit_of_the_losses() -> None:
    fit, curves = setting()
    bytes_ = replace(fit, observed=replace(fit.observed, unit="bits/byte"))
    assert "nats/token; it falls" in watch(fit, curves, "now", WHOLE).summary()
    made = watch(bytes_, curves, "now", WHOLE)
    assert "bits/byte; it falls" in made.summary()
    ax = plot_watch(made, Figure().subplots())
    assert ax.get_ylabel() == "loss (bits/byte)"
    with pytest.raises(BayeslawError, match="a loss in bits/byte, above 0"):
        watch(bytes_, curves, "now", WHOLE, target=-1.0)


def test_the_same_seed_gives_the_same_paths() -> None:
    np.testing.assert_array_equal(watched(seed=3).loss, watched(seed=3).loss)
    assert not np.array_equal(watched(seed=3).loss, watched(seed=4).loss)


def test_rates_that_were_not_logged_and_runs_off_the_law_are_said() -> None:
    fit, curves = setting()
    other = Schedule(WHOLE.rates * 1.5, "higher")
    said = " ".join(watch(fit, curves, "now", other).notes)
    assert "areas are those of the schedule given" in said
    assert "lr_peak" in said
    frame = table()
    frame.loc[frame["run"] == "now", "loss"] *= 1.1
    far = read_curves(frame, warmup=100)
    off = fixed_fit(load_law("annealing"), far.frame, fit.draws, noise="normal-drift")
    assert "off the law now" in " ".join(watch(off, far, "now", WHOLE).notes)


def test_what_can_not_be_watched_is_refused() -> None:
    fit, curves = setting()
    with pytest.raises(BayeslawError, match=r"no run 'nwo'.*Did you mean 'now'"):
        watch(fit, curves, "nwo", WHOLE)
    with pytest.raises(BayeslawError, match="nothing lies ahead"):
        watch(fit, curves, "done", WHOLE)
    with pytest.raises(BayeslawError, match="above 0"):
        watch(fit, curves, "now", WHOLE, target=-1.0)
    with pytest.raises(BayeslawError, match="lie between 2,000 and"):
        watch(fit, curves, "now", WHOLE, steps=[5000])
    with pytest.raises(BayeslawError, match="No target"):
        _ = watch(fit, curves, "now", WHOLE).reached
    with pytest.raises(BayeslawError, match="not ahead"):
        watch(fit, curves, "now", WHOLE, target=3.0).by(100)
    more = read_curves(pd.concat([table(), table().query("run == 'now'").assign(run="new")], ignore_index=True), warmup=100)
    with pytest.raises(BayeslawError, match="not among the runs of the fit"):
        watch(fit, more, "new", WHOLE)
    with pytest.raises(BayeslawError, match="no domain 'web'; it names no domains"):
        watch(fit, curves, "now", WHOLE, domain="web")
    apart = table().assign(domain=lambda t: np.where(t["run"] == "now", "web", "code"))
    both = read_curves(apart, warmup=100)
    assert len(both.logged("now", "web")) == len(both.logged("now")) == 19
    with pytest.raises(BayeslawError, match="now has no logged loss of code"):
        watch(fit, both, "now", WHOLE, domain="code")
    bad, curves = setting(passed=False)
    with pytest.raises(FitError, match="checks failed"):
        watch(bad, curves, "now", WHOLE)
    forced = watch(bad, curves, "now", WHOLE, force=True)
    assert set(forced.table()["checks"]) == {"FAILED (forced)"}
    assert forced.summary().splitlines()[0].endswith("90% equal-tailed) — CHECKS FAILED (forced)")
