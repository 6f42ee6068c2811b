"""Objects that hold arrays or tables: each is equal to itself alone, since arrays and tables are neither equal nor unequal."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import bayeslaw
from tests import oracles
from tests.fixed import line_fit

ARRAYS = re.compile(r"\b(NDArray|Array|Index|DataFrame|Series|DataTree|Dataset|Fit|Runs|Forecast|Observations)\b")
OTHERS = {"_Following"}  # what the command `watch` keeps while it runs, which is no result


def _dataclasses() -> Iterator[type]:
    for module in pkgutil.walk_packages(bayeslaw.__path__, "bayeslaw."):
        if module.name == "bayeslaw.__main__":
            continue
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and is_dataclass(value) and value.__module__ == module.name:
                yield value


def test_dataclasses_of_arrays_are_equal_to_themselves_alone() -> None:
    of_arrays = [c for c in _dataclasses() if any(ARRAYS.search(str(field.type)) for field in fields(c))]
    assert len(of_arrays) > 60
    assert [c.__name__ for c in of_arrays if "__eq__" in vars(c) and c.__name__ not in OTHERS] == []


def test_results_are_compared_and_hashed() -> None:
    table, settings = oracles.table(bayeslaw.load_law("chinchilla")), {"x": [0.0, 1.0]}
    makers: list[Callable[[], Any]] = [line_fit, lambda: bayeslaw.read_runs(table), lambda: bayeslaw.forecast(line_fit(), settings)]
    for make in makers:
        result, other = make(), make()
        assert result == result
        assert result != other
        assert [result, other].index(other) == 1
        assert {result: 1, other: 2}[other] == 2
