"""What a quantized matrix consists of, as a value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gemmd import _checks, _formats, _packing, _scale_layout, types
from gemmd._formats import WHOLE, Format
from gemmd._inputs import packed_pairs, to_numpy
from gemmd._layout import Array
from gemmd._scale_layout import BLOCKED, LAYOUTS, PLAIN
from gemmd._small_float import table

_F32 = types.by_name("f32")


class Stored(NamedTuple):
    """The planes of a rows x columns matrix, and what they mean.

    format: its name may be empty. data: rows x columns, or 1-D packed bytes in `order`, "C" or "F".
    axis: where the lines are, 0 for rows and 1 for columns; None where it does not matter, or nobody has said.
    scale_order: how planes of blocks lie, "C", or "F" where a file has them so: it is part of a digest.
    k_order: uint32; element i of a line is place k_order[i] of K. None: K lies in order. `axis` is there beside it.
    """

    format: Format
    shape: tuple[int, int]
    order: str
    data: Array
    scales: Array | None = None
    zero_points: Array | None = None
    tensor_scale: Array | None = None
    scale_layout: str = PLAIN
    axis: int | None = None
    offsets: Array | None = None
    scale_order: str = "C"
    k_order: Array | None = None

    @property
    def planes(self) -> tuple[Array, ...]:
        """Those that there are, in the order in which they lie in shared memory."""
        all_planes = (self.data, self.scales, self.zero_points, self.tensor_scale, self.offsets)
        return tuple(each for each in all_planes if each is not None)

    def placed_in(self, memory: Array) -> Stored:
        """A copy with its planes one after another in `memory`: 1-D uint8, large enough."""
        at = 0

        def place(plane: Array | None) -> Array | None:
            nonlocal at
            if plane is None:
                return None
            is_turned = plane is self.data and self.order == "F" and plane.ndim == 2
            lines = plane.T if is_turned else plane
            copy: Array = memory[at : at + plane.nbytes].view(plane.dtype).reshape(lines.shape)
            copy[...] = lines
            at += plane.nbytes
            return copy.T if is_turned else copy

        data = place(self.data)
        assert data is not None
        return self._replace(
            data=data,
            scales=place(self.scales),
            zero_points=place(self.zero_points),
            tensor_scale=place(self.tensor_scale),
            offsets=place(self.offsets),
            scale_order="C",
        )

    def transposed(self) -> Stored:
        """The matrix the other way round: lines that were rows are columns."""
        is_flat = self.data.ndim == 1

        def turned(plane: Array | None) -> Array | None:
            if plane is None or plane.ndim != 2:
                return plane
            if plane is self.scales and self.scale_layout == BLOCKED:
                plane = plane.reshape(plane.shape[::-1]).T  # tiles lie in the order of lines and K
            other: Array = np.ascontiguousarray(plane.T)
            return other

        return self._replace(
            shape=self.shape[::-1],
            order="C" if self.order == "F" else "F",
            data=self.data if is_flat else self.data.T,
            scales=turned(self.scales),
            zero_points=turned(self.zero_points),
            offsets=turned(self.offsets),
            axis=None if self.axis is None else 1 - self.axis,
            scale_order="C",
        )

    def codes(self) -> Array:
        """Rows x columns, a code in each element: unsigned, of as many bits as NumPy's type for the elements."""
        element = self.format.element
        if not element.is_packed:
            return self.data.view(np.dtype(f"u{self.data.itemsize}"))
        rows, columns = self.shape
        flat = _packing.unpack(self.data, element.bits, rows * columns)
        return flat.reshape(columns, rows).T if self.order == "F" else flat.reshape(rows, columns)

    def values(self) -> Array:
        """Rows x columns of float64, K in its own order: exact, but for one rounding where there are offsets."""
        if self.k_order is not None:
            stored = self._replace(k_order=None).values()
            return np.take(stored, np.argsort(self.k_order), axis=1 - (self.axis or 0))
        element = self.format.element
        if element.bits > 8:
            return _checks.scale_values(self.data, element)
        real: Array = table(element.name, element.bits)[self.codes()]
        if self.zero_points is not None:
            real = real - self._spread(self.zero_points.astype(np.float64))
        if self.scales is not None:
            real = real * self._spread(_checks.scale_values(self.scales, self.format.scale))
        if self.offsets is not None:
            return real + self._spread(_checks.scale_values(self.offsets, self.format.scale))
        return real if self.tensor_scale is None else real * float(self.tensor_scale[0, 0])

    def _spread(self, plane: Array) -> Array:
        """What each element's block has, broadcastable to rows x columns."""
        form = self.format
        rows, columns = self.shape
        if not form.has_blocks:
            is_of_rows = plane.ndim == 1 and plane.size == rows != columns
            return plane[:, None] if is_of_rows else plane
        is_transposed = self.axis == 1
        lines, k = (columns, rows) if is_transposed else (rows, columns)
        if self.scale_layout == BLOCKED:
            blocks = _scale_layout.from_tiles(plane.reshape(-1), *form.blocks_of(lines, k))
        else:
            blocks = plane.T if is_transposed else plane
        of_lines = np.repeat(blocks, form.block_lines, axis=0)[:lines]
        whole = np.repeat(of_lines, form.block_k, axis=1)[:, :k]
        return whole.T if is_transposed else whole


