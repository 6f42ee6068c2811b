"""One compiled function of a PyTensor graph of sums, gathers and elementwise operations.

PyTensor's own Numba backend compiles every operation of a graph by itself, some 700 functions for a law with its gradient, which
takes 10 to 20 seconds. Here the whole graph becomes one function, written in LLVM's language through a Numba intrinsic in about a
second: single numbers as straight code, and elementwise operations over equally many values in one loop.

Work is done in stages. A sum is known after the loop over its terms, so what depends on it belongs to the next stage; in each
stage the single numbers come first, then one loop for each number of values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler import Flags
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from bayeslaw.core.errors import BayeslawError
from bayeslaw.engine.build import compiled_by_itself
from bayeslaw.engine.functions import SPECIAL

DOUBLE, WORD, TRUTH = ir.DoubleType(), ir.IntType(64), ir.IntType(1)
ANY_ORDER = ("reassoc", "contract", "nsz")  # sums may be taken in any order, which lets LLVM vectorise them

Emit = Callable[..., Any]


def _number(x: float) -> Any:
    return ir.Constant(DOUBLE, x)


def _intrinsic(name: str) -> Emit:
    return lambda b, *x: b.call(b.module.declare_intrinsic(f"llvm.{name}", [DOUBLE]), x)


def _of_libm(name: str) -> Emit:
    return lambda b, x: b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(DOUBLE, [DOUBLE]), name), [x])


def _compared(sign: str) -> Emit:
    # A comparison with nan is false, but "not equal" is true.
    return lambda b, x, y: (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, x, y)


def _chain(operation: str) -> Emit:
    return lambda b, *x: functools.reduce(lambda left, right: getattr(b, operation)(left, right, flags=ANY_ORDER), x)


def _cast(b: Any, x: Any, dtype: str) -> Any:
    """A number as another type; whole numbers stay in floating point."""
    if dtype == "bool":
        return b.fcmp_unordered("!=", x, _number(0.0))
    return _intrinsic("trunc")(b, x) if np.issubdtype(dtype, np.integer) else x


def _sigmoid(b: Any, x: Any) -> Any:
    return b.fdiv(_number(1.0), b.fadd(_number(1.0), _intrinsic("exp")(b, b.fneg(x))))


def _softplus(b: Any, x: Any) -> Any:
    positive = b.select(b.fcmp_ordered(">", x, _number(0.0)), x, _number(0.0))
    return b.fadd(positive, _of_libm("log1p")(b, _intrinsic("exp")(b, b.fneg(_intrinsic("fabs")(b, x)))))


SCALAR: dict[str, Emit] = {
    "Add": _chain("fadd"), "Mul": _chain("fmul"), "Sub": _chain("fsub"), "TrueDiv": _chain("fdiv"),
    "Neg": lambda b, x: b.fneg(x), "Reciprocal": lambda b, x: b.fdiv(_number(1.0), x), "Sqr": lambda b, x: b.fmul(x, x),
    "Exp": _intrinsic("exp"), "Log": _intrinsic("log"), "Sqrt": _intrinsic("sqrt"), "Abs": _intrinsic("fabs"),
    "Pow": _intrinsic("pow"), "Log1p": _of_libm("log1p"), "Expm1": _of_libm("expm1"), "Tanh": _of_libm("tanh"),
    "GammaLn": _of_libm("lgamma"), "Erf": _of_libm("erf"), "Erfc": _of_libm("erfc"), "Sigmoid": _sigmoid, "Softplus": _softplus,
    "Maximum": lambda b, x, y: b.select(b.or_(_compared(">")(b, x, y), b.fcmp_unordered("uno", x, x)), x, y),
    "Minimum": lambda b, x, y: b.select(b.or_(_compared("<")(b, x, y), b.fcmp_unordered("uno", x, x)), x, y),
    "GT": _compared(">"), "LT": _compared("<"), "GE": _compared(">="), "LE": _compared("<="), "EQ": _compared("=="),
    "NEQ": _compared("!="), "AND": lambda b, x, y: b.and_(x, y), "OR": lambda b, x, y: b.or_(x, y),
    "Invert": lambda b, x: b.not_(x), "IsNan": lambda b, x: b.fcmp_unordered("uno", x, x),
    "IsInf": lambda b, x: b.fcmp_ordered("==", _intrinsic("fabs")(b, x), _number(math.inf)),
    "Sin": _intrinsic("sin"), "Cos": _intrinsic("cos"), "Log2": _intrinsic("log2"), "Log10": _intrinsic("log10"),
    "Floor": _intrinsic("floor"), "Ceil": _intrinsic("ceil"),
    "Sign": lambda b, x: b.fsub(*(b.uitofp(b.fcmp_ordered(sign, x, _number(0.0)), DOUBLE) for sign in (">", "<"))),
    "Switch": lambda b, c, x, y: b.select(c, x, y),
    "Identity": lambda b, x: x,
}  # fmt: skip
"""How a scalar operation of PyTensor is written; those of `functions.SPECIAL` are compiled from Python."""


class UnknownOperationError(BayeslawError):
    """A graph, as that of a noise given by a function, with an operation that `Lowering` can't write."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} can't be compiled. Write a noise of your own with arithmetic, comparisons, pt.switch and functions of "
            "single numbers such as pt.exp, pt.log1p and pt.gammaln.",
            code="unknown-operation",
        )


