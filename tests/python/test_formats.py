"""The elements and blocks of base/numbers/quant against ml_dtypes: every code, and rounding everywhere.

GEMMD_CODEC names the program that encodes and decodes (tests/base/numbers/quant/codec.cc).
"""

import os
import subprocess

import ml_dtypes
import numpy as np
import pytest

# The codec's name, ml_dtypes' type, bits, and whether ml_dtypes saturates as the codec does.
FLOATS = [
    ("fp8_e4m3", ml_dtypes.float8_e4m3fn, 8, False),
    ("fp8_e5m2", ml_dtypes.float8_e5m2, 8, False),
    ("fp6_e3m2", ml_dtypes.float6_e3m2fn, 6, True),
    ("fp6_e2m3", ml_dtypes.float6_e2m3fn, 6, True),
    ("fp4_e2m1", ml_dtypes.float4_e2m1fn, 4, True),
]
MX = [
    ("mxfp8-e4m3", ml_dtypes.float8_e4m3fn, 8),
    ("mxfp8-e5m2", ml_dtypes.float8_e5m2, 8),
    ("mxfp6-e3m2", ml_dtypes.float6_e3m2fn, 6),
    ("mxfp6-e2m3", ml_dtypes.float6_e2m3fn, 6),
    ("mxfp4", ml_dtypes.float4_e2m1fn, 4),
]


def codec(words, data):
    done = subprocess.run([os.environ["GEMMD_CODEC"], *words], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def decode(name, codes):
    return np.frombuffer(codec(["decode", name], np.asarray(codes, np.uint8).tobytes()), np.float32)


def encode(name, values):
    return np.frombuffer(codec(["encode", name], np.asarray(values, np.float32).tobytes()), np.uint8)


def unpack(packed, bits, count):
    stream = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: count * bits]
    weights = 1 << np.arange(bits)
    return (stream.reshape(count, bits) * weights).sum(axis=1).astype(np.uint8)


def finite(dtype):
    return float(ml_dtypes.finfo(dtype).max)


@pytest.mark.parametrize(("name", "dtype", "bits", "_saturates"), FLOATS)
def test_every_code_is_worth_what_ml_dtypes_says(name, dtype, bits, _saturates):
    codes = np.arange(1 << bits, dtype=np.uint8)
    theirs = codes.view(dtype).astype(np.float32)
    ours = decode(name, codes)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs) & ~np.isnan(theirs) | np.signbit(ours))
    number = np.isfinite(theirs)
    np.testing.assert_array_equal(encode(name, theirs)[number], codes[number])


def test_every_scale_code_is_worth_what_ml_dtypes_says():
    codes = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(decode("e8m0", codes), codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32))


@pytest.mark.parametrize(("name", "dtype"), [("int4", ml_dtypes.int4), ("uint4", ml_dtypes.uint4)])
def test_every_code_of_four_bit_integers(name, dtype):
    codes = np.arange(16, dtype=np.uint8)
    theirs = codes.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(decode(name, codes), theirs)
    np.testing.assert_array_equal(encode(name, theirs), codes)


@pytest.mark.parametrize(("name", "dtype", "_bits", "saturates"), FLOATS)
def test_every_float_is_rounded_as_ml_dtypes_rounds(random, name, dtype, _bits, saturates):
    codes = np.arange(1 << _bits, dtype=np.uint8)
    values = np.sort(np.unique(codes.view(dtype).astype(np.float32)))
    values = values[np.isfinite(values)]
    ties = (values[1:] + values[:-1]) / 2
    anything = random.standard_normal(200_000) * 2.0 ** random.integers(-24, 20, 200_000)
    x = np.concatenate(
        [ties, np.nextafter(ties, np.float32(-1e30)), np.nextafter(ties, np.float32(1e30)), anything]
    ).astype(np.float32)
    if not saturates:
        x = np.clip(x, -finite(dtype), finite(dtype))
    np.testing.assert_array_equal(encode(name, x), x.astype(dtype).view(np.uint8))


@pytest.mark.parametrize("rule", ["floor", "round-up"])
@pytest.mark.parametrize(("name", "dtype", "bits"), MX)
def test_blocks_of_the_mx_formats(random, name, dtype, bits, rule):
    lines, k = 50, 100  # the last block has 4 elements
    x = (random.standard_normal((lines, k)) * 2.0 ** random.integers(-20, 20, (lines, 1))).astype(np.float32)
    x[3, 32:64] = 0
    padded = np.pad(x, ((0, 0), (0, 28))).reshape(lines, 4, 32)
    amax = np.abs(padded).max(axis=2).astype(np.float64)
    largest = finite(dtype)
    with np.errstate(divide="ignore"):
        if rule == "floor":
            exponent = np.floor(np.log2(amax)) - np.floor(np.log2(largest))
        else:
            exponent = np.ceil(np.log2(amax / largest))
    exponent = np.clip(exponent, -127, 127)
    quotient = np.clip(padded / 2.0 ** exponent[:, :, None], -largest, largest).astype(np.float32)
    theirs = quotient.astype(dtype).view(np.uint8).reshape(lines, 128)[:, :k]

    ours = codec(["quantize", name, str(lines), str(k), rule], x.tobytes())
    code_bytes = (lines * k * bits + 7) // 8
    np.testing.assert_array_equal(unpack(ours, bits, lines * k).reshape(lines, k), theirs)
    scales = np.frombuffer(ours[code_bytes : code_bytes + lines * 4], np.uint8)
    np.testing.assert_array_equal(scales.reshape(lines, 4), exponent + 127)


def test_blocks_of_nvfp4(random):
    lines, k = 40, 64
    x = (random.standard_normal((lines, k)) * 2.0 ** random.integers(-3, 3, (lines, 1))).astype(np.float32)
    tensor = np.float32(np.abs(x).max().astype(np.float64) / (448 * 6))
    blocks = x.reshape(lines, 4, 16).astype(np.float64)
    ratio = np.abs(blocks).max(axis=2) / (6 * np.float64(tensor))
    scales = np.clip(ratio, 0, 448).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    unit = scales.astype(np.float64) * np.float64(tensor)
    quotient = np.clip(blocks / unit[:, :, None], -6, 6).astype(np.float32)
    theirs = quotient.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(lines, k)

    ours = codec(["quantize", "nvfp4", str(lines), str(k), "floor"], x.tobytes())
    np.testing.assert_array_equal(unpack(ours, 4, lines * k).reshape(lines, k), theirs)
    code_bytes = lines * k // 2
    np.testing.assert_array_equal(
        np.frombuffer(ours[code_bytes : code_bytes + lines * 4], np.uint8), scales.view(np.uint8).reshape(-1)
    )
    assert np.frombuffer(ours[code_bytes + lines * 4 :], np.float32)[0] == tensor
