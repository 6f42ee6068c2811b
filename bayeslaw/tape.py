"""Value and gradient of a formula without compiling it: a tape, and two small machines that run it forwards and backwards.

A law is data, so nothing about it is compiled. Arithmetic on `Node` objects writes a list of operations; `forward` and
`backward` are compiled once by Numba, kept on disk, and serve every law, every prior and every number of rows. Each
operation runs over all rows before the next begins, so the cost of looking it up is shared by the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayeslaw.formula import NUMPY
from bayeslaw.kernels import (  # fmt: skip
    ADD,
    DIV,
    EXP,
    EXPM1,
    LOG,
    LOG1P,
    MAX,
    MIN,
    MUL,
    NEG,
    POW,
    SELECT,
    SIGMOID,
    SOFTPLUS,
    SQRT,
    SUB,
    SUM,
    TANH,
)


class Tape:
    """Operations written down in the order in which they are to be done.

    Slots hold one number or one per row; a slot is an input, a constant or the result of an operation. Equal operations
    share a slot, and operations on constants are done at once.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.constants: dict[int, NDArray[np.float64]] = {}
        self.operations: list[tuple[int, int, int, int, int]] = []  # (op, result, a, b, c)
        self.inputs: list[int] = []
        self._known: dict[Any, int] = {}

    def _slot(self, length: int) -> int:
        self.lengths.append(length)
        return len(self.lengths) - 1

    def input(self) -> Node:
        """A new scalar input."""
        slot = self._slot(1)
        self.inputs.append(slot)
        return Node(self, slot)

    def constant(self, value: ArrayLike) -> Node:
        """A number, or an array of one number per row."""
        array = np.atleast_1d(np.asarray(value, dtype=np.float64))
        key = ("constant", array.tobytes())
        if key not in self._known:
            self._known[key] = self._slot(array.size)
            self.constants[self._known[key]] = array
        return Node(self, self._known[key])

    def node(self, value: Node | ArrayLike) -> Node:
        return value if isinstance(value, Node) else self.constant(value)

    def apply(self, op: int, *arguments: Node | ArrayLike) -> Node:
        """Write down one operation, or do it at once where all arguments are constants."""
        nodes = [self.node(a) for a in arguments]
        slots = [n.slot for n in nodes]
        lengths = {self.lengths[s] for s in slots} - {1}
        if len(lengths) > 1:
            raise ValueError(f"rows of different numbers can't be combined: {sorted(lengths)}")
        if all(s in self.constants for s in slots):
            with np.errstate(all="ignore"):
                return self.constant(_DIRECT[op](*(self.constants[s] for s in slots)))
        key = (op, *slots)
        if key not in self._known:
            self._known[key] = self._slot(1 if op == SUM else max(lengths, default=1))
            a, b, c = (*slots, 0, 0)[:3]
            self.operations.append((op, self._known[key], a, b, c))
        return Node(self, self._known[key])

    def program(self) -> Program:
        """The tape as arrays, for the machines below."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        memory = np.zeros(int(offsets[-1]))
        for slot, value in self.constants.items():
            memory[offsets[slot] : offsets[slot + 1]] = value
        code = np.zeros((len(self.operations), 10), dtype=np.int64)
        for line, (op, result, *arguments) in zip(code, self.operations, strict=True):
            line[0], line[1], line[2] = op, offsets[result], self.lengths[result]
            for k, slot in enumerate(arguments):
                line[3 + 2 * k], line[4 + 2 * k] = offsets[slot], self.lengths[slot] > 1
            if op == SUM:
                line[2] = self.lengths[arguments[0]]
        return Program(code, memory, offsets[self.inputs].astype(np.int64), offsets)


@dataclass(frozen=True)
class Program:
    """Arrays for `forward` and `backward`.

    Attributes
    ----------
    code : int array (operations, 10)
        Operation, offset and length of the result, then offset and stride of up to three arguments.
    memory : float array
        All slots one after the other, constants filled in; each user works on a copy.
    inputs : int array
        Offsets of the inputs.
    offsets : int array
        Where each slot begins.
    """

    code: NDArray[np.int64]
    memory: NDArray[np.float64]
    inputs: NDArray[np.int64]
    offsets: NDArray[np.int64]


class Node:
    """A slot of a tape that knows arithmetic, so that `Expression.evaluate` writes the tape by itself."""

    __slots__ = ("slot", "tape")
    __array_ufunc__ = None  # NumPy arrays leave the arithmetic to this class

    def __init__(self, tape: Tape, slot: int) -> None:
        self.tape, self.slot = tape, slot

    @property
    def constant(self) -> NDArray[np.float64] | None:
        return self.tape.constants.get(self.slot)

    def __add__(self, other: Node | ArrayLike) -> Node:
        return self.tape.apply(ADD, self, other)

    def __radd__(self, other: ArrayLike) -> Node:
        return self.tape.apply(ADD, other, self)

    def __sub__(self, other: Node | ArrayLike) -> Node:
        return self.tape.apply(SUB, self, other)

    def __rsub__(self, other: ArrayLike) -> Node:
        return self.tape.apply(SUB, other, self)

    def __mul__(self, other: Node | ArrayLike) -> Node:
        return self.tape.apply(MUL, self, other)

    def __rmul__(self, other: ArrayLike) -> Node:
        return self.tape.apply(MUL, other, self)

    def __truediv__(self, other: Node | ArrayLike) -> Node:
        return self.tape.apply(DIV, self, other)

    def __rtruediv__(self, other: ArrayLike) -> Node:
        return self.tape.apply(DIV, other, self)

    def __neg__(self) -> Node:
        return self.tape.apply(NEG, self)

    def __pow__(self, other: Node | ArrayLike) -> Node:
        base = self.constant
        if base is not None and np.all(base > 0):  # the usual N**alpha: the logarithm of the covariate is taken once
            return self.tape.apply(EXP, self.tape.constant(np.log(base)) * other)
        return self.tape.apply(POW, self, other)

    def __rpow__(self, other: ArrayLike) -> Node:
        return self.tape.constant(other) ** self

    def sum(self) -> Node:
        return self.tape.apply(SUM, self)


def _function(op: int, direct: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Node):
                return argument.tape.apply(op, *arguments)
        return direct(*arguments)

    return call


_DIRECT: dict[int, Callable[..., Any]] = {
    ADD: np.add, SUB: np.subtract, MUL: np.multiply, DIV: np.divide, POW: np.power, NEG: np.negative, EXP: np.exp,
    EXPM1: np.expm1, LOG: np.log, LOG1P: np.log1p, SQRT: np.sqrt, TANH: np.tanh,
    SIGMOID: NUMPY["sigmoid"], SOFTPLUS: lambda x: np.logaddexp(0, x), MIN: np.minimum,
    MAX: np.maximum, SELECT: lambda c, a, b: np.where(np.asarray(c) > 0.5, a, b), SUM: np.sum,
}  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _function(op, _DIRECT[op])
    for name, op in {
        "exp": EXP, "expm1": EXPM1, "log": LOG, "log1p": LOG1P, "sqrt": SQRT, "tanh": TANH, "sigmoid": SIGMOID,
        "softplus": SOFTPLUS, "minimum": MIN, "maximum": MAX, "select": SELECT,
    }.items()
}  # fmt: skip
"""The functions of `formula.FUNCTIONS` (and softplus) for nodes."""
