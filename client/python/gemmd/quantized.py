"""Matrices whose NumPy type does not say everything: quantized ones, and codes of types NumPy lacks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gemmd import _checks, _container, _formats, _packing, _quantize, _scale_layout, _stored, types
from gemmd._inputs import to_numpy
from gemmd._layout import Array
from gemmd._quantize import RULES
from gemmd._scale_layout import BLOCKED, LAYOUTS, PLAIN
from gemmd._small_float import FLOATS
from gemmd._stored import Stored


class Quantized:
    """A matrix of stored elements, each worth (what is stored - zero point) * scale * scale of the tensor + offset.

    data: rows x columns, M x K as the left factor or K x N as the right one: of NumPy's type for the elements, or
        their codes as uint8 (uint16 of bf16), one a byte. With shape=(rows, columns) elements of 4 and 6 bits are
        packed: uint8 of ceil(rows * columns * bits / 8) bytes, lowest bits first, lines one after another: rows, or
        columns where data is in Fortran order or order="F". A torch tensor of float4_e2m1fn_x2 is packed too:
        it has columns in pairs, or rows where it was transposed. float32 with type="tf32" is multiplied in TF32.
    type: a format of docs/quantization.md ("mxfp4", "int4-g64-f16-zp"), or the elements' type ("fp4_e2m1").
    scales: of whole lines (int8, uint8, fp8): one number, or float32 with one for each row of the left factor
        (M or M x 1) or each column of the right one (N or 1 x N). Those of blocks have the shape of data
        with ceil(K / block_k) in place of K and ceil(lines / block_lines) in place of the other; in NumPy's type
        for them, or codes as uint8 (E8M0, FP8_E4M3) or uint16 (bf16). None: int8 and fp8 may go without, each is 1.
    zero_points: of integers, one for each scale, within the elements' range.
    tensor_scale: one number, nvfp4's.
    offsets: of integers in blocks, instead of zero points: in the shape and the type of scales.
    block_k, block_lines: elements of K, and lines (1), that share a scale, where `type` is no format's name.
    scale_layout: "plain", or "blocked-128x4": tcgen05's tiles, as torchao's to_blocked() makes them.
    axis: where the lines are: 0 for rows (a left factor), 1 for columns (a right one). None: by the scales' shape.
    k_order: of blocks along K: element i of a line is place k_order[i] of K, as GPTQ's act-order has it. data and
        codes() are as stored; products and dequantize() have K in its own order. The other factor of a product is
        put in k_order too, here, or by the server where this one stays there: so it must come along, and have no
        blocks along K.

    ValueError and TypeError name the argument, its value and what it may be.
    """

    __array_ufunc__ = None  # so that NumPy leaves x @ q to __rmatmul__

    __slots__ = ("stored",)

    def __init__(
        self,
        data: Any,
        scales: Any = None,
        type: str | None = None,  # noqa: A002
        *,
        zero_points: Any = None,
        tensor_scale: Any = None,
        offsets: Any = None,
        block_k: int | None = None,
        block_lines: int | None = None,
        scale_layout: str = PLAIN,
        axis: int | None = None,
        shape: tuple[int, int] | None = None,
        order: str | None = None,
        k_order: Any = None,
    ) -> None:
        self.stored = _stored.check(
            data,
            scales,
            type,
            zero_points,
            tensor_scale,
            offsets,
            block_k,
            block_lines,
            scale_layout,
            axis,
            shape,
            order,
            k_order,
        )

    @classmethod
    def of(
        cls,
        x: Any,
        type: str = "int8",  # noqa: A002
        axis: int | None = None,
        *,
        rule: str = "floor",
        scale_layout: str = PLAIN,
    ) -> Quantized:
        """Quantizes a real matrix, taken as float32: base/numbers/quant/README.md has the rules, kept to the bit.

        type: a format of docs/quantization.md; "int8", "fp8_e4m3" and "fp8_e5m2" are "...-tensor" without an axis,
            else "...-row".
        axis: where the lines are: 0 for rows (a left factor), 1 for columns (a right one). One scale for the
            tensor, or for 128 x 128 elements, needs none.
        rule: for mxfp8, mxfp6 and mxfp4 "floor" saturates what is over the largest element, "round-up" nothing; for
            int8, int4 and iq4-nl without zero points "full-range" uses the lowest value too, with scales of either
            sign.

        The codes lie as x does, in C or Fortran order. ValueError: the format cannot hold an element, which the
        error names with the limit: NaN, infinity, and what docs/quantization.md says of each format.
        """
        form = _formats.by_name(type, axis)
        _checks.choice("axis", axis, (None, 0, 1))
        _checks.choice("rule", rule, RULES)
        _quantize.check_rule(form, rule)
        _checks.choice("scale_layout", scale_layout, tuple(LAYOUTS))
        if axis is None and form.block_lines != form.block_k:
            raise ValueError(
                f"axis is None; of {form.name} it must be 0 (rows: a left factor) or 1 (columns: a right one)"
            )
        _checks.check_layout(form, scale_layout)
        real = _real(x)
        order = "F" if real.flags.f_contiguous and not real.flags.c_contiguous else "C"
        elements = np.empty(real.shape, np.uint8, order="F" if order == "F" else "C")
        turned = axis == 1
        lines = real.T if turned else real
        if (found := _quantize.refused(lines, form, rule)) is not None:
            wrong, limit = found
            _checks.refuse("x", real, wrong.T if turned else wrong, limit)
        made = _quantize.encode_lines(lines, form, rule, elements.T if turned else elements)
        data = (
            _packing.pack(_checks.flat_of(elements, order), form.element.bits)
            if form.element.is_packed
            else elements.view(form.element.stored_dtype)
        )
        scales = _turned(made.scales, turned)
        assert scales is not None
        if scale_layout == BLOCKED:
            shape = _checks.plane_shape(form, scale_layout, real.shape, 1 if turned else 0)
            scales = _scale_layout.to_tiles(made.scales).reshape(shape)
        return cls._of(
            Stored(
                form,
                real.shape,
                order,
                data,
                scales,
                _turned(made.zero_points, turned),
                made.tensor_scale,
                scale_layout,
                None if form.block_lines == form.block_k else axis,
                _turned(made.offsets, turned),
            )
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Quantized:
        """Reads a container: what `gemm quantize` and save() write (docs/quantization.md, "Containers").

        The file is mapped and not copied: only scales and their like are read, to be checked. The arrays are
        read-only, and put() of the matrix has the digest of `gemm put PATH`. While it is in use others may replace
        the file, as save() does, but not write into it or cut it: touching what is gone ends the process (SIGBUS).

        ValueError: it is no such file, or not sound: the path, the field, its value and the limit. OSError: it
        cannot be read.
        """
        return cls._of(_container.load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a container, byte for byte as `gemm quantize` writes one of these codes, for `gemm` and load().

        The file appears whole or not at all, in the place of an older one. Elements that lie with K along their
        lines are written from where they are; others are copied once. With one scale for the tensor, or for
        128 x 128 elements, the file's lines are those that lie one after another here.

        ValueError: there are no scales, the format has no name, or axis is None where it matters. OSError: the file
        cannot be written.
        """
        _container.save(os.fspath(path), self.stored, self.type)

    @classmethod
    def _of(cls, stored: Stored) -> Quantized:
        made = cls.__new__(cls)
        made.stored = stored
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.stored.shape

    @property
    def T(self) -> Quantized:  # noqa: N802
        """The transposed matrix, of the same codes; small planes are copied."""
        return Quantized._of(self.stored.transposed())

    @property
    def data(self) -> Array:
        """The elements: rows x columns, or 1-D packed bytes, whose lines are rows or columns by `order`."""
        return self.stored.data

    @property
    def order(self) -> str:
        """How elements lie: rows ("C") or columns ("F") one after another."""
        return self.stored.order

    @property
    def scales(self) -> Array | None:
        """Scales of blocks as rows x columns; of whole lines one, M x 1, 1 x N, or 1-D where both fit."""
        return self.stored.scales

    @property
    def zero_points(self) -> Array | None:
        """In the shape of scales, int8 or uint8."""
        return self.stored.zero_points

    @property
    def tensor_scale(self) -> Array | None:
        """nvfp4's: 1 x 1 float32."""
        return self.stored.tensor_scale

    @property
    def offsets(self) -> Array | None:
        """In the shape and the type of scales."""
        return self.stored.offsets

    @property
    def scale_layout(self) -> str:
        """How scales lie: "plain" or "blocked-128x4"."""
        return self.stored.scale_layout

    @property
    def block_k(self) -> int | None:
        """Elements of K that share a scale; None: all of a line's."""
        return self.stored.format.block_k or None

    @property
    def block_lines(self) -> int | None:
        """Lines that share a scale; None: all."""
        return self.stored.format.block_lines or None

    @property
    def axis(self) -> int | None:
        """Where the lines are, 0 for rows, 1 for columns; None where it does not matter or nobody has said."""
        return self.stored.axis

    @property
    def k_order(self) -> Array | None:
        """The place in K of each element of a line, uint32; None: K lies in order."""
        return self.stored.k_order

    @property
    def element(self) -> types.ElementType:
        """The type of the elements."""
        return self.stored.format.element

    @property
    def type(self) -> str:
        """The format's name, or that of the elements' type where the table of formats has none for it."""
        found = self.stored.format
        if self.scales is not None:
            for each in _formats.FORMATS.values():
                if each[1:] == found[1:]:
                    return each.name
        return found.element.name

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(each.nbytes for each in self.stored.planes)

    def placed_in(self, memory: Array) -> Quantized:
        """A copy whose planes lie one after another in memory, as products find them in Client.shared()'s.

        memory: 1-D, contiguous, at least nbytes of uint8: client.shared(q.nbytes, "u1").
        """
        if (
            memory.dtype != np.uint8
            or memory.ndim != 1
            or not memory.flags.c_contiguous
            or memory.size < self.nbytes
        ):
            raise ValueError(
                f"memory is {memory.dtype} of shape {memory.shape}; it must be 1-D contiguous uint8 of at least "
                f"{self.nbytes}"
            )
        return Quantized._of(self.stored.placed_in(memory))

    def codes(self) -> Array:
        """Rows x columns of codes as stored, one in each unsigned integer: uint8 for elements of at most 8 bits."""
        return self.stored.codes()

    def dequantize(self, dtype: Any = "float64") -> Array:
        """The values, rows x columns: exact as float64, else rounded once to float32, float16 or bf16.

        With offsets float64 is rounded too.

        ValueError: that type cannot hold a value.
        """
        values = self.stored.values()
        element = types.parse(dtype)
        if element.name == "f64":
            return values
        if element.name not in ("f32", "f16", "bf16"):
            raise ValueError(f"dtype is {element.name}; values are f64, f32, f16 or bf16")
        limit = FLOATS[element.name].rounding_limit
        past = np.isfinite(values) & (np.abs(values) >= limit)
        _checks.refuse("value", values, past, f"{element.name} holds magnitudes below {limit:g}")
        return values.astype(element.dtype)

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, np.ndarray | Quantized):
            raise TypeError("a Quantized knows no server: client.matmul() multiplies it")
        return NotImplemented

    def __rmatmul__(self, x: Any) -> Any:
        return self.__matmul__(x)

    def __repr__(self) -> str:
        scales = "no scales" if self.scales is None else f"{' x '.join(map(str, self.scales.shape))} scales"
        order = "" if self.k_order is None else ", in an order of K"
        return f"Quantized({self.shape[0]} x {self.shape[1]} {self.type}, {scales}{order})"


def _real(x: Any) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    array = to_numpy(x, "x")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"x has shape {array.shape}; what is quantized is a matrix of at least one element")
    with np.errstate(over="ignore"):
        real = array.astype(np.float32, order="K", copy=False)
    finite = np.isfinite(real)
    _checks.refuse("x", array, ~finite, "quantized matrices are finite, as float32")
    return real


def _turned(plane: Array | None, is_turned: bool) -> Array | None:
    """A plane of lines x K as the matrix has it, whose columns are lines where is_turned."""
    if plane is None or not is_turned:
        return plane
    return np.ascontiguousarray(plane.T)
