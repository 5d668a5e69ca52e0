"""What a caller has quantized himself, looked at plane by plane before any byte of it leaves.

ValueError and TypeError name the argument, its value and what it may be. matrix.proto (Operand) has the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmd import _formats, _packing, _scale_layout
from gemmd._formats import WHOLE, Format
from gemmd._inputs import to_numpy
from gemmd._layout import Array
from gemmd._quantize import limits_of
from gemmd._scale_layout import BLOCKED, PLAIN
from gemmd._small_float import FLOATS, decode, table
from gemmd.types import ElementType

Shape = tuple[int, int]


def choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """ValueError where it is none of these."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it must be {' or '.join(repr(each) for each in allowed)}")


def data(array: Array, element: ElementType, shape: Shape | None, order: str | None) -> tuple[Array, Shape, str]:
    """The plane: rows x columns, or 1-D packed bytes; the matrix's shape; "C" or "F"."""
    choice("order", order, (None, "C", "F"))
    if shape is not None:
        return _packed_data(array, element, shape, order)
    if array.ndim != 2:
        raise ValueError(f"data has shape {array.shape}; a quantized array is a matrix")
    if order is not None:
        raise ValueError(f"order is {order!r}; it goes with shape=, of packed elements")
    is_int8_of_int4 = element.name == "int4" and array.dtype == np.int8
    if array.dtype.name != element.numpy_name and array.dtype != np.dtype(element.code) and not is_int8_of_int4:
        raise TypeError(f"data is {array.dtype}, which holds no {element.name} codes")
    rows, columns = array.shape
    lies = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    if not element.is_packed:
        return array, (rows, columns), lies
    codes = array if array.dtype == np.uint8 else array.view(np.uint8)
    if is_int8_of_int4:
        refuse("data", array, (array < -8) | (array > 7), "of int4 it must be -8 to 7")
    elif array.dtype.name != element.numpy_name:
        limit = f"a code of {element.name} has {element.bits} bits (shape= says that a byte has several)"
        refuse("data", array, array >= 1 << element.bits, limit)
    return _packing.pack(flat_of(codes, lies), element.bits), (rows, columns), lies


def flat_of(matrix: Array, order: str) -> Array:
    """Its elements one after another, rows ("C") or columns ("F") first."""
    return (matrix.T if order == "F" else matrix).reshape(-1)


def _packed_data(array: Array, element: ElementType, shape: Shape, order: str | None) -> tuple[Array, Shape, str]:
    rows, columns = (int(each) for each in shape)
    if rows < 1 or columns < 1:
        raise ValueError(f"shape is {shape}; it must be rows and columns of at least 1")
    if not element.is_packed:
        raise ValueError(f"shape is set, and data is {element.name}; only elements of 4 and 6 bits are packed")
    if array.dtype != np.uint8:
        raise TypeError(f"data is {array.dtype}; packed elements are uint8")
    wanted = element.plane_bytes(rows * columns)
    if array.size != wanted:
        raise ValueError(
            f"data has {array.size} bytes; {rows} x {columns} elements of {element.bits} bits are {wanted}"
        )
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(f"data has strides {array.strides}; packed elements lie one after another")
    if array.flags.c_contiguous:
        return array.reshape(-1), (rows, columns), order or "C"
    if order == "C":
        raise ValueError("order is 'C', and data lies in Fortran order")
    return flat_of(array, "F"), (rows, columns), "F"


def line_scales(scales: Any, form: Format | None, shape: Shape, axis: int | None) -> tuple[Array, int | None]:
    """One scale, or one for each line: float32, and which axis the lines are, where their shape says it."""
    array = np.ascontiguousarray(to_numpy(scales, "scales"), dtype=np.float32).reshape(np.shape(scales))
    rows, columns = shape
    shapes = {0: ((rows,), (rows, 1)), 1: ((columns,), (1, columns))}
    fitting = [each for each in (0, 1) if array.shape in shapes[each] and axis in (None, each)]
    is_one = array.size == 1
    if form is not None and is_one != (form.block_lines == WHOLE) and 1 not in shape:
        number = "one scale" if form.block_lines == WHOLE else "one for each line"
        raise ValueError(f"scales have shape {array.shape}; {form.name} has {number}")
    if not is_one and not fitting:
        raise ValueError(
            f"scales have shape {array.shape}; of a {rows} x {columns} matrix there is one, "
            f"one for each of {rows} rows (axis 0), or one for each of {columns} columns (axis 1)"
        )
    if is_one or len(fitting) != 1:
        return array, axis
    found = fitting[0]
    return array.reshape((rows, 1) if found == 0 else (1, columns)), found


