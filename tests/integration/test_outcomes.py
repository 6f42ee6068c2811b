"""Fits of outcomes other than losses, from the command line to pictures and reports: their words, units and bounds."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import bayeslaw
from bayeslaw.data.table import read_runs
from bayeslaw.evaluation.predictive import predictive_check
from bayeslaw.forecasting.member_draws import add_error
from bayeslaw.noise.walk import OF_LOGITS
from bayeslaw.plots.forecast import plot_forecast
from bayeslaw.plots.predictive import plot_loo_pit, plot_predictive
from bayeslaw.reporting import latex
from bayeslaw.reporting.figures import Picture
from bayeslaw.reporting.report import Report, report
from tests.commands import Command, rejected
from tests.outcomes import NAMES, PLURALS, card, outcome_fit, table

KINDS = ["count", "bounded", "real"]
FAST = ("--draws", "150", "--tune", "150", "--chains", "2", "-q")
LOSS = re.compile(r"\bloss(es)?\b", re.IGNORECASE)
BOUNDS = {"count": (0.0, 1.0), "bounded": (0.0, 100.0), "real": (-np.inf, np.inf), "positive": (0.0, np.inf)}


def at(kind: str, *, beyond: bool = True) -> pd.DataFrame:
    """Settings along tokens for two sizes, far beyond the runs."""
    frame = pd.DataFrame([{"N": n, "D": d} for n in (1e8, 1e12) for d in np.geomspace(1e8, 1e14 if beyond else 1e11, 7)])
    return frame.assign(items=20) if kind == "count" else frame


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A card, a table, the rows beyond those of a fit, settings, and a fit with given draws."""
    monkeypatch.chdir(tmp_path)
    frame = table(kind)
    Path("law.toml").write_text(card(kind), encoding="utf-8")
    frame.to_csv("all.csv", index=False)
    frame.assign(run="new " + frame["run"], D=1.5 * frame["D"]).tail(4).to_csv("new.csv", index=False)
    at(kind).to_csv("at.csv", index=False)
    outcome_fit(kind).save("fixed.nc")
    return tmp_path


@pytest.mark.usefixtures("files")
def test_commands_speak_of_the_outcome(command: Command, kind: str) -> None:
    """Each command is of use, and its text names the outcome and no loss."""
    name, plural = NAMES[kind], PLURALS[kind]
    unit = outcome_fit(kind).unit
    said = {
        "laws": command("laws", "law.toml"), "check": command("check", "all.csv", "--law", "law.toml"),
        "fit": command("fit", "law.toml", "all.csv", "-o", "fit.nc", *FAST), "show": command("show", "fixed.nc", "--force"),
        "forecast": command("forecast", "fixed.nc", "--at", "at.csv", "--force", "--plot", "f.png", "--measured", "new.csv"),
        "score": command("score", "fixed.nc", "new.csv", "--force"),
        "all": command("score", "fixed.nc", "new.csv", "--force", "--all"),
        "update": command("update", "fixed.nc", "new.csv", "-o", "new.nc", "--targets", "at.csv", "--force", "-q"),
    }  # fmt: skip
    for words, done in said.items():
        assert done.status in (0, 3), (words, done)
        assert not LOSS.search(done.out), (words, done.out)
    over = ("forecast", "fixed.nc", "--at", "at.csv", "--force", "--x", "compute")
    assert command(*over, "--plot", "x.png").status in (0, 3)
    rejected(command(*over), "axis-without-plot", "--plot")
    rejected(command(*over[:-1], "flops", "--plot", "y.png"), "unknown-covariate", "flops")
    assert f"{name} = " in said["laws"].out
    assert f"4 {plural} of 4 runs" in said["score"].out
    assert f"{plural} in their 90% intervals" in said["score"].out
    assert f"{unit} (mean error" in said["score"].out
    assert f"share of {plural} inside the 90% interval" in said["all"].out
    assert "mae" in said["all"].out
    assert "mae_rel" not in said["all"].out
    assert Path("f.png").is_file()
    assert name in said["update"].out.splitlines()[0].split()


@pytest.mark.usefixtures("files")
def test_scores_as_json_have_the_outcome_in_its_column(command: Command, kind: str) -> None:
    done = command("score", "fixed.nc", "new.csv", "--force", "--json")
    runs = json.loads(done.out)["results"]["runs"]
    assert {NAMES[kind], "predicted", "error"} <= {*runs[0]}
    assert all(row["error"] == pytest.approx(row["predicted"] - row[NAMES[kind]]) for row in runs)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("kind", ["count"], indirect=True)
