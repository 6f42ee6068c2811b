"""The commands forecast, score, show and compare with a stack or a discrepancy."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.cli.forecasts import _two_fits
from bayeslaw.evaluation.compare import EXACT, compare
from bayeslaw.evaluation.comparison import SCORED_TWICE, Comparison
from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import Stack, load_fit
from bayeslaw.laws.card import load_law
from bayeslaw.plots.style import DPI
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, refused, rejected, unchanged
from tests.fixed import line_fit, loaded_fit, without_sampling
from tests.values import present

TABLES = ("--candidates", "held.csv", "--targets", "held.csv")
TABLE = oracles.table(load_law("ptpp-floor"), runs=12)


@pytest.fixture(scope="module", autouse=True)
def unsampled() -> Iterator[None]:
    """No fit of this file is sampled."""
    with without_sampling():
        yield


@pytest.fixture(scope="module")
def held_out() -> Comparison:
    options = {"draws": 150, "tune": 100, "chains": 2}
    laws = ("ptpp-floor", "chinchilla")
    return compare(TABLE, laws, holdout="ptpp > 31", bootstrap=2, seed=3, options=options, starts=1, force=True, progress=False)


@pytest.mark.usefixtures("folder")
def test_forecast_and_score_take_a_discrepancy(command: Command, sound_fit: Fit) -> None:
    at = ("--set", "N=1e8,1e9", "--set", "D=1e10")
    settings = bayeslaw.grid(sound_fit.law, {"N": "1e8,1e9", "D": "1e10"})
    assert command("forecast", "fit.nc", *at, "--discrepancy", "2%", "-o", "out.csv").status == 0
    assert command("forecast", "fit.nc", *at, "--discrepancy", "2%", "-o", "out.csv").status == 0  # made anew
    for logged in ("N,D,val/loss\n1e9,2e10,2.5\n", "N,D,web_loss,code_loss\n1e9,2e10,2.5,1.5\n", "N;D;loss\n1e9;2e10;2,5\n"):
        Path("logged.csv").write_text(logged)
        refusal = "logged.csv is a table of measured losses"
        rejected(command("forecast", "fit.nc", *at, "-o", "logged.csv"), "output-holds-runs", refusal)
        assert Path("logged.csv").read_text() == logged
    expected = bayeslaw.forecast(sound_fit, settings, discrepancy=0.02).summary()
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), expected, rtol=1e-14)
    printed = command("forecast", "fit.nc", *at, "--discrepancy", "none").out.splitlines()
    # A stated discrepancy is shown where it was asked for.
    assert printed[0].split() == ["N", "D", "run_median", "run_eti90", "latent_eti90", "extrapolation"]
    row = bayeslaw.forecast(sound_fit, settings, discrepancy="none").summary().iloc[0]
    assert f"[{row['run_eti90_lb']:.3f}, {row['run_eti90_ub']:.3f}]" in printed[1]
    stated = command("forecast", "fit.nc", *at, "--discrepancy", "2%").out.splitlines()
    assert stated[0].split() == ["N", "D", "latent_median", "discrepancy2%_eti90", "run_eti90", "latent_eti90", "extrapolation"]
    row = expected.iloc[0]
    assert f"[{row['discrepancy2%_eti90_lb']:.3f}, {row['discrepancy2%_eti90_ub']:.3f}]" in stated[1]
    scored = pd.read_csv(io.StringIO(command("score", "fit.nc", "held.csv", "--discrepancy", "1%", "--csv").out))
    pd.testing.assert_frame_equal(scored, score(sound_fit, pd.read_csv("held.csv"), discrepancy=0.01), rtol=1e-14)
    for line in (("forecast", "fit.nc", *at), ("score", "fit.nc", "held.csv")):
        rejected(command(*line, "--discrepancy", "1"), "not-a-discrepancy", "'1'")
        assert command(*line, "--discrepancy", "learned").out == command(*line).out


@pytest.mark.usefixtures("folder")
def test_forecasts_show_the_interval_to_report_first_and_say_which_it_is(command: Command, sound_fit: Fit) -> None:
    settings = {"N": "1e8", "D": "1e10,1e12"}
    at = [word for name, values in settings.items() for word in ("--set", f"{name}={values}")]
    done = command("forecast", "fit.nc", *at)
    lines = done.out.splitlines()
    assert lines[0].split() == ["N", "D", "headline", "median", "eti90", "run_eti90", "extrapolation"]
    assert max(map(len, lines[:3])) <= 100
    rows = bayeslaw.forecast(sound_fit, bayeslaw.grid(sound_fit.law, settings)).summary()
    for line, (_, row), spread in zip(lines[1:3], rows.iterrows(), ("run", "extrapolated"), strict=True):
        ends = ", ".join(f"{row[f'{spread}_eti90_{end}']:.3f}" for end in ("lb", "ub"))
        assert f" {spread} " in line
        assert line.index(f"[{ends}]") < line.rindex("[")
    assert "\nRows outside the runs: report `extrapolated`, " in done.out
    alone = command("forecast", "fit.nc", "--set", "N=1e8", "--set", "D=1e10")
    assert "\nAll rows lie inside the runs: report `run`.\n" in alone.out
    assert "headline" not in command("forecast", "fit.nc", *at, "--discrepancy", "none").out


def test_a_median_outside_the_interval_of_the_other_fit_is_explained() -> None:
    table = pd.DataFrame({"run_eti80_lb": [2.0, 2.0, 2.0], "run_eti80_ub": [2.2, 2.2, 2.2], "extrapolated_median": [1.9, 1.9, 2.1]})
    (note,) = _two_fits(["extrapolated", "run", "extrapolated"], table, 0.8)
    assert note.startswith("note: at 1 of 3 settings the median lies outside the interval of `run`. The two are of two fits: ")
    assert _two_fits(["run", "run", "extrapolated"], table, 0.8) == []
    assert _two_fits(["discrepancy1%"] * 3, table.drop(columns="extrapolated_median"), 0.8) == []


@pytest.mark.usefixtures("folder")
def test_show_says_what_error_of_the_law_was_learnt_or_why_none(command: Command, sound_fit: Fit, tmp_path: Path) -> None:
    learnt = present(sound_fit.extrapolation)
    low, median, high = (f"{100 * v:.2g}" for v in np.quantile(present(learnt.discrepancy).scale, [0.1, 0.5, 0.9]))
    text = f"the law errs by {median}% an e-fold away from the largest (80% equal-tailed interval {low} to {high}%)."
    assert text in command("show", "fit.nc", "--ci", "0.8").out
    line_fit(size=400).save(tmp_path / "line.nc")
    assert "iscrepancy" not in command("show", tmp_path / "line.nc").out
    refused = replace(
        sound_fit, info={**sound_fit.info, "discrepancy": {"reason": "its noise is odd"}}, tree=line_fit(size=400).tree
    )
    assert refused.learnt().startswith("No discrepancy was learnt, because its noise is odd: ")


@pytest.mark.usefixtures("folder")
def test_a_table_of_forecasts_is_forecast_again(command: Command) -> None:
    Path("own.csv").write_text("N,D,model,batch_lb\n1e9,2e10,small,5\n", encoding="utf-8")
    assert command("forecast", "fit.nc", "--at", "own.csv", "-o", "out.csv").status == 0
    own, again = (command("forecast", "fit.nc", "--at", at, "--ci", "0.8") for at in ("own.csv", "out.csv"))
    note, _, text = again.out.partition("\n")
    assert note == (
        "note: columns of out.csv are results of an earlier forecast, and left out: latent_median, latent_eti90_lb, "
        "latent_eti90_ub, …"
    )
    assert (own.status, text) == (0, own.out)
    assert re.match(r" *N +D +model +batch_lb +headline .*\n *1e9 +2e10 +small +5 ", text)


@pytest.mark.usefixtures("folder")
def test_a_picture_has_the_width_of_a_column(command: Command) -> None:
    at = ("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e9:1e11:3")
    assert command(*at, "--plot", "narrow.png", "--width", "3.3").status == 0
    assert plt.imread("narrow.png").shape[1] == round(3.3 * DPI)
    rejected(command(*at, "--width", "3.3"), "width-without-plot")
    rejected(command(*at, "--plot", "wide.png", "--width", "84"), "width-of-a-picture", "84 in", "3.3")
    for others in (("show", "fit.nc"), ("allocate", "fit.nc", "--compute", "1e19:1e20:3")):
        assert command(*others, "--plot", "narrow.png", "--width", "3.3").status == 0
        assert plt.imread("narrow.png").shape[1] == round(3.3 * DPI)
        rejected(command(*others, "--width", "3.3"), "width-without-plot")


@pytest.mark.usefixtures("folder")
def test_runs_are_chosen_for_targets_beyond_the_runs_by_the_learnt_error(command: Command) -> None:
    pd.DataFrame({"N": [1e10], "D": [2e11]}).to_csv("far.csv", index=False)
    pd.DataFrame({"run": ["new"], "N": [1e9], "D": [2e10]}).to_csv("candidates.csv", index=False)
    files = ("fit.nc", "--candidates", "candidates.csv", "--targets", "far.csv", "--budget", "1e21")
    assert "extrapolated_eti90_width" in command("anchors", *files).out
    assert "latent_eti90_width" in command("anchors", *files, "--discrepancy", "none").out


def test_commands_take_a_stack(command: Command, folder: Path, stack: Stack) -> None:
    stack.save("stack.nc")
    at = ("--set", "N=1e8,1e9", "--set", "D=1e9:1e11:3", "--set", "r=0.1", "--set", "ptpp=31")
    done = command("forecast", "stack.nc", *at, "--seed", "4", "-o", "out.csv", "--plot", "fan.png")
    assert (done.status, done.err) == (0, "")
    settings = grid(stack, {"N": "1e8,1e9", "D": "1e9:1e11:3", "r": "0.1", "ptpp": "31"})
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), forecast(stack, settings, seed=4).summary(), rtol=1e-14)
    shown = command("show", "stack.nc").out
    assert shown.startswith("stack of second, first\n")
    assert "0.7" in shown
    assert re.search(r"^first .* 40 +8 +passed", shown, flags=re.MULTILINE)
    assert "\nSampling: passed\nModel: " in shown
    read = pd.read_csv(io.StringIO(command("show", "stack.nc", "--csv").out), index_col=["law", "parameter"])
    pd.testing.assert_frame_equal(read, stack.summary(), rtol=1e-14)
    scored = pd.read_csv(io.StringIO(command("score", "stack.nc", "ptpp.csv", "--csv", "--in-sample").out))
    pd.testing.assert_frame_equal(scored, score(stack, pd.read_csv("ptpp.csv"), in_sample=True), rtol=1e-14)


def test_commands_that_a_stack_cannot_do(command: Command, folder: Path, stack: Stack, small_fit: Fit) -> None:
    stack.save("stack.nc")
    refused(command("show", "stack.nc", "--latex"), "stack.nc is a stack of fits")
    rejected(command("forecast", "stack.nc", "--set", "N=1e9", "--set", "D=1e9"), "missing-covariate", "r, ptpp")
    replace(stack, members={**stack.members, "first": small_fit}).save("stack.nc")
    at = ("--set", "N=1e8", "--set", "D=1e9", "--set", "r=0.1", "--set", "ptpp=31")
    rejected(command("forecast", "stack.nc", *at), "failed-checks", "(first: ")
    assert "FAILED (forced)" in command("forecast", "stack.nc", *at, "--force").out


FAST = ("-q", "--draws", "150", "--tune", "100", "--chains", "2", "--starts", "1", "--force")


def test_compare_prints_scores_weights_and_notes_and_writes_the_stack(command: Command, folder: Path, held_out: Comparison) -> None:
    TABLE.to_csv("stages.csv", index=False)
    line = ("compare", "stages.csv", "--law", "ptpp-floor,chinchilla", "--holdout", "ptpp > 31", *FAST)
    done = command(*line, "--bootstrap", "2", "--seed", "3", "-o", "stack.nc", "--plot", "laws.png")
    assert (done.status, done.err) == (0, "")
    assert (folder / "laws.png").stat().st_size > 10_000
    assert "held out: ptpp > 31\n" in done.out
    assert re.search(r"^ptpp-floor +posterior +[\d.]+ ", done.out, flags=re.MULTILINE)
    assert "pit_ks_p" not in done.out
    assert f"{float(held_out.weights['elpd']['chinchilla']):.2f}" in done.out
    assert f"note: {SCORED_TWICE}\n" in done.out
    assert f"note: {EXACT}\n" in done.out  # the later stages lie outside the runs
    assert done.out.endswith("stack of ptpp-floor written to stack.nc\npicture written to laws.png\n")
    stack = load_fit("stack.nc")
    assert isinstance(stack, Stack)
    assert stack.weights == held_out.stack.weights
    at = ("--set", "N=1e8", "--set", "D=1e10", "--set", "r=0.1", "--set", "ptpp=279", "--force")
    assert command("forecast", "stack.nc", *at).status == 0
    csv = command(*line, "--bootstrap", "2", "--seed", "3", "--csv")
    assert f"note: {SCORED_TWICE}\n" in csv.err
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(csv.out), keep_default_na=False, na_values=[]), held_out.scores, rtol=1e-9, check_dtype=False
    )


def test_compare_takes_the_shares_of_a_mixture(command: Command, folder: Path) -> None:
    a, b = np.random.default_rng(3).dirichlet([1, 1], 24).T
    loss = 1.5 + 0.9 / (a + 0.02 * b) ** 0.3 + 0.01 * np.cos(np.arange(24))
    pd.DataFrame({"run": [f"r{i}" for i in range(24)], "share_a": a, "share_b": b, "loss": loss}).to_csv(
        "mixtures.csv", index=False
    )
    line = ("compare", "mixtures.csv", "--law", "mixture-power,data-mixing", *FAST)
    done = command(*line, "--shares", "share_*", "--holdout", "share_a > 0.4 and share_a < 0.7", "--csv")
    table = pd.read_csv(io.StringIO(done.out))
    assert {"mixture-power", "data-mixing"} < {*table["law"]}
    assert np.isfinite(table.loc[table["fit"] == "posterior", "crps"]).all()
    rejected(command(*line, "--shares", "share_a"), "number-of-shares", "2 to 40 shares")
    rejected(command(*line, "--shares", "weight_*"), "unknown-column", "No column matches --shares weight_*", "share_a, share_b")
    rejected(command(*line), "faulty-table", "--shares")


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ("--law chinchilla --loo --by N", "several-holdouts", "holdout"),
        ("--law chinchilla --by stage", "unknown-column", "stage"),
        ("--law chinchilla --law chinchilla", "given-twice", "chinchilla"),
        ("--law chinchilla --noise gauss", "unknown-noise", "gauss"),
        ("--law ptpp-floor", "faulty-table", "ptpp"),
    ],
)
def test_comparisons_that_are_refused(command: Command, folder: Path, options: str, code: str, named: str) -> None:
    with unchanged(folder):
        done = command("compare", "runs.csv", *options.split(), "-q")
        rejected(done, code, named)
        assert done.out == ""


def test_a_comparison_without_a_law(command: Command, folder: Path) -> None:
    done = command("compare", "runs.csv")
    assert done.status == 2
    assert "Missing option '--law'" in done.err


@pytest.mark.usefixtures("folder")
def test_score_names_the_concerns_about_its_forecasts(command: Command, sound_fit: Fit) -> None:
    assert not sound_fit.concerns
    pd.read_csv("held.csv").assign(D=lambda t: 1e4 * t["D"]).to_csv("far.csv", index=False)
    done = command("score", "fit.nc", "far.csv")
    assert "model concerns (extrapolation))" in done.out
    assert "\nconcern: 20 of 20 settings lie far outside the runs: " in done.out
    assert "bayeslaw show" not in done.out


@pytest.mark.usefixtures("folder")
def test_score_shows_runs_and_five_scores_and_the_rest_when_asked(command: Command, sound_fit: Fit) -> None:
    done = command("score", "fit.nc", "held.csv")
    row = score(sound_fit, pd.read_csv("held.csv")).iloc[0]
    assert [line.split()[0] for line in done.out.splitlines() if line.startswith("  ")] == [
        "error", "bias", "coverage", "width", "CRPS",
    ]  # fmt: skip
    assert f"{round(row['cover_eti90'] * 20)} of 20 losses in their 90% intervals" in done.out
    assert "log_score" not in done.out
    assert len(re.findall(r"^run \d +5 .*\d of 5", done.out, flags=re.MULTILINE)) == 4
    assert "log_score" in command("score", "fit.nc", "held.csv", "--all").out
    pd.read_csv("held.csv").drop(columns="run").to_csv("single.csv", index=False)
    single = command("score", "fit.nc", "single.csv").out
    assert len(re.findall(r"^row \d+ .* (?:yes|no) ", single, flags=re.MULTILINE)) == 12
    assert "\nand 8 more runs with errors of at most " in single
    assert len(re.findall(r"^row \d+ ", command("score", "fit.nc", "single.csv", "--all").out, flags=re.MULTILINE)) == 20


def test_a_comparison_whose_picture_fails_is_shown_and_its_stack_written(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = loaded_fit("fit.nc")
    scores = fit.score("runs.csv", in_sample=True).assign(held_out="runs", noise="auto")
    runs = pd.DataFrame({"chinchilla": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="run"))
    stack = bayeslaw.Stack({"chinchilla": fit}, {"chinchilla": 1.0})
    weights = stack.table.assign(elpd_diff=np.nan, dse=np.nan)
    comparison = bayeslaw.evaluation.Comparison(scores, weights, runs, (), stack)
    asked: dict[str, Any] = {}

    def compare(*_: object, **arguments: Any) -> bayeslaw.evaluation.Comparison:
        asked.update(arguments)
        return comparison

    monkeypatch.setattr("bayeslaw.compare", compare)
    apart = ("--pool", "E=domain", "--noise-by", "domain")
    done = command("compare", "runs.csv", "--law", "chinchilla", "--plot", "p.png", "-o", "stack.nc", "-q", *apart)
    assert {"by": {"E": "domain"}, "noise_by": "domain"}.items() <= asked["options"].items()
    assert done.codes == {"nothing-to-draw"}
    assert "log predictive density" in done.out
    assert done.out.endswith("written to stack.nc\n")
    assert (folder / "stack.nc").is_file()
    assert not (folder / "p.png").exists()
