"""Tables as text, files written whole, and what is in the pictures."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import check_target, write_text, write_whole
from bayeslaw.core.text import plain, significant
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.noise.noise import MEANING
from bayeslaw.plots.forecast import forecast_axis, plot_forecast
from bayeslaw.plots.style import COLOURS, MOST_LINES, save_figure
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.latex import parameters_latex
from tests.fixed import apart_fit

# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (3.0, "3"), (-7.0, "-7"), (123456.0, "123456"), (1234.5678, "1235"), (12.345678, "12.35"),
        (0.123456, "0.1235"), (-0.00123456, "-0.001235"), (0.0001, "0.0001000"), (0.99996, "1.000"), (999.96, "1000"),
        (9.99996e-5, "1.000e-04"), (1e7, "1.000e+07"), (8.1e9, "8.100e+09"), (-1.23456e-5, "-1.235e-05"), (math.nan, "-"),
        (math.inf, "inf"), (-math.inf, "-inf"),
    ],
)  # fmt: skip
def test_significant(value: float, text: str) -> None:
    assert significant(value) == text


def test_significant_figures_can_be_chosen() -> None:
    assert [significant(math.pi, digits) for digits in (1, 2, 6)] == ["3", "3.1", "3.14159"]
    assert significant(8.123e9, 2) == "8.1e+09"


def test_four_figures_are_kept(rng: np.random.Generator) -> None:
    for value in np.exp(rng.uniform(-30, 30, 500)) * rng.choice([-1, 1], 500):
        assert float(significant(float(value))) == pytest.approx(value, rel=5.001e-4)


def test_plain_tables() -> None:
    table = pd.DataFrame({"N": [1e9, 5e8], "median": [2.34567, np.nan], "checks": ["passed", "FAILED (forced)"]})
    lines = plain(table).splitlines()
    assert [re.split(r"\s{2,}|\s(?=[-\d])", line.strip()) for line in lines[1:]] == [
        ["1.000e+09", "2.346", "passed"],
        ["5.000e+08", "- FAILED (forced)"],
    ]
    assert lines[0].split() == ["N", "median", "checks"]
    named = plain(table.set_index(pd.Index(["one", "two"], name="row")))
    assert named.splitlines()[2].startswith("one")


@pytest.mark.parametrize("prob", [0.9, 0.5])
def test_latex_has_every_parameter_with_its_interval(sound_fit: Fit, prob: float) -> None:
    lines = parameters_latex(sound_fit, prob).splitlines()
    summary = sound_fit.summary(prob)
    assert lines[0] == r"\begin{tabular}{llrr}"
    assert lines[-1] == r"\end{tabular}"
    assert lines[2] == rf" & & median & {prob * 100:g}\% equal-tailed interval \\"
    rows = lines[4:-2]
    assert len(rows) == len(summary)
    low, high = f"eti{prob * 100:g}_lo", f"eti{prob * 100:g}_hi"
    for (name, numbers), row in zip(summary.iterrows(), rows, strict=True):
        symbol, meaning, median, interval = row.removesuffix(r" \\").split(" & ")
        parameter = sound_fit.law.parameters.get(str(name))
        assert (symbol, meaning) == (
            (f"${parameter.latex}$", parameter.meaning) if parameter else (f"${MEANING[str(name)][1]}$", MEANING[str(name)][0])
        )
        width = float(numbers[high] - numbers[low]) / 2
        found = [float(v) for v in re.findall(r"-?[\d.]+", median + interval)]
        assert found == pytest.approx([numbers["median"], numbers[low], numbers[high]], abs=max(0.05 * width, 0.51))
        if width < 1:  # two figures of the half width
            assert found == pytest.approx([numbers["median"], numbers[low], numbers[high]], abs=0.051 * width)
            assert len(median.strip("$").partition(".")[2]) == 1 - math.floor(math.log10(width))


def test_latex_of_meanings_with_special_characters(sound_fit: Fit) -> None:
    parameter = replace(sound_fit.law.parameters["E"], meaning=r"50% of $ & #1 in {x}^2 ~ a_b \ c")
    law = replace(sound_fit.law, parameters={**sound_fit.law.parameters, "E": parameter})
    row = next(line for line in parameters_latex(replace(sound_fit, law=law)).splitlines() if line.startswith("$E$"))
    expected = r"50\% of \$ \& \#1 in \{x\}\textasciicircum{}2 \textasciitilde{} a\_b \textbackslash{} c"
    assert row.split(" & ")[1].startswith(expected.split(" & ")[0])
    assert expected in row
    assert len(re.findall(r"(?<!\\)&", row)) == 3


def test_latex_tells_groups_of_noise_apart() -> None:
    rows = [line.split(" & ")[:2] for line in parameters_latex(apart_fit(labs=("a", "50% & b_1"))).splitlines() if "sigma" in line]
    words = "relative noise of one logged loss"
    assert rows[1:3] == [
        [r"$\sigma_\mathrm{point}^{(\text{a})}$", f"{words}: lab a"],
        [r"$\sigma_\mathrm{point}^{(\text{50\% \& b\_1})}$", rf"{words}: lab 50\% \& b\_1"],
    ]


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("midway"), OSError("disk full")])
def test_an_older_file_stays_whole_where_the_writer_fails(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "out.csv"
    path.write_text("older", encoding="utf-8")

    def write(temporary: Path) -> None:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".csv"
        temporary.write_text("half of the n", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "older"
        raise failure

    expected = BayeslawError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected) as caught:
        write_whole(path, write)
    if isinstance(failure, OSError):
        assert str(caught.value) == f"{path} can't be written: disk full."
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text(encoding="utf-8") == "older"


def test_a_written_file_replaces_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    for text in ("older", "newer: 0.9 ± 0.1\n"):
        write_text(path, text)
        assert path.read_bytes() == text.encode()
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_the_older_file_is_renamed_over_and_never_written_into(tmp_path: Path) -> None:
    """Who has it open goes on reading the older text."""
    path = tmp_path / "out.csv"
    write_text(path, "older")
    with path.open(encoding="utf-8") as older:
        write_text(path, "newer")
        assert older.read() == "older"


def test_a_file_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(BayeslawError) as caught:
        write_text(tmp_path / "none" / "out.csv", "text")
    assert str(caught.value) == f"There is no folder {tmp_path / 'none'} to write out.csv into."


def test_targets_are_checked_beforehand(tmp_path: Path) -> None:
    (tmp_path / "taken.csv").mkdir()
    check_target(tmp_path / "new.CSV", "A forecast", ".csv")
    for name, text in (
        ("new.nc", "A forecast is written to a file ending in .csv, not new.nc."),
        ("new", "A forecast is written to a file ending in .csv, not new."),
        ("none/new.csv", f"There is no folder {tmp_path / 'none'} to write new.csv into."),
        ("taken.csv", f"{tmp_path / 'taken.csv'} is a folder, not a file to write a forecast to."),
    ):
        with pytest.raises(BayeslawError) as caught:
            check_target(tmp_path / name, "A forecast", ".csv")
        assert str(caught.value) == text


# --- pictures -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


@pytest.fixture
def fan(sound_fit: Fit) -> Forecast:
    """Twelve values of D at each of three N."""
    return forecast(sound_fit, grid(sound_fit.law, {"N": "1e8,1e9,8.1e9", "D": "1e8:1e11:12"}))


def lines(ax: Axes) -> list[Any]:
    return [line for line in ax.get_lines() if np.size(line.get_xdata())]


def labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def bands(ax: Axes) -> list[PolyCollection]:
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


@pytest.mark.parametrize("prob", [0.9, 0.5])
def test_a_line_and_a_band_for_each_setting(fan: Forecast, ax: Axes, prob: float) -> None:
    assert plot_forecast(fan, ax, ci_prob=prob) is ax
    table, name = fan.summary(prob), f"run_eti{prob * 100:g}"
    assert len(lines(ax)) == len(bands(ax)) == 3
    for i, (n, group) in enumerate(table.groupby("N")):
        line, band = lines(ax)[i], bands(ax)[i]
        np.testing.assert_array_equal(line.get_xdata(), group["D"])
        np.testing.assert_array_equal(line.get_ydata(), group["latent_median"])
        corners = np.asarray(band.get_paths()[0].vertices)
        assert {(x, y) for x, y in corners.tolist()} == {
            (d, v) for end in ("lo", "hi") for d, v in zip(group["D"], group[f"{name}_{end}"], strict=True)
        }
        assert to_hex(line.get_color()) == to_hex(np.asarray(band.get_facecolor())[0].tolist()) == COLOURS[i].lower()
        assert line.get_label() == {1e8: "N = 100M", 1e9: "N = 1B", 8.1e9: "N = 8.1B"}[float(str(n))]


def test_axes_are_labelled(fan: Forecast, ax: Axes) -> None:
    plot_forecast(fan, ax, unit="training tokens", ci_prob=0.95)
    assert ax.get_xlabel() == "D (training tokens)"
    assert ax.get_ylabel() == "loss (nats/token)"
    assert ax.get_title() == "chinchilla: latent median, 95% equal-tailed interval of the next run"
    assert ax.get_xscale() == "log"
    assert labels(ax) == ["N = 100M", "N = 1B", "N = 8.1B"]


def test_nearly_all_is_not_100_percent(fan: Forecast, ax: Axes) -> None:
    assert "99.9% equal-tailed" in plot_forecast(fan, ax, ci_prob=0.999).get_title()


def test_forced_forecasts_are_marked(small_fit: Fit, ax: Axes) -> None:
    forced = forecast(small_fit, grid(small_fit.law, {"N": 1e9, "D": "1e8:1e10:5"}), force=True)
    assert plot_forecast(forced, ax).get_title().endswith("CHECKS FAILED")
    assert lines(ax)[0].get_label() == "chinchilla"  # one fan goes by the law


def test_measured_losses_are_points_of_their_settings(fan: Forecast, ax: Axes) -> None:
    measured = pd.DataFrame({"N": [1e8, 8.1e9, 8.1e9, 3e8], "D": [1e9, 1e9, 1e10, 1e9], "loss": [3.0, 2.5, 2.4, 2.9]})
    plot_forecast(fan, ax, measured=measured)
    points = [line for line in lines(ax) if line.get_linestyle() == "None"]
    assert [p.get_ydata().tolist() for p in points] == [[3.0], [2.5, 2.4]]  # none at 1e9; 3e8 is not forecast
    assert to_hex(points[1].get_markeredgecolor()) == COLOURS[2].lower()


def test_fans_are_told_apart_by_columns_of_text(ax: Axes) -> None:
    """Those by which parameters vary, and that of the noise's groups: a column of each has two values here."""
    fit, x = apart_fit(), np.linspace(-1, 1, 5)
    at = pd.DataFrame([{"x": v, "domain": d, "lab": lab} for v in x for d, lab in (("web", "b_1"), ("code", "a"), ("web", "a"))])
    made = forecast(fit, at)
    seen = pd.DataFrame({"domain": ["web", "code"] * 2, "lab": ["b_1", "a", "a", "b_1"], "loss": [1.0, 2, 3, 4]}).assign(x=0.5)
    plot_forecast(made, ax, measured=seen, x="x")
    assert labels(ax) == ["domain = code, lab = a", "domain = web, lab = a", "domain = web, lab = b_1"]
    table = made.summary()
    curves = [line for line in lines(ax) if line.get_linestyle() == "-"]
    for line, (domain, lab) in zip(curves, (("code", "a"), ("web", "a"), ("web", "b_1")), strict=True):
        own = table[(table["domain"] == domain) & (table["lab"] == lab)]
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_array_equal(line.get_ydata(), own["latent_median"])
    points = [line.get_ydata().tolist() for line in lines(ax) if line.get_linestyle() == "None"]
    assert points == [[2.0], [3.0], [1.0]]
    with pytest.raises(BayeslawError, match="The measured losses lack domain"):
        plot_forecast(made, ax, measured=seen.drop(columns="domain"), x="x")


