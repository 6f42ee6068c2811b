"""The picture of a forecast against the forecast's table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from bayeslaw.data.table import read_runs
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.laws.card import parse_card
from bayeslaw.plots.forecast import fitted_rows, forecast_axis, plot_forecast
from bayeslaw.plots.style import COLOURS, MOST_LINES, short_number
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import apart_fit, fixed_fit, line_fit, typical_fit
from tests.legends import labels, note, texts
from tests.outcomes import card, outcome_fit, table
from tests.values import present


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return typical_fit("chinchilla")


@pytest.fixture(scope="module")
def fan(fitted: Fit) -> Forecast:
    """Twelve values of D at each of three N."""
    return forecast(fitted, grid(fitted.law, {"N": "1e8,1e9,8.1e9", "D": "1e8:1e11:12"}))


def test_a_picture_without_fitted_losses_says_nothing_of_them(fitted: Fit, ax: Axes) -> None:
    plot_forecast(forecast(fitted, grid(fitted.law, {"N": 1e9, "D": 1e10})), ax, fitted=False)
    assert "fitted" not in note(ax)


def test_a_label_may_be_a_number_or_begin_with_an_underscore(fitted: Fit, ax: Axes) -> None:
    at = forecast(fitted, grid(fitted.law, {"N": 1e9, "D": 1e10}))
    for label in (3, "_mine"):
        plot_forecast(at, ax, label=label)  # type: ignore[arg-type]
    assert {"3", "_mine"} <= {text.strip("\N{ZERO WIDTH SPACE}") for text in labels(ax)}


def test_the_mark_of_fitted_losses_has_the_colour_of_a_single_curve(fitted: Fit, fan: Forecast, ax: Axes) -> None:
    def mark() -> str:
        return next(to_hex(line.get_color()) for line in ax.lines if "fitted losses" in str(line.get_label()))

    plot_forecast(forecast(fitted, grid(fitted.law, {"N": 1e9, "D": "1e9:1e11:4"})), ax)
    assert mark() == COLOURS[0].lower()
    ax.clear()
    plot_forecast(fan, ax)
    assert mark() == to_hex("0.2")  # of several colours


def test_known_errors_of_losses_are_bars(fitted: Fit, ax: Axes) -> None:
    seen = oracles.table(fitted.law, runs=8).assign(loss_se=0.02)
    other = fixed_fit(fitted.law, seen, fitted.draws, noise="normal")
    at = forecast(other, grid(fitted.law, {"N": 1e9, "D": "1e9:1e11:4"}))
    new = pd.DataFrame({"N": 1e9, "D": [1e9, 1e11], "loss": [2.0, 1.7], "loss_se": [0.1, np.nan]})
    plot_forecast(at, ax, measured=new)
    bars = [np.asarray(line.get_ydata(), dtype=np.float64).reshape(-1, 3) for line in lines(ax) if line.get_linewidth() == 0.9]
    assert sorted({round(float(high - low), 9) for bar in bars for low, high, _ in bar}) == [0.04, 0.2]
    assert note(ax).count("thin bars: known errors (loss_se), one standard error") == 1
    ax.clear()
    plot_forecast(at, ax, fitted=False, measured=new.drop(columns="loss_se"))
    assert "thin bars" not in note(ax)


def test_rows_without_a_measured_loss_are_not_outside_the_interval(fitted: Fit, ax: Axes) -> None:
    at = forecast(fitted, grid(fitted.law, {"N": 1e9, "D": "1e9:1e11:3"}))
    middle = float(at.summary()["latent_median"].iloc[0])
    new = pd.DataFrame({"N": 1e9, "D": [1e9, 1e10, np.nan], "loss": [middle, np.nan, middle]})
    plot_forecast(at, ax, measured=new)
    assert "measured, inside the 90% interval: 1" in labels(ax)
    assert not any(label.startswith("measured, outside") for label in labels(ax))
    assert "2 of 3 rows of the measured losses have no loss or no D" in note(ax)
    ax.clear()
    plot_forecast(at, ax, measured=new.assign(loss=np.nan))
    assert not any("measured" in label for label in labels(ax))


def lines(ax: Axes) -> list[Line2D]:
    return [line for line in ax.get_lines() if np.size(line.get_xdata())]


def up(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


def points(ax: Axes) -> list[Line2D]:
    """The lines that mark measured losses."""
    return [line for line in lines(ax) if line.get_linestyle() == "None"]


def notes(ax: Axes) -> list[str]:
    """The notes below a picture, each in one line."""
    return present(ax.get_legend()).get_title().get_text().split("\n")


def hatched(ax: Axes) -> list[Rectangle]:
    return [p for p in ax.patches if isinstance(p, Rectangle)]


@pytest.mark.slow
@pytest.mark.parametrize("prob", [0.9, 0.5])
def test_each_setting_has_a_line_and_a_band(fan: Forecast, ax: Axes, prob: float) -> None:
    assert plot_forecast(fan, ax, ci_prob=prob, fitted=False) is ax
    table, name = fan.summary(prob), f"run_eti{prob * 100:g}"
    bands = [c for c in ax.collections if isinstance(c, PolyCollection)]
    assert len(lines(ax)) == len(bands) == 3
    for i, (n, group) in enumerate(table.groupby("N")):
        line, band = lines(ax)[i], bands[i]
        np.testing.assert_array_equal(line.get_xdata(), group["D"])
        np.testing.assert_array_equal(line.get_ydata(), group["latent_median"])
        corners = np.asarray(band.get_paths()[0].vertices)
        assert {(x, y) for x, y in corners.tolist()} == {
            (d, v) for end in ("lb", "ub") for d, v in zip(group["D"], group[f"{name}_{end}"], strict=True)
        }
        assert to_hex(line.get_color()) == to_hex(np.asarray(band.get_facecolor())[0].tolist()) == COLOURS[i].lower()
        assert line.get_label() == {1e8: "N = 100M", 1e9: "N = 1B", 8.1e9: "N = 8.1B"}[float(str(n))]


def test_the_axes_are_labelled(fan: Forecast, ax: Axes) -> None:
    plot_forecast(fan, ax, unit="training tokens", ci_prob=0.95, fitted=False)
    assert ax.get_xlabel() == "D (training tokens)"
    assert ax.get_ylabel() == "loss (nats/token)"
    assert ax.get_title() == "chinchilla: latent median, 95% equal-tailed interval of the next run"
    assert ax.get_xscale() == "log"
    assert labels(ax) == ["N = 100M", "N = 1B", "N = 8.1B"]


def test_the_axis_is_logarithmic_where_runs_and_settings_span_a_decade(sound_fit: Fit, ax: Axes) -> None:
    """Distances outside the runs are in e-folds: on a linear axis all runs would lie at its left end."""
    largest = float(sound_fit.observed.covariates["D"].max())
    for times, scale in (([2.0, 6.0], "linear"), ([5.0, 30.0], "log"), ([30.0], "log")):
        ax.clear()
        plot_forecast(forecast(sound_fit, grid(sound_fit.law, {"N": 1e9, "D": [t * largest for t in times]})), ax, x="D")
        assert ax.get_xscale() == scale


def test_one_setting_and_measured_losses_have_the_axis_of_the_losses_around_them(sound_fit: Fit, ax: Axes) -> None:
    """On a linear axis the losses of the runs would be a column at the left end of the picture."""
    largest = float(sound_fit.observed.covariates["D"].max())
    one, two = (forecast(sound_fit, {"N": 1e9, "D": [t * largest for t in times]}) for times in ([3.0], [3.0, 4.0]))
    measured = pd.DataFrame({"N": 1e9, "D": [0.0, 0.01 * largest, 3 * largest], "loss": [9.0, 3.0, 2.5]})
    for shown, fitted, losses, scale in ((one, True, None, "log"), (one, False, None, "linear"), (two, False, measured, "log")):
        ax.clear()
        plot_forecast(shown, ax, x="D", fitted=fitted, measured=losses)
        assert ax.get_xscale() == scale


def test_the_labels_of_all_ticks_are_of_one_size(fan: Forecast, ax: Axes) -> None:
    plot_forecast(fan, ax)
    ax.set_xlim(4e9, 6e10)  # a decade, of which minor ticks have labels too
    ax.figure.canvas.draw()
    sizes = {
        text.get_fontsize() for text in [*ax.get_xticklabels(which="both"), *ax.get_yticklabels(which="both")] if text.get_text()
    }
    assert len(sizes) == 1


@pytest.mark.slow
def test_outside_the_runs_the_band_goes_on_as_extrapolated(sound_fit: Fit, ax: Axes) -> None:
    fan = forecast(sound_fit, grid(sound_fit.law, {"N": "1e9", "D": "1e9:1e12:7"}))
    assert fan.headlines == ["run"] * 3 + ["extrapolated"] * 4
    plot_forecast(fan, ax, fitted=False)
    table, (band,) = fan.summary(), ax.collections
    ends = [table[f"{spread}_eti90_{end}"][i] for end in ("lb", "ub") for i, spread in enumerate(fan.headlines)]
    assert {y for _, y in np.asarray(band.get_paths()[0].vertices).tolist()} == set(ends)
    np.testing.assert_array_equal(lines(ax)[0].get_ydata(), [*table["latent_median"][:3], *table["extrapolated_median"][3:]])
    assert note(ax) == "interval: run inside the runs, extrapolated outside at N = 1B"


@pytest.mark.slow
def test_an_interval_of_nearly_all_is_not_called_100_percent(fan: Forecast, ax: Axes) -> None:
    assert "99.9% equal-tailed" in plot_forecast(fan, ax, ci_prob=0.999).get_title()


@pytest.mark.slow
def test_a_forced_forecast_is_marked(ax: Axes) -> None:
    failed = typical_fit("chinchilla", passed=False)
    forced = forecast(failed, grid(failed.law, {"N": 1e9, "D": "1e8:1e10:5"}), force=True)
    assert plot_forecast(forced, ax, fitted=False).get_title().endswith("\nCHECKS FAILED")
    assert labels(ax) == ["chinchilla"]  # a single line has the law's name


def test_measured_losses_are_points_of_their_settings(fan: Forecast, ax: Axes, tmp_path: Path) -> None:
    measured = pd.DataFrame({"N": [1e8, 8.1e9, 8.1e9, 3e8], "D": [1e9, 1e9, 1e10, 1e9], "loss": [3.0, 2.5, 2.4, 2.9]})
    plot_forecast(fan, ax, measured=measured, fitted=False)
    hollow = [p for p in points(ax) if p.get_markerfacecolor() == "white"]
    assert [up(p) for p in hollow] == [[3.0], [2.5, 2.4]]  # none at 1e9; 3e8 is not forecast
    assert to_hex(hollow[1].get_markeredgecolor()) == COLOURS[2].lower()
    assert notes(ax)[0] == "1 of 4 measured losses are of other settings and not drawn"
    of_runs = plot_forecast(fan, Figure().subplots(), measured=read_runs(measured), fitted=False)
    measured.rename(columns={"N": "params", "D": "tokens"}).to_csv(tmp_path / "measured.csv", index=False)
    of_file = plot_forecast(fan, Figure().subplots(), measured=tmp_path / "measured.csv", fitted=False)
    assert notes(of_file)[0] == notes(ax)[0]
    assert [up(p) for p in points(of_runs)] == [up(p) for p in points(ax)]


def test_measured_losses_are_read_as_those_that_are_scored(fan: Forecast, ax: Axes, tmp_path: Path) -> None:
    """A frame was drawn as it was: without a column called N all its rows stood on the curve of one size."""
    measured = pd.DataFrame({"params": [1e9, 7e9], "tokens": [1e10, 1e10], "val_loss": [2.6, 2.2]})
    one = forecast(fan.members[0].fit, grid(fan.members[0].fit.law, {"N": 1e9, "D": "1e8:1e11:12"}))
    plot_forecast(one, ax, measured=measured, fitted=False)
    (hollow,) = [p for p in points(ax) if p.get_markerfacecolor() == "white"]
    assert up(hollow) == [2.6]
    assert "1 of 2 measured losses are of other settings and not drawn" in notes(ax)
    for losses in (measured.assign(unit="bits/token"), read_runs(measured.assign(unit="bits/token"))):
        with fails("another-unit", "bits/token", "nats/token"):
            plot_forecast(one, Figure().subplots(), measured=losses)


def test_measured_losses_outside_the_drawn_interval_are_crossed_out(fan: Forecast, ax: Axes) -> None:
    row = fan.summary().query("N == 1e9").iloc[[3, 5]]
    end = float(fan.settings["D"].max())
    low, high = row["run_eti90_lb"].to_numpy(), row["run_eti90_ub"].to_numpy()
    losses = [low[0] + 1e-6, high[0] + 1e-6, low[1] - 1e-6, 2.0]
    measured = pd.DataFrame({"N": 1e9, "D": [row["D"].iloc[0], row["D"].iloc[0], row["D"].iloc[1], 10 * end], "loss": losses})
    plot_forecast(fan, ax, measured=measured, fitted=False)
    crosses = [p for p in points(ax) if p.get_marker() == "x"]
    assert [up(p) for p in crosses] == [losses[1:3]]
    assert labels(ax)[-2:] == ["measured, inside the 90% interval: 1", "measured, outside: 2"]
    assert notes(ax)[:1] == ["1 measured loss beyond the ends of the curves: hollow, not counted"]


@pytest.mark.slow
def test_measured_losses_between_the_settings_of_a_coarse_grid_are_judged_at_their_own(fan: Forecast, ax: Axes) -> None:
    """A straight line between two settings is far above the law's curve."""
    fit, between = fan.members[0].fit, [3e8, 1e9, 3e9, 1e10]
    coarse = forecast(fit, grid(fit.law, {"N": "1e8,1e9", "D": "1e8,1e11"}))
    own = forecast(fit, grid(fit.law, {"N": 1e9, "D": between})).summary()
    losses = [*own["latent_median"][:3], own["run_eti90_ub"][3] + 0.1]
    plot_forecast(coarse, ax, x="D", measured=pd.DataFrame({"N": 1e9, "D": between, "loss": losses}), fitted=False)
    assert labels(ax)[-2:] == ["measured, inside the 90% interval: 3", "measured, outside: 1"]
    (cross,) = [p for p in points(ax) if p.get_marker() == "x"]
    assert up(cross) == losses[3:]
    curves = {str(line.get_label()): line for line in lines(ax)}
    assert np.asarray(curves["N = 1B"].get_xdata()).tolist() == [1e8, *between, 1e11]
    np.testing.assert_array_equal(np.asarray(curves["N = 1B"].get_ydata())[1:-1], own["latent_median"])
    assert np.asarray(curves["N = 100M"].get_xdata()).tolist() == [1e8, 1e11]


