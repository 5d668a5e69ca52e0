"""Element types: the contract's names and numbers, and NumPy's types for them.

bf16 and fp8 are NumPy types where ml_dtypes is installed. Without it their codes can be sent all the same, as
Quantized(codes, type="bf16") of uint16 or uint8; only results of those types need the package.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gemmd import _messages


class ElementType(NamedTuple):
    """One type of elements. `numpy_name` is the name of its NumPy type, `code` NumPy's type of its bits."""

    name: str
    number: int  # DataType in matrix.proto
    size: int  # bytes of an element
    numpy_name: str
    code: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type. TypeError: it is ml_dtypes', which is not installed."""
        return _dtype_of(self)


_NUMBERS = _messages.enum_numbers("DataType")
_TYPES = tuple(
    ElementType(name, _NUMBERS[name.upper()], size, numpy_name, code)
    for name, size, numpy_name, code in (
        ("f64", 8, "float64", "f8"),
        ("f32", 4, "float32", "f4"),
        ("tf32", 4, "float32", "f4"),
        ("f16", 2, "float16", "f2"),
        ("bf16", 2, "bfloat16", "u2"),
        ("int8", 1, "int8", "i1"),
        ("int32", 4, "int32", "i4"),
        ("fp8_e4m3", 1, "float8_e4m3fn", "u1"),
        ("fp8_e5m2", 1, "float8_e5m2", "u1"),
    )
)
_BY_NAME = {each.name: each for each in _TYPES}
_BY_NUMBER = {each.number: each for each in _TYPES}
# tf32 is said, never guessed: a float32 array is f32.
_BY_NUMPY_NAME = {each.numpy_name: each for each in _TYPES if each.name != "tf32"}


@lru_cache(maxsize=64)
def _dtype_of(element: ElementType) -> np.dtype[Any]:
    if element.code != "u2" and element.code != "u1":
        return np.dtype(element.code)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"{element.name} arrays need the package ml_dtypes, which is not installed; "
            'ask for another result with dtype="float32"'
        ) from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, element.numpy_name))
    return found


@lru_cache(maxsize=64)
def of_dtype(dtype: np.dtype[Any]) -> ElementType:
    """The element type of a NumPy type. TypeError: gemmd has none for it."""
    found = _BY_NUMPY_NAME.get(dtype.name)
    if found is None or not dtype.isnative:
        raise TypeError(
            f"gemmd multiplies no {dtype.name if dtype.isnative else dtype.str} arrays; "
            f"its types are {', '.join(_BY_NUMPY_NAME)}, in this machine's byte order"
        )
    return found


def by_name(name: str) -> ElementType:
    """The element type of that name ("bf16", "fp8_e4m3"). ValueError: there is none."""
    found = _BY_NAME.get(name.replace("-", "_"))
    if found is None:
        raise ValueError(f"type is {name!r}; it must be one of {', '.join(_BY_NAME)}")
    return found


def by_number(number: int) -> ElementType:
    """The element type of a DataType. TypeError: this library does not know it."""
    found = _BY_NUMBER.get(number)
    if found is None:
        raise TypeError(f"this version of gemmd knows no element type {number}")
    return found


def parse(dtype: Any) -> ElementType:
    """A NumPy type, or anything that makes one, or a name of the contract's."""
    if isinstance(dtype, ElementType):
        return dtype
    if isinstance(dtype, str):
        for element in _TYPES:
            if dtype.replace("-", "_") == element.name or dtype == element.numpy_name:
                return element
    return of_dtype(np.dtype(dtype))


def result_of(a: ElementType, has_scales: bool) -> ElementType:
    """D's type where none is asked for, as MatmulHeader.output_type has it."""
    if a.name == "int8":
        return _BY_NAME["f32" if has_scales else "int32"]
    return _BY_NAME[{"tf32": "f32", "fp8_e4m3": "bf16", "fp8_e5m2": "bf16"}.get(a.name, a.name)]
