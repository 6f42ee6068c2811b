"""The forecast of a running run, compared with the conditional normal distribution of its run effect."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import FitError
from bayeslaw.core.streams import Stream
from bayeslaw.data.curves import Curves, read_curves
from bayeslaw.data.logs.curves import log_curves
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.change_errors import LEARNT
from bayeslaw.dynamics.follow import Follower
from bayeslaw.dynamics.monitor import Watch, kept, rows_for, watch
from bayeslaw.laws.card import load_law
from bayeslaw.plots.training import plot_watch
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import OPEN, trace
from bayeslaw.schedules.schedule import Schedule, constant
from tests.dynamics import curves as adaptations
from tests.dynamics import spread_draws
from tests.errors import fails
from tests.fixed import fixed_fit, stand_in_fit, typical_fit
from tests.legends import labels, note

TRUTH = {"L0": 3.0, "A": 0.5, "alpha": 0.5, "C": 0.28}
WHOLE = constant(4000, 2e-4, warmup=100)
OFF = 0.004  # relative deviation of the running run from the law


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


@cache
def setting(drift: float = 0.2, *, passed: bool = True, size: int = 1200) -> tuple[Fit, Curves]:
    curves = read_curves(table(), warmup=100)
    values = spread_draws({"L0": 3.0, "A": 0.5, "alpha": 0.5, "C1": 0.28}, size, scale=0.02)
    draws = {**{k: values[k] for k in ("L0", "A", "alpha")}, "C": values["C1"], "drift": np.full(size, drift)}
    draws |= {"sigma_point": np.full(size, 0.0005), "sigma_run": np.full(size, 0.003)}
    fit = fixed_fit(load_law("annealing"), curves.frame, draws, noise="normal-drift", passed=passed)
    return fit, curves


@cache
def watched(drift: float = 0.2, **options: Any) -> Watch:
    """A forecast that takes the law for exact."""
    fit, curves = setting(drift)
    return watch(fit, curves, "now", WHOLE, **{"discrepancy": "none", **options})


def test_logged_losses_in_a_picture_have_their_known_errors_and_must_be_a_table_of_steps() -> None:
    logged = setting()[1].logged("now").assign(loss_se=0.01)
    ax = plot_watch(watched(), Figure().subplots(), logged=logged)
    assert "thin bars: known errors (loss_se), one standard error" in note(ax)
    with fails("missing-columns", "loss"):
        plot_watch(watched(), Figure().subplots(), logged=logged[["step"]])
    with fails("wrong-object", "Curves"):
        plot_watch(watched(), Figure().subplots(), logged=setting()[1])  # type: ignore[arg-type]


def test_two_runs_on_one_axes_can_be_told_apart() -> None:
    logged = setting()[1].logged("now")
    ax = plot_watch(watched(target=3.6), Figure().subplots(), logged=logged)
    assert labels(ax)[:2] == ["logged", "forecast: median, 90% equal-tailed interval"]
    plot_watch(replace(watched(), run="other", step=1000), ax, logged=logged, label="again")
    assert {"again, forecast: median, 90% equal-tailed interval", "again: last logged step, 1,000"} <= {*labels(ax)}
    assert labels(ax).count("logged") == 1
    assert ax.get_title() == "now\nother"
    high = replace(watched(), loss=2 * watched().loss)
    plot_watch(high, ax, logged=logged.assign(loss=100.0), label="far")
    assert ax.get_ylim()[1] >= high.loss.mean(axis=0).max()
    assert "far: 19 losses above the picture" in note(ax)
    assert len({str(line.get_color()) for line in ax.lines if "forecast" in str(line.get_label())}) == 3


def law_at(step: int) -> float:
    return float(TRUTH["L0"] + TRUTH["A"] * np.cumsum(WHOLE.rates)[step - 1] ** -TRUTH["alpha"])


@pytest.mark.slow
def test_the_run_effect_is_carried_on_and_decays_with_distance() -> None:
    forecast = watched()
    assert forecast.step == 2000
    assert forecast.steps[0] == 2000
    assert forecast.steps[-1] == 4000
    off = np.log(forecast.loss) - np.log([law_at(s) for s in forecast.steps.tolist()])
    span = 2800.0  # the median span of the two runs
    forgotten = np.exp(-(forecast.steps - 2000) / (0.2 * span))
    np.testing.assert_allclose(np.median(off, axis=0), OFF * forgotten, atol=4e-4)
    wide = 0.003 * np.sqrt(1 - forgotten**2)
    assert np.all(np.abs(off[:, 50:].std(axis=0) / np.hypot(wide[50:], 2e-4) - 1) < 0.15)
    assert off[:, 0].std() < 6e-4


@pytest.mark.slow
def test_a_run_effect_of_long_memory_stays() -> None:
    off = np.median(np.log(watched(50.0).loss), axis=0)[-1] - np.log(law_at(4000))
    assert off == pytest.approx(OFF, abs=4e-4)


@pytest.mark.slow
def test_the_probability_of_the_target_and_the_gain() -> None:
    end = law_at(4000)
    watch = watched(target=end + 0.005)
    assert np.all(np.diff(watch.reached) >= 0)
    assert watch.reached[0] < 0.01
    assert 0.2 < watch.reached[-1] < 1.0
    assert watch.reached[-1] == (watch.loss.min(axis=1) <= end + 0.005).mean()
    np.testing.assert_allclose(np.median(watch.gain), law_at(2000) * np.exp(OFF) - end, atol=0.003)
    assert {"step", "run_median", "run_eti80_lb", "gain_eti80_ub", "reached", "extrapolation"} <= set(watch.table(0.8))
    text = watch.summary()
    assert repr(watch).startswith("<Watch of now, step 2,000 of 4,000: loss at the end ")
    for words in ("now, step 2,000 of 4,000", "90% equal-tailed", "still to gain", "reached by step 4,000"):
        assert words in text
    assert "FAILED" not in text
    assert [("80% equal-tailed" in line) for line in watch.summary(0.8).splitlines()[:3]] == [True] * 3  # each has an interval


@pytest.mark.slow
def test_the_last_loss_has_the_noise_of_points_and_the_table_what_is_gained_by_each_step() -> None:
    watch = watched()
    assert np.std(np.log(watch.final / watch.loss[:, -1])) == pytest.approx(0.0005, rel=5 / np.sqrt(2 * 1200))
    table = watch.table()
    gained = watch.loss[:, 0][:, None] - watch.loss
    np.testing.assert_allclose(table["gain_median"], np.median(gained, axis=0), rtol=1e-12)
    np.testing.assert_allclose(table["run_eti90_lb"], np.quantile(watch.loss, 0.05, axis=0), rtol=1e-12)


@pytest.mark.slow
def test_the_summary_and_the_picture_have_the_unit_of_the_losses() -> None:
    fit, curves = setting()
    in_bits = watch(replace(fit, observed=replace(fit.observed, unit="bits/byte")), curves, "now", WHOLE)
    assert "bits/byte; the loss falls" in in_bits.summary()
    assert plot_watch(in_bits, Figure().subplots()).get_ylabel() == "loss (bits/byte)"


@pytest.mark.slow
def test_the_law_errs_by_shares_of_the_changes_that_it_forecasts() -> None:
    """Of what a coming fall of the rate does, which is the difference from the same rate kept, and of what goes on without it."""
    fit, curves = setting()
    falling = Schedule(np.where(np.arange(1, 4001) > 3000, 2e-5, WHOLE.rates), "falling")
    exact, erring = (watch(fit, curves, "now", falling, discrepancy=kind) for kind in ("none", "learned"))
    rate = np.log(exact.loss / watched().loss)  # the run's effect is the same in both
    assert np.abs(rate[:, exact.steps <= 3000]).max() < 1e-12
    assert np.abs(rate[:, -1]).min() > 0.005
    area, d = np.cumsum(WHOLE.rates)[exact.steps - 1], {k: v[:, None] for k, v in fit.draws.items()}
    law = d["L0"] + d["A"] * area ** -d["alpha"]
    shares = LEARNT.draw(rate, np.log(law / law[:, :1]), np.random.default_rng([int(fit.info["seed"]), 0, Stream.CHANGE_ERROR]))
    np.testing.assert_allclose(np.log(erring.loss / exact.loss), shares, atol=1e-9)
    assert shares[:, -1].std() > 0.001
    with fails("unknown-option", "'some'", "learned or none"):
        watched(discrepancy="some")


def test_a_law_of_all_changes_needs_those_of_earlier_phases() -> None:
    """From a point of the training, of which areas are known, it took the adaptation's changes for all."""
    _, start = trace(WHOLE, np.zeros(0, dtype=np.int64))
    log = Runs(pd.DataFrame({"run": "now", "step": [1000.0], "loss": [3.0]}), "log")
    with fails("no-earlier-rates", "multi-power", "now", "annealing"):
        watch(typical_fit("multi-power"), log_curves(log, WHOLE, start, phase="adapt"), "now", WHOLE)
    new = watch(typical_fit("multi-power"), log_curves(log, WHOLE), "now", WHOLE, force=True, check=False)
    assert new.step == 1000