def block_format(element: ElementType, block_lines: int, block_k: int, scales: Array) -> Format:
    """The format of such blocks whose scales these are, by their type."""
    formats = _formats.of_blocks(element, block_lines, block_k)
    for each in formats:
        if _holds(scales, each.scale):
            return each
    wanted = " or ".join(dict.fromkeys(f"{each.scale.numpy_name}" for each in formats))
    raise TypeError(
        f"scales are {scales.dtype}; of {element.name} in blocks of {block_lines} x {block_k} they must be "
        f"{wanted}, or codes of that"
    )


def _holds(array: Array, element: ElementType) -> bool:
    return bool(array.dtype.name == element.numpy_name or array.dtype == np.dtype(element.code))


def block_scales(
    array: Array, form: Format, layout: str, shape: Shape, axis: int | None
) -> tuple[Array, int | None]:
    """Scales of blocks in the shape of their plane, and along which axis the blocks run, where it matters."""
    if not _holds(array, form.scale):
        raise TypeError(
            f"scales are {array.dtype}; {form.name} has {form.scale.numpy_name}, or their codes as "
            f"{np.dtype(form.scale.code)}"
        )
    check_layout(form, layout)
    is_tiled = layout == BLOCKED
    wanted = {each: plane_shape(form, layout, shape, each) for each in ((0, 1) if axis is None else (axis,))}
    fitting = {each: plane for each, plane in wanted.items() if array.shape == plane}
    if is_tiled and not fitting:  # they are a stream of bytes: any shape of so many will do
        fitting = {each: plane for each, plane in wanted.items() if array.size == plane[0] * plane[1]}
    if not fitting:
        ways = " or ".join(f"{plane[0]} x {plane[1]} (axis {each})" for each, plane in wanted.items())
        raise ValueError(
            f"scales have shape {array.shape}; of a {shape[0]} x {shape[1]} matrix in blocks of "
            f"{form.block_lines} x {form.block_k}{' in whole tiles of 128 x 4' if is_tiled else ''} they must be "
            f"{ways}"
        )
    if len(fitting) == 2 and fitting[0] != fitting[1]:
        raise ValueError(f"axis is None; {array.size} scales in tiles fit both: say 0 or 1")
    found = next(iter(fitting))
    return np.ascontiguousarray(array).reshape(fitting[found]), found if len(fitting) == 1 else axis


def check_layout(form: Format, layout: str) -> None:
    """ValueError: such scales do not lie so."""
    if layout == BLOCKED and not (form.has_blocks and form.scale.name in ("e8m0", "fp8_e4m3")):
        raise ValueError(
            f"scale_layout is {layout!r}; of {form.name or form.element.name} with {form.scale.name} scales it "
            f"must be {PLAIN!r}: tiles are of e8m0 and fp8_e4m3 scales"
        )


def plane_shape(form: Format, layout: str, shape: Shape, axis: int) -> Shape:
    """The shape of the scales' plane where blocks run along rows (0) or columns (1) of a matrix."""
    lines, blocks = form.blocks_of(*(shape if axis == 0 else shape[::-1]))
    if layout == BLOCKED:
        lines, blocks = _scale_layout.tiled_shape(lines, blocks)
    return (lines, blocks) if axis == 0 else (blocks, lines)


def scale_values(scales: Array, element: ElementType) -> Array:
    """Scales, or their codes, as float64."""
    if element.name in ("e8m0", "fp8_e4m3"):
        return table(element.name, 8)[scales.view(np.uint8)]
    if element.name == "bf16":
        return decode(FLOATS["bf16"], scales.view(np.uint16).astype(np.uint32))
    return scales.astype(np.float64)


