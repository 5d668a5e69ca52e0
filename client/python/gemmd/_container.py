"""Containers: files of one quantized matrix, as `gemm quantize` writes and reads them.

docs/quantization.md ("Containers") specifies them; client/quantized/quantized_file.cc is the same in C++. A file
is believed about nothing: its format and shape must account for each plane's type, shape and bytes, and the planes
for the whole file.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from typing import NamedTuple

import numpy as np

from gemmd import _checks, _formats, _packing, _safetensors, _scale_layout, _whole_file, types
from gemmd._formats import Format
from gemmd._layout import MAX_DIMENSION, Array
from gemmd._safetensors import Header, Tensor, quoted
from gemmd._scale_layout import BLOCKED, LAYOUTS, PLAIN
from gemmd._stored import Stored
from gemmd.types import ElementType

_VERSION, _FORMAT, _SHAPE = "gemmd.version", "gemmd.format", "gemmd.shape"
_K_AXIS, _LAYOUT = "gemmd.k_axis", "gemmd.scale_layout"
ORDER = "k_order"  # a tensor's name
_KEYS = (_VERSION, _FORMAT, _SHAPE, _K_AXIS, _LAYOUT)
# Types that every reader of safetensors knows by name; the others are bytes, packed.
_DTYPES = {
    "f32": "F32",
    "f16": "F16",
    "bf16": "BF16",
    "int8": "I8",
    "int32": "I32",
    "fp8_e4m3": "F8_E4M3",
    "fp8_e5m2": "F8_E5M2",
}


class About(NamedTuple):
    """What a file says of its matrix. axis: where the lines are, 0 for rows and 1 for columns."""

    form: Format
    shape: tuple[int, int]
    axis: int
    layout: str
    has_order: bool = False

    @property
    def lines_and_k(self) -> tuple[int, int]:
        return self.shape if self.axis == 0 else self.shape[::-1]


class _Plane(NamedTuple):
    """A plane as the file must have it, of rows x columns elements."""

    name: str
    element: ElementType
    rows: int
    columns: int

    @property
    def dtype(self) -> str:
        return _DTYPES.get(self.element.name, "U8")

    @property
    def nbytes(self) -> int:
        return self.element.plane_bytes(self.rows * self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """The plane's shape; packed elements are bytes: each row's where rows have whole ones, else in a line."""
        if self.name == ORDER:
            return (self.columns,)
        if not self.element.is_packed:
            return self.rows, self.columns
        bits = self.columns * self.element.bits
        return (self.nbytes,) if bits % 8 else (self.rows, bits // 8)


def save(path: str, stored: Stored, name: str) -> None:
    """Writes a matrix of the format of that name, whole or not at all. Errors begin with the path."""
    try:
        about = _about(stored, name)
        header, parts = _written(about, stored)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    _whole_file.write(path, [_safetensors.text_of(header), *parts])


def load(path: str) -> Stored:
    """The matrix of a file, whose planes are read-only and the file's own pages."""
    with open(path, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path}: is no regular file, which could be mapped")
        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    try:
        return _read(mapped, size)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _planes(about: About) -> list[_Plane]:
    """Those of the format, of wide elements first, so that all are aligned."""
    form, (lines, k) = about.form, about.lines_and_k
    blocks = form.blocks_of(lines, k)
    if about.layout == BLOCKED:
        blocks = _scale_layout.tiled_shape(*blocks)
    found = [_Plane("data", form.element, lines, k), _Plane("scales", form.scale, *blocks)]
    if form.has_zero_points:
        found.append(_Plane("zero_points", form.zero_point, *blocks))
    if form.has_tensor_scale:
        found.append(_Plane("tensor_scale", types.by_name("f32"), 1, 1))
    if form.has_offsets:
        found.append(_Plane("offsets", form.scale, *blocks))
    if about.has_order:
        found.append(_Plane(ORDER, types.by_name("int32"), 1, k))
    return sorted(found, key=lambda each: -max(8, each.element.bits))