def test_losses_of_a_log_that_are_no_part_of_the_schedule_are_named() -> None:
    log = Runs(pd.DataFrame({"run": "now", "step": [0.0, 1000.0, 5000.0, 6000.0], "loss": 3.0}), "log", ("D = tokens",))
    curves = log_curves(log, WHOLE)
    assert curves.frame["step"].tolist() == [1000.0]
    assert curves.notes == (
        "D = tokens", "1 loss of now before the first step is left out",
        "2 losses of now after step 4,000, where the schedule ends, are left out",
    )  # fmt: skip
    inside = Runs(log.frame.iloc[[1]].set_axis([1]), "log")
    assert log_curves(inside, WHOLE).notes == ()


def test_a_rate_is_kept_as_it_is_now() -> None:
    """Also before the first step of an adaptation, whose base loss may be all that is logged: there it was the last rate."""
    falling = Schedule(np.array([3e-4, 2e-4, 1e-4]), "falling")
    kept_from = [kept(falling, step).rates.tolist() for step in range(4)]
    assert kept_from == [[3e-4] * 3, [3e-4] * 3, [3e-4, 2e-4, 2e-4], [3e-4, 2e-4, 1e-4]]


@pytest.mark.slow
def test_a_path_that_leaves_the_runs_is_that_of_one_posterior() -> None:
    """Draws of the posterior with an error have nothing to do with those of the other: a path may not go from one to the other."""
    seen = read_curves(table().query("step <= 2000"), warmup=100)
    fit = stand_in_fit("annealing", seen.runs().frame, noise="normal", draws=200)
    assert fit.extrapolation is not None
    path = watch(fit, seen, "now", WHOLE, discrepancy="learned", force=True)
    place = int(np.argmax(path.settings["extrapolation"] != "inside"))
    assert place == 1
    before, after = np.log(path.loss[:, place - 1 : place + 1]).T
    assert np.corrcoef(before, after)[0, 1] > 0.9
    assert (after - before).std() < 0.5 * before.std()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_paths() -> None:
    fit, curves = setting()
    np.testing.assert_array_equal(watched().loss, watch(fit, curves, "now", WHOLE, discrepancy="none").loss)
    assert not np.array_equal(watched(seed=3).loss, watched().loss)
    noise = [np.log(path.final / path.loss[:, -1]) for path in (watched(), watched(seed=3), watched(seed=4))]
    assert np.abs(np.corrcoef(noise) - np.eye(3)).max() < 0.15