@pytest.mark.slow
def test_measured_outcomes_that_lack_what_changes_along_a_curve_are_not_judged_between_its_settings(ax: Axes) -> None:
    fit = outcome_fit("count")
    at = pd.DataFrame({"N": 1e9, "D": [1e9, 1e10, 1e11], "items": [100, 200, 400]})
    measured = pd.DataFrame({"N": 1e9, "D": [2e9, 1e10], "accuracy": [0.99, 0.99]})
    plot_forecast(fit.forecast(at, force=True), ax, x="D", measured=measured, fitted=False)
    assert "measured, outside: 1" in labels(ax)
    said = " ".join(notes(ax))
    assert "1 measured accuracy between settings, without all columns that change along a curve: hollow, not counted" in said


@pytest.mark.slow
def test_fitted_losses_are_points_at_their_settings_and_others_are_counted(fitted: Fit, ax: Axes) -> None:
    seen = fitted.observed.covariates
    n, far = float(seen["N"].max()), 10 * float(seen["N"].max())
    at = grid(fitted.law, {"N": f"{n},{far}", "D": f"{seen['D'].min()}:{seen['D'].max()}:5"})
    plot_forecast(fitted.forecast(at), ax)
    same = seen["N"] == n
    (own,) = points(ax)  # not again in grey as those nearest to the other curve
    assert sorted(up(own)) == sorted(fitted.observed.outcomes[same])
    assert labels(ax)[-1] == f"fitted losses: {same.sum()}"
    assert f"{(~same).sum()} of {same.size} fitted losses are of other settings and not drawn" in notes(ax)


