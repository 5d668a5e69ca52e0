"""One large value was saturated silently: an f16 scale ends at 65504, and the quantized element was 1e7 no longer.

Idea: casper-hansen/AutoAWQ#532 and ggml-org/llama.cpp#21652, where scales of 16 bits overflowed.
Right: what a format has no code for is refused by its place, its value and the limit, in this process and on
arrival at the server alike; the last value in range is held. docs/quantization.md has the table.
"""

import re

import numpy as np
import pytest

import gemmd
from gemmd import _formats

LARGEST = np.finfo(np.float32).max
UP = np.float32(np.inf)


def matrix(low, high, dtype=np.float32):
    x = np.ones((3, 40), dtype)
    x[1, 0], x[1, 7] = low, high
    return x


def last_in_range(name):
    """Pairs of values in one block that the format holds, and pairs that it refuses; the second one is to blame."""
    form = _formats.FORMATS[name]
    if form.scale.name == "f16" and form.has_offsets:
        return [(-60000, 900000)], [(0, 1e7), (0, -1e7)]
    tops = {"nf4": 1, "bnb_fp4": 1, "iq4_nl": 113}  # of tables
    top = tops.get(form.element.name, 15 if form.has_zero_points else 7)
    if form.scale.name == "f16":
        limit = np.float32(top * 65520)
        return [(0, np.nextafter(limit, np.float32(0)))], [(0, limit), (0, 1e7), (0, -1e7)]
    if form.scale.name == "bf16" and top == 1:
        limit = np.float32(float.fromhex("0x1.ffp127"))
        return [(0, np.nextafter(limit, np.float32(0)))], [(0, limit), (0, LARGEST), (0, -LARGEST)]
    if not form.has_sign:
        return [(255, -0.5), (0, LARGEST)], [(255, np.nextafter(np.float32(-0.5), -UP)), (0, -1), (1, -LARGEST)]
    return [(0, LARGEST), (0, -LARGEST), (-LARGEST, LARGEST)], []


@pytest.mark.parametrize("name", sorted(_formats.FORMATS))
def test_the_last_value_in_range_is_held_and_the_next_refused(client, name):
    held, refused = last_in_range(name)
    for pair in held:
        for axis in (0, 1):
            x = matrix(*pair) if axis == 0 else matrix(*pair).T
            made = gemmd.Quantized.of(x, name, axis)
            with client.put(x, store_as=name, axis=axis) as kept:
                assert np.array_equal(kept.quantized().codes(), made.codes())
    for pair in [*refused, (0, np.nan), (0, np.inf), (1, -np.inf)]:
        for axis in (0, 1):
            x = matrix(*pair) if axis == 0 else matrix(*pair).T
            place = "1, 7" if axis == 0 else "7, 1"
            with pytest.raises(ValueError, match=re.escape(f"x[{place}] is {x[x != 1][-1]}")):
                gemmd.Quantized.of(x, name, axis)
            with pytest.raises(gemmd.InvalidArgument, match=rf"element \({place}\) is ") as arrived:
                client.put(x, store_as=name, axis=axis)
            assert arrived.value.field == "begin.stored_form" or "begin.stored_form" in arrived.value.message


def test_the_limit_is_said():
    x = matrix(0, 1e7)
    with pytest.raises(ValueError, match="int4 with f16 scales holds magnitudes below 458640; bf16 scales hold"):
        gemmd.Quantized.of(x, "int4-g32-f16", 0)
    with pytest.raises(ValueError, match="blocks that span less than 982800"):
        gemmd.Quantized.of(matrix(-5e5, 5e5), "int4-g128-f16-zp", 0)
    with pytest.raises(ValueError, match="below 0; formats with -zp do"):
        gemmd.Quantized.of(matrix(0, -3), "uint8-row", 0)
    assert gemmd.Quantized.of(x, "int4-g32-bf16", 0).dequantize()[1, 7] == pytest.approx(1e7, rel=2**-8)


def test_the_first_element_row_by_row_is_named():
    x = np.zeros((4, 300), np.float32)
    x[2, 10] = x[1, 200] = x[3, 0] = 1e6
    for axis in (0, 1):
        for order in "CF":
            with pytest.raises(ValueError, match=r"x\[1, 200\]"):
                gemmd.Quantized.of(np.asarray(x, order=order), "int4-g32-f16", axis)


def test_values_that_a_narrower_type_cannot_hold_are_refused():
    q = gemmd.Quantized.of(matrix(0, 448 * 2048), "fp8-e4m3-row", 0)
    with pytest.raises(ValueError, match=r"value\[1, 7\] is 917504.0; f16 holds magnitudes below 65520"):
        q.dequantize("float16")
    assert q.dequantize("bf16")[1, 7] == 917504
    with pytest.raises(ValueError, match="dtype is int8; values are"):
        q.dequantize("int8")
    assert np.isfinite(gemmd.Quantized.of(matrix(0, 65519), "int8-row", 0).dequantize("f16")).all()