@pytest.mark.slow
def test_notes_name_rates_that_were_not_logged_and_runs_that_deviate_from_the_law() -> None:
    fit, curves = setting()
    assert watched().notes == ()
    other = watch(fit, curves, "now", Schedule(WHOLE.rates * 1.5, "higher")).notes
    assert "0.0003" in other[0]  # the rate of this schedule
    assert "0.0002" in other[0]  # the logged one
    assert "lr_peak" in other[1]
    frame = table()
    frame.loc[frame["run"] == "now", "loss"] *= 1.1
    far = read_curves(frame, warmup=100)
    off = fixed_fit(load_law("annealing"), far.frame, fit.draws, noise="normal-drift")
    assert any("+9.8%" in note for note in watch(off, far, "now", WHOLE).notes)
    frame.loc[frame["run"] == "now", "loss"] *= 0.8
    below = read_curves(frame, warmup=100)
    off = fixed_fit(load_law("annealing"), below.frame, fit.draws, noise="normal-drift")
    assert any("by -1" in note and "from the law" in note for note in watch(off, below, "now", WHOLE).notes)


@pytest.mark.slow
def test_runs_and_schedules_that_can_not_be_watched_are_refused() -> None:
    fit, curves = setting()
    with fails("unknown-run", "'nwo'", "'now'"):
        watch(fit, curves, "nwo", WHOLE)
    with fails("nothing-ahead", "4,000"):
        watch(fit, curves, "done", WHOLE)
    with fails("bad-target", -1, "nats/token"):
        watch(fit, curves, "now", WHOLE, target=-1.0)
    with fails("bad-target", "'3.5'"):
        watch(fit, curves, "now", WHOLE, target=cast("float", "3.5"))
    with fails("bad-target", -1):  # before a log is waited for
        Follower(fit, "now", WHOLE, target=-1.0)
    with fails("not-a-schedule", "constant:steps=4000", "parse_schedule"):
        watch(fit, curves, "now", cast("Schedule", "constant:steps=4000,peak=2e-4"))
    with fails("no-target"):
        _ = watched().reached
    with fails("unknown-domain", "'web'"):
        watch(fit, curves, "now", WHOLE, domain="web")
    apart = table().assign(domain=lambda t: np.where(t["run"] == "now", "web", "code"))
    both = read_curves(apart, warmup=100)
    assert len(both.logged("now", "web")) == len(both.logged("now")) == 19
    with fails("no-loss", "code"):
        watch(fit, both, "now", WHOLE, domain="code")
    twice = pd.concat([table().assign(domain=domain) for domain in ("web", "code")]).sort_values(["run", "step"], kind="stable")
    with fails("several-domains", "code, web", "--domain"):
        watch(fit, read_curves(twice, warmup=100), "now", WHOLE)
    own = replace(fit, info={**fit.info, "token_length": {"bytes_per_token": 3.1}})
    with fails("other-tokenizer", "4.6 and 3.1 bytes per token"):
        watch(own, read_curves(table().assign(bytes_per_token=4.6), warmup=100), "now", WHOLE)
    of_tokens = typical_fit("chinchilla")
    with fails("no-areas", "chinchilla", "S1", "annealing", "bayeslaw update"):
        watch(of_tokens, curves, "now", WHOLE)
    with fails("no-areas", "chinchilla"):  # before a log is waited for
        Follower(of_tokens, "now", WHOLE)
    failed, curves = setting(passed=False)
    with fails("failed-checks", kind=FitError):
        watch(failed, curves, "now", WHOLE)
    forced = watch(failed, curves, "now", WHOLE, force=True)
    assert set(forced.table()["checks"]) == {"FAILED (forced)"}
    assert forced.summary().splitlines()[0].endswith("90% equal-tailed) — CHECKS FAILED (forced)")