def test_losses_of_another_domain_are_not_drawn(ax: Axes) -> None:
    made = forecast(apart_fit(), pd.DataFrame({"x": [-1.0, 0.0, 1.0], "domain": "web", "lab": "a"}))
    seen = pd.DataFrame({"x": 0.5, "domain": ["web", "code"], "lab": "a", "loss": [3.0, 2.0]})
    plot_forecast(made, ax, measured=seen, x="x")
    assert [line.get_ydata().tolist() for line in lines(ax) if line.get_linestyle() == "None"] == [[3.0]]
    assert labels(ax) == ["domain = web, lab = a"]


def test_another_covariate_can_lie_on_the_axis(fan: Forecast, ax: Axes) -> None:
    plot_forecast(fan, ax, x="N")
    assert ax.get_xlabel() == "N"
    assert len(lines(ax)) == MOST_LINES
    assert labels(ax)[-1] == "… and 5 more settings not shown"


def test_the_axis_is_D_where_it_varies(fan: Forecast, ptpp_fit: Fit, ax: Axes) -> None:
    assert forecast_axis(fan) == "D"
    shares = forecast(ptpp_fit, grid(ptpp_fit.law, {"N": 1e9, "D": 1e9, "r": "0.1:0.6:6", "ptpp": "15,31"}))
    assert forecast_axis(shares) == "r"
    assert plot_forecast(shares, ax).get_xscale() == "linear"
    assert labels(ax) == ["ptpp = 15", "ptpp = 31"]


