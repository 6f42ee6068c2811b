"""A tape of operations: the value and gradient of a formula without compiling it.

A law is data, so nothing about it is compiled. Arithmetic on `Node` objects writes a list of operations. `ops.forward` and
`ops.backward` run it; Numba compiles them once, keeps them on disk, and they serve every law, prior and number of rows. Each
operation runs over all its values before the next begins, which shares the cost of looking it up.

Rows repeat their covariates: a table of 240 losses may hold 4 sizes, 2 stages and 3 replay shares. A value that depends on some
covariates only is computed once for each combination of those (a partition of the rows) and gathered where it meets the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.engine import ops
from bayeslaw.laws.formula import NUMPY

SCALAR, PLAIN = 0, -1  # partitions of a single number, and of an array that is not a column of the rows
FEW = 0.7  # share of the rows above which a partition is not worth gathering from
INTERVALS = 0.5  # largest table of intervals, as a share of the values gathered, with which gathering by intervals is faster


class Tape:
    """A list of operations in the order in which they run.

    A slot holds a single number, one number for each part of a partition of the rows, or a plain array; it is an input, a constant
    or the result of an operation. Equal operations share a slot, and operations on constants run at once.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.partition: list[int] = []  # of each slot
        self.constants: dict[int, Array] = {}
        self.operations: list[tuple[int, int, int, int, int]] = []  # (op, result, a, b, c)
        self.inputs: list[int] = []
        self._known: dict[Any, int] = {}
        self._parts: list[Index] = [np.zeros(0, np.int64)]  # part of each row, for each partition but PLAIN
        self._sizes: list[int] = [1]

    def _slot(self, length: int, partition: int) -> int:
        self.lengths.append(length)
        self.partition.append(partition)
        return len(self.lengths) - 1

    def input(self) -> Node:
        """A new scalar input."""
        slot = self._slot(1, SCALAR)
        self.inputs.append(slot)
        return Node(self, slot)

    def constant(self, value: ArrayLike) -> Node:
        """A number, or a plain array."""
        array = np.atleast_1d(np.asarray(value, dtype=np.float64))
        return self._constant(array, SCALAR if array.size == 1 else PLAIN)

    def _constant(self, array: Array, partition: int) -> Node:
        key = ("constant", partition, array.tobytes())
        if key not in self._known:
            self._known[key] = self._slot(array.size, partition)
            self.constants[self._known[key]] = array
        return Node(self, self._known[key])

    def rows(self, column: Array) -> Node:
        """A column of the rows, stored as its distinct values."""
        values, part = np.unique(column, return_inverse=True)
        if values.size == 1:
            return self.constant(values)
        partition = self._partition(part)
        if self._sizes[partition] == column.size:
            return self._constant(np.asarray(column, dtype=np.float64), partition)
        return self._constant(values, partition)

    def every_row(self, node: Node, number: int) -> Node:
        """The node with one value for each of a number of rows, in their order."""
        return Node(self, self._gathered(node.slot, self._partition(np.arange(number)), scalars=True))

    def _partition(self, part: Index) -> int:
        """Number of a partition, given the part of each row; with nearly as many parts as rows it becomes that of single rows."""
        size = int(part.max()) + 1
        if size > FEW * part.size:
            size, part = part.size, np.arange(part.size)
        key = ("partition", part.tobytes())
        if key not in self._known:
            self._known[key] = len(self._parts)
            self._parts.append(part.astype(np.int64))
            self._sizes.append(size)
        return self._known[key]

    def _joined(self, partitions: set[int]) -> int:
        """The coarsest partition that is finer than all of the given ones."""
        if len(partitions) == 1:
            return next(iter(partitions))
        key = ("joined", frozenset(partitions))
        if key not in self._known:
            first, *others = sorted(partitions)
            part = self._parts[first]
            for p in others:
                _, part = np.unique(part * self._sizes[p] + self._parts[p], return_inverse=True)
            self._known[key] = self._partition(part)
        return self._known[key]

    def _gathered(self, slot: int, partition: int, *, scalars: bool = False) -> int:
        """The slot's values for each part of a finer partition; operations take scalars as they are."""
        own = self.partition[slot]
        if own == partition or (own == SCALAR and not scalars):
            return slot
        index = np.zeros(self._sizes[partition])
        if own != SCALAR:
            index[self._parts[partition]] = self._parts[own]
        if slot in self.constants:
            return self._constant(self.constants[slot][index.astype(np.int64)], partition).slot
        key = (ops.GATHER, slot, partition)
        if key not in self._known:
            self._known[key] = self._slot(index.size, partition)
            self.operations.append((ops.GATHER, self._known[key], slot, self._constant(index, PLAIN).slot, 0))
        return self._known[key]

    def node(self, value: Node | ArrayLike) -> Node:
        return value if isinstance(value, Node) else self.constant(value)

    def apply(self, op: int, *arguments: Node | ArrayLike) -> Node:
        """Append one operation, or run it at once where all arguments are constants."""
        slots = [self.node(a).slot for a in arguments]
        partitions = {self.partition[s] for s in slots} - {SCALAR}
        if PLAIN in partitions:
            lengths = {self.lengths[s] for s in slots} - {1}
            if len(lengths) > 1 or len(partitions) > 1:
                raise ValueError(f"arrays of different numbers of values can't be combined: {sorted(lengths)}")
            partition, length = PLAIN, max(lengths)
        else:
            partition = self._joined(partitions) if partitions else SCALAR
            length = self._sizes[partition]
            slots = [self._gathered(s, partition) for s in slots]
        if op == ops.SUM:
            if partition not in (PLAIN, SCALAR):
                raise ValueError("a column of the rows can be summed after every_row only")
            partition, length = SCALAR, 1
        if all(s in self.constants for s in slots):
            with np.errstate(all="ignore"):
                return self._constant(np.atleast_1d(_DIRECT[op](*(self.constants[s] for s in slots))), partition)
        key = (op, *slots)
        if key not in self._known:
            self._known[key] = self._slot(length, partition)
            a, b, c = (*slots, 0, 0)[:3]
            self.operations.append((op, self._known[key], a, b, c))
        return Node(self, self._known[key])

    def program(self) -> Program:
        """The tape as arrays for `ops.forward` and `ops.backward`."""
        lengths = np.array(self.lengths, dtype=np.int64)
        order = sorted(range(lengths.size), key=lambda slot: slot in self.constants)
        offsets = np.empty_like(lengths)
        offsets[order] = np.concatenate([[0], np.cumsum(lengths[order])[:-1]])
        live = int(sum(n for slot, n in enumerate(self.lengths) if slot not in self.constants))
        memory = np.zeros(int(lengths.sum()))
        for slot, value in self.constants.items():
            memory[offsets[slot] : offsets[slot] + lengths[slot]] = value
        code, tables, end = np.zeros((len(self.operations), 10), dtype=np.int64), [memory], memory.size
        for line, (op, result, *arguments) in zip(code, self.operations, strict=True):
            line[0], line[1], line[2] = op, offsets[result], lengths[result]
            for k, slot in enumerate(arguments):
                line[3 + 2 * k], line[4 + 2 * k] = offsets[slot], lengths[slot] > 1
                line[9] += (slot not in self.constants) << k
            if op == ops.SUM:
                line[2] = lengths[arguments[0]]
            if op == ops.GATHER:
                table = _intervals(self.constants[arguments[1]])
                worth = table.size <= INTERVALS * lengths[result]
                line[7], line[8] = end, table.size // 2 if worth else 0
                tables.append(table[: 2 * line[8]])
                end += 2 * line[8]
        return Program(code, np.concatenate(tables), live, offsets[self.inputs], offsets, lengths)