@cache
def without(noise: str = "normal-drift", scale: float = 0.5, **fixed: float | tuple[float, ...]) -> tuple[Fit, Curves]:
    """A fit to the run `done` alone, whose floor L0 is known to 0.15%, and curves of both; draws take scales in turn."""
    curves, size = read_curves(table(), warmup=100), 4000
    values = spread_draws({"L0": 3.0, "A": 0.5, "alpha": 0.5, "C1": 0.28}, size, scale=0.02)
    floor = 3.0 * (1 + 0.003 * scale * np.random.default_rng(5).standard_normal(size))
    draws = {**{k: values[k] for k in ("A", "alpha")}, "L0": floor, "C": values["C1"]}
    draws |= {
        name: np.resize(value, size) for name, value in ({"sigma_point": 0.0005, "sigma_run": 0.003, "drift": 0.2} | fixed).items()
    }
    return fixed_fit(load_law("annealing"), curves.frame[curves.frame["run"] == "done"], draws, noise=noise), curves


@pytest.mark.slow
def test_another_run_of_the_same_name_is_a_new_one() -> None:
    """One of its losses is that of the fitted run, by chance."""
    fit, curves = setting()
    other = table().assign(loss=lambda t: np.where((t["run"] == "now") & (t["step"] != 1500), 0.93 * t["loss"], t["loss"]))
    named, unnamed = (
        watch(fit, read_curves(other.replace({"run": {"now": name}}), warmup=100), name, WHOLE, discrepancy="none", check=False)
        for name in ("now", "new")
    )
    assert len(named.stated) == len(unnamed.stated) == 19
    few = table().assign(loss=lambda t: np.where((t["run"] == "now") & (t["step"] <= 500), 0.93 * t["loss"], t["loss"]))
    assert len(watch(fit, read_curves(few, warmup=100), "now", WHOLE, discrepancy="none", check=False).stated) == 0
    np.testing.assert_array_equal(named.loss, unnamed.loss)
    assert any("another run of the name now" in note for note in named.notes)
    assert not any("of the name" in note for note in (*unnamed.notes, *watch(fit, curves, "now", WHOLE).notes))


