"""What base/numbers/quant/README.md says of each format, in exact fractions and one element at a time.

Written from that page, without gemmd's encoder: types' limits are ml_dtypes', formats are read off their names.
"""

from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np

FLOATS = {
    "fp8-e4m3": ml_dtypes.float8_e4m3fn,
    "fp8-e5m2": ml_dtypes.float8_e5m2,
    "fp6-e3m2": ml_dtypes.float6_e3m2fn,
    "fp6-e2m3": ml_dtypes.float6_e2m3fn,
    "fp4": ml_dtypes.float4_e2m1fn,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}
INTEGERS = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint4": (0, 15)}
# Values by their codes, as float32 has them: QLoRA, appendix E; bitsandbytes' fp4 in twelfths; ggml's
# kvalues_iq4nl.
TABLES = {
    "nf4": (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
            1.0),
    "bnb-fp4": tuple(float(np.float32(sign * twelfths) / np.float32(12)) for sign in (1, -1)
                     for twelfths in (0, 0.0625, 8, 12, 4, 6, 2, 3)),
    "iq4-nl": (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
}  # fmt: skip
NAMES = [
    *(f"{kind}-{blocks}{zp}" for kind in ("int8", "uint8") for zp in ("", "-zp")
      for blocks in ("tensor", "row", "g16", "g32", "g64", "g128")),
    *(f"uint8-g{k}-offset" for k in (16, 32, 64, 128)),
    *(f"fp8-{kind}-{blocks}" for kind in ("e4m3", "e5m2") for blocks in ("tensor", "row", "1x128", "128x128")),
    *("mxfp8-e4m3", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3", "mxfp4", "nvfp4"),
    *(f"int4-g{k}-{scale}{shift}" for k in (16, 32, 64, 128) for scale in ("f16", "bf16", "f32")
      for shift in ("", "-zp", "-offset")),
    *(f"{table}-g{k}-{scale}" for table in TABLES for k in (16, 32, 64, 128) for scale in ("f16", "bf16", "f32")),
]  # fmt: skip


@cache
def parts(name):
    """The elements, the type of scales, and lines and elements of K in a block (None: all)."""
    if name.startswith("mx"):
        return name[2:], "e8m0", 1, 32
    if name == "nvfp4":
        return "fp4", "fp8-e4m3", 1, 16
    for table in TABLES:
        if name.startswith(table):
            group, scale = name[len(table) + 2 :].split("-")
            return table, scale, 1, int(group)
    words = name.removesuffix("-zp").removesuffix("-offset").split("-")
    if words[0] == "int4":
        return ("uint4" if name.endswith(("-zp", "-offset")) else "int4"), words[2], 1, int(words[1][1:])
    element = words[0] if words[0] in INTEGERS else "-".join(words[:2])
    lines, k = {"tensor": (None, None), "row": (1, None), "1x128": (1, 128), "128x128": (128, 128)}.get(
        words[-1], (1, int(words[-1][1:]) if words[-1][0] == "g" else 0)
    )
    return element, "f32", lines, k


def held(name, x):
    """The nearest values that the format holds: f16 scales end at 65504, uint8 without zero points at 0."""
    if name.startswith("uint8") and not name.endswith(("-zp", "-offset")):
        return np.abs(x)
    if parts(name)[1] != "f16":
        return x
    most = 6e4 if name.endswith("-offset") or name.startswith(("nf4", "bnb")) else 4e5
    return np.clip(x, -most, most)


def exponent_of(x):
    """floor(log2(x)) of a positive fraction."""
    found = x.numerator.bit_length() - x.denominator.bit_length()
    return found if power(found) <= x else found - 1


@cache
def power(exponent):
    """2^exponent."""
    return Fraction(2) ** exponent


@cache
def float_limits(kind):
    """The exponent of the least normal value, and bits of fraction."""
    info = ml_dtypes.finfo(FLOATS[kind])
    return int(info.minexp), int(info.nmant)


@cache
def largest(kind):
    """The largest value."""
    if kind in TABLES:
        return Fraction(max(TABLES[kind]))
    return Fraction(INTEGERS[kind][1]) if kind in INTEGERS else Fraction(float(ml_dtypes.finfo(FLOATS[kind]).max))


def nearest(kind, x):
    """The value of that type nearest to a fraction of at least 0; ties to even, saturating."""
    if x == 0:
        return x
    least, bits = float_limits(kind)
    unit = power(max(exponent_of(x), least) - bits)
    return min(round(x / unit) * unit, largest(kind))


def scale_of(name, values, tensor, rule):
    """A block's scale, its zero point and its offset."""
    element, kind, _, _ = parts(name)
    if name.endswith("-offset"):
        low, high = min(values), max(values)
        offset = nearest(kind, abs(low)) * (-1 if low < 0 else 1)
        return nearest(kind, Fraction((float(high) - float(low)) / INTEGERS[element][1])), 0, offset
    low, high = min(0, *values, 0), max(0, *values, 0)
    magnitude = max(-low, high)
    if kind == "e8m0":
        if magnitude == 0:
            return power(-127), 0, 0
        exponent = exponent_of(magnitude) - exponent_of(largest(element))
        if rule == "round-up" and magnitude > largest(element) * power(exponent):
            exponent += 1
        return power(min(max(exponent, -127), 127)), 0, 0
    if name.endswith("-zp"):
        first, last = INTEGERS[element]
        scale = nearest(kind, Fraction((float(high) - float(low)) / (last - first)))
        return scale, min(first + (round(-low / scale) if scale else 0), last), 0
    if rule == "full-range":
        extreme = high if high > -low else low
        lowest = Fraction(min(TABLES[element])) if element in TABLES else INTEGERS[element][0]
        return nearest(kind, magnitude / -lowest) * (-1 if extreme > 0 else 1), 0, 0
    if element == "uint8":
        magnitude = high
    unit = largest(element) * tensor
    return (nearest(kind, magnitude / unit) if unit else Fraction(0)), 0, 0


def code_value(name, x, scale, zero_point, offset):
    """What is stored for x: an integer, or a float's value with its sign."""
    element = parts(name)[0]
    quotient = (Fraction(float(x)) - offset) / scale if scale else Fraction(0)
    if element in TABLES:
        # The even code of two that are as near.
        distances = [(abs(Fraction(value) - quotient), code % 2) for code, value in enumerate(TABLES[element])]
        return float(TABLES[element][distances.index(min(distances))])
    if element in INTEGERS:
        first, last = INTEGERS[element]
        return float(min(max(round(quotient) + zero_point, first), last))
    is_negative = bool(np.signbit(x)) and bool(scale)
    return float(np.copysign(float(nearest(element, abs(quotient))), -1.0 if is_negative else 1.0))


def quantize(name, x, rule="floor"):
    """Quantizes lines x K of float32: values as float64, scales, zero points, offsets, the tensor's scale."""
    _, _, block_lines, block_k = parts(name)
    lines, k = x.shape
    exact = [[Fraction(float(value)) for value in line] for line in x]
    tensor = Fraction(1)
    if name == "nvfp4":
        tensor = nearest("f32", max(abs(value) for line in exact for value in line) / (448 * 6))
    stored = np.empty((lines, k))
    scales, zero_points, offsets = [], [], []
    for line in range(0, lines, block_lines or lines):
        scales.append([])
        zero_points.append([])
        offsets.append([])
        for at in range(0, k, block_k or k):
            rows = range(line, min(line + (block_lines or lines), lines))
            columns = range(at, min(at + (block_k or k), k))
            values = [exact[i][j] for i in rows for j in columns]
            scale, zero_point, offset = scale_of(name, values, tensor, rule)
            scales[-1].append(float(scale))
            zero_points[-1].append(zero_point)
            offsets[-1].append(float(offset))
            for i in rows:
                for j in columns:
                    stored[i, j] = code_value(name, x[i, j], scale * tensor, zero_point, offset)
    return stored, np.array(scales), np.array(zero_points), np.array(offsets), np.float32(float(tensor))