def test_a_single_setting_shows_its_interval(sound_fit: Fit, ax: Axes) -> None:
    made = forecast(sound_fit, grid(sound_fit.law, {"N": 1e9, "D": 1e10}))
    plot_forecast(made, ax)
    row = made.summary().iloc[0]
    bars = [c for c in ax.collections if not isinstance(c, PolyCollection)]
    assert np.asarray(bars[0].get_paths()[0].vertices)[:, 1].tolist() == [row["run_eti90_lo"], row["run_eti90_hi"]]
    assert lines(ax)[0].get_marker() == "o"


def test_what_cannot_be_drawn_is_refused(fan: Forecast, ax: Axes) -> None:
    with pytest.raises(BayeslawError, match="'r' is no covariate of chinchilla; those are N, D"):
        plot_forecast(fan, ax, x="r")
    with pytest.raises(BayeslawError, match="The measured losses lack N, loss"):
        plot_forecast(fan, ax, measured=pd.DataFrame({"D": [1e9]}))
    with pytest.raises(BayeslawError, match="lies between 0 and 1"):
        plot_forecast(fan, ax, ci_prob=90)


def test_legends_have_short_numbers(sound_fit: Fit, ax: Axes) -> None:
    sizes = [13_800, 999.9e6, 1.5e12]
    plot_forecast(forecast(sound_fit, grid(sound_fit.law, {"N": sizes, "D": "1e8:1e10:3"})), ax)
    assert labels(ax) == ["N = 13.8k", "N = 1B", "N = 1.5T"]