@pytest.mark.slow
def test_a_run_that_the_fit_has_under_another_name_counts_once() -> None:
    fit, _ = setting()
    own, renamed = (
        watch(fit, read_curves(table().replace({"run": {"now": name}}), warmup=100), name, WHOLE, check=False)
        for name in ("now", "log.jsonl")
    )
    assert len(renamed.stated) == 0
    np.testing.assert_array_equal(own.loss, renamed.loss)
    assert "the fit has losses of this run under the name now: they count once" in renamed.notes
    longer = table()
    longer["loss"] *= np.where((longer["run"] == "now") & (longer["step"] > 1000), 1.001, 1.0)
    fitted = fixed_fit(
        fit.law, longer.query("run == 'done' or step <= 1000").pipe(read_curves, warmup=100).frame, fit.draws, noise="normal-drift"
    )
    rows = rows_for(fitted, read_curves(longer.replace({"run": {"now": "log.jsonl"}}), warmup=100), "log.jsonl", WHOLE)
    assert rows.frame[["run", "step"]].drop_duplicates("run").to_numpy().tolist() == [["now", 1100]]


@pytest.mark.slow
def test_a_run_that_left_a_fitted_one_is_a_run_of_its_own() -> None:
    """A fork has the losses of the run that it left up to there, and is not that run, however few are its own."""
    fit, _ = setting()
    fork = table().replace({"run": {"now": "fork"}})
    fork["loss"] *= np.where((fork["run"] == "fork") & (fork["step"] > 1700), 1.001, 1.0)
    curves = read_curves(fork, warmup=100)
    assert any("up to step 1,700 the fit has these losses as those of now" in n for n in watch(fit, curves, "fork", WHOLE).notes)
    assert set(rows_for(fit, curves, "fork", WHOLE).frame["run"]) == {"fork"}


@pytest.mark.slow
def test_a_target_that_was_reached_before_is_told() -> None:
    least = table().query("run == 'now'")["loss"].min()
    noted = [any("at the target or below" in n for n in watched(target=t * least).notes) for t in (1.01, 0.99)]
    assert noted == [True, False]