@pytest.mark.slow
def test_base_checkpoints_that_a_law_can_not_describe_are_not_among_the_fitted_losses(fitted: Fit) -> None:
    table = oracles.table(fitted.law, runs=8)
    base = table.head(1).assign(D=0.0, loss=4.0, run="base")
    kept = fixed_fit(fitted.law, pd.concat([table, base]).reset_index(drop=True), fitted.draws, noise="normal")
    assert len(kept.observed.base) == 1
    rows = fitted_rows(kept.forecast({"N": 1e9, "D": 1e10}, force=True), ["N", "D"])
    assert len(rows) == len(table)


@pytest.mark.slow
def test_the_fitted_losses_nearest_to_a_curve_are_grey_and_named(fitted: Fit, ax: Axes) -> None:
    seen = fitted.observed.covariates
    n = float(seen["N"].max())
    plot_forecast(fitted.forecast(grid(fitted.law, {"N": 3 * n, "D": f"{seen['D'].min()}:{seen['D'].max()}:5"})), ax)
    (near,) = points(ax)
    assert sorted(up(near)) == sorted(fitted.observed.outcomes[seen["N"] == n])
    assert near.get_color() == "0.45"
    assert labels(ax)[-1] == f"fitted, nearest at N = {short_number(n)}: {np.size(near.get_ydata())}"


