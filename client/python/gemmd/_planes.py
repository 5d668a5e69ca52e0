"""The planes of operands, as the contract describes them and where their bytes are."""

from __future__ import annotations

from typing import NamedTuple

from gemmd import _layout, types
from gemmd._header import DATA, OFFSETS, SCALES, TENSOR_SCALE, ZERO_POINTS, OperandSpec
from gemmd._layout import COLUMN_MAJOR, ROW_MAJOR, Array, Blocks, Laid, Plane
from gemmd._scale_layout import LAYOUTS
from gemmd._stored import Stored
from gemmd.quantized import Quantized


class Planes(NamedTuple):
    """The planes of an operand, by PlaneName and in its order, data first; its scales' blocks; its order of K."""

    planes: list[tuple[int, Laid]]
    blocks: Blocks | None = None
    k_order: Array | None = None

    def spec(self) -> OperandSpec:
        """As the contract says it; inline."""
        return OperandSpec(
            self.planes[0][1].plane, tuple((n, laid.plane) for n, laid in self.planes[1:]), self.blocks
        )

    def region(self) -> tuple[int, int] | None:
        """Address and bytes of all planes where they lie one after another; None: they do not."""
        first = begin = _layout.address_of(self.planes[0][1].first)
        for _, laid in self.planes:
            if _layout.address_of(laid.first) != begin:
                return None
            begin += len(laid.data)
        return first, begin - first


def of_array(x: Array, is_packed: bool) -> Planes:
    """The plane of a plain matrix; is_packed: tightly, which may take a copy."""
    lay_out = _layout.lay_out_packed if is_packed else _layout.lay_out
    return Planes([(DATA, lay_out(x, types.of_dtype(x.dtype)))])


def of_stack(x: Array) -> tuple[Planes, int]:
    """The plane of plain matrices, count x rows x columns, and the elements from one to the next."""
    laid, stride = _layout.lay_out_stack(x, types.of_dtype(x.dtype))
    return Planes([(DATA, laid)]), stride


def of_quantized(x: Quantized, is_left: bool | None, is_packed: bool) -> Planes:
    """The planes of a quantized left or right factor; None: of whichever it may be, the right one if both.

    ValueError: it is none such.
    """
    stored = x.stored
    planes = [(DATA, _data(stored, is_packed))]
    if stored.scales is None:
        return Planes(planes)
    scales, zero_points, blocks, is_turned = stored.scales, stored.zero_points, None, stored.scale_order == "F"
    if stored.format.has_blocks:
        _check_axis(stored, is_left)
        blocks = Blocks(stored.format.block_k, stored.format.block_lines, LAYOUTS[stored.scale_layout])
    else:
        shape = _line_shape(stored, is_left)
        scales = scales.reshape(shape)
        zero_points = None if zero_points is None else zero_points.reshape(shape)
    for name, plane, element in (
        (SCALES, scales, stored.format.scale),
        (ZERO_POINTS, zero_points, stored.format.zero_point),
        (TENSOR_SCALE, stored.tensor_scale, types.by_name("f32")),
        (OFFSETS, stored.offsets, stored.format.scale),
    ):
        if plane is not None:
            rows, columns = plane.shape
            order = COLUMN_MAJOR if is_turned and name != TENSOR_SCALE else ROW_MAJOR
            flat = (plane.T if order == COLUMN_MAJOR else plane).reshape(-1)
            planes.append((name, _layout.lay_out_codes(flat, Plane(element.number, rows, columns, order))))
    return Planes(planes, blocks, stored.k_order)


def _data(stored: Stored, is_packed: bool) -> Laid:
    element = stored.format.element
    if element.is_packed:
        order = COLUMN_MAJOR if stored.order == "F" else ROW_MAJOR
        return _layout.lay_out_codes(stored.data, Plane(element.number, *stored.shape, order))
    return (_layout.lay_out_packed if is_packed else _layout.lay_out)(stored.data, element)


def _check_axis(stored: Stored, is_left: bool | None) -> None:
    if stored.axis is None or is_left is None or stored.axis == (0 if is_left else 1):
        return
    raise ValueError(
        f"{'a' if is_left else 'b'} was quantized with axis {stored.axis}: its blocks run along "
        f"{'columns' if is_left else 'rows'}; the {'left' if is_left else 'right'} factor's must run along "
        f"{'rows, axis 0' if is_left else 'columns, axis 1'}"
    )


def _line_shape(stored: Stored, is_left: bool | None) -> tuple[int, int]:
    """The shape of scales of whole lines: 1 x 1, M x 1 or 1 x N."""
    assert stored.scales is not None
    rows, columns = stored.shape
    size, axis = stored.scales.size, stored.axis
    if size == 1:
        return 1, 1
    if is_left is None:
        # Weights are right factors as a rule: one scale for each column.
        is_left = axis == 0 if axis is not None else size != columns
    if size != (rows if is_left else columns) or axis == (1 if is_left else 0):
        raise ValueError(
            f"scales have shape {stored.scales.shape}; the {'left' if is_left else 'right'} factor has one, or one "
            f"for each of its {f'{rows} rows' if is_left else f'{columns} columns'}"
        )
    return (rows, 1) if is_left else (1, columns)
