"""The report: what its page is made of, that its numbers are those of the JSON, and that nothing given to it can do harm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
from scipy import stats

from bayeslaw.core.html import cells, header
from bayeslaw.core.text import compact
from bayeslaw.data.table import Runs
from bayeslaw.evaluation.loo import leave_one_run_out
from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law
from bayeslaw.laws.formula import Expression
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.explore import explore
from bayeslaw.reporting.facts import commands, fit_facts, left_out, scores_table
from bayeslaw.reporting.latex import files as latex_files
from bayeslaw.reporting.latex import tabular
from bayeslaw.reporting.methods import methods
from bayeslaw.reporting.report import Report, measured_transforms, report
from tests import oracles, outcomes
from tests.errors import fails
from tests.fixed import apart_fit, fixed_fit, line_fit, measured, stand_in_fit
from tests.pages import HOSTILE, PICKS, Page

LEVELS = pd.DataFrame(
    {
        "confidence": [0.5, 0.9],
        "plan": ["feasible", "infeasible"],
        "tokens": [4.125e10, np.nan],
        "r": [0.2, np.nan],
        "held_out": [0.497, np.nan],
    }
)


@pytest.fixture(scope="module")
def at() -> Runs:
    return Runs(pd.DataFrame({"N": [1e9] * 4, "D": [1e9, 1e10, 1e11, 1e14]}), "at.csv")


@pytest.fixture(scope="module")
def held(sound_fit: Fit) -> Runs:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"N": np.repeat([1e8, 2e9], 6), "D": np.tile(np.geomspace(1e9, 5e10, 6), 2), "run": np.repeat(["a", "b"], 6)}
    )
    middle = sound_fit.law.predict({k: [np.median(v)] for k, v in sound_fit.draws.items()}, dict(frame[["N", "D"]]))[0]
    return Runs(frame.assign(loss=middle * np.exp(0.005 * rng.standard_normal(12))), "held.csv")


@pytest.fixture(scope="module")
def made(sound_fit: Fit, small_fit: Fit, at: Runs, held: Runs) -> Report:
    fits = {"sound": sound_fit, "short": small_fit}
    return report(fits, files={"sound": "s.nc"}, at=at, measured=held, picks=PICKS, frontier=LEVELS, command="bayeslaw report s.nc")


@pytest.fixture(scope="module")
def html(made: Report) -> str:
    return made.html


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page.of(html)


@pytest.fixture(scope="module")
def latex(made: Report) -> dict[str, bytes]:
    return made.latex


def numbers(value: Any) -> tuple[set[str], str]:
    """Every number of plain values as a page writes it, and all of their texts."""
    if isinstance(value, dict):
        parts = [numbers(v) for v in (*value, *value.values())]
    elif isinstance(value, list):
        parts = [numbers(v) for v in value]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return {compact(float(value))}, ""
    else:
        return set(), str(value)
    return set().union(*(p[0] for p in parts)), " ".join(p[1] for p in parts)


def test_a_notebook_shows_a_report_in_two_lines(made: Report) -> None:
    assert repr(made).startswith(f"<{made.facts['title'][:20]}")
    assert len(repr(made)) < 200


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_asks_for_nothing(html: str, page: Page) -> None:
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "base", "video", "audio", "source"}
    for tag, attrs in page.elements:
        assert not [name for name in attrs if name.startswith("on") or name in ("srcset", "style", "background")]
        if "href" in attrs:
            assert (tag, attrs["href"][0]) == ("a", "#")
        if "src" in attrs:
            assert attrs["src"].startswith("data:image/svg+xml;base64,")
    assert not re.search(r"https?:", html.replace("http-equiv", ""))
    style = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert len(style) == 1
    assert not re.search(r"url\(|@import", style[0])


def test_the_page_can_be_read_by_all(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.elements:
        if "aria-labelledby" in attrs:
            assert attrs["aria-labelledby"] in ids
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
    assert all(len(picture["alt"]) > 30 for picture in page.all("img"))
    assert len(page.all("caption")) == len(page.all("table")) > 8
    assert all(attrs.get("scope") in ("col", "row") for attrs in page.all("th"))
    assert page.all("html")[0]["lang"] == "en"
    first = next(attrs for tag, attrs in page.elements if tag == "a")
    assert (first["class"], first["href"]) == ("skip", "#main")
    boxes = [attrs for tag, attrs in page.elements if attrs.get("class") in ("scroll", "formula")]
    assert all(box["tabindex"] == "0" and box["role"] == "region" for box in boxes)
    assert page.all("meta")[1]["content"] == "width=device-width, initial-scale=1"


def test_every_number_of_the_page_is_in_the_json(made: Report, page: Page) -> None:
    values, texts = numbers(json.loads(made.json))
    number = r"(?<![\w.])[-−]?\d[\d.,]*(?:e-?\d+)?"
    known = values | {token.rstrip(".,") for token in re.findall(number, texts)}
    found = [token.rstrip(".,") for token in re.findall(number, re.sub(r"\(D = 0\)|SHA-256", "", " ".join(page.text)))]
    assert len(found) > 300
    assert [token for token in found if token not in known] == []


@pytest.mark.slow
def test_numbers_of_the_tables_are_those_of_the_fit(made: Report, sound_fit: Fit, at: Runs) -> None:
    facts = json.loads(made.json)
    table = facts["fits"][0]["parameters"]
    read = pd.DataFrame(table["rows"], columns=table["columns"]).set_index("parameter")
    summary = sound_fit.summary(0.9)
    for column in ("median", "eti90_lb", "eti90_ub", "r_hat"):
        np.testing.assert_array_equal(read[column], summary[column])
    prior = read.loc["E"]
    expected = sound_fit.law.parameters["E"].prior.scipy.ppf([0.5, 0.05, 0.95])
    assert [prior["prior_median"], prior["prior_eti90_lb"], prior["prior_eti90_ub"]] == pytest.approx(expected, rel=0.03)
    forecast = facts["forecasts"][0]["table"]
    whole = sound_fit.forecast(at).summary(0.9)
    assert [row[forecast["columns"].index("run_eti90_lb")] for row in forecast["rows"]] == whole["run_eti90_lb"].tolist()
    assert [row[forecast["columns"].index("extrapolation")] for row in forecast["rows"]] == whole["extrapolation"].tolist()
    assert facts["fits"][0]["data"]["sha256"] == sound_fit.info["data_sha256"]


def test_intervals_of_a_failed_fit_are_withheld(made: Report, html: str, small_fit: Fit) -> None:
    one = made.facts["fits"][1]
    assert one["withheld"]
    assert not [c for c in one["parameters"]["columns"] if c.startswith("eti")]
    assert one["pictures"] == []
    assert [c for c in one["checks"]["rows"] if c[2] == "FAILED"] == one["checks"]["rows"][
        : len([c for c in small_fit.checks if c.required and not c.passed])
    ]
    assert made.facts["forecasts"][1]["table"] is None
    assert made.facts["forecasts"][1]["withheld"].startswith("Sampling of chinchilla failed (")
    assert html.index("✗ FAILED: the intervals") < html.index("fit2-parameters")
    assert "Sampling FAILED" in one["methods"]["text"]


@pytest.mark.slow
def test_forced_reports_show_and_mark_them(small_fit: Fit, at: Runs) -> None:
    forced = report({"short": small_fit}, at=at, force=True)
    one = forced.facts["fits"][0]
    assert "eti90_lb" in one["parameters"]["shown"]
    assert {row[one["parameters"]["columns"].index("checks")] for row in one["parameters"]["rows"]} == {"FAILED"}
    assert {tuple(row[-2:]) for row in forced.facts["forecasts"][0]["table"]["rows"]} == {("FAILED (forced)", "not assessed")}
    assert "intervals are forced" in forced.html
    assert forced.latex["fit1-parameters.tex"].count(b"dagger") == len(one["parameters"]["rows"]) + 1


@pytest.mark.slow
def test_hostile_names_stay_text(sound_fit: Fit) -> None:
    parameter = replace(sound_fit.law.parameters["E"], latex=r"\href{javascript:alert(1)}{E}", meaning="<b>&amp;")
    law = replace(
        sound_fit.law,
        title=HOSTILE,
        source='"><img src=x>',
        note="{{ 7*7 }}",
        parameters={**sound_fit.law.parameters, "E": parameter},
    )
    info = {
        **sound_fit.info,
        "data": HOSTILE,
        "sources": [{"name": HOSTILE, "rows": 40, "where": HOSTILE}],
        "conversions": ["a <i>b</i>"],
    }
    html = report({HOSTILE: replace(sound_fit, law=law, info=info)}, picks=PICKS, command=HOSTILE).html
    tags = {tag for tag, _ in Page.of(html).elements}
    assert not tags & {"script", "b", "i"}
    assert "alert(1)" not in "".join(v for _, attrs in Page.of(html).elements for k, v in attrs.items() if k == "href")
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5
    assert "{{ 7*7 }}" in html


def test_settings_and_measured_rows_leave_out_what_fits_know() -> None:
    fit, new = outcomes.outcome_fit("count"), outcomes.table("count").assign(accuracy=0.5).drop(columns=["items", "run"])
    result = report({"all": fit}, at={"N": 1e9, "D": "1e9,1e10"}, measured=new)
    assert [len(of["table"]["rows"]) for of in result.facts["forecasts"]] == [2]
    assert "calibration" in result.pictures
    groups = report({"apart": apart_fit(size=400)}, at={"x": 0.5, "domain": "web", "lab": "a,b_1"}, force=True)
    assert len(groups.facts["forecasts"][0]["table"]["rows"]) == 2


# --- methods and commands ---------------------------------------------------------------------------------------------


def test_the_methods_text_has_the_numbers_of_the_fit(made: Report, sound_fit: Fit) -> None:
    text, latex = (made.facts["fits"][0]["methods"][k] for k in ("text", "latex"))
    summary = sound_fit.summary()
    for part in (
        "the law chinchilla", "to 40 losses of 8 runs", "2 chains of 1500 draws after 500 tuning draws each, seed 1",
        f"largest R-hat was {summary['r_hat'].max():.3f}", f"{summary['ess_bulk'].min():.0f} in bulk", "All checks of the sampling",
        "posterior medians with 90% equal-tailed credible intervals",
    ):  # fmt: skip
        assert part in text
    assert r"$L = E + \frac{A}{N^{\alpha}} + \frac{B}{D^{\beta}}$" in latex
    assert r"90\% equal-tailed" in latex


def text_of(fit: Fit) -> str:
    """The methods paragraph of a fit."""
    return methods(fit_facts(fit, "fit", None, None, 0.9, True, ""), "90% interval", False)["text"]


def test_the_methods_text_is_of_the_sample_that_was_kept(sound_fit: Fit) -> None:
    """It named the tuning draws that were asked for, beside a check that says that there were four times as many."""
    how = {"sample": "second", "failed": "divergences", "tune": 2000, "thin": 3, "target_accept": 0.996875}
    note = Check("repeated", False, "sampled a second time", "note", pd.DataFrame([how | {"target_accept_before": 0.9875}]))
    text = text_of(replace(sound_fit, checks=(*sound_fit.checks, note)))
    assert "2 chains of 1500 draws after 2000 tuning draws each" in text
    assert "second sample: the first had 500 tuning draws and failed the check divergences." in text
    assert "acceptance rate was 0.99687 in place of 0.9875. One draw in 3 was kept." in text
    older = text_of(replace(sound_fit, checks=(*sound_fit.checks, replace(note, table=pd.DataFrame()))))
    assert "It was sampled a second time." in older
    rate = {**sound_fit.info, "settings": {**sound_fit.info["settings"], "target_accept": 0.998}}
    assert "seed 1, target acceptance rate 0.998)" in text_of(replace(sound_fit, info=rate))


def test_the_methods_text_names_priors_that_were_replaced(sound_fit: Fit) -> None:
    assert "priors" not in text_of(sound_fit)
    changed = replace(sound_fit, law=sound_fit.law.with_priors({"alpha": "Normal(0.34, 0.02)"}))
    assert "we used Normal(0.34, 0.02) for alpha." in text_of(changed)


def test_the_methods_text_names_parameters_that_differ_by_a_column(sound_fit: Fit) -> None:
    """The formula is that of the law, so that readers took a pooled fit for one with the same parameters everywhere."""
    assert "values of" not in text_of(sound_fit)
    fit, around = apart_fit(size=800), "around a typical value (the spread around it has the prior HalfNormal(0.5))."
    assert f"Parameter a has a value for each of the 2 values of domain, which are pooled {around}" in text_of(fit)
    facts = fit_facts(fit, "fit", None, None, 0.9, True, "")
    for spread, words in (("HalfNormal(0.5)", f"which are pooled {around}"), ("", "each with the parameter's prior.")):
        both = [{"parameter": name, "column": "domain", "prior_of_spread": spread} for name in ("a", "b")]
        text = methods(facts | {"data": facts["data"] | {"varying": both}}, "90% interval", False)["text"]
        assert f"Parameters a, b have a value for each of the 2 values of domain, {words}" in text


def test_the_methods_text_has_no_advice_to_the_user(sound_fit: Fit) -> None:
    concern = Check("outliers", False, "2 rows are off", "model", pd.DataFrame(), "Look at these runs")
    text = text_of(replace(sound_fit, checks=(*sound_fit.checks, concern)))
    assert "Concerns about the model: 2 rows are off." in text
    assert "Look at" not in text


def test_one_run_and_one_row_are_not_spoken_of_as_several() -> None:
    """Most who adapt one checkpoint have one run, and put this sentence into a paper."""
    runs = pd.DataFrame({"run": "a", "D": [0.0, *2e7 * 2.0 ** np.arange(8)], "loss": 2.0 - 0.05 * np.arange(9)})
    fit = stand_in_fit("fine-tuning", runs)
    text = methods(fit_facts(fit, "fit", None, None, 0.9, True, ""), "90% interval", False)["text"]
    assert "to 8 losses of 1 run (" in text
    assert "; 1 loss at D = 0 was kept out)" in text
    assert "8 of 1 run, in nats/token; 1 row at D = 0 kept out" in report(fit, force=True).html
    assert "Fitted to 8 losses of 1 run (" in explore(fit, force=True).html


def test_the_methods_text_names_stated_errors_of_losses(sound_fit: Fit) -> None:
    some = np.where(np.arange(sound_fit.observed.response.size) < 7, 0.01, 0.0)
    stated = replace(sound_fit, observed=replace(sound_fit.observed, se=some))
    of, interval = (fit_facts(f, "fit", None, None, 0.9, True, "") for f in (sound_fit, stated)), "90% interval"
    without, text = (methods(facts, interval, False)["text"] for facts in of)
    assert "with a run effect and the stated standard errors of 7 losses." in text
    assert "stated" not in without


def test_the_methods_text_says_which_rows_were_left_out(sound_fit: Fit) -> None:
    (source,) = sound_fit.info["sources"]
    chosen = source | {"name": "all.csv", "rows": 43, "where": "loss < 5"}
    some, ends = (
        replace(sound_fit, info={**sound_fit.info, "sources": [source]}) for source in (chosen, chosen | {"where": "last"})
    )
    of = (fit_facts(f, "fit", None, None, 0.9, True, "") for f in (sound_fit, some, ends))
    whole, text, of_ends = (methods(facts, "90% interval", False)["text"] for facts in of)
    assert "(43 rows, where last); last is the last row of each run; 3 of 43 rows were left out." in of_ends
    assert "They are from all.csv (43 rows, where loss < 5); 3 of 43 rows were left out." in text
    assert "left out" not in whole


def test_the_command_that_made_a_fit(made: Report) -> None:
    one = made.facts["fits"][0]
    options = "--noise normal --draws 1500 --tune 500 --chains 2 --seed 1"
    assert one["made"]["command"] == f"bayeslaw fit chinchilla TABLE.csv -o s.nc {options}"
    assert one["made"]["in_memory"]


def test_the_command_names_the_shares_of_a_mixture_and_an_exact_law() -> None:
    law = load_law("data-mixing", shares=["wiki", "code"], reference="code")
    table = pd.DataFrame({"wiki": [0.2, 0.5, 0.8], "code": [0.8, 0.5, 0.2], "run": [*"abc"], "loss": [3.0, 2.9, 2.8]})
    draws = {name: np.full(8, 0.1) for name in (*law.parameters, "sigma_point", "sigma_run")}
    fit = fixed_fit(law, table, draws, noise="normal")
    fit = replace(fit, info={**fit.info, "discrepancy": {"asked": "none", "learned": False, "reason": ""}})
    settings = fit.info["settings"]
    assert f" --chains {settings['chains']} --target-accept 0.975 --discrepancy none" in commands(fit, "m.nc")
    fit = replace(fit, info={**fit.info, "settings": settings | {"target_accept": None}})
    command = commands(fit, "m.nc")
    assert command.startswith("bayeslaw fit data-mixing old.csv -o m.nc --shares wiki,code --reference code --noise normal ")
    assert command.endswith(" --discrepancy none --seed 3")


def test_no_command_makes_a_fit_whose_noise_is_a_function() -> None:
    def laplace(error: Any, sigma_point: Any = "LogNormal(-5, 1)") -> Any:
        return -abs(error) / sigma_point - pt.log(2 * sigma_point)

    law = load_law("chinchilla")
    result = report(stand_in_fit(law, oracles.table(law).drop(columns="run"), noise=laplace, draws=100), force=True)
    assert result.facts["fits"][0]["made"]["command"] is None
    assert "Its noise is a function in Python" in result.html


def test_no_command_makes_a_fit_with_a_prior_on_an_expression() -> None:
    law = load_law("chinchilla").with_priors({"A": Prior("LogNormal", {"mu": 0.0, "sigma": 0.5}, on=Expression.parse("A/N**0.3"))})
    result = report(stand_in_fit(law, oracles.table(law), draws=100), force=True)
    assert result.facts["fits"][0]["made"]["command"] is None
    assert "A prior is on an expression" in result.html


# --- comparison ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fits_of_the_same_losses_are_compared_without_refits(sound_fit: Fit, small_fit: Fit) -> None:
    table, notes = left_out({"sound": sound_fit, "short": small_fit}, True)
    assert table.loc["sound", "elpd"] == pytest.approx(leave_one_run_out(sound_fit).elpd)
    assert table["weight"].sum() == pytest.approx(1)
    assert table["checks"].to_dict() == {"sound": "passed", "short": "FAILED (forced)"}
    table, notes = left_out({"sound": sound_fit, "short": small_fit}, False)
    assert table.empty
    assert notes[0].startswith("short ")


@pytest.mark.slow
def test_a_fit_that_is_given_twice_is_compared_once(sound_fit: Fit, small_fit: Fit) -> None:
    """As one by itself and one of a stack: two copies would have half of the weight each."""
    once, _ = left_out({"sound": sound_fit, "short": small_fit}, True)
    twice, notes = left_out({"sound": sound_fit, "sound (stack)": sound_fit, "short": small_fit}, True)
    pd.testing.assert_frame_equal(once, twice)
    assert notes[0].startswith("sound (stack) is the same fit as sound")
    alone, notes = left_out({"sound": sound_fit, "sound (stack)": sound_fit}, True)
    assert alone.empty
    assert len(notes) == 1


def test_fits_of_other_losses_are_not_compared(sound_fit: Fit, ptpp_fit: Fit) -> None:
    table, notes = left_out({"a": sound_fit, "b": ptpp_fit}, False)
    assert table.empty
    assert len(notes) == 1


def test_measured_losses_are_of_one_domain(sound_fit: Fit, small_fit: Fit, held: Runs) -> None:
    source, target = (replace(fit, law=replace(fit.law, domain=d)) for fit, d in ((sound_fit, "source"), (small_fit, "target")))
    with fails("measured-on-one-domain", "S describes losses of the source", "T describes losses of the target"):
        report({"S": source, "T": target}, measured=held)


def test_columns_have_names_in_words() -> None:
    names = {
        "run_eti90_lb": "run 90% equal-tailed interval", "eti80_lb": "80% equal-tailed interval",
        "latent_eti90_width": "width of the latent 90% equal-tailed interval",
        "width_hdi50": "mean width of 50% highest-density intervals",
        "k_max": "largest Pareto k", "D_last": "D last",
    }  # fmt: skip
    assert {name: header(name) for name in names} == names


def test_columns_of_scores_are_called_as_the_fits_are() -> None:
    """Not as the score, or the words for one, that a label may look like."""
    labels = ["small_run", "se", "score", "meaning"]
    table = scores_table("Scores", pd.DataFrame({"law": labels, "crps": [0.01, 0.02, 0.03, 0.04]}))
    assert table["columns"] == ["score", "small_run", "se", "score (3)", "meaning (4)", "meaning"]
    assert cells(table, 10)["heads"] == table["columns"]
    assert r"small\_run & se & score (3)" in tabular(table)


@pytest.mark.slow
def test_scores_on_measured_losses(made: Report, sound_fit: Fit, held: Runs) -> None:
    tables = made.facts["comparison"]["tables"]
    (table,) = [t for t in tables if t["caption"] == "Scores on the 12 losses of held.csv"]
    assert table["columns"] == ["score", "sound", "meaning"]
    own = {name: (meaning, value) for name, value, meaning in table["rows"]}
    assert own["crps"][1] == score(sound_fit, held)["crps"].iloc[0]
    assert [n for n in made.facts["comparison"]["notes"] if n.startswith("short: not scored.")]
    assert own["cover_eti90"][0] == "share inside 90% equal-tailed intervals"
    assert all("_" not in meaning for meaning, _ in own.values())
    (latex,) = [text for name, text in latex_files(made.facts).items() if name == f"comparison{tables.index(table) + 1}-table.tex"]
    assert latex.decode().splitlines()[3] == r"meaning & sound \\"
    assert r"share inside 90\% equal-tailed intervals" in latex.decode()
    assert "cover" not in latex.decode()
    assert "calibration" in made.pictures


@pytest.mark.slow
def test_fitted_rows_among_the_measured_losses_are_left_out_or_marked(sound_fit: Fit, held: Runs) -> None:
    fitted = oracles.table(sound_fit.law, runs=8)
    mixed = replace(held, frame=pd.concat([held.frame, fitted.head(5)], ignore_index=True), name="mixed.csv")
    left, whole = (report({"sound": sound_fit}, measured=mixed, in_sample=kept) for kept in (False, True))
    for made, caption, note in (
        (left, "Scores on the 12 losses of", "5 rows of mixed.csv are in the fit"),
        (whole, "17", "IN-SAMPLE: "),
    ):
        (table,) = made.facts["comparison"]["tables"]
        assert caption in table["caption"]
        assert ("IN-SAMPLE" in table["caption"]) == ("IN-SAMPLE" in made.pictures["calibration"].caption) == (made is whole)
        assert any(text.startswith(f"sound: {note}") for text in made.facts["comparison"]["notes"])
        assert {name: value for name, value, _ in table["rows"]}["sample"] == (
            "in-sample (5 of 17 rows)" if made is whole else "held-out"
        )
    with fails("nothing-held-out", "fitted.csv", "all 40 rows"):
        report({"sound": sound_fit}, measured=Runs(fitted, "fitted.csv"))


@pytest.mark.slow
def test_calibration_counts_fewer_runs_where_a_few_have_most_of_the_losses() -> None:
    table = measured(line_fit(), 0.1, 65).assign(run=np.repeat([f"n{i}" for i in range(8)], [20] * 3 + [1] * 5))
    found = measured_transforms({"line": line_fit()}, Runs(table, "held.csv"), ["line"], {"discrepancy": None, "seed": 0})
    assert found is not None
    assert found[1] == 65**2 // (3 * 20**2 + 5) == 3


@pytest.mark.slow
def test_calibration_counts_the_known_errors_of_losses() -> None:
    fit = line_fit(point=1e-3, run=1e-3)
    table, options = measured(fit, 0.1, 200), {"discrepancy": None, "seed": 0}
    tables = (table, table.drop(columns="loss_se"))
    found = [measured_transforms({"line": fit}, Runs(t, "held.csv"), ["line"], options) for t in tables]
    p = [stats.kstest(one[0]["line"], "uniform").pvalue for one in found if one]
    assert p[0] > 0.01
    assert p[1] < 1e-6


# --- LaTeX -----------------------------------------------------------------------------------------------------------


def test_latex_files_are_balanced(latex: dict[str, bytes]) -> None:
    files = {name: data.decode() for name, data in latex.items() if name.endswith(".tex")}
    assert {
        "fit1-parameters.tex",
        "forecast1-table.tex",
        "methods.tex",
        "report.tex",
        "anchors-table.tex",
        "plan-table.tex",
    } <= files.keys()
    assert " & unit & " in files["fit1-parameters.tex"]
    for name, text in files.items():
        bare = re.sub(r"\\[{}\\&%$#_]", "", text)
        assert bare.count("{") == bare.count("}"), name
        assert bare.count("$") % 2 == 0, name
        assert text.count(r"\begin{") == text.count(r"\end{"), name
        rows = [line for line in text.splitlines() if line.endswith(r"\\") and not line.startswith(r"\multicolumn")]
        if name not in ("report.tex", "methods.tex"):
            assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1, name


def test_the_prior_of_the_degrees_of_freedom_is_of_their_distance_from_two() -> None:
    fit = line_fit(noise="student")
    parameters = fit_facts(fit, "line", None, None, 0.9, False, "")["parameters"]
    rows = [dict(zip(parameters["columns"], row, strict=True)) for row in parameters["rows"]]
    dof = next(row for row in rows if row["parameter"] == "dof")
    assert dof["prior"] == "Gamma(2, 0.1) on dof - 2"
    low, high = 2 + stats.gamma(2, scale=10).ppf([0.05, 0.95])
    ends = [dof["prior_eti90_lb"], dof["prior_eti90_ub"]]
    assert ends == pytest.approx([low, high], rel=0.05)  # 4.5 standard errors of 20,000 draws


def test_a_report_is_written_as_a_page_as_numbers_and_for_a_paper(made: Report, tmp_path: Path) -> None:
    made.save(tmp_path / "report.html")
    made.save(str(tmp_path / "report.json"))
    files = made.save_latex(tmp_path / "paper")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == made.html
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == json.loads(made.json)
    assert {path.name for path in files} == set(made.latex)
    assert all(path.is_file() for path in files)
    with fails("wrong-ending", "ending in .html or .json, not report.pdf"):
        made.save(tmp_path / "report.pdf")


@pytest.mark.parametrize("name", ["methods.tex", "report.tex", "fit1-priors.pdf"])
def test_files_of_the_authors_are_not_replaced_by_those_for_a_paper(made: Report, tmp_path: Path, name: str) -> None:
    made.save_latex(tmp_path)
    made.save_latex(tmp_path)  # its own files are
    (tmp_path / name).write_bytes(b"% our section on methods\n")
    (tmp_path / "fit1-data.tex").unlink()
    with fails("would-overwrite", name, "did not write"):
        made.save_latex(tmp_path)
    assert (tmp_path / name).read_bytes() == b"% our section on methods\n"
    assert not (tmp_path / "fit1-data.tex").exists()


def test_settings_and_losses_of_a_report_may_be_frames_or_files(sound_fit: Fit, at: Runs, held: Runs, tmp_path: Path) -> None:
    held.frame.to_csv(tmp_path / "held.csv", index=False)
    given = report(sound_fit, at=at.frame, measured=tmp_path / "held.csv")
    same = report(sound_fit, at=at, measured=held)
    for part in ("forecasts", "comparison"):
        assert given.facts[part] == same.facts[part]
    values: dict[str, Any] = {"N": 2e9, "D": [1e10, 2e10]}
    assert report(sound_fit, at=values).facts["forecasts"] == report(sound_fit, at=grid(sound_fit, values)).facts["forecasts"]


def test_a_fit_keeps_its_label_beside_a_member_of_a_stack_with_that_name(sound_fit: Fit) -> None:
    stack = Stack({"a": sound_fit, "b": sound_fit}, {"a": 0.5, "b": 0.5})
    contents = report({"both": stack, "a": sound_fit})
    assert [(fit["label"], fit["stack"]) for fit in contents.facts["fits"]] == [("a (both)", "both"), ("b", "both"), ("a", None)]


def test_a_file_of_no_fit_is_refused() -> None:
    with fails("unknown-fit", "'smal'", "'small'"):
        report({"small": line_fit()}, files={"smal": "small.nc"})


def test_scores_on_held_out_rows_name_these_and_a_stack_once() -> None:
    scores = pd.DataFrame({"held_out": "N > 1e9", "law": ["chinchilla", "stack"], "fit": ["posterior", "stack"], "rows": 4})
    turned = scores_table("", scores)
    assert turned["columns"] == ["score", "chinchilla posterior", "stack", "meaning"]
    assert ["held_out", "N > 1e9", "N > 1e9", "rows held out"] in turned["rows"]
