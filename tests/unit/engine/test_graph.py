"""Formulas over rows as graphs: values, derivatives, and what is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from bayeslaw.engine.compiled import Outputs, Program
from bayeslaw.engine.graph import ALL, FUNCTIONS, SETTINGS, SINGLE, Graph, Value
from bayeslaw.engine.lowering import UnknownOperationError
from bayeslaw.laws.formula import NUMPY
from tests.oracles import Array, central

Function = Callable[..., Any]
ROWS = np.array([0.3, 0.8, 1.7, 2.5])

ARITHMETIC: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "negate": lambda a, b: -a * b,
    "number first": lambda a, b: (2.0 + a) + (3.0 - b) + 1.5 * a + 2.0 / b + 2.0**a + 1.7**b,
    "number last": lambda a, b: (a + 2.0) + (b - 3.0) + a * 1.5 + b / 2.0 + a**2.5,
    "same twice": lambda a, b: a * a + a / a + a - a + b,
}


def program_of(function: Function, table: Mapping[str, Array], inputs: int) -> Program:
    """The sum over all rows of a function of single numbers and of the table's columns, weighted by the rows' numbers."""
    rows = len(next(iter(table.values())))

    def write(graph: Graph) -> Outputs:
        x = [graph.variable(f"x{i}") for i in range(inputs)]
        columns = {name: graph.column(name) for name in table}
        result = graph.value(function(*(Value(graph, SINGLE, variable=v) for v in x), columns)).every_row()
        weights = graph.array("weights", np.arange(1.0, 1.0 + rows))
        return (x, (result * weights).sum(), []) if graph.build else None

    return Program.of(write, table, repr(function))


def assert_right(function: Function, table: Mapping[str, Array], *inputs: float, expected: Function | None = None) -> None:
    """The compiled function gives the weighted sum of what the function gives in NumPy, and its derivatives."""
    weights = np.arange(1.0, 1.0 + len(next(iter(table.values()))))

    def oracle(x: Array) -> float:
        return float(np.sum(weights * (expected or function)(*x, table)))

    x = np.array(inputs)
    value, gradient = program_of(function, table, x.size).function(x.size)(x)
    assert value == pytest.approx(oracle(x), rel=1e-12, abs=1e-14)
    np.testing.assert_allclose(gradient, central(oracle, x, 1e-3), rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_arithmetic_has_its_values_and_derivatives() -> None:
    """Of single numbers, of rows, and of both; each operation has a weight of its own, so that no error hides another."""

    def function(a: Any, b: Any, x: Any) -> Any:
        total: Any = 0.0
        for weight, f in enumerate(ARITHMETIC.values()):
            total = total + (f(a, b) + f(a * x["own"], b + x["own"]) + f(a, b + x["own"]) + f(a * x["own"], b)) * (1.3 + weight)
        return total

    assert_right(function, {"own": ROWS}, 0.7, 1.9)


ORACLES: dict[str, Function] = {"softplus": lambda v: np.log1p(np.exp(v)), "sigmoid": lambda v: 1 / (1 + np.exp(-v))}
ORACLES |= {name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh")}


@pytest.mark.parametrize("name", ORACLES)
def test_functions_of_numpy_arrays(name: str) -> None:
    assert set(ORACLES) | {"select", "minimum", "maximum", "total"} == set(FUNCTIONS)
    for x in (0.2, 3.0) if name in ("log", "sqrt", "log1p") else (-2.3, 0.2, 3.0):
        assert FUNCTIONS[name](x) == pytest.approx(ORACLES[name](x))


@pytest.mark.slow
@pytest.mark.parametrize("names", [("log", "sqrt", "log1p"), ("softplus", "sigmoid", "exp", "expm1", "tanh")])
def test_functions_of_one_argument_have_their_values_and_derivatives(names: tuple[str, ...]) -> None:
    sign = 1.0 if "log" in names else -1.0

    def function(a: Any, x: Any, functions: Mapping[str, Function] = FUNCTIONS) -> Any:
        total: Any = 0.0
        for weight, name in enumerate(names):
            total = total + (functions[name](a) + functions[name](sign * a * x["own"])) * (1.3 + weight)
        return total

    assert_right(function, {"own": ROWS}, 0.8, expected=lambda a, x: function(a, x, ORACLES))


@pytest.mark.slow
def test_minimum_and_maximum_have_their_values_and_derivatives() -> None:
    def function(a: Any, b: Any, x: Any, functions: Mapping[str, Function] = FUNCTIONS) -> Any:
        low, high = functions["minimum"], functions["maximum"]
        return low(a * x["own"], b) + low(a, b) * a + low(x["own"], a) + 3.0 * (high(a * x["own"], b) + high(a, b) * a)

    assert_right(function, {"own": ROWS}, 0.7, 1.2, expected=lambda a, b, x: function(a, b, x, NUMPY))


@pytest.mark.slow
def test_select_takes_one_side_and_its_slope() -> None:
    table = {"own": ROWS, "flag": np.array([1.0, 0.0, 0.0, 1.0])}

    def function(a: Any, b: Any, x: Any, select: Function = FUNCTIONS["select"]) -> Any:
        return select(x["flag"], a * x["own"], b) + select(a, b * b, x["own"]) + select(b, a, x["own"] * b)

    assert_right(function, table, 0.9, 0.3, expected=lambda a, b, x: function(a, b, x, NUMPY["select"]))


def columns(shuffled: bool = True) -> dict[str, Array]:
    """Rows of a table: 4 sizes, 2 stages and 10 tokens per parameter in every combination, and a column of their own."""
    rng = np.random.default_rng(0)
    n, p, k = np.meshgrid([1.0, 2.0, 3.0, 5.0], [15.0, 31.0], np.geomspace(0.5, 20, 10), indexing="ij")
    order = rng.permutation(n.size) if shuffled else np.arange(n.size)
    table = {"N": n.ravel()[order], "ptpp": p.ravel()[order], "D": (n * k).ravel()[order]}
    return table | {"own": rng.uniform(1, 2, n.size), "one": np.full(n.size, 3.0)}


ON_ROWS: dict[str, Function] = {
    "one column": lambda a, b, x: a / x["N"] ** b,
    "numbers alone": lambda a, b, x: a * b + 2.0,
    "two columns meet": lambda a, b, x: a / x["N"] ** b + b * x["ptpp"] ** -a,
    "exponent by stage": lambda a, b, x: a * x["D"] ** (-b / x["ptpp"]),
    "coarse after fine": lambda a, b, x: (a * x["own"] + b / x["N"]) * x["ptpp"] ** b,
    "data meet": lambda a, b, x: a * (x["N"] * x["D"] / x["one"]) + b,
    "same on both sides": lambda a, b, x: (a * x["N"]) * (b * x["N"]) - x["N"] / x["ptpp"],
    "a base that is not positive": lambda a, b, x: (x["N"] - 2.0) ** 2.0 * a + (a * x["N"] - 9.0) ** 2.0 * b,
}


@pytest.mark.slow
def test_columns_give_rows_their_values_and_derivatives() -> None:
    """Columns are stored as their distinct values, and the result is that of whole columns, in any order."""

    def function(a: Any, b: Any, x: Any) -> Any:
        total: Any = 0.0
        for weight, f in enumerate(ON_ROWS.values()):
            total = total + f(a, b, x) * (1.3 + weight)
        return total

    for shuffled in (True, False):
        assert_right(function, columns(shuffled), 0.7, 1.3)


@pytest.mark.slow
def test_one_compiled_function_serves_tables_of_any_size() -> None:
    function = ON_ROWS["two columns meet"]
    large, small = columns(), {name: values[:33] for name, values in columns().items()}
    first, second = (program_of(function, table, 2) for table in (large, small))
    assert first.graph is second.graph
    for program, table in ((first, large), (second, small)):
        weights, x = np.arange(1.0, 1.0 + table["N"].size), np.array([0.7, 1.3])
        assert program.function(2)(x)[0] == pytest.approx(np.sum(weights * function(*x, table)), rel=1e-12)


def test_data_can_be_replaced() -> None:
    program = program_of(lambda a, x: a * x["own"], {"own": ROWS}, 1)
    assert program.function(1, weights=np.array([0.0, 1.0, 0.0, 0.0]))(np.array([2.0]))[0] == pytest.approx(1.6)


@pytest.mark.slow
def test_softplus_and_sigmoid_far_out() -> None:
    function = program_of(lambda a, _: FUNCTIONS["softplus"](a), {"own": np.ones(1)}, 1).function(1)
    for x, soft, sig in ((-800.0, 0.0, 0.0), (-30.0, np.exp(-30.0), np.exp(-30.0)), (800.0, 800.0, 1.0)):
        value, gradient = function(np.array([x]))
        assert value == pytest.approx(soft, rel=1e-12, abs=0)
        assert gradient == pytest.approx([sig], rel=1e-12, abs=0)
        assert FUNCTIONS["sigmoid"](x) == pytest.approx(sig, rel=1e-12, abs=0)


def test_operations_on_data_are_done_at_once_and_warn_of_nothing() -> None:
    graph = Graph({"own": ROWS}, {}, build=False)
    value = FUNCTIONS["exp"](graph.column("own") * 2.0 - 1.0)
    np.testing.assert_allclose(value.data, np.exp(2 * ROWS - 1))
    assert np.isnan((FUNCTIONS["log"](graph.number("x", -1.0)) / 0.0).data)


def test_values_that_rows_share_are_computed_once() -> None:
    table = columns()
    graph = Graph(table, {}, build=False)
    x, a = {k: graph.column(k) for k in table}, Value(graph, SINGLE)

    def values(value: Value) -> int:
        return 1 if value.over == SINGLE else int(graph.index(value.over, ALL).max()) + 1

    assert [values(x[k]) for k in ("N", "ptpp", "D", "own", "one")] == [4, 2, np.unique(table["D"]).size, 80, 1]
    assert values(x["N"] ** a) == 4
    assert values(x["N"] ** a + x["ptpp"] ** a) == 8
    assert values(x["N"] ** a + x["D"] ** a) == 40
    assert (x["N"] + x["D"] * x["ptpp"] * a).over == ALL
    with pytest.raises(ValueError, match="can't be combined"):
        x["N"] * Value(graph, SETTINGS)


def test_a_graph_with_an_operation_that_can_not_be_compiled_says_so() -> None:
    import pytensor.tensor as pt

    def write(graph: Graph) -> Outputs:
        x = graph.variable("x")
        return ([x], pt.cumsum(graph.array("own", ROWS) * x)[-1] * x, []) if graph.build else None

    with pytest.raises(UnknownOperationError, match=r"Cumsum.* can't be compiled"):
        Program.of(write, {"own": ROWS}, "of a test").function(1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_numbers_that_become_whole_or_true_are_those_of_numpy(dtype: str) -> None:
    import pytensor.tensor as pt

    def write(graph: Graph) -> Outputs:
        x, rows = graph.variable("x"), graph.array("own", ROWS)
        return ([x], pt.sum(pt.cast(rows * x, dtype) * rows) + 0.0 * x, []) if graph.build else None

    for x in (-1.7, 0.0, 1.3):
        value, _ = Program.of(write, {"own": ROWS}, f"of a test with {dtype}").function(1)(np.array([x]))
        assert value == pytest.approx(float(np.sum((ROWS * x).astype(dtype) * ROWS)))
