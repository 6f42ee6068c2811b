"""Log densities that are written by hand together with their gradients, and products, as operations of PyTensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numba.extending import register_jitable
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor import as_tensor_variable, dscalar, dvector

from bayeslaw.core.arrays import Array


def part_of_compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return a plain Python function that functions to be compiled may call; there a division by zero gives inf or nan."""
    return register_jitable(error_model="numpy")(function)


def sums_of_compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return a function as `part_of_compiled`, whose sums may be taken in another order, by vector instructions."""
    return register_jitable(error_model="numpy", fastmath={"reassoc", "contract"})(function)


class DensityWithGradient(Op):
    """A log density, followed by its derivatives by some of the inputs.

    Attributes
    ----------
    compiled_from : function
        Takes arrays of the inputs, then arrays for the outputs, and fills these; plain Python, to be compiled.
    slopes : tuple of int
        The inputs by which there are derivatives, in the order of the outputs after the first.
    as_long_as : tuple of int or None
        For each output the input that has its size, or None for a single number.
    """

    __props__ = ()
    compiled_from: ClassVar[Callable[..., None]]
    slopes: ClassVar[tuple[int, ...]]
    as_long_as: ClassVar[tuple[int | None, ...]]

    def make_node(self, *inputs: Any) -> Apply[Any]:
        outputs = [dscalar() if like is None else dvector() for like in self.as_long_as]
        return Apply(self, [as_tensor_variable(v) for v in inputs], outputs)

    def perform(self, node: Apply[Any], inputs: Any, output_storage: Any) -> None:
        arrays = [np.atleast_1d(np.asarray(v)) for v in inputs]
        results = [np.empty(1 if like is None else arrays[like].size) for like in self.as_long_as]
        self.compiled_from(*arrays, *results)
        for storage, result, like in zip(output_storage, results, self.as_long_as, strict=True):
            storage[0] = result.reshape(()) if like is None else result

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        if not all(isinstance(g.type, DisconnectedType) for g in cotangents[1:]):
            raise NotImplementedError("the density has first derivatives only")
        gradients = [DisconnectedType()() for _ in inputs]
        for place, slope in zip(self.slopes, outputs[1:], strict=True):
            gradients[place] = cotangents[0] * slope
        return gradients

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        return [[i in self.slopes] * len(node.outputs) for i in range(len(node.inputs))]

    def density(self, *inputs: Any) -> Any:
        """The log density of these inputs, a scalar of the graph."""
        outputs: Any = self(*inputs)
        return outputs[0]


def product(matrix: Array, transposed: Array, x: Array, like: Array, y: Array) -> None:
    """Write a matrix times a vector; plain Python, to be compiled.

    Parameters
    ----------
    matrix, transposed : arrays (m n,)
        The matrix, one row after the other, which is there for the gradient alone, and its transpose: loops along that are compiled
        to vector instructions.
    x, like, y : arrays (n,), (m,) and (m,)
        The vector, any array as long as the product, and where that is written.
    """
    y[:] = 0.0
    for j in range(x.size):
        for i in range(y.size):
            y[i] += transposed[j * y.size + i] * x[j]


class Product(Op):
    """`product` for a graph."""

    __props__ = ()
    compiled_from = staticmethod(product)
    as_long_as = (3,)

    def make_node(self, *inputs: Any) -> Apply[Any]:
        return Apply(self, [as_tensor_variable(v) for v in inputs], [dvector()])

    def perform(self, node: Apply[Any], inputs: Any, output_storage: Any) -> None:
        matrix, _, x, like = inputs
        output_storage[0][0] = matrix.reshape(like.size, x.size) @ x

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        matrix, transposed, x, _ = inputs
        nothing = DisconnectedType()
        return [nothing(), nothing(), self(transposed, matrix, cotangents[0], x), nothing()]

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        return [[False], [False], [True], [False]]
