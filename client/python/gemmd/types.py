"""Element types: the contract's names and numbers, and NumPy's types for them.

bf16 and the types of 4, 6 and 8 bits are NumPy types where ml_dtypes is installed. Without it their codes can be
sent all the same, as Quantized(codes, type="bf16") of uint16 or uint8; results of those types alone need it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gemmd import _messages


class ElementType(NamedTuple):
    """One type of elements. `numpy_name` is the name of its NumPy type, `code` NumPy's type of its bits.

    Types whose codes have a table have no NumPy type: "".
    """

    name: str
    number: int  # DataType in matrix.proto
    bits: int  # of an element in a plane; those of 4 and 6 are packed there, and a byte each in NumPy
    numpy_name: str
    code: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type. TypeError: it is ml_dtypes', which is not installed or lacks it."""
        return _dtype_of(self)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """NumPy's type where there is one, else that of its codes."""
        try:
            return _dtype_of(self)
        except TypeError:
            return np.dtype(self.code)

    @property
    def is_packed(self) -> bool:
        """Whether a plane has several elements in a byte."""
        return self.bits < 8

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer that may have scales."""
        return self.name in ("int8", "uint8", "int4", "uint4")

    @property
    def is_quantized(self) -> bool:
        """Whether matrices of it may have scales."""
        return self.is_integer or self.has_table or self.name[:3] in ("fp8", "fp6", "fp4")

    @property
    def has_table(self) -> bool:
        """Whether its codes are places in a table of 16 values, which no NumPy type has."""
        return self.name in ("nf4", "bnb_fp4", "iq4_nl")

    @property
    def needs_scales(self) -> bool:
        """Whether matrices of it must have scales."""
        return self.is_quantized and self.name not in ("int8", "fp8_e4m3", "fp8_e5m2")

    def plane_bytes(self, count: int) -> int:
        """Bytes of that many elements, tightly packed."""
        return (count * self.bits + 7) // 8


_NUMBERS = _messages.enum_numbers("DataType")
_TYPES = tuple(
    ElementType(name, _NUMBERS[name.upper()], bits, numpy_name, code)
    for name, bits, numpy_name, code in (
        ("f64", 64, "float64", "f8"),
        ("f32", 32, "float32", "f4"),
        ("tf32", 32, "float32", "f4"),
        ("f16", 16, "float16", "f2"),
        ("bf16", 16, "bfloat16", "u2"),
        ("int8", 8, "int8", "i1"),
        ("uint8", 8, "uint8", "u1"),
        ("int32", 32, "int32", "i4"),
        ("int4", 4, "int4", "u1"),
        ("uint4", 4, "uint4", "u1"),
        ("fp8_e4m3", 8, "float8_e4m3fn", "u1"),
        ("fp8_e5m2", 8, "float8_e5m2", "u1"),
        ("fp6_e3m2", 6, "float6_e3m2fn", "u1"),
        ("fp6_e2m3", 6, "float6_e2m3fn", "u1"),
        ("fp4_e2m1", 4, "float4_e2m1fn", "u1"),
        ("nf4", 4, "", "u1"),
        ("bnb_fp4", 4, "", "u1"),
        ("iq4_nl", 4, "", "u1"),
        ("e8m0", 8, "float8_e8m0fnu", "u1"),  # of scales alone
    )
)
_BY_NAME = {each.name: each for each in _TYPES}
NAMES = tuple(_BY_NAME)
_BY_NUMBER = {each.number: each for each in _TYPES}
# tf32 is said, never guessed: a float32 array is f32.
_BY_NUMPY_NAME = {each.numpy_name: each for each in _TYPES if each.numpy_name and each.name != "tf32"}


@lru_cache(maxsize=64)
def _dtype_of(element: ElementType) -> np.dtype[Any]:
    plain = np.dtype(element.code)
    if not element.numpy_name:
        raise TypeError(f"NumPy has no type for {element.name}: give its codes as uint8, a byte each or two in one")
    if plain.name == element.numpy_name:
        return plain
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"{element.name} arrays need the package ml_dtypes, which is not installed; "
            'ask for another result with dtype="float32"'
        ) from None
    found = getattr(ml_dtypes, element.numpy_name, None)
    if found is None:
        raise TypeError(f"{element.name} arrays need {element.numpy_name}, which this version of ml_dtypes lacks")
    made: np.dtype[Any] = np.dtype(found)
    return made


@lru_cache(maxsize=64)
def of_dtype(dtype: np.dtype[Any]) -> ElementType:
    """The element type of a NumPy type. TypeError: gemmd has none for it."""
    found = _BY_NUMPY_NAME.get(dtype.name)
    if found is None or not dtype.isnative:
        cure = ": astype('float64') holds integers up to 2**53" if dtype.kind in "iub" else ""
        raise TypeError(
            f"gemmd multiplies no {dtype.name if dtype.isnative else dtype.str} arrays{cure}; "
            f"its types are {', '.join(_BY_NUMPY_NAME)}, in this machine's byte order"
        )
    return found


def is_name(name: str) -> bool:
    """Whether by_name() knows it."""
    return name.replace("-", "_") in _BY_NAME


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
            if dtype and (dtype.replace("-", "_") == element.name or dtype == element.numpy_name):
                return element
    return of_dtype(np.dtype(dtype))


_MIXED = ("f32", "f16", "bf16")  # what quantized matrices are multiplied by


def go_together(a: ElementType, b: ElementType) -> bool:
    """Whether the server multiplies matrices of these types by each other."""
    if a.name == "int32" or b.name == "int32":  # a result's type, which no kernel multiplies
        return False
    if a == b or (a.is_quantized and b.is_quantized):
        return True
    return (a.is_quantized and b.name in _MIXED) or (b.is_quantized and a.name in _MIXED)


def common(a: ElementType, b: ElementType) -> ElementType | None:
    """The type that holds the values of both exactly, as numpy.result_type chooses it: f32 or f64.

    None: they go together as they are, or both are integers, of which that type would be none.
    """
    integers = ("int8", "uint8", "int32")
    if go_together(a, b) or (a.name in integers and b.name in integers):
        return None
    return _BY_NAME["f32" if a.name in _MIXED and b.name in _MIXED else "f64"]


def check_factors(a: ElementType, b: ElementType) -> None:
    """TypeError where matrices of these types are not multiplied by each other."""
    if go_together(a, b):
        return
    if "int32" in (a.name, b.name):
        raise TypeError(
            f"a is {a.name} and b is {b.name}; int32 is the type of exact products of int8, and no kernel "
            "multiplies it: give astype('float64'), which is exact while sums are below 2**53"
        )
    raise TypeError(
        f"a is {a.name} and b is {b.name}; the factors must have one type, or both be quantized, or one be "
        f"quantized and the other {', '.join(_MIXED)}; only arrays are made one type here"
    )


def result_of(a: ElementType, b: ElementType, has_scales: bool) -> ElementType:
    """D's type where none is asked for, as MatmulHeader.output_type has it. has_scales: one of both has."""
    if a.is_quantized and not b.is_quantized:
        return b
    if a.is_integer:
        return _BY_NAME["f32" if has_scales else "int32"]
    if a.is_quantized:
        return _BY_NAME["bf16"]
    return _BY_NAME["f32"] if a.name == "tf32" else a
