"""The package's own names, what importing it costs, and the demonstration from end to end."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from importlib import import_module
from importlib.metadata import version
from inspect import ismodule
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.cli import demo
from bayeslaw.inference.fit import fit
from bayeslaw.inference.point import point_fit
from tests import oracles
from tests.commands import Command, rejected, unchanged
from tests.fixed import loaded_fit, typical_fit

PACKAGES = ("", ".core", ".data", ".schedules", ".inference", ".evaluation", ".design", ".planning", ".dynamics", ".plots")


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_listed_found_and_documented(package: str) -> None:
    module = import_module(f"bayeslaw{package}")
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        value = getattr(module, name)
        assert value.__doc__, name
        if callable(value):
            assert getattr(import_module(value.__module__), name) is value


def test_about_thirty_names_lie_at_the_top() -> None:
    names = [n for n in dir(bayeslaw) if not n.startswith("_") and not ismodule(getattr(bayeslaw, n))]
    assert len(names) <= 35, names  # each a verb of a question, a class that users name, or an error


def test_a_star_import_brings_every_name() -> None:
    scope: dict[str, object] = {}
    exec("from bayeslaw import *", scope)
    assert set(dir(bayeslaw)) <= set(scope)


@pytest.mark.parametrize("name", ["fit", "forecast", "score"])
def test_functions_are_not_hidden_by_modules(name: str) -> None:
    module = import_module(
        {"fit": "bayeslaw.inference.fit", "forecast": "bayeslaw.forecasting.forecast", "score": "bayeslaw.evaluation.scores"}[name]
    )
    assert getattr(bayeslaw, name) is getattr(module, name)
    assert callable(getattr(bayeslaw, name))


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="fitt"):
        getattr(bayeslaw, "fitt")  # noqa: B009
    with pytest.raises(ImportError):
        exec("from bayeslaw import fitt", {})


def test_the_version_is_the_distributions() -> None:
    assert bayeslaw.__version__ == version("bayeslaw")


def test_slow_libraries_are_imported_on_use() -> None:
    code = (
        "import sys, bayeslaw, bayeslaw.cli\n"
        "print([m for m in ('pymc', 'pytensor', 'numba', 'arviz', 'matplotlib', 'pandas', 'nutpie', 'jax') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- the demonstration ----------------------------------------------------------------------------------------------


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demonstration on a small simulated table with a base row for each size, two laws and few draws."""
    truth = oracles.typical(bayeslaw.load_law("ptpp-floor"))
    rows = [
        {"N": n, "ptpp": ptpp, "r": r, "D": k * n, "run": f"{n}-{ptpp}-{r}"}
        for n, ptpp, r, k in product((1e7, 1e8), (15, 31, 279), (0.1, 0.3, 0.6), (1, 2, 5, 10, 20))
    ]
    table = pd.DataFrame(rows)
    noise = 0.003 * np.random.default_rng(0).standard_normal(len(table))
    table["loss"] = oracles.ptpp_floor(truth, {c: table[c].to_numpy() for c in ("N", "D", "r", "ptpp")}) * np.exp(noise)
    base = pd.DataFrame({"N": [1e7, 1e8], "ptpp": 15, "D": 0, "loss": 4.5, "run": ["a", "b"]})
    whole = pd.concat([table, base]).assign(domain="target", seed=0)
    path = tmp_path / "runs.csv"
    pd.concat([whole, whole.assign(domain="source", loss=14.0)]).to_csv(path, index=False)
    monkeypatch.setattr(demo, "table_path", lambda name="runs": path)
    monkeypatch.setattr(demo, "LAWS", ("ptpp-floor", "d-cpt"))
    monkeypatch.setattr(demo, "fit", partial(fit, draws=150, tune=100, chains=2))
    monkeypatch.setattr(demo, "point_fit", lambda law, runs, **_: point_fit(law, runs, starts=3))