def check_scales(scales: Array, element: ElementType) -> None:
    """ValueError: one is infinite or NaN, or is a negative one of E4M3."""
    values = scale_values(scales, element)
    refuse("scales", values, ~np.isfinite(values), "it must be finite")
    if element.name == "fp8_e4m3":
        refuse("scales", values, values < 0, "of fp8_e4m3 it must be at least 0")


def zero_points(given: Any, form: Format, scales: Array) -> Array:
    """Zero points, as many as scales, int8 or uint8."""
    if not form.element.is_integer:
        raise ValueError(f"zero_points are set, and data is {form.element.name}; only integers have zero points")
    array = to_numpy(given, "zero_points")
    if array.dtype.kind not in "iu":
        raise TypeError(f"zero_points are {array.dtype}; they must be integers")
    if array.shape != scales.shape and (array.size != scales.size or scales.size not in scales.shape):
        raise ValueError(f"zero_points have shape {array.shape}; it must be that of scales, {scales.shape}")
    first, last = limits_of(form.element.name)
    last += form.element.name == "uint4"  # GPTQ has 16
    outside = (array < first) | (array > last)
    refuse("zero_points", array, outside, f"of {form.element.name} it must be {first} to {last}")
    points: Array = np.ascontiguousarray(array, dtype=form.zero_point.code)
    shaped: Array = points.reshape(scales.shape)
    return shaped


def offsets(given: Any, form: Format, scales: Array) -> Array:
    """Offsets, as many as scales, of their type."""
    if not form.element.is_integer:
        raise ValueError(f"offsets are set, and data is {form.element.name}; only integers have offsets")
    if not form.has_blocks:
        raise ValueError("offsets are set, and scales are of whole lines; offsets are of blocks along K")
    array = to_numpy(given, "offsets")
    if not _holds(array, form.scale):
        raise TypeError(f"offsets are {array.dtype}; they must be {form.scale.numpy_name} as scales are")
    if array.shape != scales.shape:
        raise ValueError(f"offsets have shape {array.shape}; it must be that of scales, {scales.shape}")
    values = scale_values(array, form.scale)
    refuse("offsets", values, ~np.isfinite(values), "it must be finite")
    found: Array = np.ascontiguousarray(array).view(form.scale.stored_dtype)
    return found


def k_order(given: Any, form: Format, shape: Shape, axis: int | None) -> Array:
    """The order of K of a matrix in blocks along K: uint32, each place once."""
    if not form.has_blocks:
        raise ValueError("k_order is set, and scales are of whole lines; an order is of blocks along K")
    if axis is None:
        raise ValueError(
            "axis is None; beside k_order it must be 0 (rows: a left factor) or 1 (columns: a right one)"
        )
    array = to_numpy(given, "k_order")
    if array.dtype.kind not in "iu":
        raise TypeError(f"k_order is {array.dtype}; it must be integers")
    size = shape[1 - axis]
    if array.shape != (size,):
        raise ValueError(f"k_order has shape {array.shape}; it must have K, {size}, entries")
    refuse("k_order", array, (array < 0) | (array >= size), f"it must be less than K, {size}")
    again = np.ones(size, bool)
    again[np.unique(array, return_index=True)[1]] = False
    refuse("k_order", array, again, "it came before: each place of K comes once")
    return array.astype(np.uint32)


def tensor_scale(given: Any, form: Format) -> Array:
    """nvfp4's: 1 x 1 float32."""
    found = to_numpy(given, "tensor_scale")
    if not form.has_tensor_scale:
        raise ValueError(
            f"tensor_scale is set, and data is {form.element.name} with {form.scale.name} scales; it goes with "
            "fp4_e2m1 and fp8_e4m3 scales alone"
        )
    array = found.astype(np.float32)
    if array.size != 1:
        raise ValueError(f"tensor_scale has shape {array.shape}; it must be one number")
    value = array.reshape(1, 1)
    if not np.isfinite(value[0, 0]):
        raise ValueError(f"tensor_scale is {value[0, 0]}; it must be finite")
    return value


def refuse(name: str, values: Array, wrong: Array, limit: str) -> None:
    """ValueError of the first value that is wrong, with its place."""
    if wrong.any():
        at = tuple(int(each) for each in np.argwhere(wrong)[0])
        raise ValueError(f"{name}{list(at) if at else ''} is {values[at]}; {limit}")
