"""The tape: the value and derivatives of every operation, and the operations that it records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayeslaw.engine import ops
from bayeslaw.engine.build import jit
from bayeslaw.engine.tape import FUNCTIONS, Node, Tape
from bayeslaw.laws.formula import NUMPY
from tests.oracles import Array, central

Function = Callable[..., Any]
forward, backward = jit(ops.forward), jit(ops.backward)
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


def run(tape: Tape, result: Node, inputs: Array) -> tuple[Array, Array]:
    """Values of a node and the gradient of their sum by the inputs."""
    program = tape.program()
    memory, slope = program.memory.copy(), np.zeros(program.memory.size)
    memory[program.inputs] = inputs
    forward(program.code, memory)
    first = program.offsets[result.slot]
    place = slice(first, first + program.lengths[result.slot])
    slope[place] = 1.0
    backward(program.code, memory, slope)
    return memory[place].copy(), slope[program.inputs]


def assert_right(write: Callable[..., Any], expected: Callable[..., Any], *inputs: float) -> None:
    """`write` on nodes gives what `expected` gives on numbers, and its derivatives."""
    tape = Tape()
    result = write(*(tape.input() for _ in inputs))
    values, gradient = run(tape, result, np.array(inputs))
    np.testing.assert_allclose(values, np.atleast_1d(expected(*inputs)), rtol=1e-13, atol=1e-15)
    slopes = central(lambda v: float(np.sum(expected(*v))), np.array(inputs), 1e-3)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_has_its_values_and_derivatives(name: str) -> None:
    function = ARITHMETIC[name]
    assert_right(function, function, 0.7, 1.9)
    assert_right(lambda a, b: function(a * ROWS, b + ROWS), lambda a, b: function(a * ROWS, b + ROWS), 0.7, 1.9)
    assert_right(lambda a, b: function(a, b + ROWS), lambda a, b: function(a, b + ROWS), 0.7, 1.9)
    assert_right(lambda a, b: function(a * ROWS, b), lambda a, b: function(a * ROWS, b), 0.7, 1.9)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("select", "minimum", "maximum")])
@pytest.mark.parametrize("x", [-2.3, 0.2, 3.0])
def test_functions_of_one_argument_have_their_values_and_derivatives(name: str, x: float) -> None:
    if name in ("log", "sqrt", "log1p"):
        x = abs(x)
    oracle = {"softplus": lambda v: np.log1p(np.exp(v)), "sigmoid": lambda v: 1 / (1 + np.exp(-v))}.get(
        name, getattr(np, name, None)
    )
    assert oracle is not None
    assert_right(FUNCTIONS[name], oracle, x)
    assert_right(lambda a: FUNCTIONS[name](a * ROWS), lambda a: oracle(a * ROWS), x)
    assert FUNCTIONS[name](x) == pytest.approx(oracle(x))


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize(("a", "b"), [(0.5, 1.2), (1.2, 0.5)])
def test_minimum_and_maximum_have_their_values_and_derivatives(name: str, a: float, b: float) -> None:
    assert_right(FUNCTIONS[name], NUMPY[name], a, b)
    assert_right(lambda x, y: FUNCTIONS[name](x * ROWS, y), lambda x, y: NUMPY[name](x * ROWS, y), a, b)


def test_the_maximum_of_many_rows_and_a_constant() -> None:
    """There are enough rows for a loop of their own; nan stays nan."""
    rows = np.linspace(-1.0, 2.0, 40)

    def write(a: Any, b: Any) -> Any:
        return FUNCTIONS["maximum"](a * rows, 0.5) * b + FUNCTIONS["maximum"](b * rows, a) / rows[5]

    assert_right(write, lambda a, b: np.maximum(a * rows, 0.5) * b + np.maximum(b * rows, a) / rows[5], 0.7, 1.9)
    tape = Tape()
    x = tape.input()
    values, _ = run(tape, FUNCTIONS["maximum"](x * rows - x * rows, 0.5), np.array([np.inf]))
    assert np.isnan(values).all()


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_of_many_rows_is_that_of_few(name: str) -> None:
    """There are enough rows for vectorised loops."""
    rows, function = np.linspace(0.3, 2.5, 40), ARITHMETIC[name]
    for write in (
        lambda a, b: function(a * rows, b + rows),
        lambda a, b: function(a, b + rows),
        lambda a, b: function(a * rows, b),
    ):
        assert_right(write, write, 0.7, 1.9)


def test_select_takes_one_side_and_its_slope() -> None:
    flag = np.array([1.0, 0.0, 0.0, 1.0])
    assert_right(lambda a, b: FUNCTIONS["select"](flag, a * ROWS, b), lambda a, b: np.where(flag > 0.5, a * ROWS, b), 0.7, 1.9)
    assert_right(lambda c, a, b: FUNCTIONS["select"](c, a, b * ROWS), lambda c, a, b: a + 0 * b * ROWS + 0 * c, 0.9, 0.7, 1.9)
    assert_right(lambda c, a, b: FUNCTIONS["select"](c, a, b * ROWS), lambda c, a, b: b * ROWS + 0 * c + 0 * a, 0.1, 0.7, 1.9)


def test_a_sum_over_rows_has_its_value_and_derivatives() -> None:
    assert_right(lambda a, b: (a * ROWS**b).sum(), lambda a, b: np.sum(a * ROWS**b), 0.7, 1.9)
    assert_right(lambda a: a.sum() * 2.0, lambda a: a * 2.0, 0.7)


def test_power_of_a_positive_constant_is_an_exponential() -> None:
    tape = Tape()
    _ = tape.constant(ROWS) ** tape.input()
    assert [op for op, *_ in tape.operations] == [ops.MUL, ops.EXP]


def test_power_of_a_constant_that_is_not_positive() -> None:
    assert_right(lambda a: (a * 0.0 + 0.0) ** 2.0 + a, lambda a: a, 1.3)
    tape = Tape()
    square = tape.constant(np.array([-2.0, 3.0])) ** tape.input()
    values, _ = run(tape, square, np.array([2.0]))
    np.testing.assert_allclose(values, [4.0, 9.0])


def test_powers_of_an_input_at_zero_and_below() -> None:
    tape = Tape()
    x = tape.input()
    values, gradient = run(tape, x**2.0, np.array([-3.0]))
    assert values == pytest.approx([9.0])
    assert gradient == pytest.approx([-6.0])


def test_logarithm_of_what_is_not_positive_is_minus_infinity() -> None:
    tape = Tape()
    values, _ = run(tape, FUNCTIONS["log"](tape.input() * np.array([0.0, -1.0, 1.0])), np.array([1.0]))
    np.testing.assert_array_equal(values, [-np.inf, -np.inf, 0.0])


def test_softplus_and_sigmoid_far_out() -> None:
    for x, soft, sig in ((-800.0, 0.0, 0.0), (-30.0, np.exp(-30.0), np.exp(-30.0)), (800.0, 800.0, 1.0)):
        tape = Tape()
        values, gradient = run(tape, FUNCTIONS["softplus"](tape.input()), np.array([x]))
        assert values == pytest.approx([soft], rel=1e-12, abs=0)
        assert gradient == pytest.approx([sig], rel=1e-12, abs=0)
        values, _ = run(tape, FUNCTIONS["sigmoid"](Node(tape, 0)), np.array([x]))
        assert values == pytest.approx([sig], rel=1e-12, abs=0)
        assert FUNCTIONS["sigmoid"](x) == pytest.approx(sig, rel=1e-12, abs=0)


def test_operations_on_constants_are_done_at_once() -> None:
    tape = Tape()
    node = FUNCTIONS["exp"](tape.constant(ROWS) * 2.0 - 1.0)
    assert tape.operations == []
    assert node.constant is not None
    np.testing.assert_allclose(node.constant, np.exp(2 * ROWS - 1))


def test_impossible_constants_warn_of_nothing() -> None:
    node = FUNCTIONS["log"](Tape().constant(-1.0)) / 0.0
    assert node.constant is not None
    assert np.isnan(node.constant).all()


def test_equal_operations_and_constants_share_a_slot() -> None:
    tape = Tape()
    x, y = tape.input(), tape.input()
    first = FUNCTIONS["exp"](x * ROWS) + y
    count = len(tape.operations)
    second = FUNCTIONS["exp"](x * ROWS.copy()) + y
    assert (second.slot, len(tape.operations)) == (first.slot, count) == (first.slot, 3)
    assert tape.constant(2.0).slot == tape.constant(2).slot
    assert tape.constant(2.0).slot != tape.constant(-2.0).slot
    assert (x + y).slot != (x - y).slot


def test_rows_and_single_numbers_mix() -> None:
    tape = Tape()
    x = tape.input()
    assert tape.lengths[(x * ROWS).slot] == ROWS.size
    assert tape.lengths[(x * 3.0).slot] == 1
    assert tape.lengths[(x * ROWS).sum().slot] == 1
    assert tape.lengths[(x * np.ones(1)).slot] == 1


def test_rows_of_different_numbers_are_refused() -> None:
    tape = Tape()
    with pytest.raises(ValueError, match=r"arrays of different numbers of values can't be combined: \[3, 4\]"):
        _ = tape.input() * ROWS + np.ones(3)


def test_numpy_arrays_leave_the_arithmetic_to_nodes() -> None:
    tape = Tape()
    for node in (ROWS * tape.input(), ROWS / tape.input(), ROWS - tape.input(), ROWS ** tape.input()):
        assert isinstance(node, Node)
        assert tape.lengths[node.slot] == ROWS.size


def test_a_program_can_be_run_by_two_users() -> None:
    """Each run works on a copy of the memory, so the program stays as it was."""
    tape = Tape()
    result = FUNCTIONS["exp"](tape.input() * ROWS)
    before = tape.program().memory
    first, _ = run(tape, result, np.array([1.0]))
    second, _ = run(tape, result, np.array([2.0]))
    np.testing.assert_allclose(second, first**2)
    np.testing.assert_array_equal(tape.program().memory, before)


def columns(shuffled: bool = True) -> dict[str, Array]:
    """Rows of a table: 4 sizes, 2 stages and 10 tokens per parameter in every combination, and a column of their own."""
    rng = np.random.default_rng(0)
    n, p, k = np.meshgrid([1.0, 2.0, 3.0, 5.0], [15.0, 31.0], np.geomspace(0.5, 20, 10), indexing="ij")
    order = rng.permutation(n.size) if shuffled else np.arange(n.size)
    table = {"N": n.ravel()[order], "ptpp": p.ravel()[order], "D": (n * k).ravel()[order]}
    return table | {"own": rng.uniform(1, 2, n.size), "one": np.full(n.size, 3.0)}


ON_ROWS: dict[str, Function] = {
    "one column": lambda a, b, x: a / x["N"] ** b,
    "scalars alone": lambda a, b, x: a * b + 2.0,
    "two columns meet": lambda a, b, x: a / x["N"] ** b + b * x["ptpp"] ** -a,
    "exponent by stage": lambda a, b, x: a * x["D"] ** (-b / x["ptpp"]),
    "coarse after fine": lambda a, b, x: (a * x["own"] + b / x["N"]) * x["ptpp"] ** b,
    "constants meet": lambda a, b, x: a * (x["N"] * x["D"] / x["one"]) + b,
    "same on both sides": lambda a, b, x: (a * x["N"]) * (b * x["N"]) - x["N"] / x["ptpp"],
}


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("name", ON_ROWS)
def test_columns_give_rows_their_values_and_derivatives(name: str, shuffled: bool) -> None:
    """Columns are stored as their distinct values, and the result is that of whole columns."""
    function, table = ON_ROWS[name], columns(shuffled)
    rows = table["N"].size
    tape = Tape()
    x = {k: tape.rows(v) for k, v in table.items()}
    result = tape.every_row(function(tape.input(), tape.input(), x), rows)
    values, gradient = run(tape, result, np.array([0.7, 1.3]))
    np.testing.assert_allclose(values, np.broadcast_to(function(0.7, 1.3, table), rows), rtol=1e-13)
    slopes = central(lambda v: float(np.sum(np.broadcast_to(function(*v, table), rows))), np.array([0.7, 1.3]), 1e-3)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-8)


def test_rows_in_order_are_gathered_by_intervals() -> None:
    for shuffled, intervals in ((True, 0), (False, 4)):
        tape, table = Tape(), columns(shuffled)
        tape.every_row(tape.input() * tape.rows(table["N"]), 80)
        gathered = tape.program().code[-1]
        assert (gathered[0], gathered[8]) == (ops.GATHER, intervals)


def test_slots_that_are_not_constant_come_first() -> None:
    tape, table = Tape(), columns()
    result = FUNCTIONS["exp"](tape.input() * tape.rows(table["N"]) + 2.0)
    program = tape.program()
    made = {slot for _, slot, *_ in tape.operations} | set(tape.inputs)
    assert program.live == program.lengths[list(made)].sum()
    assert all((program.offsets[slot] < program.live) == (slot in made) for slot in range(program.offsets.size))
    assert program.offsets[result.slot] < program.live


def test_values_that_rows_share_are_computed_once() -> None:
    tape, table = Tape(), columns()
    x = {k: tape.rows(v) for k, v in table.items()}
    a = tape.input()

    def values(node: Node) -> int:
        return tape.lengths[node.slot]

    assert [values(x[k]) for k in ("N", "ptpp", "D", "own", "one")] == [4, 2, np.unique(table["D"]).size, 80, 1]
    assert values(x["N"] ** a) == 4
    assert values(x["N"] ** a + x["ptpp"] ** a) == 8
    assert values(x["N"] ** a + x["D"] ** a) == 40
    assert values(x["N"] + x["D"] * x["ptpp"] * a) == 80
    assert values(tape.every_row(x["N"] ** a, 80)) == 80
    with pytest.raises(ValueError, match="every_row"):
        (x["N"] * a).sum()
    with pytest.raises(ValueError, match="can't be combined"):
        x["N"] * tape.constant(np.ones(4))