@dataclass(frozen=True, eq=False)
class Step:
    """One operation: its kind, its inputs and outputs, the stage at which it is worked out, and the operation itself."""

    kind: str
    inputs: list[Any]
    outputs: list[Any]
    stage: int
    op: Any

    @property
    def looped(self) -> Any:
        """An array as long as the loop in which the operation is written."""
        return self.outputs[0] if self.kind == "each" else self.inputs[{"scatter": 2, "gather": 1}.get(self.kind, 0)]


class Lowering:
    """The operations of a graph in stages.

    Parameters
    ----------
    numbers : sequence of scalar variables
        Inputs that are single numbers.
    arrays : sequence of vector variables
        Inputs that are arrays, of float64 or int64.
    outputs : sequence of variables
        Single numbers, of which the first is the function's value, and at most one array at the end.
    following : bool
        Whether the first array lies behind the numbers in memory; its size is in the table.
    """

    def __init__(self, numbers: Sequence[Any], arrays: Sequence[Any], outputs: Sequence[Any], *, following: bool = False) -> None:
        from pytensor.graph.fg import FunctionGraph
        from pytensor.graph.rewriting.basic import MergeOptimizer

        graph = FunctionGraph([*numbers, *arrays], list(outputs), clone=True)
        _inline(graph)
        MergeOptimizer().rewrite(graph)
        self.numbers, self.arrays = graph.inputs[: len(numbers)], graph.inputs[len(numbers) :]
        self.following = following
        self.steps: list[Step] = []
        self.size: dict[Any, Any] = {array: array for array in self.arrays}  # an array as long as this one, or a number
        self._available: dict[Any, int] = dict.fromkeys(graph.inputs, 0)  # the stage from which on a value is known
        self.filled: dict[Any, Any] = {}  # arrays of which all values are one number
        self._alias: dict[Any, Any] = {}
        self._as_long: dict[Any, Any] = {}
        for node in graph.toposort():
            self._add(node)
        self.outputs = [self.root(v) for v in graph.outputs]
        self.kept = self._kept()

    def root(self, variable: Any) -> Any:
        """The variable itself, or the one of which it is only another shape."""
        while variable in self._alias:
            variable = self._alias[variable]
        return variable

    def size_of(self, array: Any) -> Any:
        """The array that stands for all arrays of the same size, or the size where it is a fixed number."""
        size = self.size[array]
        while size in self._as_long:
            size = self._as_long[size]
        return size

    def _equally_long(self, arrays: Sequence[Any]) -> Any:
        for other in arrays[1:]:
            first, second = self.size_of(arrays[0]), self.size_of(other)
            if first is not second:
                self._as_long[second] = first
        return self.size[arrays[0]]

    def _add(self, node: Any) -> None:
        """Append the step of a node; its values are available at its own stage, or at the next one after a loop over all."""
        from pytensor.tensor.basic import MakeVector
        from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
        from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, Subtensor

        op, out, inputs = node.op, node.outputs[0], [self.root(v) for v in node.inputs]
        arrays, scalar = [v for v in inputs if v in self.size], getattr(op, "scalar_op", None)
        stage, later = max((self._available.get(v, 0) for v in inputs), default=0), 0
        adds = type(scalar).__name__ == "Add"
        if isinstance(op, DimShuffle) or (isinstance(op, CAReduce) and not arrays):
            self._alias[out] = inputs[0]
            return
        if isinstance(op, Elemwise):
            kind, op = "each" if arrays else "number", scalar
            if arrays:
                self.size[out] = self._equally_long(arrays)
            if type(scalar).__name__ == "Second":  # the second input in the shape of the first
                if inputs[1] in self.size or not arrays:
                    self._alias[out] = inputs[1]
                else:
                    self.filled[out], self._available[out] = inputs[1], self._available.get(inputs[1], 0)
                return
        elif isinstance(op, CAReduce) and adds:
            kind, later = "sum", 1
        elif isinstance(op, AdvancedSubtensor) and len(arrays) == len(inputs) == 2:
            kind, self.size[out] = "gather", self.size[inputs[1]]
            stage = max(stage, self._available[inputs[0]] + self._made_by_loop(inputs[0]))
        elif isinstance(op, AdvancedIncSubtensor) and not op.set_instead_of_inc and len(inputs) == 3 and inputs[0] in self.size:
            kind, self.size[out], later = "scatter", self.size[inputs[0]], 1
            self._equally_long([v for v in (inputs[2], inputs[1]) if v in self.size])
        elif isinstance(op, MakeVector):
            kind, self.size[out] = "vector", len(inputs)
        elif isinstance(op, Subtensor) and len(inputs) == 2 and inputs[1] not in self._available:
            kind, stage = "item", max(stage, self._available[inputs[0]] + self._made_by_loop(inputs[0]))
        elif hasattr(op, "compiled_from"):
            kind, later = "call", 1
            stage = max([stage, *(self._available[v] + self._made_by_loop(v) for v in arrays)])
            self.size |= {
                v: self.size[inputs[like]] for v, like in zip(node.outputs, op.as_long_as, strict=True) if like is not None
            }
        else:
            raise UnknownOperationError(f"{op} of {', '.join(str(v.type) for v in node.inputs)}")
        self._available |= dict.fromkeys(node.outputs, stage + later)
        self.steps.append(Step(kind, inputs, node.outputs, stage, op))

    def _made_by_loop(self, array: Any) -> bool:
        """Whether an array is complete only after a loop of the stage from which on its single values are known."""
        return any(array is step.outputs[0] for step in self.steps if step.kind in ("each", "gather"))

    def _kept(self) -> dict[Any, Any]:
        """The arrays that need memory, with their sizes: those used outside the loop that makes them."""
        inside = {step.outputs[0]: step for step in self.steps if step.kind in ("each", "gather")}
        kept = {v: self.size_of(v) for step in self.steps for v in step.outputs if v in self.size and v not in inside}
        for step in self.steps:
            for i, v in enumerate(step.inputs):
                whole = step.kind in ("call", "item") or (step.kind == "gather" and i == 0) or (step.kind == "scatter" and i == 0)
                if (v in inside and (whole or step.stage != inside[v].stage)) or (v in self.filled and step.kind == "call"):
                    kept[v] = self.size_of(v)
        return kept | {v: self.size_of(v) for v in self.outputs if v in inside}


