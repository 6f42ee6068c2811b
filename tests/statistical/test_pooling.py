"""Fits of two domains at once, in which a floor and an exponent differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import TableError
from bayeslaw.forecasting.grid import grid
from bayeslaw.inference.fit import fit
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import with_by
from tests import oracles
from tests.commands import Command, refused, rejected
from tests.domains import BY, VALUES, two_domains
from tests.fixed import loaded_fit

SHORT = ("--draws", "100", "--tune", "100", "--chains", "2", "--discrepancy", "none")  # where only names and words are asserted


def four_tasks() -> tuple[pd.DataFrame, dict[str, float]]:
    """Thirty models that each answer four tasks, with an effect of .06 logits for each model, and the truth."""
    rng, law, truth, parts = np.random.default_rng(1), load_law("task-sigmoid"), dict[str, float](), []
    effect, loss = 0.06 * rng.standard_normal(30), np.linspace(3.8, 1.8, 30)
    middles, slopes = (2.4, 2.7, 2.2, 3.0), (2.5, 3.5, 2.0, 3.0)
    chances, items = (0.25, 0.25, 0.5, 0.2), (1000, 500, 1500, 2000)
    for task, middle, slope, chance, asked in zip("abcd", middles, slopes, chances, items, strict=True):
        own = {"L0": middle, "k": slope, "top": 0.9}
        truth |= {f"L0_{task}": middle, f"k_{task}": slope}
        columns = {"loss": loss, "chance": np.full(30, chance), "items": np.full(30, float(asked))}
        accuracy = oracles.measured(law, oracles.task_sigmoid(own, columns), columns, effect, rng, 0.03)
        parts.append(pd.DataFrame(columns).assign(task=task, run=[f"model {i}" for i in range(30)], accuracy=accuracy))
    return pd.concat(parts, ignore_index=True), truth | {"top": 0.9, "sigma_point": 0.03, "sigma_run": 0.06}


@pytest.mark.statistical
def test_a_fit_of_four_tasks_finds_their_sigmoids() -> None:
    table, truth = four_tasks()
    pooled = fit("task-sigmoid", table, by={"L0": "task", "k": "task"}, draws=800, chains=2, seed=1, progress=False)
    assert pooled.passed, pooled.checks
    summary = pooled.summary()
    for name, value in truth.items():
        assert abs(summary["mean"][name] - value) < 4 * summary["sd"][name], name


def test_a_fit_of_two_domains_finds_both_floors(tmp_path: Path) -> None:
    pooled = fit("chinchilla", two_domains(), by=BY, noise="normal", progress=False)
    assert pooled.passed, pooled.checks
    table = pooled.summary()
    for name, truth in {"E_web": 1.6, "E_code__py_": 0.8, "alpha_web": 0.3, "alpha_code__py_": 0.28}.items():
        assert abs(table["mean"][name] - truth) < 4 * table["sd"][name]
    settings = grid(pooled.law, {"N": 3e9, "D": 3e10, "domain": "web,code (py)"})
    forecast = pooled.forecast(settings).summary()
    losses = [float(oracles.chinchilla({k: v[i] for k, v in VALUES.items()}, {"N": 3e9, "D": 3e10})) for i in range(2)]
    np.testing.assert_allclose(forecast["latent_median"], losses, rtol=0.02)
    pooled.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert loaded.law.parameters == pooled.law.parameters
    pd.testing.assert_frame_equal(loaded.forecast(settings).summary(), forecast)
    with pytest.raises(TableError, match="'books'"):
        pooled.forecast(settings.assign(domain="books"))
    with pytest.raises(TableError, match="domain"):
        pooled.forecast(settings.drop(columns="domain"))


def test_a_point_fit_has_a_value_for_each_domain() -> None:
    point = point_fit(with_by(load_law("chinchilla"), BY), two_domains(noise=0.0), starts=20)
    assert point.parameters["E_web"] == pytest.approx(1.6, rel=0.01)
    assert point.parameters["E_code__py_"] == pytest.approx(0.8, rel=0.01)


def test_commands_fit_and_forecast_each_domain(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    two_domains().to_csv("two.csv", index=False)
    law = ("fit", "chinchilla", "two.csv", "-o", "two.nc", "-q", "--noise", "normal", *SHORT)
    done = command(*law, "--by", "E=domain", "--noise-by", "domain")
    assert done.status == 0, done.err
    assert "for each of 2 groups (web, code (py))" in done.out
    shown = command("show", "two.nc", "--force").out
    assert "E_code__py_" in shown
    assert "sigma_point[web]" in shown
    at = ("--set", "N=1e9", "--set", "D=1e10")
    forecast = command("forecast", "two.nc", *at, "--set", "domain=web,code (py)", "--force", "-o", "two-forecast.csv")
    assert forecast.status == 0, forecast.err
    assert pd.read_csv("two-forecast.csv")["domain"].tolist() == ["web", "code (py)"]
    rejected(command("forecast", "two.nc", *at), "missing-covariate", "domain")
    refused(command("forecast", "two.nc", *at, "--set", "domain=books", "--force"), "'books'", "web, code (py)")
    rejected(command(*law, "--by", "E:domain"), "not-a-pair", "'E:domain'")
    rejected(command(*law, "--by", "E=domain", "--noise-by", "size"), "missing-column", "'size'")


def test_show_lists_the_first_of_many_values(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.concat([two_domains(noise=0.01).head(8).assign(domain=f"d{i}") for i in range(14)], ignore_index=True)
    frame.drop(columns="run", errors="ignore").to_csv("many.csv", index=False)
    law = ("fit", "chinchilla", "many.csv", "-o", "many.nc", "-q", "--noise", "normal-no-run", *SHORT)
    command(*law, "--by", "E=domain")
    short, whole = command("show", "many.nc", "--force").out, command("show", "many.nc", "--force", "--all").out
    assert "E_d4 " in short
    assert "E_d5 " not in short
    assert "and 9 more values by domain, which --all shows" in short
    assert "E_d13 " in whole
    assert "--all" not in whole
