"""Reports of fits to several domains, of groups with noise of their own, and to losses in another unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from bayeslaw.data.table import Runs
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.figures import data_fan
from bayeslaw.reporting.report import report
from tests.fixed import apart_fit


@pytest.mark.slow
def test_the_picture_of_a_forecast_has_losses_of_its_own_domain() -> None:
    fit, x = apart_fit(size=800), [-1.0, 0.0, 1.0]
    at = pd.DataFrame({"x": x, "domain": "web", "lab": "a"})
    seen = pd.DataFrame({"x": x * 2, "domain": ["web"] * 3 + ["code"] * 3, "lab": "a", "loss": [2.4, 2.7, 3.0, 1.5, 1.6, 1.8]})
    seen["run"] = seen["domain"]
    made = report({"line": fit}, at=Runs(at, "at.csv"), measured=Runs(seen, "seen.csv"))
    (ax,) = made.pictures["forecast1"].figure.axes
    marks = [line for line in ax.lines if line.get_linestyle() == "None" and np.size(line.get_xdata())]
    fitted, measured, crossed = (np.asarray(line.get_ydata()).tolist() for line in marks)
    assert measured == [2.4, 2.7, 3.0]
    assert crossed == [2.4, 2.7]  # 3.0 lies in the interval about e^1.1
    np.testing.assert_allclose(sorted(fitted), np.exp([0.9, 1.0, 1.1]))  # of domain web and lab a
    assert "hollow: measured losses" in made.facts["figures"]["forecast1"]["caption"]


@pytest.mark.slow
def test_a_fit_whose_noise_differs_by_group_is_shown_against_its_data() -> None:
    fit = apart_fit(size=800)
    fan = data_fan(fit)
    assert not isinstance(fan, str), fan
    made, others = fan
    assert set(made.settings["lab"]) == {"a", "b_1"}
    assert set(made.settings["domain"]) == {"code"}
    assert others == 0
    (ax,) = report({"line": fit}).pictures["fit1-data"].figure.axes
    curves = {str(line.get_label()): len(np.asarray(line.get_xdata())) for line in ax.lines if line.get_linestyle() == "-"}
    assert curves == {"domain = code, lab = a": 40, "domain = code, lab = b_1": 40}
    points = [np.size(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "None"]
    assert [size for size in points if size] == [3, 3]


@pytest.mark.slow
def test_noise_of_groups_has_symbols_and_meanings_of_its_own() -> None:
    facts = report({"line": apart_fit(size=800)}).facts["fits"][0]["parameters"]
    noise = [row for row in facts["rows"] if row[0].startswith("sigma_")]
    symbols, meanings = ([row[facts["columns"].index(column)] for row in noise] for column in ("latex", "meaning"))
    assert len(noise) == len(set(symbols)) == len(set(meanings)) == 4
    assert (symbols[1], meanings[1]) == (r"\sigma_\mathrm{point}^{(\text{b\_1})}", "relative noise of one logged loss: lab b_1")


@pytest.mark.slow
def test_losses_in_another_unit_are_named_so_everywhere(small_fit: Fit) -> None:
    fit = replace(small_fit, observed=replace(small_fit.observed, unit="bits/byte"))
    made = report({"bytes": fit}, at=Runs(pd.DataFrame({"N": 1e9, "D": [1e9, 1e10]}), "at.csv"), force=True)
    facts = made.facts["fits"][0]
    units = {row[0]: row[1] for row in facts["data"]["ranges"]["rows"]}
    assert units == {"N": "parameters", "D": "training tokens", "loss": "bits/byte"}
    place = facts["parameters"]["columns"].index("unit")
    assert [row[place] for row in facts["parameters"]["rows"]][:2] == ["bits/byte", "bits/byte x parameters^alpha"]
    assert made.facts["forecasts"][0]["table"]["caption"] == "Forecasts by bytes, bits/byte"
    assert "losses are in bits/byte." in made.html
    everything = made.html + made.json + "".join(v.decode() for k, v in made.latex.items() if k.endswith(".tex"))
    assert "nats" not in everything
    seen = [t.get_text() for name in ("fit1-data", "forecast1") for t in made.pictures[name].figure.findobj(Text)]
    assert [t for t in seen if "bits/byte" in t]
    assert not [t for t in seen if "nats" in t]


@pytest.mark.slow
def test_fits_in_two_units_each_name_theirs(small_fit: Fit) -> None:
    other = replace(small_fit, observed=replace(small_fit.observed, unit="bits/byte"))
    html = report({"tokens": small_fit, "bytes": other}).html
    assert "the unit named with each fit" in html
    assert html.index("40 of 8 runs, in nats/token") < html.index("40 of 8 runs, in bits/byte")
