"""Real matrices to codes and what scales them: base/numbers/quant/quantize.h in NumPy, equal in every bit.

A matrix is looked at as lines of K elements. What base/numbers/quant/README.md specifies is computed in binary64,
by the operations named there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gemmd._formats import WHOLE, Format
from gemmd._layout import Array
from gemmd._small_float import FLOATS, TABLES, decode, decode_e8m0, encode, encode_in_table, table

RULES = ("floor", "round-up", "full-range")
_AT_ONCE = 1 << 18  # elements that are encoded together: their temporaries stay in a processor's cache
_LARGEST_F32 = float(np.finfo(np.float32).max)
_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint4": (0, 15)}


class Codes(NamedTuple):
    """What encode_lines() makes. Codes are a byte each; scales are codes too, float32 for those of f32.

    elements: lines x K, uint8. scales, zero_points, offsets: blocks of lines x blocks of K; zero points int8 or
    uint8, offsets as scales. tensor_scale: 1 x 1 float32.
    """

    elements: Array
    scales: Array
    zero_points: Array | None
    tensor_scale: Array | None
    offsets: Array | None


def limits_of(element: str) -> tuple[int, int]:
    """The first and the last value of an integer type."""
    return _LIMITS[element]


def check_rule(form: Format, rule: str) -> None:
    """ValueError: the format has no such rule."""
    if rule == "round-up" and form.scale.name != "e8m0":
        raise ValueError(f"rule is {rule!r}: it is of e8m0 scales; those of {form.name} are {form.scale.name}")
    if rule == "full-range" and not form.has_full_range:
        raise ValueError(
            f"rule is {rule!r}: it is of int8, int4 and iq4-nl formats without zero points and offsets, "
            f"not of {form.name}"
        )


def refused(lines: Array, form: Format, rule: str) -> tuple[Array, str] | None:
    """The values that have no code, of lines x K of finite float32, and why, with the limit; None: all have one."""
    if not form.has_sign:
        low, high = _ranges(lines, form)
        scales = scale_values(_choose(form, low, high, high, 1.0, "floor")[0], form)
        wrong = lines < _spread(scales / -2, form, lines.shape, 0, len(lines))
        return wrong, f"{form.element.name} without zero points holds nothing below 0; formats with -zp do"
    if form.scale.name == "e8m0" or form.has_tensor_scale:  # every block of f32 has a scale
        return None
    what = f"{form.element.name} with {form.scale.name} scales"
    largest = FLOATS[form.scale.name].rounding_limit
    if form.has_offsets:
        return _refused_with_offsets(lines, form, largest)
    if not form.has_zero_points:
        limit = (-_lowest(form) if rule == "full-range" else _largest(form)) * largest
        wider = "f32" if form.scale.name == "bf16" else "bf16"
        why = f"{what} holds magnitudes below {limit:g}; {wider} scales hold more"
        return None if limit > _LARGEST_F32 else (np.abs(lines) >= limit, why)
    first, last = _LIMITS[form.element.name]
    limit = (last - first) * largest
    if limit > 2 * _LARGEST_F32:
        return None
    low, high = _ranges(lines, form)
    most = np.where(high - low >= limit, np.maximum(-low, high), np.inf)
    wrong = np.abs(lines) >= _spread(most, form, lines.shape, 0, len(lines))
    return wrong, f"{what} and zero points holds blocks that span less than {limit:g}; bf16 scales hold more"


def _refused_with_offsets(lines: Array, form: Format, largest: float) -> tuple[Array, str] | None:
    limit = _largest(form) * largest
    if form.scale.name != "f16":
        return None
    low, high = _ranges(lines, form)
    is_past = (high - low >= limit) | (np.abs(low) >= largest)
    most = np.where(is_past, np.maximum(-low, high), np.inf)
    wrong = np.abs(lines) >= _spread(most, form, lines.shape, 0, len(lines))
    return wrong, (
        f"{form.element.name} with {form.scale.name} scales and offsets holds blocks whose lowest value has a "
        f"magnitude below {largest:g} and that span less than {limit:g}; bf16 ones hold more"
    )


def encode_lines(lines: Array, form: Format, rule: str, elements: Array) -> Codes:
    """lines: lines x K of finite float32, all held. `elements`, of the same shape and uint8, is written."""
    low, high = _ranges(lines, form)
    magnitude = np.maximum(-low, high)
    tensor: Array | None = None
    if form.has_tensor_scale:
        largest = FLOATS[form.scale.name].largest * _largest(form)
        tensor = np.full((1, 1), magnitude.max() / largest, np.float32)
    unit = 1.0 if tensor is None else float(tensor[0, 0])
    codes, zeros = _choose(form, low, high, magnitude, unit, rule)
    offsets = encode(FLOATS[form.scale.name], low) if form.has_offsets else None
    added = None if offsets is None else scale_values(offsets, form)
    _encode_elements(lines, form, scale_values(codes, form) * unit, zeros, added, elements)
    points = None if zeros is None else zeros.astype(form.zero_point.code)
    stored = None if offsets is None else _stored(offsets, form)
    return Codes(elements, _stored(codes, form), points, tensor, stored)


def scale_values(codes: Array, form: Format) -> Array:
    """Scales' codes as float64."""
    if form.scale.name == "e8m0":
        return decode_e8m0(codes)
    return decode(FLOATS[form.scale.name], codes)


