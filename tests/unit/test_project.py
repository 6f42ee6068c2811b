"""`constraints.txt` pins every package that bayeslaw, its tests and its site need, once; the sdist has what its tests import."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(lines: list[str]) -> set[str]:
    """Return the packages that requirements need, directly or through installed packages."""
    packages, waiting = set[str](), [(Requirement(line), "") for line in lines]
    while waiting:
        requirement, extra = waiting.pop()
        if canonical(requirement.name) in packages or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        packages.add(canonical(requirement.name))
        try:
            needed = [Requirement(line) for line in requires(requirement.name) or []]
        except PackageNotFoundError:
            continue
        waiting += [(other, extra) for other in needed for extra in requirement.extras or {""}]
    return packages


def test_every_package_is_pinned_once() -> None:
    lines = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["docs"]
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = Counter(canonical(line.partition("==")[0]) for line in pinned)
    assert sorted(wanted(lines + PROJECT["dependency-groups"]["dev"]) - set(pins)) == []
    assert [name for name, count in pins.items() if count > 1] == []


def test_the_sdist_has_what_its_tests_and_make_lint_read() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    read = [*PROJECT["tool"]["pytest"]["ini_options"]["pythonpath"], *PROJECT["tool"]["mypy"]["files"]]
    assert {f"/{Path(path).parts[0]}" for path in read if path != "."} <= set(included)


def test_the_versions_of_python_are_those_that_pymc_takes() -> None:
    """Where a newer Python was the first, `pip install` and `make` ended in the resolver's error that there is no such PyMC."""
    own = SpecifierSet(PROJECT["project"]["requires-python"])
    dependency = SpecifierSet(str(metadata("pymc")["Requires-Python"]))
    versions = [f"3.{minor}" for minor in range(12, 30)]
    assert [v for v in versions if v in own] == [v for v in versions if v in dependency]