@pytest.mark.slow
def test_a_run_that_was_not_fitted_weighs_the_draws() -> None:
    """Floor and run effect share what is known of the deviation: a normal distribution in two unknowns, and points along a path."""
    fit, curves = without()
    new = watch(fit, curves, "now", WHOLE, discrepancy="none")
    assert new.reliable
    assert new.stated["step"].tolist() == list(range(200, 2001, 100))
    steps = np.arange(200, 2001, 100)
    time = steps / fit.observed.span
    share = np.array([3.0 / law_at(s) for s in steps.tolist()])  # of the floor in the loss
    effect = 0.003**2 * np.exp(-np.abs(time[:, None] - time) / 0.2) + 0.0005**2 * np.eye(time.size)
    whole = effect + 0.0015**2 * np.outer(share, share)
    end, far = 3.0 / law_at(4000), np.exp(-np.abs(4000 / fit.observed.span - time) / 0.2)
    cross = 0.003**2 * far + 0.0015**2 * end * share
    mean = cross @ np.linalg.solve(whole, np.full(time.size, OFF))
    sd = np.sqrt(0.003**2 + 0.0015**2 * end**2 - cross @ np.linalg.solve(whole, cross))
    off = np.log(new.loss[:, -1]) - np.log(law_at(4000))
    assert off.mean() == pytest.approx(mean, abs=4e-4)
    assert off.std() == pytest.approx(sd, rel=0.1)
    assert new.final.std() > new.loss[:, -1].std()
    assert "the last loss that will be logged" in new.summary()


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "point"), [("normal", 0.0005), ("normal-no-run", 0.003)])
def test_noise_without_drift_weighs_draws_too(noise: str, point: float) -> None:
    fit, curves = without(noise, 1.0, sigma_point=point)
    off = np.log(watch(fit, curves, "now", WHOLE, discrepancy="none").loss[:, -1]) - np.log(law_at(4000))
    # The deviation is the run effect's and the floor's, or all the floor's; the effect that stays keeps it to the end.
    assert off.mean() == pytest.approx(OFF, abs=6e-4)


@pytest.mark.slow
def test_a_run_that_leaves_the_law_is_said_to_and_its_weights_are_not_relied_on() -> None:
    fit, curves = without()
    frame = table()
    late = (frame["run"] == "now") & (frame["step"] > 1200)
    frame.loc[late, "loss"] *= 1.1 + 0.05 * (frame.loc[late, "step"] / 100 % 2)
    gone = watch(fit, read_curves(frame, warmup=100), "now", WHOLE)
    assert gone.left is not None
    assert 1400 <= gone.left <= 2000
    assert not gone.reliable
    text = gone.summary()
    assert f"LEFT ITS BAND by step {gone.left:,}" in text
    assert "Fit the law again with this run among the runs, as --refit does" in text
    assert "can take in: they count at 0.17% of their weight; do not rely" in replace(gone, power=0.0017).summary()
    assert "(Pareto k 0.91)" in replace(gone, power=1.0, pareto_k=0.91).summary()
    assert watch(fit, curves, "now", WHOLE).left is None


@pytest.mark.slow
def test_known_errors_of_the_runs_losses_count() -> None:
    """Of losses whose errors are far larger than all else, half lie below what was stated, and nothing is learnt of the run."""
    fit, curves = without()
    vague = read_curves(table().assign(loss_se=10.0), warmup=100)
    known = watch(fit, vague, "now", WHOLE, discrepancy="none")
    np.testing.assert_allclose(known.stated["pit"], 0.5, atol=0.01)
    assert known.loss[:, 0].std() > 2 * watch(fit, curves, "now", WHOLE, discrepancy="none").loss[:, 0].std()
    assert rows_for(fit, vague, "now", WHOLE).frame["loss_se"].eq(10.0).all()


@pytest.mark.slow
def test_known_errors_of_losses_add_to_the_noise_of_points_as_variances_relative_to_the_loss() -> None:
    fit, _ = without(sigma_point=0.0003)
    noisier, curves = without(sigma_point=0.0005)
    known = read_curves(table().assign(loss_se=lambda t: 0.0004 * t["loss"]), warmup=100)
    some, others = watch(fit, known, "now", WHOLE, discrepancy="none"), watch(noisier, curves, "now", WHOLE, discrepancy="none")
    np.testing.assert_allclose(some.stated["pit"], others.stated["pit"], atol=1e-9)
    np.testing.assert_allclose(some.loss, others.loss, rtol=1e-9)