@pytest.mark.slow
def test_fitted_losses_far_from_the_curves_are_counted(fitted: Fit, ax: Axes) -> None:
    seen = fitted.observed.covariates
    n = float(seen["N"][0])
    beyond = 1e3 * float(seen["D"].max())
    plot_forecast(fitted.forecast(grid(fitted.law, {"N": n, "D": f"{beyond}:{11 * beyond}:5"})), ax)
    assert not points(ax)
    far = int((seen["N"] == n).sum())
    assert f"{far} fitted losses of these settings lie far outside the curves, or between those drawn" in notes(ax)


@pytest.mark.slow
def test_domains_and_noise_groups_have_lines_of_their_own(ax: Axes) -> None:
    fit, x = apart_fit(), np.linspace(-1, 1, 5)
    at = pd.DataFrame([{"x": v, "domain": d, "lab": lab} for v in x for d, lab in (("web", "b_1"), ("code", "a"), ("web", "a"))])
    predicted = forecast(fit, at)
    seen = pd.DataFrame({"domain": ["web", "code"] * 2, "lab": ["b_1", "a", "a", "b_1"], "loss": [1.0, 2, 3, 4]}).assign(x=0.5)
    plot_forecast(predicted, ax, measured=seen, x="x", fitted=False)
    assert labels(ax)[:3] == ["domain = web, lab = b_1", "domain = web, lab = a", "domain = code, lab = a"]
    table = predicted.summary()
    curves = [line for line in lines(ax) if line.get_linestyle() == "-"]
    for line, (domain, lab) in zip(curves, (("web", "b_1"), ("web", "a"), ("code", "a")), strict=True):
        own = table[(table["domain"] == domain) & (table["lab"] == lab)]
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_array_equal(line.get_ydata(), own["latent_median"])
    hollow = [p for p in points(ax) if p.get_markerfacecolor() == "white"]
    assert [up(p) for p in hollow] == [[1.0], [3.0], [2.0]]  # the last loss is of a setting that is not forecast
    with fails("missing-columns", "domain"):
        plot_forecast(predicted, ax, measured=seen.drop(columns="domain"), x="x")


