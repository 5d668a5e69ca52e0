"""From what put() is given to what is uploaded."""

from __future__ import annotations

from typing import Any

from gemmd import _checks, _formats, _planes, types
from gemmd._digest import Source
from gemmd._header import OFFSETS, SCALES, TENSOR_SCALE, ZERO_POINTS, OperandSpec
from gemmd._inputs import to_numpy
from gemmd._layout import Blocks, Plane
from gemmd._scale_layout import LAYOUTS, PLAIN
from gemmd.quantized import Quantized
from gemmd.resident import Resident, Transposed
from gemmd.stacked import Stacked


def source_of(x: Any, store_as: str | None = None, axis: int = 1) -> Source:
    """A matrix to be uploaded: tightly packed, which costs a copy where it is not. A Source is one already."""
    if isinstance(x, Source):
        return x
    if isinstance(x, Resident | Transposed | Stacked):
        raise TypeError("x is on the server already")
    if isinstance(x, Quantized):
        if store_as is not None:
            raise ValueError(f"store_as is {store_as!r}, and x is quantized already")
        made = _planes.of_quantized(x, None, is_packed=True)
        return Source(made.planes, made.blocks, k_order=made.k_order)
    array = to_numpy(x, "x")
    if array.ndim != 2:
        raise ValueError(
            f"x has shape {array.shape}; what stays on the server is a matrix of two dimensions: "
            "put(x.reshape(-1, x.shape[-1])), and .stack(len(x)) of that has the matrices of three dimensions"
            if array.ndim > 2
            else f"x has shape {array.shape}; what stays on the server is a matrix: x.reshape(1, -1) is a row"
        )
    if 0 in array.shape:
        raise ValueError(f"x has shape {array.shape}; it has no element")
    made = _planes.of_array(array, is_packed=True)
    return Source(made.planes, None, None if store_as is None else _stored_form(made.spec().data, store_as, axis))


def _stored_form(data: Plane, store_as: str, axis: int) -> OperandSpec:
    """The planes that Quantized.of(x, store_as, axis) has."""
    _checks.choice("axis", axis, (0, 1))
    form = _formats.by_name(store_as, axis)
    rows, columns = _checks.plane_shape(form, PLAIN, (data.rows, data.columns), axis)
    scaling = [(SCALES, Plane(form.scale.number, rows, columns))]
    if form.has_zero_points:
        scaling.append((ZERO_POINTS, Plane(form.zero_point.number, rows, columns)))
    if form.has_tensor_scale:
        scaling.append((TENSOR_SCALE, Plane(types.by_name("f32").number, 1, 1)))
    if form.has_offsets:
        scaling.append((OFFSETS, Plane(form.scale.number, rows, columns)))
    blocks = Blocks(form.block_k, form.block_lines, LAYOUTS[PLAIN]) if form.has_blocks else None
    return OperandSpec(data._replace(type=form.element.number), tuple(scaling), blocks)