@pytest.mark.slow
def test_the_noise_ahead_and_errors_of_changes_are_of_the_draws_as_the_run_weighs_them() -> None:
    """Losses on the law have been logged with little noise, and a run effect that stays cancels in ratios of paths."""
    fit, curves = without("normal", sigma_point=(0.0002, 0.004))
    falling = Schedule(np.where(np.arange(1, 4001) > 3000, 2e-5, WHOLE.rates), "falling")
    kept, exact = (watch(fit, curves, "now", schedule, discrepancy="none") for schedule in (WHOLE, falling))
    erring = watch(fit, curves, "now", falling)
    assert (kept.point == 0.0002).mean() > 0.95
    rate, course = np.log(exact.loss / kept.loss), np.log(kept.loss / kept.loss[:, :1])
    shares = LEARNT.draw(rate, course, np.random.default_rng([int(fit.info["seed"]), 0, Stream.CHANGE_ERROR]))
    np.testing.assert_allclose(np.log(erring.loss / exact.loss), shares, atol=2e-6)


@pytest.mark.slow
def test_losses_before_those_of_the_fit_and_too_many_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, _ = without()
    early = pd.concat([table(), table().query("run == 'now'").head(1).assign(step=150, lr=2e-4, loss=9.9)])
    curves = read_curves(early.sort_values(["run", "step"]), warmup=100)
    notes = " ".join(watch(fit, curves, "now", WHOLE).notes)
    assert "1 loss up to step 150 lies before" in notes
    assert "NO LOSS OF THE RUN IS USED" not in notes
    none = watch(fit, read_curves(table().query("run == 'now'").head(1).assign(step=150), warmup=100), "now", WHOLE)
    assert "NO LOSS OF THE RUN IS USED" in " ".join(none.notes)
    monkeypatch.setattr("bayeslaw.dynamics.monitor.MOST_ROWS", 10)
    few = watch(fit, curves, "now", WHOLE)
    assert "10 of 19 losses" in " ".join(few.notes)
    assert few.stated["step"].iloc[-1] == 2000


@pytest.mark.slow
def test_noise_under_which_draws_can_not_be_weighted_is_refused() -> None:
    fit, curves = without("student", dof=5.0)
    with fails("not-weighted", "Student-t", "normal-drift"):
        watch(fit, curves, "now", WHOLE)


@pytest.mark.parametrize("law", ["cpt-dynamics", "cpt-dynamics-open"])
def test_early_losses_of_an_adaptation_are_left_out_whatever_came_before_it(law: str) -> None:
    """The fit's adaptations began to be fitted at step 1,000, after a pre-training shorter than the run's, or an unknown one."""
    fitted = adaptations().query("0.0499 < S1_cpt < 2").drop(columns="lr")  # from step 1,000 of the lowest rate on
    fit, adapt = stand_in_fit(law, fitted), constant(4000, 5e-5)
    start = OPEN if law.endswith("open") else trace(constant(30_000, 2e-4), np.zeros(0, dtype=np.int64))[1]
    log = Runs(pd.DataFrame({"run": "now", "step": np.arange(250.0, 2001.0, 250.0), "loss": 3.1}), "log")
    of_run = log_curves(log, adapt, start, phase="adapt")
    first = fitted["S1_cpt"].min()
    assert rows_for(fit, of_run, "now", adapt).frame["S1_cpt"].min() == pytest.approx(first)
    assert len(rows_for(fit, of_run, "now", adapt).frame) == 5
    # With pre-trainings or base losses in the fit the run's base loss counts, and the rest is as before.
    base = replace(of_run, frame=pd.concat([of_run.frame.assign(S1_cpt=0.0).iloc[:1], of_run.frame.iloc[1:]]))
    assert len(rows_for(fit, base, "now", adapt).frame) == 5
    with_base = stand_in_fit(law, pd.concat([fitted, adaptations().query("S1_cpt == 0").drop(columns="lr")]))
    assert len(rows_for(with_base, base, "now", adapt).frame) == 6