@pytest.mark.parametrize("name", ["a.gif", "a.csv", "a"])
def test_pictures_of_other_kinds_are_refused(tmp_path: Path, name: str) -> None:
    drawn: list[Axes] = []
    with pytest.raises(BayeslawError) as caught:
        save_figure(tmp_path / name, drawn.append)
    assert str(caught.value) == f"A picture is written to a file ending in .png or .pdf or .svg, not {name}."
    assert not drawn
    assert not list(tmp_path.iterdir())


def test_no_window_and_no_global_figure_is_made(tmp_path: Path, fan: Forecast, monkeypatch: pytest.MonkeyPatch) -> None:
    def used(*_: object, **__: object) -> None:
        raise AssertionError("pyplot was used")

    before, backend = plt.get_fignums(), plt.get_backend()
    for name in ("figure", "subplots", "gcf", "gca", "show", "switch_backend", "savefig"):
        monkeypatch.setattr(plt, name, used)
    save_figure(tmp_path / "fan.PNG", lambda ax: plot_forecast(fan, ax))
    assert (tmp_path / "fan.PNG").read_bytes().startswith(b"\x89PNG")
    assert plt.get_fignums() == before
    assert plt.get_backend() == backend


def test_a_drawing_that_fails_leaves_the_older_picture(tmp_path: Path) -> None:
    path = tmp_path / "fan.png"
    path.write_bytes(b"older")

    def draw(ax: Axes) -> None:
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        save_figure(path, draw)
    assert path.read_bytes() == b"older"
    assert len(list(tmp_path.iterdir())) == 1