def _intervals(index: Array) -> Array:
    """The end of each interval of equal values, and the value, alternating."""
    ends = np.append(np.flatnonzero(np.diff(index)) + 1, index.size)
    return np.column_stack([ends, index[ends - 1]]).ravel()


@dataclass(frozen=True)
class Program:
    """Arrays for `forward` and `backward`.

    Attributes
    ----------
    code : int array (operations, 10)
        Operation, offset and length of the result, offset and stride of up to three arguments, and the sum of 1, 2 and 4 for
        those that are not constant. The third argument of GATHER is a table of `_intervals`, its stride their number; 0 for none.
    memory, live
        All slots in turn, with constants filled in, then tables; the first `live` floats are not constant. Users work on copies.
    inputs, offsets, lengths : int arrays
        Offsets of the inputs; start and length of each slot.
    """

    code: Index
    memory: Array
    live: int
    inputs: Index
    offsets: Index
    lengths: Index


Operator = Callable[["Node", Any], "Node"]


def _operators(op: int) -> tuple[Operator, Operator]:
    """An arithmetic operator with the node on its left, and with the node on its right."""
    return lambda node, other: node.tape.apply(op, node, other), lambda node, other: node.tape.apply(op, other, node)


class Node:
    """A slot of a tape with arithmetic operators, so that `Expression.evaluate` writes the tape."""

    __slots__ = ("slot", "tape")
    __array_ufunc__ = None  # NumPy arrays leave the arithmetic to this class

    def __init__(self, tape: Tape, slot: int) -> None:
        self.tape, self.slot = tape, slot

    @property
    def constant(self) -> Array | None:
        return self.tape.constants.get(self.slot)

    __add__, __radd__ = _operators(ops.ADD)
    __sub__, __rsub__ = _operators(ops.SUB)
    __mul__, __rmul__ = _operators(ops.MUL)
    __truediv__, __rtruediv__ = _operators(ops.DIV)

    def __neg__(self) -> Node:
        return self.tape.apply(ops.NEG, self)

    def __pow__(self, other: Node | ArrayLike) -> Node:
        base = self.constant
        if base is not None and np.all(base > 0):  # the usual N**alpha: the logarithm of the covariate is taken once
            return self.tape.apply(ops.EXP, self.tape.apply(ops.LOG, self) * other)
        return self.tape.apply(ops.POW, self, other)

    def __rpow__(self, other: ArrayLike) -> Node:
        return self.tape.constant(other) ** self

    def sum(self) -> Node:
        return self.tape.apply(ops.SUM, self)


