"""Floats of few bits, E8M0 and tables, as codes, to and from binary64: base/numbers/quant in NumPy.

A code is a sign bit above an exponent field E and a fraction field F of f bits. Its magnitude is
2^(E - bias) * (1 + F / 2^f), or, where E is 0, 2^(1 - bias) * F / 2^f. Sources: OFP8, revision 1.0, 2023, table 1
(E4M3, E5M2); OCP MX, version 1.0, 2023, sections 5.3 and 5.4 (E3M2, E2M3, E2M1, E8M0); IEEE 754-2019 (binary16,
binary32).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gemmd._layout import Array

E8M0_NAN = 0xFF


class FloatFormat(NamedTuple):
    """`top` says what the largest exponent is for: "finite" values, one "nan", or "infinity" and NaN."""

    exponent_bits: int
    fraction_bits: int
    bias: int
    top: str

    @property
    def sign_bit(self) -> int:
        """The code of -0."""
        return 1 << (self.exponent_bits + self.fraction_bits)

    @property
    def largest_code(self) -> int:
        """The code of the largest finite value."""
        if self.top == "finite":
            return self.sign_bit - 1
        return self.sign_bit - 2 if self.top == "nan" else self._infinity - 1

    @property
    def _infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return _largest(self)

    @property
    def rounding_limit(self) -> float:
        """The least magnitude that an exponent without a limit would round past the largest finite value."""
        return self.largest + math.ldexp(1.0, math.frexp(self.largest)[1] - self.fraction_bits - 2)


FLOATS = {
    "fp8_e4m3": FloatFormat(4, 3, 7, "nan"),
    "fp8_e5m2": FloatFormat(5, 2, 15, "infinity"),
    "fp6_e3m2": FloatFormat(3, 2, 3, "finite"),
    "fp6_e2m3": FloatFormat(2, 3, 1, "finite"),
    "fp4_e2m1": FloatFormat(2, 1, 1, "finite"),
    "f16": FloatFormat(5, 10, 15, "infinity"),
    "bf16": FloatFormat(8, 7, 127, "infinity"),
    "f32": FloatFormat(8, 23, 127, "infinity"),
}

# Values by their codes: base/numbers/quant/code_table.h has the sources.
TABLES = {
    "nf4": (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
    "bnb_fp4": (
        0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25, 0.0, -1 / 192, -2 / 3, -1.0, -1 / 3, -0.5, -1 / 6, -0.25,
    ),
    "iq4_nl": (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
}  # fmt: skip


@lru_cache(maxsize=16)
def _largest(form: FloatFormat) -> float:
    return float(decode(form, np.array([form.largest_code], np.uint32))[0])


def decode(form: FloatFormat, codes: Array) -> Array:
    """Codes' values, float64, exact. Bits above the sign are ignored."""
    magnitude = codes & (form.sign_bit - 1)
    field = (magnitude >> form.fraction_bits).astype(np.int32)
    fraction = (magnitude & ((1 << form.fraction_bits) - 1)).astype(np.float64)
    significand = np.where(field == 0, fraction, fraction + (1 << form.fraction_bits))
    values = np.ldexp(significand, np.maximum(field, 1) - (form.bias + form.fraction_bits))
    values[magnitude > form.largest_code] = np.nan
    if form.top == "infinity":
        values[magnitude == form._infinity] = np.inf
    signed: Array = np.where(codes & form.sign_bit, -values, values)
    return signed


def encode(form: FloatFormat, values: Array) -> Array:
    """The codes nearest to float64 values that are not NaN, uint32: ties to the even code, saturating."""
    smallest = 1 - form.bias
    magnitude = np.minimum(np.abs(values), form.largest)
    # frexp's fraction is in [0.5, 1): ilogb is one less than its exponent, which is 0 of 0.
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, smallest)
    exponent[magnitude == 0] = smallest
    # The largest multiple carries into the exponent field, as it should, and past the largest value.
    multiple = np.rint(np.ldexp(magnitude, form.fraction_bits - exponent)).astype(np.uint32)
    codes: Array = ((exponent - smallest).astype(np.uint32) << np.uint32(form.fraction_bits)) + multiple
    np.minimum(codes, form.largest_code, out=codes)
    codes[np.signbit(values)] |= np.uint32(form.sign_bit)
    return codes


def encode_in_table(name: str, values: Array) -> Array:
    """The codes nearest to float64 values that are not NaN, uint32: ties to the even code, saturating."""
    of_codes = table(name, 4)
    codes = np.argsort(of_codes, kind="stable").astype(np.uint32)
    codes = codes[np.append(True, np.diff(of_codes[codes]) > 0)]  # of equal values the first
    middles = (of_codes[codes[1:]] + of_codes[codes[:-1]]) / 2
    below = np.searchsorted(middles, values, side="left")
    nearest = codes[below]
    # A tie went down.
    is_odd_tie = (values == np.append(middles, np.inf)[below]) & (nearest % 2 == 1)
    found: Array = np.where(is_odd_tie, codes[np.minimum(below + 1, len(codes) - 1)], nearest)
    return found


def decode_e8m0(codes: Array) -> Array:
    """2^(code - 127), float64; 0xFF is NaN."""
    values = np.ldexp(np.ones(codes.shape), codes.astype(np.int32) - 127)
    values[codes == E8M0_NAN] = np.nan
    return values


@lru_cache(maxsize=16)
def table(name: str, bits: int) -> Array:
    """The float64 values of every code of a type of at most 8 bits."""
    codes = np.arange(1 << bits, dtype=np.uint32)
    if name == "e8m0":
        values = decode_e8m0(codes)
    elif name in ("int4", "int8"):
        half = 1 << (bits - 1)
        values = ((codes ^ half).astype(np.int32) - half).astype(np.float64)
    elif name in ("uint4", "uint8"):
        values = codes.astype(np.float64)
    elif name in TABLES:
        values = np.array(TABLES[name], np.float32).astype(np.float64)
    else:
        values = decode(FLOATS[name], codes)
    values.flags.writeable = False
    return values