# --- several forecasts on one axes -----------------------------------------------------------------------------------


def of_size(fit: Fit, n: float | str) -> Forecast:
    return forecast(fit, grid(fit.law, {"N": n, "D": "1e8:1e11:5"}))


def colours(ax: Axes) -> list[str]:
    return [to_hex(str(line.get_color())).upper() for line in lines(ax) if line.get_linestyle() != "None"]


def test_two_forecasts_on_one_axes_can_be_told_apart(fitted: Fit, ax: Axes) -> None:
    """Both lines had one colour and were called by their law, and the note of the first was lost."""
    plot_forecast(of_size(fitted, 1e9), ax, fitted=False)
    assert (labels(ax), "at N = 1B" in notes(ax)) == (["chinchilla"], True)
    plot_forecast(of_size(fitted, 2e9), ax, fitted=False)
    assert labels(ax) == ["chinchilla, N = 1B", "chinchilla, N = 2B"]
    assert colours(ax) == [*COLOURS[:2]]
    bands = [to_hex(np.asarray(c.get_facecolor())[0].tolist()).upper() for c in ax.collections]
    assert bands == [*COLOURS[:2]]
    assert [line.get_marker() for line in lines(ax)] == ["o", "s"]
    assert not [note for note in notes(ax) if note.startswith("at N")]
    plot_forecast(of_size(fitted, "2e9,4e9"), ax, fitted=False, label="larger")
    assert labels(ax)[2:] == ["larger, N = 2B", "larger, N = 4B"]
    assert colours(ax) == [*COLOURS[:4]]
    ax.clear()
    plot_forecast(of_size(fitted, 2e9), ax, fitted=False)
    assert (labels(ax), colours(ax)) == (["chinchilla"], [COLOURS[0]])


