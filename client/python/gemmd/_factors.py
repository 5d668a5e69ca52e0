"""The factors of a product: arrays, quantized matrices, and matrices on the server; their shapes and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmd import types
from gemmd._inputs import to_numpy
from gemmd._layout import Array
from gemmd.quantized import Quantized
from gemmd.resident import Resident, Transposed
from gemmd.stacked import Stacked
from gemmd.types import ElementType

Matrix = Array | Quantized | Resident | Transposed | Stacked


def matrix(x: Any, name: str) -> Matrix:
    """A factor of at least one dimension. ValueError and TypeError: it is none."""
    if isinstance(x, Quantized | Resident | Transposed | Stacked):
        return x
    array = to_numpy(x, name)
    if array.ndim == 0:
        raise ValueError(f"{name} is a scalar; matmul multiplies vectors and matrices")
    element = types.of_dtype(array.dtype)
    if element.needs_scales or element.name == "e8m0":
        raise TypeError(f"{name} is {array.dtype}, which means nothing without scales: give gemmd.Quantized")
    return array


def transposed(x: Matrix, name: str) -> Matrix:
    """Its last two dimensions the other way round. ValueError: it is a vector."""
    if not isinstance(x, np.ndarray):
        return x.mT if isinstance(x, Stacked) else x.T
    if x.ndim < 2:
        raise ValueError(f"transpose_{name} is set, and {name} is a vector, which has no transpose")
    turned: Array = x.swapaxes(-1, -2)
    return turned


def of_one_type(left: Matrix, right: Matrix) -> tuple[Matrix, Matrix]:
    """Arrays of two types become the type that holds both, as NumPy has it: f64 x f32 is f64, bf16 x f32 is f32."""
    common = types.common(element_of(left), element_of(right))
    if common is None:
        return left, right
    wide = _widened(left, common.dtype), _widened(right, common.dtype)
    return wide if element_of(wide[0]) == element_of(wide[1]) else (left, right)


def _widened(x: Matrix, dtype: np.dtype[Any]) -> Matrix:
    is_exact = isinstance(x, np.ndarray) and np.can_cast(x.dtype, dtype, "safe")
    return x.astype(dtype, copy=False) if isinstance(x, np.ndarray) and is_exact else x


def shaped(left: Matrix, right: Matrix) -> tuple[Matrix, Matrix, tuple[int, ...], tuple[bool, bool]]:
    """Vectors as matrices; the shape of the product, batch first; which of them were vectors."""
    vectors = (left.ndim == 1 if isinstance(left, np.ndarray) else False,
               right.ndim == 1 if isinstance(right, np.ndarray) else False)  # fmt: skip
    if vectors[0] and isinstance(left, np.ndarray):
        left = left.reshape(1, -1)
    if vectors[1] and isinstance(right, np.ndarray):
        right = right.reshape(-1, 1)
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"a has shape {left.shape} and b {right.shape}: a's last dimension is {left.shape[-1]}, "
            f"and b's last but one is {right.shape[-2]}; they must be equal"
        )
    batch: tuple[int, ...] = ()
    if len(left.shape) > 2 or len(right.shape) > 2:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        for name, each in (("a", left), ("b", right)):
            if isinstance(each, Stacked) and each.shape[:-2] not in ((), (1,), batch):
                raise ValueError(
                    f"{name} is a stack of {len(each)} matrices on the server, and the batch has shape {batch}: it "
                    f"must be ({len(each)},)"
                )
    return left, right, (*batch, left.shape[-2], right.shape[-1]), vectors


def in_one_order(left: Matrix, right: Matrix) -> tuple[Matrix, Matrix]:
    """Both in the order of K of the one that has one, which then needs none. ValueError: the other cannot be."""
    a, b = _k_order(left), _k_order(right)
    if a is not None and b is not None:
        raise ValueError("a and b have a k_order each; one factor of a product may")
    if a is not None:
        return _unordered(left), _ordered(right, "b", "a", a, -2)
    if b is not None:
        return _ordered(left, "a", "b", b, -1), _unordered(right)
    return left, right


def _k_order(x: Matrix) -> Array | None:
    return x.k_order if isinstance(x, Quantized) else None


def _unordered(x: Matrix) -> Matrix:
    assert isinstance(x, Quantized)
    return Quantized._of(x.stored._replace(k_order=None))


def _ordered(x: Matrix, name: str, other: str, order: Array, axis: int) -> Matrix:
    if isinstance(x, np.ndarray):
        return np.take(x, order, axis=axis)
    if not isinstance(x, Quantized):
        raise ValueError(
            f"{other} has a k_order, and {name} is on the server, where it is not put in that order: put {other} "
            f"there too and send {name} along"
        )
    if x.stored.format.has_blocks or x.element.is_packed:
        raise ValueError(f"{other} has a k_order, which would part the blocks of {name}, {x.type}")
    return Quantized._of(x.stored._replace(data=np.take(x.data, order, axis=axis), order="C"))


def element_of(x: Matrix) -> ElementType:
    """The type of its elements."""
    return types.of_dtype(x.dtype) if isinstance(x, np.ndarray) else x.element


def has_scales(x: Matrix) -> bool:
    """Whether its elements are worth something else than what is stored."""
    if isinstance(x, Quantized):
        return x.scales is not None
    return isinstance(x, Resident | Transposed | Stacked) and x.has_scales