def test_backtests_and_comparisons_speak_of_the_outcome(command: Command) -> None:
    Path("other.toml").write_text(card("count").replace('"count-law"', '"other"').replace("0.7 *", "0.6 *"), encoding="utf-8")
    tested = command("backtest", "all.csv", "--law", "law.toml", "--cuts", "1", "--plot", "b.png", "--force", *FAST)
    compared = command(
        "compare",
        "all.csv",
        "--law",
        "law.toml",
        "--law",
        "other.toml",
        "--holdout",
        "D > 2e11",
        "--plot",
        "c.png",
        "--force",
        *FAST,
    )
    chosen = command(
        "compare", "all.csv", "--law", "law.toml", "--law", "other.toml", "--at", "N=1e10,D=1e12,items=100", "--plot", "d.png",
        "--force", *FAST,
    )  # fmt: skip
    for done in (tested, compared, chosen):
        assert done.status in (0, 3), done
        assert not LOSS.search(done.out), done.out
    assert "accuracies; errors there were 0." in tested.out
    for done in (tested, compared):
        assert "mae" in done.out
        assert "mae_rel" not in done.out
        assert "share of accuracies inside" in done.out
    assert "relative CRPS" not in chosen.out
    assert "CRPS of forecasts beyond cuts" in chosen.out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("kind", ["count"], indirect=True)
def test_accuracies_in_percent_are_read_by_every_command(command: Command) -> None:
    for file in ("all.csv", "new.csv"):
        frame = pd.read_csv(file)
        frame.rename(columns={"accuracy": "acc"}).assign(acc=100 * frame["accuracy"]).to_csv(f"percent-{file}", index=False)
    percent = ("--column", "accuracy=acc:%")
    assert command("check", "percent-all.csv", "--law", "law.toml", *percent).status == 0
    assert command("fit", "law.toml", "percent-all.csv", "-o", "percent.nc", *percent, *FAST).status in (0, 3)
    fit = bayeslaw.load_fit("percent.nc")
    assert isinstance(fit, bayeslaw.Fit)
    observed = fit.observed
    np.testing.assert_allclose(observed.outcomes, table("count")["accuracy"].to_numpy()[observed.rows - 1], atol=1e-12)
    plain, scaled = (
        command("score", "fixed.nc", *words, "--force", "--json").out
        for words in (("new.csv",), ("percent-new.csv", *percent))
    )  # fmt: skip
    first, second = (json.loads(text)["results"]["scores"][0] for text in (plain, scaled))
    assert first["mae"] == pytest.approx(second["mae"])
    measured = ("--measured", "percent-new.csv", *percent)
    assert command("forecast", "fixed.nc", "--at", "at.csv", *measured, "--plot", "p.png", "--force").status in (0, 3)
    rejected(command("score", "fixed.nc", "percent-new.csv", "--column", "accuracy=acc", "--force"), "percent", "accuracy=acc:%")


# --- bounds and words of what is shown -------------------------------------------------------------------------------


def test_forecasts_and_their_tables_stay_within_the_bounds(kind: str) -> None:
    fit = outcome_fit(kind, items=10) if kind == "count" else outcome_fit(kind)
    low, high = BOUNDS[kind]
    predicted = fit.forecast(at(kind), force=True)
    shown = predicted.summary().filter(regex="median|eti").to_numpy()
    assert ((shown >= low) & (shown <= high)).all()
    for draws in predicted.draws.data_vars.values():
        assert ((draws >= low) & (draws <= high)).all()
    stated = fit.forecast(at(kind), force=True, discrepancy=0.5).summary().filter(regex="median|eti").to_numpy()
    assert ((stated >= low) & (stated <= high)).all()


@pytest.mark.parametrize("between", ["count", "bounded"])
def test_outcomes_between_bounds_have_the_error_of_accuracies_beyond_the_runs(between: str) -> None:
    fit, fitted = outcome_fit(between), table(between)
    asked = replace(fit, info={**fit.info, "discrepancy": {"asked": "learned", "learned": False, "reason": "bounds"}})
    beyond = fitted.tail(1).assign(D=fitted["D"].max() * np.exp([1.0]))
    found, low, high = asked.forecast(beyond, force=True), *BOUNDS[between]
    assert found.summary()["headline"].tolist() == ["extrapolated"]
    assert "exact_law" not in {check.name for check in found.checks}
    latent = [np.clip((f.draws["latent"].values - low) / (high - low), 1e-9, 1 - 1e-9) for f in (found.with_errors, found)]
    logits = [np.log(share / (1 - share)) for share in latent]
    error = np.quantile(np.abs(logits[0] - np.median(logits[1])), 0.5)
    assert 0.3 * OF_LOGITS < error < 1.5 * OF_LOGITS  # of a normal number with log-normal sizes around that
    inside = asked.forecast(fitted.head(3), force=True)
    assert set(inside.summary()["headline"]) == {"run"}
    at_bounds = np.array([low, high, (low + high) / 2])
    moved = add_error(fit.law.outcome, at_bounds, np.array([1.0, -1.0, 400.0]))
    assert ((moved >= low) & (moved <= high)).all()