@pytest.mark.usefixtures("quick")
def test_the_demonstration(command: Command, tmp_path: Path) -> None:
    output = tmp_path / "new" / "out"
    done = command("demo", "-o", output, "-q")
    assert (done.status, done.err) == (0, "")
    # of 5 D one lies below 2 tokens per parameter; 2 sizes, 3 replay shares
    assert "They forecast 24 losses after longer ones, 279, not seen by the fits" in done.out
    lines = done.out.splitlines()
    assert len(lines) <= 40
    # The conclusion has the numbers of the table, and no text takes passed sampling for a law that is right.
    assert lines[-1].startswith(
        "Conclusion: fitted to pre-trainings of 15 and 31 tokens per parameter, ptpp-floor forecast the losses"
    )
    scores = pd.read_csv(output / "scores.csv").query("fit == 'posterior'").set_index("law")
    for law, row in scores.iterrows():
        inside = f"{round(row['cover_eti90'] * row['rows'])} of {row['rows']} ({row['cover_eti90']:.0%})"
        assert inside in lines[-1]
        assert any(line.startswith(str(law)) and inside in line and f"{row['mae_rel']:.1%}" in line for line in lines)
    assert "Passed sampling means that the draws are those of the posterior, not that the law is right" in " ".join(
        done.out.split()
    )
    table = pd.read_csv(output / "scores.csv")
    assert table[["law", "fit", "rows"]].values.tolist() == [
        ["ptpp-floor", "posterior", 24], ["ptpp-floor", "point", 24], ["d-cpt", "posterior", 24], ["d-cpt", "point", 24],
    ]  # fmt: skip
    assert (output / "forecast.png").read_bytes().startswith(b"\x89PNG")
    assert loaded_fit(output / "d-cpt.nc").law.name == "d-cpt"
    assert command("show", output / "ptpp-floor.nc").status == 0
    assert demo._is_own(output / "ptpp-floor.nc")  # so that it may be made again


@pytest.mark.usefixtures("quick")
def test_the_demonstration_replaces_no_other_fits_and_scores(command: Command, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("my,own\n1,2\n", encoding="utf-8")
    typical_fit("ptpp-floor").save(tmp_path / "ptpp-floor.nc")
    with unchanged(tmp_path):
        rejected(command("demo", "-o", tmp_path, "-q"), "would-overwrite", "ptpp-floor.nc")
    (tmp_path / "ptpp-floor.nc").unlink()
    with unchanged(tmp_path):
        rejected(command("demo", "-o", tmp_path, "-q"), "would-overwrite", "scores.csv")


@pytest.mark.usefixtures("quick")
def test_a_demonstration_into_a_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("older", encoding="utf-8")
    rejected(command("demo", "-o", tmp_path / "taken"), "no-folder", "taken")
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "older"


def test_the_demonstrations_tables(command: Command, tmp_path: Path) -> None:
    done = command("demo", "--tables", "-o", tmp_path / "new")
    assert done.status == 0
    assert [line.rpartition("/")[2] for line in done.out.splitlines()] == ["target.csv", "source.csv", "curves.csv"]
    whole = pd.read_csv(demo.table_path())
    for domain in ("target", "source"):
        runs = bayeslaw.read_runs(tmp_path / "new" / f"{domain}.csv")
        mine = whole[(whole["domain"] == domain) & (whole["seed"] == 0) & ~whole["r"].isin([0, 1])]
        assert runs.frame["loss"].tolist() == mine["loss"].tolist()
    assert (tmp_path / "new" / "curves.csv").read_bytes() == demo.table_path("curves").read_bytes()


def test_the_demonstration_replaces_no_table_of_the_user(command: Command, tmp_path: Path) -> None:
    (tmp_path / "source.csv").write_text("my,own\n1,2\n", encoding="utf-8")
    rejected(command("demo", "--tables", "-o", tmp_path), "would-overwrite", "source.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["source.csv"]
    assert (tmp_path / "source.csv").read_text(encoding="utf-8") == "my,own\n1,2\n"
    assert command("demo", "--tables", "-o", tmp_path / "new").status == 0
    assert command("demo", "--tables", "-o", tmp_path / "new").status == 0  # its own tables are written again


def test_the_measured_losses_are_there() -> None:
    runs = bayeslaw.read_runs(demo.table_path())
    assert {"N", "D", "r", "ptpp", "loss", "domain", "run"} <= set(runs.frame)
    assert len(runs.where(demo.SEEN)) > 100
    assert len(runs.where(demo.UNSEEN)) > 100
