"""A formula over the rows of a table as a PyTensor graph, of which data are inputs.

Rows repeat their covariates: a table of 240 losses may hold 4 sizes, 2 stages and 3 replay shares. A value that depends on some
covariates only is computed once for each combination of those (a partition of the rows) and gathered where it meets the others.
What depends on data alone is computed at once, in NumPy.

A graph is written in one of two ways. The first only collects the data; they and the formula determine the compiled function, which
may already be on disk. The second builds PyTensor's variables, when it must be compiled.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.laws.formula import NUMPY, pytensor_functions

Evaluate = Callable[[Mapping[str, Any]], Any]
Operator = Callable[["Value", Any], "Value"]

SINGLE: Hashable = ()  # of a single number
SETTINGS: Hashable = "settings"  # of the settings of the coordinates
ALL: Hashable = frozenset({"*"})  # of single rows
FEW = 0.7  # share of the rows above which a partition is not worth gathering from

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
    "neg": operator.neg,
}  # fmt: skip
_NUMPY = {**ARITHMETIC, **NUMPY, "softplus": lambda x: np.logaddexp(0, x)}


@dataclass(frozen=True)
class Nodes:
    """The nodes of a series for each part of a partition, node by node."""

    over: Hashable
    number: int


class Graph:
    """Inputs of a graph and the partitions of its rows.

    Parameters
    ----------
    columns : mapping of covariate to array (n,)
    indicators : mapping of covariate to (str, str)
        Covariates that are 1 where a column has a value, with both: the column's values, in this order, are its levels.
    build : bool
        Whether PyTensor's variables are built, or only the data collected.

    Attributes
    ----------
    numbers, arrays : dicts of str to float, and to array
        The data, by what they are, in the order in which the graph asks for them.
    variables : dict of str to PyTensor variable
        Of all data, if built.
    following : bool
        Whether the first array lies behind the single numbers that are not data; see `behind`.
    """

    def __init__(self, columns: Mapping[str, Array], indicators: Mapping[str, tuple[str, str]], *, build: bool) -> None:
        self.columns, self.indicators, self.build = columns, indicators, build
        self.numbers: dict[str, float] = {}
        self.arrays: dict[str, NDArray[Any]] = {}
        self.variables: dict[str, Any] = {}
        self.following = False
        self._settings = 0
        self._functions = {**ARITHMETIC, **pytensor_functions()} if build else {}
        rows = len(next(iter(columns.values())))
        self._parts: dict[Hashable, tuple[Index, int]] = {ALL: (np.arange(rows), rows)}  # part of each row, and their number
        self._joined: dict[Hashable, Hashable] = {}
        self._known: dict[bytes, Hashable] = {self._parts[ALL][0].tobytes(): ALL}
        self._levels: dict[str, int] = {}
        self._level_of_settings: dict[Hashable, Index] = {}
        for column in dict.fromkeys(column for column, _ in indicators.values()):
            marks = [columns[name] for name, (c, _) in indicators.items() if c == column]
            code, key = np.argmax(marks, axis=0).astype(np.int64), frozenset({column})
            self._levels[column] = len(marks)
            self._parts[key], self._joined[key] = (code, len(marks)), key
            if np.unique(code).size == len(marks):
                self._known.setdefault(code.tobytes(), key)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def number(self, name: str, value: float) -> Value:
        """A single number of the data."""
        return Value(self, SINGLE, name=name, data=np.asarray(value, dtype=np.float64))

    def column(self, name: str) -> Value:
        """A covariate of the rows, as its distinct values."""
        part, size = self._parts[over := self._partition(frozenset({name}))]
        if size == 1:
            return self.number(name, float(self.columns[name][0]))
        values = np.empty(size)
        values[part] = self.columns[name]
        return Value(self, over, name=name, data=values)

    def of_parts(self, name: str, variable: Any) -> Value:
        """A variable with a number for each distinct value of a column, in ascending order of these; None unless built."""
        over = self._partition(frozenset({name}))
        if over == ALL:
            part = self.array(f"part of rows by {name}", np.unique(self.columns[name], return_inverse=True)[1].astype(np.int64))
            return Value(self, ALL, variable=variable[part] if self.build else None)
        return Value(self, over, variable=variable)

    def settings(self, name: str, values: ArrayLike) -> Value:
        """An array over the settings of the coordinates."""
        self._settings = np.size(values)
        return Value(self, SETTINGS, name=name, data=np.asarray(values, dtype=np.float64))

    def place_settings(self, column: str, levels: Index) -> None:
        """Say in which level of a column each setting of the coordinates lies."""
        self._level_of_settings[frozenset({column})] = levels

    def array(self, name: str, values: Array | Index) -> Any:
        """The variable of an array of the data; None unless built."""
        if name not in self.arrays:
            self.arrays[name] = np.ascontiguousarray(values)
            if self.build:
                import pytensor.tensor as pt

                self.variables[name] = pt.vector(name, dtype=str(values.dtype))
        return self.variables.get(name)

    def behind(self, name: str, size: int) -> Any:
        """The variable of an array that lies behind the single numbers that are not data; None unless built."""
        self.following = True
        return self.array(name, np.empty(size))

    def variable(self, name: str) -> Any:
        """A new variable that is a single number; None unless built."""
        if not self.build:
            return None
        import pytensor.tensor as pt

        return pt.dscalar(name)

    def of_number(self, name: str, value: float) -> Any:
        """The variable of a number of the data."""
        if name not in self.numbers:
            self.numbers[name] = value
            self.variables[name] = self.variable(name)
        return self.variables[name]

    # --- partitions ---------------------------------------------------------------------------------------------------

    def _partition(self, names: frozenset[str]) -> Hashable:
        """The partition of the rows by some covariates; with nearly as many parts as rows it becomes that of single rows."""
        if names not in self._joined:
            code, size = np.zeros(self._parts[ALL][1], np.int64), 1
            for name in sorted(names):
                values = self._parts[frozenset({name})][0] if name in self._levels else self.columns[name]
                _, part = np.unique(values, return_inverse=True)
                _, code = np.unique(code * (int(part.max()) + 1) + part, return_inverse=True)
                size = int(code.max()) + 1
                if size > FEW * code.size:
                    size, code = self._parts[ALL][1], self._parts[ALL][0]
                    break
            key = self._known.setdefault(code.tobytes(), names)
            self._parts.setdefault(key, (code.astype(np.int64), size))
            self._joined[names] = key
        return self._joined[names]

    def _over(self, values: list[Value]) -> Hashable:
        """The partition that is finer than those of some values."""
        partitions = {v.over for v in values} - {SINGLE}
        if nodes := [p for p in partitions if isinstance(p, Nodes)]:
            return nodes[0]  # of `total`, which made it finer than all others in its argument
        if len(partitions) < 2:
            return next(iter(partitions), SINGLE)
        if SETTINGS in partitions:
            raise ValueError("values over settings can't be combined with values over rows")
        if ALL in partitions:
            return ALL
        return self._partition(frozenset().union(*partitions))  # type: ignore[arg-type]

    def index(self, coarse: Hashable, fine: Hashable) -> Index:
        """The part of a partition in which each part of a finer one lies."""
        if isinstance(fine, Nodes):
            return np.repeat(self.index(coarse, fine.over), fine.number)
        if coarse == fine == SETTINGS:
            return np.arange(self._settings)
        if fine == SETTINGS:
            return self._level_of_settings[coarse]
        (part, _), (finer, size) = self._parts[coarse], self._parts[fine]
        index = np.zeros(size, np.int64)
        index[finer] = part
        return index

    # --- operations ---------------------------------------------------------------------------------------------------

    def value(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else Value(self, SINGLE, name=repr(float(x)), data=np.float64(x), constant=True)

    def apply(self, name: str, *arguments: Value | float) -> Value:
        """A function of values, worked out at once where all are data."""
        values = [self.value(a) for a in arguments]
        over = self._over(values)
        if all(v.data is not None for v in values):
            with np.errstate(all="ignore"):
                data = _NUMPY[name](*(v.data_over(over) for v in values))
            return Value(self, over, name=f"{name}({', '.join(v.name for v in values)})", data=np.asarray(data))
        if name == "pow" and values[0].data is not None and np.all(values[0].data > 0):  # the usual N**alpha
            return self.apply("exp", self.apply("log", values[0]) * values[1])
        result = Value(self, over)
        variables = [v.variable_over(over) for v in values]
        if self.build:
            result.variable = self._functions[name](*variables)
        return result

    def levels(self, column: str, values: Sequence[Value]) -> Value:
        """Single numbers as the values of a column's levels."""
        stacked = Value(self, frozenset({column}))
        variables = [v.variable_over(SINGLE) for v in values]
        if self.build:
            import pytensor.tensor as pt

            stacked.variable = pt.stack(variables)
        return stacked

    def over_settings(self, value: Value) -> Value:
        """The values of a column's levels at the settings of the coordinates."""
        if value.over == SINGLE:
            return value
        return Value(self, SETTINGS, variable=value.variable_over(SETTINGS))

    def mean_of_settings(self, value: Value, column: str) -> Value:
        """Mean over the settings of the coordinates, or over those in each level of a column."""
        if value.over != SETTINGS:
            return value
        if not column:
            return value.sum() / self.number("number of settings", self._settings)
        over, level = frozenset({column}), self._level_of_settings[frozenset({column})]
        part = self.array(f"{column} of settings", level)
        zeros = self.array(f"zeros over {column}", np.zeros(self._levels[column]))
        summed, variable = Value(self, over), value.variable_over(SETTINGS)
        if self.build:
            import pytensor.tensor as pt

            summed.variable = pt.inc_subtensor(zeros[part], variable)
        count = np.bincount(level, minlength=self._levels[column]).astype(np.float64)
        return summed / Value(self, over, name=f"settings of each {column}", data=count)

    def total(
        self, evaluate: Evaluate, names: Collection[str], values: Mapping[str, Any], nodes: Sequence[Mapping[str, Value]]
    ) -> Value:
        """Sum of an expression over the nodes of its series, of which each node has a value of its own.

        Parameters
        ----------
        evaluate : callable
            The expression, of a mapping of its names to values.
        names, values, nodes
            The names in the expression, those that are not series with their values, and the series at each node.
        """
        columns = [self.value(v) for node in nodes for v in node.values()]
        over = self._over(columns + [v for k, v in values.items() if k in names and isinstance(v, Value)])
        of_nodes = Nodes(over, len(nodes))
        series = {}
        for name in nodes[0]:
            data = [np.broadcast_to(node[name].data_over(over), self._size(over)) for node in nodes]
            series[name] = Value(self, of_nodes, name=f"{name} of {len(nodes)} nodes", data=np.stack(data, axis=1).ravel())
        result = self.value(evaluate({**values, **series}))
        if result.data is not None:
            data = result.data_over(of_nodes) * np.ones(self._size(over) * len(nodes))
            return Value(self, over, name=f"total({result.name})", data=data.reshape(-1, len(nodes)).sum(axis=1))
        if over == SINGLE:
            variable = result.variable_over(of_nodes)
            return Value(self, SINGLE, variable=variable.sum() if self.build else None)
        part = self.array(f"{_text(over)} of nodes", np.repeat(np.arange(self._size(over)), len(nodes)))
        zeros = self.array(f"zeros over {_text(over)}", np.zeros(self._size(over)))
        summed = Value(self, over)
        variable = result.variable_over(of_nodes)
        if self.build:
            import pytensor.tensor as pt

            summed.variable = pt.inc_subtensor(zeros[part], variable)
        return summed

    def _size(self, over: Hashable) -> int:
        return 1 if over == SINGLE else self._settings if over == SETTINGS else self._parts[over][1]


