"""Stacks on the server: matrices of one shape that lie one behind the other in one operand."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmd import types
from gemmd._header import OperandSpec, Place
from gemmd._layout import COLUMN_MAJOR, Array, Plane

if TYPE_CHECKING:
    from gemmd.resident import Resident


class Stacked:
    """Matrices of one shape in one operand on the server, as a factor. Made by Resident.stack().

    It multiplies as an array of its `shape`, (count, rows, columns), does: client.matmul(x, experts) is one request
    of `count` products. experts[i] is one of the matrices, experts[i:j] some, experts.mT each the other way round;
    none of these sends or stores anything. A batch must have the stack's own length, or the stack one matrix.
    """

    __array_ufunc__ = None  # so that NumPy leaves x @ experts to __rmatmul__

    def __init__(self, matrix: Resident, count: int, at: range | int, is_turned: bool = False) -> None:
        self.matrix = matrix
        self.is_turned = is_turned
        self._count = count  # of all matrices of the operand
        self._at = at

    @property
    def shape(self) -> tuple[int, ...]:
        """(count, rows, columns), of one of the matrices (rows, columns)."""
        plane = self._plane()
        sizes = (plane.columns, plane.rows) if self.is_turned else (plane.rows, plane.columns)
        return sizes if isinstance(self._at, int) else (len(self._at), *sizes)

    @property
    def ndim(self) -> int:
        """3, of one of the matrices 2."""
        return 2 if isinstance(self._at, int) else 3

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def mT(self) -> Stacked:  # noqa: N802
        """Each matrix the other way round, for products alone: nothing is sent or stored."""
        return Stacked(self.matrix, self._count, self._at, not self.is_turned)

    @property
    def element(self) -> types.ElementType:
        """The type of its elements."""
        return self.matrix.element

    @property
    def has_scales(self) -> bool:
        """Whether its elements are worth something else than what is stored."""
        return self.matrix.has_scales

    @property
    def dtype(self) -> np.dtype[Any]:
        """As Resident.dtype."""
        return self.matrix.dtype

    @property
    def stride(self) -> int:
        """Elements from one product's matrix to the next one's; 0: all take the same one."""
        if isinstance(self._at, int) or len(self._at) <= 1:
            return 0
        plane = self._plane()
        return self._at.step * plane.rows * plane.columns

    def __getitem__(self, key: int | slice) -> Stacked:
        if isinstance(self._at, int):
            raise TypeError("this is one matrix of a stack; only the stack has matrices to choose from")
        at = self._at[key] if isinstance(key, slice) else self._at[operator.index(key)]
        if isinstance(at, range) and at.step < 0:
            raise ValueError(f"the stack is cut by {key}; its step must be over 0")
        return Stacked(self.matrix, self._count, at, self.is_turned)

    def spec(self, place: Place) -> OperandSpec:
        """What products say of it."""
        first = self._at if isinstance(self._at, int) else self._at.start
        return OperandSpec(self._plane(), place=place, matrix=first)

    def numpy(self, deadline: float | None = None) -> Array:
        """As Resident.numpy(), of these matrices: all of the operand is downloaded."""
        plane, whole = self._plane(), self.matrix.numpy(deadline)
        if plane.order == COLUMN_MAJOR:
            matrices = whole.T.reshape(self._count, plane.columns, plane.rows).swapaxes(1, 2)
        else:
            matrices = whole.reshape(self._count, plane.rows, plane.columns)
        chosen: Array = matrices[self._at if isinstance(self._at, int) else np.asarray(self._at, dtype=np.intp)]
        return chosen.swapaxes(-1, -2) if self.is_turned else chosen

    def release(self, deadline: float | None = None) -> None:
        """As Resident.release(), of the whole operand."""
        self.matrix.release(deadline)

    def __enter__(self) -> Stacked:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __matmul__(self, x: Any) -> Any:
        return self.matrix._client.matmul(self, x)

    def __rmatmul__(self, x: Any) -> Any:
        return self.matrix._client.matmul(x, self)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            "these matrices are on the server: numpy() downloads them, and matmul() and @ multiply by them there"
        )

    def __repr__(self) -> str:
        which = self._at if isinstance(self._at, int) else f"{self._at.start}:{self._at.stop}:{self._at.step}"
        return f"{self.matrix!r}.stack({self._count})[{which}]{'.mT' if self.is_turned else ''}"

    def _plane(self) -> Plane:
        """One matrix. ValueError: the operand is no such stack, where a name went to another one."""
        return matrix_of(self.matrix.spec.data, self._count)


def matrix_of(data: Plane, count: int) -> Plane:
    """The plane of one of `count` matrices. ValueError: the operand's lines do not make so many."""
    lines = data.columns if data.order == COLUMN_MAJOR else data.rows
    if count < 1 or lines % count:
        what = "columns" if data.order == COLUMN_MAJOR else "rows"
        raise ValueError(
            f"count is {count}, and the matrix on the server is {data.rows} x {data.columns}: its {lines} {what}, "
            "which the matrices of a stack share out, must be a multiple of it"
        )
    if data.order == COLUMN_MAJOR:
        return data._replace(columns=lines // count)
    return data._replace(rows=lines // count)