def test_forecasts_have_the_names_that_they_are_given(fitted: Fit, ax: Axes) -> None:
    plot_forecast(of_size(fitted, "1e9,2e9"), ax, fitted=False, label="old")
    assert labels(ax) == ["old, N = 1B", "old, N = 2B"]
    ax.clear()
    for n, name in ((1e9, "old"), (2e9, "new")):
        plot_forecast(of_size(fitted, n), ax, fitted=False, label=name)
    assert labels(ax) == ["old", "new"]
    assert {"old: at N = 1B", "new: at N = 2B"} <= {*notes(ax)}
    plot_forecast(of_size(fitted, 2e9), ax, fitted=False, label="new")
    assert labels(ax) == ["old", "new", "new (2)"]


def test_entries_that_several_forecasts_share_are_in_the_legend_once(fitted: Fit, ax: Axes) -> None:
    n = float(fitted.observed.covariates["N"].max())
    measured = pd.DataFrame({"N": n, "D": [1e10], "loss": [9.0]})
    for name in ("a", "b"):
        plot_forecast(of_size(fitted, n), ax, label=name, measured=measured)
    assert len({*labels(ax)}) == len(labels(ax))
    assert labels(ax).count("measured, outside: 1") == 1
    plot_forecast(of_size(fitted, n), ax, label="c")
    assert {"a: measured, outside: 1", "b: measured, outside: 1"} <= {*labels(ax)}


def test_forecasts_over_other_covariates_are_not_drawn_on_one_axes(fan: Forecast, fitted: Fit, ax: Axes) -> None:
    plot_forecast(of_size(fitted, 1e9), ax, fitted=False)
    with fails("other-axes", "over D", "over N"):
        plot_forecast(fan, ax, x="N", fitted=False)


def test_another_covariate_can_lie_on_the_axis(fan: Forecast, ax: Axes) -> None:
    plot_forecast(fan, ax, x="N", fitted=False)
    assert ax.get_xlabel() == "N (parameters)"
    assert len(lines(ax)) == MOST_LINES
    assert labels(ax)[0] == "D = 100M"
    assert labels(ax)[MOST_LINES - 1] == "D = 100B"  # lines are chosen evenly, with both ends
    assert labels(ax)[-1] == "… and 5 more settings not shown"


@pytest.mark.slow
def test_D_is_on_the_axis_where_it_varies(fan: Forecast, ax: Axes) -> None:
    assert forecast_axis(fan) == "D"
    fit = typical_fit("ptpp-floor", runs=12)
    shares = forecast(fit, grid(fit.law, {"N": 1e9, "D": 1e9, "r": "0.1:0.6:6", "ptpp": "15,31"}))
    assert forecast_axis(shares) == "r"
    assert plot_forecast(shares, ax, fitted=False).get_xscale() == "linear"
    assert labels(ax) == ["ptpp = 15", "ptpp = 31"]


def test_the_axis_is_the_covariate_of_the_fewest_curves(fitted: Fit) -> None:
    for sizes, tokens, axis in ((12, 3, "N"), (12, 12, "D"), (3, 12, "D"), (2, 2, "N")):
        at = grid(fitted.law, {"N": f"1e8:1e9:{sizes}", "D": f"1e9:1e10:{tokens}"})
        assert forecast_axis(forecast(fitted, at)) == axis


