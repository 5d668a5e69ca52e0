"""Where an array's elements lie, as the contract describes it, and the bytes that hold them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gemmd.types import ElementType

Array = np.ndarray[Any, Any]

ROW_MAJOR = 0
COLUMN_MAJOR = 1
# An array's lines may lie this much further apart than tightly packed ones: the gaps are sent too. A sparser array
# is copied once.
_MOST_STRETCH = 1.25
MAX_DIMENSION = 2**31 - 1


class Plane(NamedTuple):
    """Plane in matrix.proto."""

    type: int
    rows: int
    columns: int
    order: int = ROW_MAJOR
    leading_dimension: int = 0  # elements; 0: tightly packed


class Blocks(NamedTuple):
    """Quantization in matrix.proto: elements of K and lines that share a scale, and the scales' ScaleLayout."""

    block_k: int
    block_lines: int
    scale_layout: int


class Laid(NamedTuple):
    """A plane, its bytes up to and with its last element, and an array that begins where they do."""

    plane: Plane
    data: memoryview
    first: Array


_BYTE = np.dtype(np.uint8)


def _bytes_of(flat: Array) -> memoryview:
    codes: Any = flat.view(_BYTE)  # types that the buffer protocol lacks have bytes all the same
    return codes.data  # type: ignore[no-any-return]


def _span_of(x: Array, count: int) -> Array:
    """The codes of so many elements that lie one after another from the first one of x on, gaps too."""
    codes = x.view(f"u{x.itemsize}")  # as_strided() does not take float8_e5m2
    return np.lib.stride_tricks.as_strided(codes, (count,), (x.itemsize,), writeable=False)


def address_of(x: Array) -> int:
    """Where an array's first element is."""
    return x.__array_interface__["data"][0]  # type: ignore[no-any-return]


def lay_out(x: Array, element: ElementType) -> Laid:
    """A matrix where it lies, or a packed copy where the contract cannot say how.

    Without a copy go arrays in C and in Fortran order, transposed ones, and those whose rows (or columns) lie
    somewhat apart.
    """
    rows, columns = x.shape
    if x.flags.c_contiguous:
        return _packed(x, Plane(element.number, rows, columns))
    if x.flags.f_contiguous:
        return _packed(x.T, Plane(element.number, rows, columns, COLUMN_MAJOR))
    size = x.itemsize
    for order, lines in ((ROW_MAJOR, x), (COLUMN_MAJOR, x.T)):
        outer, inner = lines.shape
        stride, step = lines.strides
        if outer == 1 or inner == 1 or step != size or stride % size or stride < inner * size:
            continue
        leading = stride // size
        span = (outer - 1) * leading + inner
        if span <= _MOST_STRETCH * outer * inner:
            flat = _span_of(lines, span)
            return Laid(Plane(element.number, rows, columns, order, leading), _bytes_of(flat), flat)
    return _packed(np.ascontiguousarray(x), Plane(element.number, rows, columns))


def lay_out_stack(x: Array, element: ElementType) -> tuple[Laid, int]:
    """Matrices of one shape, count x rows x columns: the plane of one with the bytes of all, and its stride.

    The stride is the elements from one matrix to the next. They are sent from where they lie as lay_out() sends
    one; matrices may overlap, or lie beside each other in the same lines.
    """
    count, rows, columns = x.shape
    if x.size == 0:  # K is 0
        return lay_out(x[0], element), 0
    size = x.itemsize
    stride, rest = divmod(x.strides[0], size)
    for order, lines in ((ROW_MAJOR, x[0]), (COLUMN_MAJOR, x[0].T)):
        leading = _leading_dimension(lines)
        if leading is None or stride <= 0 or rest:
            continue
        outer, inner = lines.shape
        span = (count - 1) * stride + (outer - 1) * leading + inner
        if span <= _MOST_STRETCH * x.size:
            flat = _span_of(lines, span)
            plane = Plane(element.number, rows, columns, order, 0 if leading == inner else leading)
            return Laid(plane, _bytes_of(flat), flat), stride
    packed = np.ascontiguousarray(x)
    return _packed(packed, Plane(element.number, rows, columns)), rows * columns


def _leading_dimension(lines: Array) -> int | None:
    """Elements from one line to the next; None: the elements of a line do not lie one after another."""
    inner: int
    outer, inner = lines.shape
    stride, step = lines.strides
    if inner > 1 and step != lines.itemsize:
        return None
    if outer == 1:
        return inner
    leading = stride // lines.itemsize
    return leading if leading * lines.itemsize == stride and leading >= inner else None


def lay_out_packed(x: Array, element: ElementType) -> Laid:
    """As lay_out(), but tightly packed, as an upload must be."""
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        x = np.ascontiguousarray(x)
    return lay_out(x, element)


def _packed(lines: Array, plane: Plane) -> Laid:
    flat = lines.reshape(-1)
    return Laid(plane, _bytes_of(flat), flat)


def lay_out_codes(flat: Array, plane: Plane) -> Laid:
    """A tightly packed plane whose bytes, or elements, `flat` has in its order: 1-D and contiguous."""
    return Laid(plane, _bytes_of(flat), flat)


def writable_bytes(d: Array) -> tuple[int, memoryview] | None:
    """The order of a result's matrix, or of each of a stack, and the bytes of all, where they lie packed.

    None: receive it elsewhere.
    """
    if not d.flags.writeable or not d.flags.aligned:
        return None
    for order, lines in ((ROW_MAJOR, d), (COLUMN_MAJOR, d.swapaxes(-1, -2))):
        if lines.flags.c_contiguous:
            return order, _bytes_of(lines.reshape(-1))
    return None
