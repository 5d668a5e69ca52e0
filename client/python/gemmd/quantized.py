"""Matrices whose NumPy type does not say everything: quantized ones, and codes of types NumPy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmd import types
from gemmd._layout import Array


class Quantized:
    """A matrix of stored elements, each worth what is stored times its scale.

    data: 2-D, M x K as the left factor or K x N as the right one: int8, an fp8 type of ml_dtypes', or the codes
        as uint8 (fp8) or uint16 (bf16) with `type` saying what they are. float32 with type="tf32" is
        multiplied in TF32.
    scales: None (all are 1), one number, or float32 with one element for each row of the left factor
        (M or M x 1) or each column of the right one (N or 1 x N). Only int8 and fp8 have scales.

    TypeError or ValueError where they do not fit together.
    """

    __slots__ = ("data", "element", "scales")

    def __init__(self, data: Any, scales: Any = None, type: str | None = None) -> None:  # noqa: A002
        array = np.asarray(data)
        if array.ndim != 2:
            raise ValueError(f"data has shape {array.shape}; a quantized array is a matrix")
        self.element = types.of_dtype(array.dtype) if type is None else types.by_name(type)
        if array.dtype.name != self.element.numpy_name and array.dtype != np.dtype(self.element.code):
            raise TypeError(f"data is {array.dtype}, which holds no {self.element.name} codes")
        self.data: Array = array
        self.scales: Array | None = None
        if scales is None:
            return
        if self.element.name not in ("int8", "fp8_e4m3", "fp8_e5m2"):
            raise ValueError(f"a {self.element.name} matrix has no scales")
        self.scales = np.ascontiguousarray(scales, dtype=np.float32)
        rows, columns = array.shape
        if self.scales.size != 1 and self.scales.shape not in (
            (rows,),
            (columns,),
            (rows, 1),
            (1, columns),
        ):
            raise ValueError(
                f"scales have shape {self.scales.shape}; of a {rows} x {columns} matrix there is one, "
                f"one for each of {rows} rows, or one for each of {columns} columns"
            )

    @classmethod
    def of(cls, x: Any, type: str = "int8", axis: int | None = None) -> Quantized:  # noqa: A002
        """Quantizes a real matrix: each scale is the largest magnitude over the type's largest value.

        type: "int8", "fp8_e4m3" or "fp8_e5m2"; fp8 needs ml_dtypes.
        axis: None for one scale, 0 for one for each row, 1 for one for each column.
        """
        real = np.asarray(x, dtype=np.float32)
        element = types.by_name(type)
        largest = {"int8": 127.0, "fp8_e4m3": 448.0, "fp8_e5m2": 57344.0}.get(element.name)
        if largest is None:
            raise ValueError(f"type is {type!r}; it must be int8, fp8_e4m3 or fp8_e5m2")
        if axis not in (None, 0, 1):
            raise ValueError(f"axis is {axis}; it must be None, 0 or 1")
        magnitude = np.abs(real).max(axis=None if axis is None else 1 - axis, keepdims=True)
        scales = np.where(magnitude > 0, magnitude / np.float32(largest), np.float32(1)).astype(np.float32)
        stored = real / scales
        codes = np.rint(stored).astype(np.int8) if type == "int8" else stored.astype(element.dtype)
        return cls(codes, scales, type)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.data.shape
        return rows, columns

    def dequantize(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The values, as float32. Codes need ml_dtypes."""
        values = self.data
        if values.dtype.kind == "u":
            values = values.view(self.element.dtype)
        real: np.ndarray[Any, np.dtype[np.float32]] = values.astype(np.float32)
        if self.scales is None:
            return real
        if self.scales.ndim == 1 and self.scales.size == self.shape[0] != self.shape[1]:
            return real * self.scales[:, None]
        return real * self.scales

    def scales_as(self, is_left: bool) -> Array | None:
        """The scales as the contract has them of A (1 x 1 or M x 1) or B (1 x 1 or 1 x N)."""
        if self.scales is None:
            return None
        lines = self.shape[0 if is_left else 1]
        if self.scales.size == 1:
            return self.scales.reshape(1, 1)
        wrong = (1, self.shape[1]) if is_left else (self.shape[0], 1)
        if self.scales.size != lines or (self.scales.ndim == 2 and self.scales.shape == wrong != (1, 1)):
            raise ValueError(
                f"scales have shape {self.scales.shape}; the {'left' if is_left else 'right'} factor has "
                f"one, or one for each of its {lines} {'rows' if is_left else 'columns'}"
            )
        return self.scales.reshape(-1, 1) if is_left else self.scales.reshape(1, -1)

    def __repr__(self) -> str:
        scales = "no scales" if self.scales is None else f"{self.scales.size} scales"
        return f"Quantized({self.shape[0]} x {self.shape[1]} {self.element.name}, {scales})"