def test_covariates_that_change_together_are_no_axis() -> None:
    """Each curve over N would be a point, since parameters of the vocabulary change with N."""
    at = pd.DataFrame([{"N": n, "Nv": n / 4, "D": d} for n in (1e8, 2e8, 4e8, 8e8) for d in (1e9, 2e9, 4e9)])
    assert forecast_axis(forecast(typical_fit("vocabulary"), at, force=True)) == "D"


@pytest.mark.slow
def test_a_single_setting_shows_its_interval(fitted: Fit, ax: Axes) -> None:
    predicted = forecast(fitted, grid(fitted.law, {"N": 1e9, "D": 1e10}))
    plot_forecast(predicted, ax)
    row = predicted.summary().iloc[0]
    bars = [c for c in ax.collections if not isinstance(c, PolyCollection)]
    assert np.asarray(bars[0].get_paths()[0].vertices)[:, 1].tolist() == [row["run_eti90_lb"], row["run_eti90_ub"]]
    assert lines(ax)[0].get_marker() == "o"


@pytest.mark.slow
def test_a_single_setting_stands_over_compute_beside_all_fitted_losses(sound_fit: Fit, ax: Axes) -> None:
    """Over N it would stand alone: no run has had its D."""
    plot_forecast(forecast(sound_fit, {"N": 1e13, "D": 1e12}), ax)
    seen = sound_fit.observed
    (fitted,) = [p for p in points(ax) if p.get_color() == COLOURS[0]]
    np.testing.assert_allclose(sorted(np.asarray(fitted.get_xdata())), np.sort(6 * seen.covariates["N"] * seen.covariates["D"]))
    assert (ax.get_xlabel(), ax.get_xscale()) == ("compute (FLOPs)", "log")
    assert labels(ax)[-1] == f"fitted losses: {seen.response.size}"
    assert notes(ax) == ["interval: extrapolated", "at N = 10T, D = 1T", "fitted losses are of any N and D"]


def test_unknown_axes_and_incomplete_losses_are_refused(fan: Forecast, ax: Axes) -> None:
    with fails("unknown-covariate", "'r'", "chinchilla", "N, D"):
        plot_forecast(fan, ax, x="r")
    with fails("missing-columns", "N, loss"):
        plot_forecast(fan, ax, measured=pd.DataFrame({"D": [1e9]}))


@pytest.mark.slow
@pytest.mark.parametrize(("end", "width", "words"), [(3.0, 2.0, ["outside the runs"]), (1.1, 0.1, []), (1.0, 0.0, [])])
def test_the_ground_outside_the_runs_is_hatched_and_labelled_where_it_is_wide(
    ax: Axes, end: float, width: float, words: list[str]
) -> None:
    plot_forecast(line_fit().forecast(pd.DataFrame({"x": np.linspace(-1, end, 9)})), ax, x="x")
    spans = [(span.get_x(), span.get_width(), span.get_hatch()) for span in hatched(ax)]
    assert [(x, hatch) for x, _, hatch in spans] == ([(1.0, "//")] if width else [])
    assert sum(w for _, w, _ in spans) == pytest.approx(width)
    assert texts(ax) == words


def test_ground_that_is_narrow_beside_the_fitted_losses_has_no_label(sound_fit: Fit, ax: Axes) -> None:
    """A single setting beyond the runs was all of the axis when the label was placed, before the fitted losses were drawn."""
    largest = {name: float(values.max()) for name, values in sound_fit.observed.covariates.items()}
    plot_forecast(sound_fit.forecast({"N": 1.5 * largest["N"], "D": largest["D"]}), ax)
    assert len(hatched(ax)) == 1
    assert texts(ax) == []


def test_the_label_of_the_ground_outside_the_runs_stays_on_narrow_panels() -> None:
    figure = Figure(figsize=(3.25, 3.0))
    for ax in figure.subplots(1, 2):
        plot_forecast(line_fit().forecast(pd.DataFrame({"x": np.linspace(-1, 3.0, 9)})), ax, x="x")
        present(ax.get_legend()).remove()
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert texts(ax) == ["outside\nthe runs"]
        label, inside = ax.texts[0].get_window_extent(), ax.get_window_extent()
        assert inside.x0 <= label.x0 < label.x1 <= inside.x1