def _function(op: int, direct: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Node):
                return argument.tape.apply(op, *arguments)
        return direct(*arguments)

    return call


_DIRECT: dict[int, Callable[..., Any]] = {
    ops.ADD: np.add, ops.SUB: np.subtract, ops.MUL: np.multiply, ops.DIV: np.divide, ops.POW: np.power,
    ops.NEG: np.negative, ops.EXP: np.exp, ops.EXPM1: np.expm1, ops.LOG: np.log, ops.LOG1P: np.log1p, ops.SQRT: np.sqrt,
    ops.TANH: np.tanh, ops.SIGMOID: NUMPY["sigmoid"], ops.SOFTPLUS: lambda x: np.logaddexp(0, x), ops.MIN: np.minimum,
    ops.MAX: np.maximum, ops.SELECT: lambda c, a, b: np.where(np.asarray(c) > 0.5, a, b), ops.SUM: np.sum,
}  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _function(op, _DIRECT[op])
    for name, op in {
        "exp": ops.EXP, "expm1": ops.EXPM1, "log": ops.LOG, "log1p": ops.LOG1P, "sqrt": ops.SQRT, "tanh": ops.TANH,
        "sigmoid": ops.SIGMOID, "softplus": ops.SOFTPLUS, "minimum": ops.MIN, "maximum": ops.MAX, "select": ops.SELECT,
    }.items()
}  # fmt: skip
"""The functions of `formula.FUNCTIONS` (and softplus) for nodes."""