def _inline(graph: Any) -> None:
    """Replace operations that are graphs themselves, such as logaddexp, by what is in them."""
    from pytensor.compile.builders import OpFromGraph
    from pytensor.compile.rewriting import inline_ofg_node

    while nodes := [node for node in graph.toposort() if isinstance(node.op, OpFromGraph)]:
        for node in nodes:
            graph.replace_all(list(zip(node.outputs, inline_ofg_node(node), strict=True)), import_missing=True)


class _Writer:
    """Writes a lowering with LLVM's builder; `values` are single numbers, `element` those of the loop that is being written."""

    def __init__(self, lowering: Lowering, context: Any, builder: Any, arguments: Sequence[Any]) -> None:
        self.lowering, self.context, self.builder = lowering, context, builder
        x, self.gradient, table, self.scratch = arguments
        self.values: dict[Any, Any] = {v: self.load(x, i) for i, v in enumerate(lowering.numbers)}
        self.pointers: dict[Any, Any] = {}
        self.lengths: dict[Any, Any] = {}
        for i, array in enumerate(lowering.arrays):
            kind = WORD if array.type.dtype == "int64" else DOUBLE
            behind = i == 0 and lowering.following
            place = self.at(x, len(lowering.numbers)) if behind else builder.inttoptr(self.load(table, 2 * i), kind.as_pointer())
            self.pointers[array] = place
            self.lengths[array] = self.load(table, 2 * i + 1)
        self.element: dict[Any, Any] = {}
        self.index: Any = None

    def load(self, pointer: Any, index: Any) -> Any:
        return self.builder.load(self.at(pointer, index))

    def at(self, pointer: Any, index: Any) -> Any:
        return self.builder.gep(pointer, [WORD(index) if isinstance(index, int) else index])

    def length(self, array: Any) -> Any:
        size = self.lowering.size_of(array)
        return WORD(size) if isinstance(size, int) else self.lengths[size]

    def memory(self) -> Any:
        """Give the kept arrays their places in the scratch memory; returns how many numbers it must hold."""
        total: Any = WORD(0)
        for array in self.lowering.kept:
            self.pointers[array] = self.at(self.scratch, total)
            total = self.builder.add(total, self.length(array))
        return total

    def value(self, variable: Any) -> Any:
        """A single number, or the element of an array in the current loop."""
        variable = self.lowering.filled.get(variable, variable)
        if variable in self.values:
            return self.values[variable]
        if variable in self.lowering.size:
            if variable not in self.element:
                number = self.load(self.pointers[variable], self.index)
                truth = variable.type.dtype == "bool"
                self.element[variable] = self.builder.fcmp_ordered("!=", number, _number(0.0)) if truth else number
            return self.element[variable]
        number = np.asarray(variable.data).reshape(-1)[0]  # a constant
        return TRUTH(bool(number)) if variable.type.dtype == "bool" else _number(float(number))

    def element_of(self, array: Any, index: Any) -> Any:
        return self.value(array) if array in self.lowering.filled else self.load(self.pointers[array], index)

    def scalar(self, op: Any, inputs: Sequence[Any]) -> Any:
        name, arguments = type(op).__name__, [self.value(v) for v in inputs]
        if name not in ("Switch", "AND", "OR", "Invert"):  # a truth in arithmetic counts as 0 or 1
            arguments = [self.builder.uitofp(a, DOUBLE) if a.type == TRUTH else a for a in arguments]
        if name == "Cast":
            return _cast(self.builder, arguments[0], op.o_type.dtype)
        if name in SPECIAL:
            return self.python(SPECIAL[name], types.float64(types.float64), arguments)
        if name not in SCALAR:
            raise UnknownOperationError(f"The operation {name}")
        return SCALAR[name](self.builder, *arguments)

    def python(self, function: Callable[..., Any], signature: Any, arguments: Sequence[Any]) -> Any:
        """Call a function that is compiled from Python, in which a division by zero gives inf or nan."""
        flags: Any = Flags()
        flags.nrt, flags.no_cpython_wrapper, flags.no_cfunc_wrapper, flags.error_model = True, True, True, "numpy"
        compiled = self.context.compile_subroutine(self.builder, function, signature, flags=flags)
        return self.context.call_internal(self.builder, compiled.fndesc, signature, arguments)

    def write(self) -> Any:
        """Write all stages; returns the function's value."""
        lowering = self.lowering
        for stage in range(max((step.stage for step in lowering.steps), default=0) + 1):
            loops: dict[Any, list[Step]] = {}
            calls = []
            for step in (s for s in lowering.steps if s.stage == stage):
                if step.kind in ("number", "vector", "item"):
                    self.alone(step)
                elif step.kind == "call":
                    calls.append(step)
                else:
                    loops.setdefault(lowering.size_of(step.looped), []).append(step)
            for steps in loops.values():
                self.loop(steps)
            for step in calls:
                self.call(step)
        for i, output in enumerate(lowering.outputs[1:]):
            if output in lowering.size:
                self.copy(output, self.at(self.gradient, i), self.length(output))
            else:
                self.builder.store(self.value(output), self.at(self.gradient, i))
        return self.value(lowering.outputs[0])

    def alone(self, step: Step) -> None:
        out = step.outputs[0]
        if step.kind == "number":
            self.values[out] = self.scalar(step.op, step.inputs)
        elif step.kind == "item":
            self.values[out] = self.element_of(step.inputs[0], int(step.inputs[1].data))
        else:
            for i, v in enumerate(step.inputs):
                self.builder.store(self.value(v), self.at(self.pointers[out], i))

    def loop(self, steps: list[Step]) -> None:
        """One loop over all values of a size: elementwise operations, gathers, sums and scatters."""
        builder, sums = self.builder, {}
        for step in steps:
            if step.kind == "sum":
                sums[step.outputs[0]] = cgutils.alloca_once_value(builder, _number(0.0))
            elif step.kind == "scatter":
                self.copy(step.inputs[0], self.pointers[step.outputs[0]], self.length(step.outputs[0]))
        with cgutils.for_range(builder, self.length(steps[0].looped)) as around:
            self.element, self.index = {}, around.index
            for step in steps:
                out = step.outputs[0]
                if step.kind == "sum":
                    total = builder.load(sums[out])
                    builder.store(builder.fadd(total, self.value(step.inputs[0]), flags=ANY_ORDER), sums[out])
                elif step.kind == "scatter":
                    place = self.at(self.pointers[out], self.value(step.inputs[2]))
                    builder.store(builder.fadd(builder.load(place), self.value(step.inputs[1])), place)
                elif step.kind == "gather":
                    self.element[out] = self.element_of(step.inputs[0], self.value(step.inputs[1]))
                else:
                    self.element[out] = self.scalar(step.op, step.inputs)
                if step.kind in ("each", "gather") and out in self.lowering.kept:
                    number = self.element[out]
                    number = builder.uitofp(number, DOUBLE) if out.type.dtype == "bool" else number
                    builder.store(number, self.at(self.pointers[out], self.index))
        self.element = {}
        self.values |= {out: builder.load(place) for out, place in sums.items()}

    def copy(self, source: Any, target: Any, length: Any) -> None:
        """Write all values of an array to an address."""
        with cgutils.for_range(self.builder, length) as around:
            self.element, self.index = {}, around.index
            self.builder.store(self.value(source), self.at(target, around.index))
        self.element = {}

    def call(self, step: Step) -> None:
        """Call a function compiled from Python with the arrays; single numbers are arrays of one."""
        builder, arguments, results, kinds = self.builder, [], {}, []
        for v in (*step.inputs, *step.outputs):
            if v in self.lowering.size:
                place, length = self.pointers[v], self.length(v)
                if v in self.lowering.filled:
                    self.copy(v, place, length)
            else:
                place, length = cgutils.alloca_once(builder, DOUBLE), WORD(1)
                if v in step.outputs:
                    results[v] = place
                else:
                    builder.store(self.value(v), place)
            kinds.append(types.Array(types.int64 if v.type.dtype == "int64" else types.float64, 1, "C"))
            array = make_array(kinds[-1])(self.context, builder)
            eight = WORD(8)
            populate_array(array, data=place, shape=[length], strides=[eight], itemsize=eight, meminfo=None)
            arguments.append(array._getvalue())
        signature = types.void(*kinds)
        compiled = compiled_by_itself(step.op.compiled_from, signature)
        self.context.active_code_library.add_linking_library(compiled.library)
        self.context.call_internal(builder, compiled.fndesc, signature, arguments)
        self.values |= {v: builder.load(place) for v, place in results.items()}


def function_of(lower: Callable[[], Lowering]) -> Any:
    """A graph as a function for compiled code: of the addresses of numbers, of results, of a table, and of scratch memory.

    The graph is built when the function is compiled. The table holds the address and size of each array. The results are all
    outputs but the first, which is returned. Without scratch memory (0) the function returns how many numbers it must hold, and
    needs no results; it may read numbers and table all the same.
    """

    def call(typing: Any, x: Any, results: Any, table: Any, scratch: Any) -> Any:
        lowering = lower()

        def code(context: Any, builder: Any, signature: Any, addresses: Any) -> Any:
            kinds = (DOUBLE, DOUBLE, WORD, DOUBLE)
            pointers = [builder.inttoptr(a, kind.as_pointer()) for a, kind in zip(addresses, kinds, strict=True)]
            writer = _Writer(lowering, context, builder, pointers)
            result = cgutils.alloca_once_value(builder, builder.sitofp(writer.memory(), DOUBLE))
            with builder.if_then(builder.icmp_unsigned("!=", addresses[3], WORD(0))):
                builder.store(writer.write(), result)
            return builder.load(result)

        return types.float64(*[types.int64] * 4), code

    return intrinsic(call)
