"""LaTeX tables: every parameter with its interval to two significant figures, and any text escaped."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from bayeslaw.core.html import table
from bayeslaw.laws.formula import latex_text
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.html import MOST_ROWS
from bayeslaw.reporting.latex import parameters_latex, tabular, uncertain
from tests.fixed import apart_fit, line_fit, typical_fit


def rows_of(latex: str) -> list[list[str]]:
    """The cells of each row of a table, its head first."""
    lines = [line for line in latex.splitlines() if line.endswith(r" \\") and not line.startswith(r"\multicolumn")]
    return [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in lines]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((1.69, 1.579, 1.811), r"$1.69^{+0.12}_{-0.11}$"),
        ((146.2, 88.76, 280.2), r"$146^{+134}_{-57}$"),
        ((91234.0, 90134.0, 92468.0), r"$91200^{+1200}_{-1100}$"),
        ((8.1e9, 8.0e9, 8.22e9), r"$(8.10^{+0.12}_{-0.10}) \times 10^{9}$"),
        ((2.0e-5, 1.9e-5, 2.2e-5), r"$(2.00^{+0.20}_{-0.10}) \times 10^{-5}$"),
        ((-0.288, -0.63, -0.142), r"$-0.29^{+0.15}_{-0.34}$"),
        ((2.0, 2.0, 2.0), r"$2.0000^{+0.0000}_{-0.0000}$"),
    ],
)
def test_values_have_two_figures_of_their_uncertainty(numbers: tuple[float, float, float], text: str) -> None:
    assert uncertain(*numbers) == text


@pytest.mark.parametrize("prob", [0.9, 0.5])
def test_every_parameter_stands_with_its_interval(prob: float) -> None:
    fit = line_fit(size=400)
    summary = fit.summary(prob)
    head, *rows = rows_of(parameters_latex(fit, prob))
    assert head == ["parameter", "meaning", "unit", "median", rf"{prob * 100:g}\% equal-tailed interval"]
    assert [symbol for symbol, *_ in rows][:3] == ["$a$", "$b$", "$c$"]
    for (_, numbers), (_, _, _, median, interval) in zip(summary.iterrows(), rows, strict=True):
        expected = [numbers["median"], numbers[f"eti{prob * 100:g}_lb"], numbers[f"eti{prob * 100:g}_ub"]]
        width = min(expected[2] - expected[0], expected[0] - expected[1])
        figures = 1 - math.floor(math.log10(float(f"{width:.2g}"))) if width > 0 else 4
        assert len(median.strip("$").partition(".")[2]) == figures  # two figures of the smaller distance to an end
        assert [float(v) for v in re.findall(r"-?[\d.]+", median + interval)] == pytest.approx(expected, abs=0.51 * 10**-figures)


def test_large_parameters_have_two_figures_of_their_uncertainty_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = line_fit(size=400)
    summary = fit.summary()
    summary.loc["b", ["median", "eti90_lb", "eti90_ub"]] = [5064.1, 3663.9, 6904.4]
    monkeypatch.setattr(Fit, "summary", lambda *_: summary)
    (row,) = (row for row in rows_of(parameters_latex(fit)) if row[0] == "$b$")
    assert row[3:] == ["$5100$", "$[3700, 6900]$"]
    summary.loc["b", ["median", "eti90_lb", "eti90_ub"]] = [300.0, 64.6, 2431.0]  # the half width is 1,200, by which 64.6 is 100
    (row,) = (row for row in rows_of(parameters_latex(fit)) if row[0] == "$b$")
    assert row[3:] == ["$300$", "$[60, 2430]$"]


def test_parameters_have_their_units() -> None:
    fit = typical_fit("chinchilla", size=400)
    units = {row[0]: row[2] for row in rows_of(parameters_latex(fit))}
    assert (units["$E$"], units["$A$"]) == ("nats/token", r"nats/token x parameters\textasciicircum{}alpha")
    assert units[r"$\alpha$"] == units[r"$\sigma_\mathrm{point}$"] == ""


@pytest.mark.slow
def test_intervals_of_a_failed_fit_are_marked() -> None:
    latex = parameters_latex(apart_fit(passed=False))
    assert latex.count(r"]^{\dagger}$") == len(rows_of(latex)) - 1
    assert latex.count("dagger") == len(rows_of(latex))  # and the note
    assert "dagger" not in parameters_latex(apart_fit())


def test_meanings_keep_their_special_characters() -> None:
    fit = line_fit(size=400)
    parameter = replace(fit.law.parameters["a"], meaning=r"50% of $ & #1 in {x}^2 ~ a_b \ c")
    law = replace(fit.law, parameters={**fit.law.parameters, "a": parameter})
    row = rows_of(parameters_latex(replace(fit, law=law)))[1]
    assert " & ".join(row[1:-3]) == r"50\% of \$ \& \#1 in \{x\}\textasciicircum{}2 \textasciitilde{} a\_b \textbackslash{} c"


def test_groups_of_noise_have_names_of_their_own() -> None:
    rows = [row[:2] for row in rows_of(parameters_latex(apart_fit(labs=("a", "50% & b_1")))) if "sigma" in row[0]]
    assert rows[2][0] == r"$\sigma_\mathrm{point}^{(\text{50\% \& b\_1})}$"
    assert rows[2][1].endswith(r": lab 50\% \& b\_1")


def test_cells_escape_special_characters() -> None:
    shown = {"columns": ["run_name", "x"], "shown": ["run_name", "x"], "rows": [["50%_$#&{}~^\\ <α>≤", None]]}
    expected = r"50\%\_\$\#\&\{\}\textasciitilde{}\textasciicircum{}\textbackslash{} \textless{}$\alpha$\textgreater{}$\leq$"
    assert rows_of(tabular(shown)) == [["run name", "x"], [expected, "-"]]
    assert latex_text("日") == "[U+65E5]"


def test_a_median_and_its_interval_share_a_column() -> None:
    columns = ["N", "run_median", "run_eti90_lb", "run_eti90_ub", "width_eti90_lb", "width_eti90_ub", "checks"]
    rows = [[8.1e9, 2.0, 1.9, 2.2, 0.1, 0.2, "passed"], [1e8, None, 1.0, 2.0, None, 1.0, "FAILED (forced)"]]
    head, *lines = rows_of(tabular({"columns": columns, "shown": columns, "rows": rows}, ("checks",)))
    assert head == ["N", r"run median, run 90\% equal-tailed interval", r"width 90\% equal-tailed interval"]
    mark = r"$^{\dagger}$"
    own = ["forecast_checks" if name == "checks" else name for name in columns]  # where the settings have a column `checks`
    assert rows_of(tabular({"columns": own, "shown": own, "rows": rows}, ("forecast_checks",)))[1:] == lines
    assert lines[0] == [r"$8.1 \times 10^{9}$", rf"$2.00^{{+0.20}}_{{-0.10}}${mark}", f"[$0.1$, $0.2$]{mark}"]
    assert lines[1][1:] == [f"[$1$, $2$]{mark}", f"[-, $1$]{mark}"]


def test_of_many_parameters_the_first_are_shown() -> None:
    many = pd.DataFrame({"parameter": [f"E_{i}" for i in range(MOST_ROWS + 7)], "median": 1.0, "eti90_lb": 0.9, "eti90_ub": 1.2})
    text = tabular(table("parameters", many.assign(latex="E"), ["latex"]), symbols=True)
    assert len(rows_of(text)) == 1 + MOST_ROWS
    assert "7 more rows are in the JSON file." in text