def _stored(codes: Array, form: Format) -> Array:
    bits = codes.astype(np.dtype(f"u{form.scale.bits // 8}"))
    return bits.view(form.scale.stored_dtype)


def _largest(form: Format) -> float:
    """The largest magnitude that an encoder makes an element of."""
    name = form.element.name
    if name in TABLES:
        return float(table(name, 4).max())
    return float(_LIMITS[name][1]) if form.element.is_integer else FLOATS[name].largest


def _lowest(form: Format) -> float:
    """The lowest value of an integer or a table."""
    name = form.element.name
    return float(table(name, 4).min()) if name in TABLES else float(_LIMITS[name][0])


def _ranges(lines: Array, form: Format) -> tuple[Array, Array]:
    """Each block's lowest and highest value, and 0 among them where there are no offsets; float64."""
    count, k = lines.shape
    at_lines = np.arange(0, count, count if form.block_lines == WHOLE else form.block_lines)
    at_k = np.arange(0, k, k if form.block_k == WHOLE else form.block_k)

    def of(reduce: np.ufunc) -> Array:
        along_k = reduce.reduceat(lines, at_k, axis=1)
        return reduce.reduceat(along_k, at_lines, axis=0).astype(np.float64)

    if form.has_offsets:
        return of(np.minimum), of(np.maximum)
    return np.minimum(of(np.minimum), 0.0), np.maximum(of(np.maximum), 0.0)


def _choose(
    form: Format, low: Array, high: Array, magnitude: Array, tensor: float, rule: str
) -> tuple[Array, Array | None]:
    """Scales' codes and zero points of blocks with such values."""
    if form.scale.name == "e8m0":
        return _mx_scales(form, magnitude, rule), None
    scale = FLOATS[form.scale.name]
    if form.has_offsets:
        return encode(scale, (high - low) / _largest(form)), None
    if form.has_zero_points:
        first, last = _LIMITS[form.element.name]
        codes = encode(scale, (high - low) / (last - first))
        values = decode(scale, codes)
        with np.errstate(divide="ignore", invalid="ignore"):
            offset = np.where(values == 0, 0.0, np.rint(-low / values))
        return codes, np.minimum(first + offset, last)
    if rule == "full-range":
        extreme = np.where(high > -low, high, low)
        return encode(scale, np.where(extreme == 0, 0.0, extreme / _lowest(form))), None
    has_no_sign = form.element.is_integer and _LIMITS[form.element.name][0] == 0
    unit = _largest(form) * tensor
    if unit == 0:
        return np.zeros(magnitude.shape, np.uint32), None
    return encode(scale, (high if has_no_sign else magnitude) / unit), None


def _mx_scales(form: Format, magnitude: Array, rule: str) -> Array:
    largest = _largest(form)
    exponent: Array = np.frexp(magnitude)[1] - int(np.frexp(largest)[1])
    if rule == "round-up":
        exponent += magnitude > np.ldexp(largest, exponent)
    exponent[magnitude == 0] = -127
    codes: Array = (np.clip(exponent, -127, 127) + 127).astype(np.uint32)
    return codes


def _spread(blocks: Array, form: Format, shape: tuple[int, ...], begin: int, end: int) -> Array:
    """The blocks' values at each element of the lines from `begin` to `end`, broadcastable to them."""
    count, k = shape
    chosen: Array = blocks[np.arange(begin, end) // (form.block_lines or count)]
    return chosen if form.block_k == WHOLE else np.repeat(chosen, form.block_k, axis=1)[:, :k]


def _encode_elements(
    lines: Array, form: Format, scales: Array, zeros: Array | None, offsets: Array | None, elements: Array
) -> None:
    count, k = lines.shape
    step = max(1, _AT_ONCE // k)
    for begin in range(0, count, step):
        end = min(begin + step, count)
        unit = _spread(scales, form, lines.shape, begin, end)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = lines[begin:end].astype(np.float64)
            if offsets is not None:
                values -= _spread(offsets, form, lines.shape, begin, end)
            quotient = values / unit
        quotient[np.broadcast_to(unit == 0, quotient.shape)] = 0.0
        if form.element.is_integer:
            first, last = _LIMITS[form.element.name]
            np.rint(quotient, out=quotient)
            if zeros is not None:
                quotient += _spread(zeros, form, lines.shape, begin, end)
            np.clip(quotient, first, last, out=quotient)
            mask = (1 << form.element.bits) - 1
            elements[begin:end] = quotient.astype(np.int16) & mask
        elif form.element.has_table:
            elements[begin:end] = encode_in_table(form.element.name, quotient)
        else:
            elements[begin:end] = encode(FLOATS[form.element.name], quotient)