def check(
    data: Any,
    scales: Any,
    type: str | None,  # noqa: A002
    zero_points: Any,
    tensor_scale: Any,
    offsets: Any,
    block_k: int | None,
    block_lines: int | None,
    scale_layout: str,
    axis: int | None,
    shape: tuple[int, int] | None,
    order: str | None,
    k_order: Any,
) -> Stored:
    """Quantized's arguments, as it explains them."""
    _checks.choice("axis", axis, (None, 0, 1))
    _checks.choice("scale_layout", scale_layout, tuple(LAYOUTS))
    if (pairs := packed_pairs(data)) is not None:
        if shape is not None or order is not None:
            raise ValueError("shape and order are of packed uint8; a tensor of float4_e2m1fn_x2 has its own")
        data, shape, order = pairs
    array = to_numpy(data, "data")
    named = None if type is None else _formats.find(type)
    if named is not None and (block_k is not None or block_lines is not None):
        raise ValueError(
            f"block_k is {block_k} and block_lines {block_lines}; {named.name} says both: leave them out"
        )
    if block_k is None and block_lines is not None:
        raise ValueError(f"block_lines is {block_lines}, and block_k is missing")
    if type is not None and named is None and not types.is_name(type):
        raise ValueError(f"type is {type!r}; {_formats.nearest(type, (*types.NAMES, *_formats.FORMATS))}")
    own = types.by_name("fp4_e2m1") if pairs else None
    element = named.element if named else types.by_name(type) if type else own or types.of_dtype(array.dtype)
    plane, size, lies = _checks.data(array, element, shape, order)
    if scales is None:
        _check_nothing_else(
            element,
            named,
            zero_points=zero_points,
            tensor_scale=tensor_scale,
            offsets=offsets,
            block_k=block_k,
            k_order=k_order,
        )
        return Stored(named or Format("", element, _F32, WHOLE, WHOLE), size, lies, plane, axis=axis)
    if not element.is_quantized:
        raise ValueError(f"scales are set; a {element.name} matrix has no scales")
    if block_k is not None or (named is not None and named.has_blocks):
        given = to_numpy(scales, "scales")
        form = named or _checks.block_format(element, block_lines or 1, block_k or 0, given)
        factors, axis = _checks.block_scales(given, form, scale_layout, size, axis)
    else:
        if scale_layout != PLAIN:
            raise ValueError(f"scale_layout is {scale_layout!r}; scales of whole lines are {PLAIN!r}")
        lines = named or _formats.of_lines(element)[0]
        factors, axis = _checks.line_scales(scales, named, size, axis)
        form = named or lines._replace(block_lines=WHOLE if factors.size == 1 else 1)
    _checks.check_scales(factors, form.scale)
    points = None if zero_points is None else _checks.zero_points(zero_points, form, factors)
    tensor = None if tensor_scale is None else _checks.tensor_scale(tensor_scale, form)
    added = None if offsets is None else _checks.offsets(offsets, form, factors)
    if points is not None and added is not None:
        raise ValueError("offsets are set beside zero_points; a block has one of both")
    has = form._replace(
        has_zero_points=points is not None, has_tensor_scale=tensor is not None, has_offsets=added is not None
    )
    if named is not None:
        _check_planes(named, has)
    places = None if k_order is None else _checks.k_order(k_order, has, size, axis)
    return Stored(has, size, lies, plane, factors, points, tensor, scale_layout, axis, added, k_order=places)


def _check_nothing_else(element: types.ElementType, named: Format | None, **others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{name} is set, and scales are missing")
    if named is not None or element.needs_scales:
        raise ValueError(f"scales are missing; {named.name if named else element.name} goes with scales")


def _check_planes(named: Format, given: Format) -> None:
    for name, has, wants in (
        ("zero_points", given.has_zero_points, named.has_zero_points),
        ("tensor_scale", given.has_tensor_scale, named.has_tensor_scale),
        ("offsets", given.has_offsets, named.has_offsets),
    ):
        if has != wants:
            raise ValueError(
                f"{name} is {'set' if has else 'missing'}; {named.name} has {'one' if wants else 'none'}"
            )