def _about(stored: Stored, name: str) -> About:
    form, axis = _formats.FORMATS.get(name), stored.axis
    if stored.scales is None:
        raise ValueError(
            "scales are missing; every format of a container has some: of integers and fp8 scales=1.0 will do"
        )
    if form is None:
        raise ValueError(f"{stored.format.element.name} in such blocks has no name in docs/quantization.md")
    if not all(1 <= each <= MAX_DIMENSION for each in stored.shape):
        raise ValueError(f"shape is {stored.shape}; rows and columns must be 1 to {MAX_DIMENSION}")
    if axis is None and form.block_lines != form.block_k:
        raise ValueError(f"axis is None; of {name} it must be 0 or 1: give Quantized(..., axis=...)")
    if axis is None:  # both fit: that of the lines as they lie
        axis = 1 if stored.order == "F" else 0
    return About(form, stored.shape, axis, stored.scale_layout, stored.k_order is not None)


def _written(about: About, stored: Stored) -> tuple[Header, list[memoryview]]:
    planes = {
        "data": _lines_of(stored, about.axis),
        "scales": _in_lines(stored.scales, about),
        "zero_points": _in_lines(stored.zero_points, about),
        "tensor_scale": stored.tensor_scale,
        "offsets": _in_lines(stored.offsets, about),
        ORDER: stored.k_order,
    }
    metadata = {
        _VERSION: "1",
        _FORMAT: about.form.name,
        _SHAPE: f"{about.shape[0]}x{about.shape[1]}",
        _K_AXIS: str(1 - about.axis),
        _LAYOUT: about.layout,
    }
    tensors, parts, end = {}, [], 0
    for plane in _planes(about):
        array = planes[plane.name]
        assert array is not None
        begin, end = end, end + plane.nbytes
        tensors[plane.name] = Tensor(plane.dtype, plane.shape, begin, end)
        codes: memoryview = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        assert codes.nbytes == plane.nbytes
        parts.append(codes)
    return Header(metadata, tensors), parts


def _lines_of(stored: Stored, axis: int) -> Array:
    """The elements, lines one after another, along which K runs."""
    element, is_turned = stored.format.element, axis == 1
    if not element.is_packed:
        return stored.data.T if is_turned else stored.data
    if is_turned == (stored.order == "F"):
        return stored.data
    codes = stored.codes()
    return _packing.pack((codes.T if is_turned else codes).reshape(-1), element.bits)


def _in_lines(plane: Array | None, about: About) -> Array | None:
    """Scales or their like by lines x K, of a plane by rows x columns. Tiles lie so already."""
    is_turned = about.axis == 1 and about.form.has_blocks and about.layout == PLAIN
    return None if plane is None else plane.T if is_turned else plane


