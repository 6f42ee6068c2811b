"""Every public name has an example in its docstring, and the examples run."""

from __future__ import annotations

import doctest
import shutil
from importlib import import_module
from inspect import isclass, isfunction, ismodule
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.cli.demo import table_path
from tests import dynamics, oracles, twins
from tests.fixed import stand_in_fit
from tests.unit.dynamics.test_mixtures import weighed
from tests.unit.dynamics.test_monitor import setting
from tests.unit.dynamics.test_monitor import table as table_of_runs

pytestmark = pytest.mark.usefixtures("kept_draws_of_workers")
PACKAGES = ("", ".core", ".data", ".schedules", ".inference", ".evaluation", ".design", ".planning", ".dynamics", ".plots")


def public() -> dict[str, object]:
    """Functions and classes by the name under which they are public."""
    found: dict[str, object] = {}
    for package in PACKAGES:
        module = import_module(f"bayeslaw{package}")
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and not ismodule(value) and (isclass(value) or isfunction(value)):
                found.setdefault(name, value)
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which examples run: tables, training curves, and fits of simulated losses, two of them with given draws."""
    folder = tmp_path_factory.mktemp("examples")
    runs = oracles.table(bayeslaw.load_law("chinchilla"), runs=13)
    new = runs["run"] == runs["run"].iloc[-1]
    runs[~new].to_csv(folder / "runs.csv", index=False)
    runs[new].assign(run="new").to_csv(folder / "new.csv", index=False)
    pd.DataFrame({"N": [1e9], "D": [1e11]}).to_csv(folder / "at.csv", index=False)
    table = oracles.table(bayeslaw.load_law("ptpp-floor"), runs=12)
    table.to_csv(folder / "ptpp.csv", index=False)
    shutil.copy(table_path("curves"), folder / "curves.csv")
    bayeslaw.fit("chinchilla", folder / "runs.csv", progress=False).save(folder / "fit.nc")
    loss = np.linspace(2.0, 4.5, 20)
    shares = np.random.default_rng(1).binomial(500, 0.25 + 0.65 / (1 + np.exp(2.5 * (loss - 2.8)))) / 500
    accuracies = pd.DataFrame({"loss": loss, "chance": 0.25, "items": 500, "accuracy": shares})
    bayeslaw.fit("task-sigmoid", accuracies, draws=500, progress=False).save(folder / "accuracy.nc")
    tried = oracles.table(bayeslaw.load_law("lr-batch"), runs=18)
    tried.to_csv(folder / "lr.csv", index=False)
    stand_in_fit("lr-batch", tried, draws=1000, discrepancy="none").save(folder / "lr.nc")
    for name, factor in (("source", 0.9), ("target", 1.0)):
        fit = bayeslaw.fit("ptpp-floor", table.assign(loss=factor * table["loss"]), progress=False)
        assert fit.passed
        fit.save(folder / f"{name}.nc")
    mixtures = bayeslaw.load_law("mixture-scaling")
    simulated = twins.simulate(mixtures, twins.TRUTHS["mixture-scaling"], twins.settings(mixtures), 1)
    stand_in_fit(mixtures, simulated, draws=1000, discrepancy="none").save(folder / "mixtures.nc")
    for name, fit in zip(("source", "target"), dynamics.fits(), strict=True):
        fit.save(folder / f"dynamics_{name}.nc")
    weighed().save(folder / "combination.nc")
    setting()[0].save(folder / "annealing.nc")
    table_of_runs().to_csv(folder / "running.csv", index=False)
    return folder


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(public()))
def test_an_example_runs(name: str, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    text = public()[name].__doc__ or ""
    examples = doctest.DocTestParser().get_doctest(text, {"bayeslaw": bayeslaw, "np": np, "pd": pd}, name, None, 0)
    ran = [e for e in examples.examples if not e.options.get(doctest.SKIP)]
    assert ran or name == "fetch_dataset", f"{name} has no example that runs"  # that one needs the network
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    printed: list[str] = []
    runner.run(examples, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)


def parameters(value: object) -> int:
    """How many arguments a function takes."""
    code = value.__code__  # type: ignore[attr-defined]
    return int(code.co_argcount + code.co_kwonlyargcount)


ROOT = Path(bayeslaw.__file__).parent
FILES = [
    p for p in ROOT.glob("*/**/*.py") if p.name != "__init__.py" and p.parent.name != "cli"
]  # options of commands have help texts
MODULES = sorted(".".join(p.relative_to(ROOT).with_suffix("").parts) for p in FILES)


@pytest.mark.parametrize("name", MODULES)
def test_functions_of_three_arguments_explain_them(name: str) -> None:
    module = import_module(f"bayeslaw.{name}")
    own = {n: v for n, v in vars(module).items() if isfunction(v) and v.__module__ == module.__name__ and not n.startswith("_")}
    unexplained = [n for n, v in own.items() if parameters(v) >= 3 and "Parameters\n" not in (v.__doc__ or "")]
    assert unexplained == []