def test_a_law_that_learns_no_error_is_a_concern_outside_the_runs(kind: str) -> None:
    fit, fitted = outcome_fit(kind), table(kind)
    beyond = fitted.tail(3).assign(D=100 * fitted["D"].max())

    def concerned(settings: pd.DataFrame, **options: float) -> bool:
        return "exact_law" in {check.name for check in fit.forecast(settings, force=True, **options).checks if not check.passed}

    assert concerned(beyond) == (kind != "real")
    assert not concerned(fitted.tail(3))
    assert not concerned(beyond, discrepancy=0.5)


@pytest.mark.parametrize("kind", [*KINDS, "positive"])
def test_pictures_stay_within_the_bounds_and_name_the_outcome(kind: str) -> None:
    fit, (low, high) = outcome_fit(kind), BOUNDS[kind]
    outcome, check = fit.law.outcome, predictive_check(outcome_fit(kind))
    measured = table(kind).assign(**{outcome.name: {"count": 1.0, "bounded": 99.99}.get(kind, 30.0)})
    measured = measured.assign(items=20) if kind == "count" else measured
    for axis in ("D", "compute"):
        ax = plot_forecast(fit.forecast(at(kind), force=True), Figure().subplots(), measured=measured, x=axis)
        bottom, top = ax.get_ylim()
        assert low <= bottom < top <= high
        assert ax.get_ylabel() == outcome.labelled(fit.unit)
        words = " ".join(text.get_text() for text in ax.findobj(Text) if isinstance(text, Text))
        assert not LOSS.search(words)
        assert ("chance" in words) == (outcome.chance is not None)
    ax = plot_predictive(check, Figure().subplots())
    left, right = ax.get_xlim()
    assert low <= left < right <= high
    assert ax.get_ylabel().replace("\n", " ") == outcome.of_deviation(f"{outcome.name} minus the median", fit.unit)
    assert outcome.plural in plot_loo_pit(check, Figure().subplots()).get_ylabel()


def test_measured_shares_of_0_and_1_are_whole_marks() -> None:
    measured = table("count").query("N == 1e8").assign(accuracy=1.0)
    frame = at("count", beyond=False).query("N == 1e8")
    ax = plot_forecast(outcome_fit("count").forecast(frame, force=True), Figure().subplots(), measured=measured)
    assert ax.get_ylim()[1] == 1.0
    assert not any(line.get_clip_on() for line in ax.lines if line.get_marker() == "o")


def words_in(figure: Figure) -> list[str]:
    """All texts of a figure, with the labels of ticks, which are written when they are asked for."""
    of_ticks = [label for ax in figure.axes for label in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    return [text.get_text() for text in (*figure.findobj(Text), *of_ticks)]


def texts_of(contents: Report) -> str:
    """The words of a report: of the page without its pictures, of JSON, of LaTeX, and of the pictures, which are not drawn."""
    with patch.object(Picture, "bytes", lambda _, kind: kind.encode()):
        whole = contents.html
    assert whole.count('src="data:image/svg+xml;base64,') == len(contents.pictures)
    page = re.sub(r'src="data:[^"]*"|<style>.*?</style>', "", whole, flags=re.DOTALL)
    drawn = [word for picture in contents.pictures.values() for word in words_in(picture.figure)]
    tex = [content.decode() for content in latex.files(json.loads(contents.json)).values()]
    return "\n".join([html.unescape(page), contents.json, *tex, *drawn])


@pytest.mark.parametrize("kind", [*KINDS, "positive"])
def test_a_report_speaks_of_the_outcome_and_stays_within_its_bounds(kind: str) -> None:
    fit, (low, high) = outcome_fit(kind), BOUNDS[kind]
    measured = table(kind).assign(run="new", D=1.5 * table(kind)["D"]).head(6)
    contents = report({"a fit": fit}, at=read_runs(at(kind)), measured=read_runs(measured), force=True)
    text = texts_of(contents)
    assert not LOSS.search(text), LOSS.search(text)
    assert f"24 {PLURALS[kind]} of 24 runs" in text
    (forecasts,) = contents.facts["forecasts"]
    rows = pd.DataFrame(forecasts["table"]["rows"], columns=forecasts["table"]["columns"])
    shown = rows.filter(regex="median|eti").to_numpy(dtype=np.float64)
    assert ((shown >= low) & (shown <= high)).all()
    assert fit.law.outcome.labelled(fit.unit) in forecasts["table"]["caption"]
    for name, picture in contents.pictures.items():
        for ax in picture.figure.axes:
            if ax.get_ylabel().startswith(NAMES[kind]) and "minus" not in ax.get_ylabel():
                bottom, top = ax.get_ylim()
                assert low <= bottom < top <= high, name
    assert "fit1-data" in contents.pictures


def test_notebooks_and_prints_speak_of_the_outcome(kind: str) -> None:
    fit = outcome_fit(kind)
    for shown in (fit, fit.forecast(at(kind), force=True), bayeslaw.Stack({"a": fit}, {"a": 1.0}), fit.law):
        assert not LOSS.search(repr(shown) + shown._repr_html_()), shown
    assert f"24 {PLURALS[kind]} of 24 runs" in repr(fit)
    assert "loss" not in read_runs(table(kind))._repr_html_()