def _read(mapped: mmap.mmap | bytes, size: int) -> Stored:
    begin = _safetensors.PREAMBLE_BYTES
    length = _safetensors.length_of(mapped[:begin], size)
    data_begin, data_bytes = begin + length, size - begin - length
    header = _safetensors.parse(mapped[begin:data_begin], data_bytes)
    about = _read_metadata(header.metadata)
    about = about._replace(has_order=about.form.has_blocks and ORDER in header.tensors)
    planes = _planes(about)
    _check_tensors(header, planes, about.form.name)
    _safetensors.check_covered(header, data_bytes)
    arrays = {}
    for each in planes:
        at = data_begin + header.tensors[each.name].begin
        flat = np.frombuffer(mapped, np.dtype(each.element.code), each.nbytes * 8 // _bits(each), at)
        if not flat.flags.aligned:  # another program's file; elements of a byte never are
            flat = flat.copy()
        arrays[each.name] = flat if each.element.is_packed else _typed(flat, each)
    return stored_of(about, arrays)


def _bits(plane: _Plane) -> int:
    return max(8, plane.element.bits)


def _typed(flat: Array, plane: _Plane) -> Array:
    made: Array = flat.view(plane.element.stored_dtype).reshape(plane.rows, plane.columns)
    return made


def stored_of(about: About, arrays: dict[str, Array]) -> Stored:
    """The matrix of those planes, by their names in a file, each lines x K. ValueError: no product takes it."""
    form, is_turned = about.form, about.axis == 1
    scales, zero_points, offsets = arrays["scales"], arrays.get("zero_points"), arrays.get("offsets")
    _checks.check_scales(scales, form.scale)
    if zero_points is not None:
        _checks.zero_points(zero_points, form, scales)
    if offsets is not None:
        _checks.offsets(offsets, form, scales)
    tensor = arrays.get("tensor_scale")
    data = arrays["data"]
    order = None
    if about.has_order:
        order = _checks.k_order(arrays[ORDER].reshape(-1), form, about.shape, about.axis)

    is_tiled = about.layout == BLOCKED
    lies_turned = is_turned and form.has_blocks and not is_tiled

    def turned(plane: Array | None) -> Array | None:
        if plane is None or not is_turned:
            return plane
        other: Array = plane.reshape(plane.shape[::-1]) if is_tiled else plane.T
        return other

    return Stored(
        form,
        about.shape,
        "F" if is_turned else "C",
        data.T if is_turned and data.ndim == 2 else data,
        turned(scales),
        turned(zero_points),
        None if tensor is None else _checks.tensor_scale(tensor, form),
        about.layout,
        None if form.block_lines == form.block_k and order is None else about.axis,
        turned(offsets),
        "F" if lies_turned else "C",
        order,
    )


def _read_metadata(metadata: dict[str, str]) -> About:
    for key in metadata:
        if key.startswith("gemmd.") and key not in _KEYS:
            raise ValueError(f"the metadata has {quoted(key)}, which version 1 has not")
    _one_of(metadata, _VERSION, "1")
    name = _find(metadata, _FORMAT)
    form = _formats.FORMATS.get(name)
    if form is None:
        raise ValueError(f"{_FORMAT} is {quoted(name)}, which is no quantized format")
    layout = _one_of(metadata, _LAYOUT, *LAYOUTS)
    if layout == BLOCKED and form.scale.bits != 8:
        raise ValueError(f"{_LAYOUT} is {BLOCKED}; scales of {name} must be {PLAIN}")
    text = _find(metadata, _SHAPE)
    # Digits alone, as the writer has them: no sign, no blank, no leading 0, and none of other scripts.
    found = re.fullmatch("([1-9][0-9]{0,9})x([1-9][0-9]{0,9})", text)
    rows, columns = (int(each) for each in found.groups()) if found else (0, 0)
    if not 1 <= rows <= MAX_DIMENSION or not 1 <= columns <= MAX_DIMENSION:
        raise ValueError(f"{_SHAPE} is {quoted(text)}; it must be ROWSxCOLUMNS, each of 1 to {MAX_DIMENSION}")
    return About(form, (rows, columns), 1 - int(_one_of(metadata, _K_AXIS, "0", "1")), layout)


def _find(metadata: dict[str, str], key: str) -> str:
    if key not in metadata:
        raise ValueError(f"the metadata has no {key}; gemm quantize and Quantized.save() write it")
    return metadata[key]


def _one_of(metadata: dict[str, str], key: str, *accepted: str) -> str:
    value = _find(metadata, key)
    if value not in accepted:
        raise ValueError(f"{key} is {quoted(value)}; it must be {' or '.join(accepted)}")
    return value


def _check_tensors(header: Header, planes: list[_Plane], format_name: str) -> None:
    for plane in planes:
        tensor = header.tensors.get(plane.name)
        if tensor is None:
            raise ValueError(f"there is no tensor {plane.name}, which {format_name} has")
        if tensor.dtype != plane.dtype:
            raise ValueError(f"{plane.name} has dtype {quoted(tensor.dtype)}; it must be {plane.dtype}")
        if tensor.shape != plane.shape:
            raise ValueError(f"{plane.name} has shape {list(tensor.shape)}; it must be {list(plane.shape)}")
        if tensor.end - tensor.begin != plane.nbytes:
            raise ValueError(
                f"{plane.name} takes {plane.nbytes} bytes, but its data_offsets have {tensor.end - tensor.begin}"
            )
    names = [plane.name for plane in planes]
    for name in header.tensors:
        if name not in names:
            raise ValueError(f"there is a tensor {quoted(name)}, which {format_name} has not")