@pytest.mark.slow
def test_a_line_outside_the_runs_in_another_covariate_is_dashed(fitted: Fit, ax: Axes) -> None:
    seen = fitted.observed.covariates
    inside, outside = float(np.median(seen["N"])), 100 * float(seen["N"].max())
    at = pd.DataFrame([{"N": n, "D": d} for n in (inside, outside) for d in np.geomspace(seen["D"].min(), seen["D"].max(), 5)])
    plot_forecast(fitted.forecast(at), ax, fitted=False)
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--"]
    assert notes(ax) == ["dashed: outside the runs in another covariate"]


# --- compute on the axis ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compute_may_be_on_the_axis_with_a_curve_for_each_size(ax: Axes) -> None:
    fit = outcome_fit("count")
    at = grid(fit.law, {"N": "1e8,1e9", "D": "1e9:3e13:6", "items": 200})
    measured = table("count").query("N == 1e8")
    plot_forecast(fit.forecast(at, force=True), ax, x="compute", measured=measured)
    assert (ax.get_xlabel(), ax.get_xscale()) == ("compute (FLOPs)", "log")
    lines = {str(line.get_label()): line for line in ax.lines}
    through = np.unique([*at["D"], *measured["D"]])
    np.testing.assert_allclose(np.asarray(lines["N = 100M"].get_xdata()), 6e8 * through)
    np.testing.assert_allclose(np.asarray(lines["N = 1B"].get_xdata()), 6e9 * np.unique(at["D"]))
    assert {"fitted accuracies: 12", "chance"} <= {*lines}
    (hatched,) = [patch for patch in ax.patches if patch.get_hatch()]
    assert hatched.get_extents().transformed(ax.transData.inverted()).x0 == pytest.approx(6 * 1e10 * 3e11)


@pytest.mark.slow
def test_sizes_and_tokens_that_grow_together_are_one_curve_over_compute(ax: Axes) -> None:
    fit = outcome_fit("count")
    size = np.array([1e8, 1e9, 1e10])
    at = pd.DataFrame({"N": size, "D": 20 * size, "items": 200})
    measured = pd.DataFrame({"N": [1e9, 1e7], "D": [2e10, 2e12], "items": 200, "accuracy": 0.6})
    plot_forecast(fit.forecast(at, force=True), ax, x="compute", measured=measured)
    curve = next(line for line in ax.lines if line.get_label() == "count-law")
    np.testing.assert_allclose(np.asarray(curve.get_xdata()), 120 * size**2)
    said = " ".join(notes(ax))
    assert "1 of 2 measured accuracies are of another N" in said
    assert "fitted accuracies are of any N and D" in said


@pytest.mark.slow
def test_compute_needs_size_and_tokens(ax: Axes) -> None:
    with fails("unknown-covariate", "'compute'"):
        plot_forecast(line_fit().forecast(pd.DataFrame({"x": [0.0, 1.0]})), ax, x="compute")


# --- chance ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_chance_is_one_line_where_it_is_the_same_and_else_one_for_each_curve(ax: Axes) -> None:
    text = card("count").replace("chance = 0.25", 'chance = "guess"').replace("0.25 + 0.7", "guess + 0.7")
    law = parse_card(text.replace("items = {", 'guess = { unit = "share", support = [0, 0.9] }\nitems = {'))
    drawn = {name: outcome_fit("count").draws[name] for name in ("k", "c", "sigma_point")}
    fit = fixed_fit(law, table("count").assign(guess=0.25), drawn)
    one = grid(law, {"N": 1e9, "D": "1e9:1e11:4", "items": 200, "guess": 0.25})
    plot_forecast(fit.forecast(one, force=True), ax)
    (line,) = [line for line in ax.lines if line.get_label() == "chance"]
    assert np.unique(line.get_ydata()).tolist() == [0.25]
    two = Figure().subplots()
    plot_forecast(fit.forecast(grid(law, {"N": 1e9, "D": "1e9:1e11:4", "items": 200, "guess": "0.1,0.25"}), force=True), two)
    assert {"guess = 0.1", "guess = 0.25", "chance"} <= {str(line.get_label()) for line in two.lines}
    along = [np.asarray(line.get_ydata()) for line in two.lines]
    assert sorted(float(y[0]) for y in along if y.size == 4 and np.ptp(y) == 0) == [0.1, 0.25]