def _operators(name: str) -> tuple[Operator, Operator]:
    """An arithmetic operator with the value on its left, and with the value on its right."""
    return lambda value, other: value.graph.apply(name, value, other), lambda value, other: value.graph.apply(name, other, value)


class Value:
    """A single number, a number for each setting, or one for each part of a partition of the rows, of data or of variables."""

    __array_ufunc__ = None  # NumPy arrays leave the arithmetic to this class

    def __init__(
        self, graph: Graph, over: Hashable, *, name: str = "", data: Any = None, variable: Any = None, constant: bool = False
    ) -> None:
        self.graph, self.over, self.name, self.data, self.variable, self.constant = graph, over, name, data, variable, constant

    def data_over(self, over: Hashable) -> Any:
        if self.over in (SINGLE, over):
            return self.data
        return self.data[self.graph.index(self.over, over)]

    def variable_over(self, over: Hashable) -> Any:
        """The PyTensor variable for each part of a finer partition; single numbers stay as they are."""
        graph = self.graph
        if self.data is not None:
            if self.constant:
                return float(self.data)
            if self.over == SINGLE:
                return graph.of_number(self.name, float(self.data))
            return graph.array(f"{self.name} over {_text(over)}", self.data_over(over))
        if self.over in (SINGLE, over):
            return self.variable
        index = graph.array(f"{_text(self.over)} of {_text(over)}", graph.index(self.over, over))
        return self.variable[index] if graph.build else None

    def every_row(self) -> Any:
        """The PyTensor variable with a value for each row."""
        ones = self.graph.array("ones", np.ones(self.graph.index(ALL, ALL).size)) if self.over == SINGLE else None
        variable = self.variable_over(ALL)
        return variable * ones if self.graph.build and ones is not None else variable

    def sum(self) -> Value:
        variable = self.variable_over(self.over)
        return Value(self.graph, SINGLE, variable=variable.sum() if self.graph.build else None)

    def __neg__(self) -> Value:
        return self.graph.apply("neg", self)

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")
    __pow__, __rpow__ = _operators("pow")


def _text(over: Hashable) -> str:
    if isinstance(over, Nodes):
        return f"{over.number} nodes of {_text(over.over)}"
    return "+".join(sorted(over)) if isinstance(over, frozenset) else str(over)


def _function(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Value):
                return argument.graph.apply(name, *arguments)
        return _NUMPY[name](*arguments)

    return call


def _total(evaluate: Evaluate, names: Collection[str], values: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Any:
    """Sum over nodes for `formula.Expression.evaluate`."""
    first = next(iter(nodes[0].values()))
    if isinstance(first, Value):
        return first.graph.total(evaluate, names, values, nodes)
    return functools.reduce(operator.add, (evaluate({**values, **node}) for node in nodes))


FUNCTIONS: dict[str, Callable[..., Any]] = {name: _function(name) for name in (*NUMPY, "softplus")} | {"total": _total}
"""The functions of `formula.FUNCTIONS` (and softplus) for values of a graph, and for arrays."""
