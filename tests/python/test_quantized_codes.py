"""gemmd.Quantized without a server: codes, packing and tiles.

Its encoder is compared with exact fractions and with base/numbers/quant.

GEMMD_CODEC names the program that encodes with base/numbers/quant (tests/base/numbers/quant/codec.cc).
"""

import os
import subprocess

import exact_quantization as exact
import ml_dtypes
import numpy as np
import pytest

import gemmd
from gemmd import _formats, _packing, _scale_layout

RULED = (
    [(name, "floor") for name in exact.NAMES]
    + [(name, "round-up") for name in exact.NAMES if name.startswith("mx")]
    + [
        (name, "full-range")
        for name in exact.NAMES
        if name.startswith(("int", "iq4-nl")) and not name.endswith(("-zp", "-offset"))
    ]
)
ELEMENTS = [
    ("fp8_e4m3", ml_dtypes.float8_e4m3fn, 8),
    ("fp8_e5m2", ml_dtypes.float8_e5m2, 8),
    ("mxfp6-e3m2", ml_dtypes.float6_e3m2fn, 6),
    ("mxfp6-e2m3", ml_dtypes.float6_e2m3fn, 6),
    ("mxfp4", ml_dtypes.float4_e2m1fn, 4),
    ("int4-g32-f16", ml_dtypes.int4, 4),
    ("int4-g32-f16-zp", ml_dtypes.uint4, 4),
]


def ones(name, lines, k):
    """Scales of 1, and what else the format has, for lines of at most a block of K."""
    form = _formats.FORMATS[name]
    one = np.ones((lines, -(-k // form.block_k))).astype(form.scale.dtype)
    zeros = {"zero_points": np.zeros(one.shape, np.uint8)} if form.has_zero_points else {}
    return {"scales": one, **zeros, **({"offsets": np.zeros_like(one)} if form.has_offsets else {})}


def test_the_table_is_that_of_the_page():
    assert sorted(_formats.FORMATS) == sorted(exact.NAMES)
    for name in exact.NAMES:
        element, scale, lines, k = exact.parts(name)
        form = _formats.FORMATS[name]
        assert form.element.name == ("fp4_e2m1" if element == "fp4" else element.replace("-", "_"))
        assert form.scale.name == scale.replace("-", "_")
        assert (form.block_lines or None, form.block_k or None) == (lines, k)
        assert form.has_zero_points == name.endswith("-zp")
        assert form.has_tensor_scale == (name == "nvfp4")
        assert form.has_offsets == name.endswith("-offset")


@pytest.mark.parametrize(("name", "dtype", "bits"), ELEMENTS)
def test_every_code_is_worth_what_ml_dtypes_says(name, dtype, bits):
    codes = np.arange(1 << bits, dtype=np.uint8).reshape(1, -1)
    planes = ones(name, 1, codes.size) if name in _formats.FORMATS else {}
    of_codes = gemmd.Quantized(codes, type=name, **planes)
    of_theirs = gemmd.Quantized(codes.view(dtype), type=name, **planes)
    theirs = codes.view(dtype).astype(np.float64)
    for each in (of_codes, of_theirs):
        np.testing.assert_array_equal(each.dequantize(), theirs)
        np.testing.assert_array_equal(np.signbit(each.dequantize()), np.signbit(theirs))
        np.testing.assert_array_equal(each.codes(), codes)
    assert of_codes.data.tobytes() == of_theirs.data.tobytes()


def test_every_scale_code_is_worth_what_ml_dtypes_says():
    codes = np.arange(255, dtype=np.uint8).reshape(-1, 1)
    one = np.full((255, 1), 1, ml_dtypes.float8_e4m3fn)
    for scales in (codes, codes.view(ml_dtypes.float8_e8m0fnu)):
        mx = gemmd.Quantized(one, scales, "mxfp8-e4m3")
        np.testing.assert_array_equal(mx.dequantize(), codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64))
    with pytest.raises(ValueError, match=r"scales\[3, 0\] is nan; it must be finite"):
        gemmd.Quantized(one[:4], np.array([[0], [1], [2], [255]], np.uint8), "mxfp8-e4m3")
    for code in range(256):
        scales = np.full((1, 1), code, np.uint8)
        worth = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
        make = lambda s=scales: gemmd.Quantized(np.full((1, 1), 2, np.uint8), s, "nvfp4", tensor_scale=1)  # noqa: E731
        if worth >= 0:  # -0 is 0
            np.testing.assert_array_equal(make().dequantize(), worth)
        else:
            with pytest.raises(ValueError, match=r"at least 0|must be finite"):
                make()


@pytest.mark.parametrize(("name", "rule"), RULED)
def test_a_thousand_blocks_are_as_exact_fractions_have_them(random, name, rule):
    _, _, block_lines, block_k = exact.parts(name)
    count = matrices = 0
    while count < 1000:
        matrices += 1
        lines, k = (int(each) for each in random.integers(1, (9, 5) if block_lines == 1 else (3, 4)))
        if matrices % 100 == 1 and block_k is not None:
            lines, k = 2, 2 * block_k + 3
        x = random.standard_normal((lines, k)) * 2.0 ** random.integers(-12, 12, (lines, 1))
        x = np.where(random.random((lines, k)) < 0.1, np.round(x), x).astype(np.float32)
        x[random.random((lines, k)) < 0.1] = 0
        x = exact.held(name, x)
        stored, scales, zero_points, offsets, tensor = exact.quantize(name, x, rule)
        q = gemmd.Quantized.of(x, name, 0, rule=rule)
        got = stored_values(q)
        assert got.tobytes() == stored.tobytes(), (x, got, stored)  # the signs of zeros too
        assert np.array_equal(q.scales.astype(np.float64), scales), (x, q.scales, scales)
        assert q.zero_points is None or np.array_equal(q.zero_points, zero_points), (x, q.zero_points)
        assert q.tensor_scale is None or q.tensor_scale[0, 0] == tensor, (x, q.tensor_scale)
        assert q.offsets is None or np.array_equal(q.offsets.astype(np.float64), offsets), (x, q.offsets)
        count += scales.size


def stored_values(q):
    if q.element.has_table:
        return np.array(exact.TABLES[q.element.name.replace("_", "-")], np.float64)[q.codes()]
    return q.codes().view(q.element.dtype).astype(np.float64)


@pytest.mark.parametrize("element", ["nf4", "bnb_fp4", "iq4_nl"])
def test_codes_of_a_table_are_worth_its_values(element):
    codes = np.arange(16, dtype=np.uint8).reshape(1, 16)
    name = f"{element.replace('_', '-')}-g16-f32"
    q = gemmd.Quantized(codes, np.full((1, 1), 3, np.float32), name)
    np.testing.assert_array_equal(q.dequantize("float64"), 3 * np.array([exact.TABLES[name[:-8]]], np.float64))
    np.testing.assert_array_equal(q.codes(), codes)
    packed = (codes[0, ::2] | codes[0, 1::2] << 4).reshape(1, 8)
    again = gemmd.Quantized(packed, q.scales, name, shape=(1, 16))
    np.testing.assert_array_equal(again.codes(), codes)
    with pytest.raises(TypeError, match=f"NumPy has no type for {element}: give its codes as uint8"):
        _ = q.element.dtype
    with pytest.raises(ValueError, match="zero"):
        gemmd.Quantized(codes, q.scales, name, zero_points=np.zeros((1, 1), np.uint8))


def codec(x, name, rule):
    words = ["quantize", name, *(str(each) for each in x.shape), rule]
    done = subprocess.run([os.environ["GEMMD_CODEC"], *words], input=x.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "rule"), RULED)
def test_bits_are_those_of_kernels_quant(random, name, rule):
    lines, k = 131, 261
    x = (random.standard_normal((lines, k)) * 2.0 ** random.integers(-30, 30, (lines, 1))).astype(np.float32)
    x[0] = 0
    x[1] = random.integers(-9, 9, k) * 2.0**-149  # scales underflow
    x[2] *= np.float32(2.0**90)
    x = exact.held(name, x)
    theirs = codec(x, name, rule)
    for axis, order in ((0, "C"), (1, "C"), (1, "F")):
        q = gemmd.Quantized.of(np.asarray(x.T if axis else x, order=order), name, axis, rule=rule)
        codes, *planes = (
            np.ascontiguousarray(each.T if axis else each)
            for each in (q.codes(), q.scales, q.zero_points)
            if each is not None
        )
        offsets = b"" if q.offsets is None else np.ascontiguousarray(q.offsets.T if axis else q.offsets).tobytes()
        flat = codes.reshape(-1)
        packed = _packing.pack(flat, q.element.bits) if q.element.bits < 8 else flat
        tensor = np.float32(1) if q.tensor_scale is None else q.tensor_scale
        assert b"".join(each.tobytes() for each in (packed, *planes, tensor)) + offsets == theirs
        assert q.type == name
        small = sum(each.nbytes for each in planes) + len(offsets) + (name == "nvfp4") * 4
        assert q.nbytes == q.data.nbytes + small


@pytest.mark.parametrize("bits", [4, 6])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 1001])
def test_packed_codes_have_no_gaps(random, bits, count):
    codes = random.integers(0, 1 << bits, count).astype(np.uint8)
    stream = (codes[:, None] >> np.arange(bits) & 1).reshape(-1).astype(np.uint8)
    packed = np.packbits(stream, bitorder="little")
    np.testing.assert_array_equal(_packing.pack(codes, bits), packed)
    np.testing.assert_array_equal(_packing.unpack(packed, bits, count), codes)


@pytest.mark.parametrize(("lines", "blocks"), [(1, 1), (128, 4), (129, 5), (300, 9)])
def test_scales_in_tiles(random, lines, blocks):
    scales = random.integers(1, 255, (lines, blocks)).astype(np.uint8)
    tiles = _scale_layout.to_tiles(scales)
    assert tiles.size == -(-lines // 128) * -(-blocks // 4) * 512
    wanted = np.zeros(tiles.size, np.uint8)
    for line in range(lines):
        for k in range(blocks):
            tile = line // 128 * -(-blocks // 4) + k // 4
            wanted[tile * 512 + line % 32 * 16 + line % 128 // 32 * 4 + k % 4] = scales[line, k]
    np.testing.assert_array_equal(tiles, wanted)
    np.testing.assert_array_equal(_scale_layout.from_tiles(tiles, lines, blocks), scales)


@pytest.mark.parametrize("name", ["mxfp8-e4m3", "mxfp6-e2m3", "mxfp4", "nvfp4"])
@pytest.mark.parametrize("axis", [0, 1])
def test_tiles_are_worth_what_plain_scales_are(random, name, axis):
    x = random.standard_normal((140, 200)).astype(np.float32)
    plain = gemmd.Quantized.of(x, name, axis)
    tiled = gemmd.Quantized.of(x, name, axis, scale_layout="blocked-128x4")
    np.testing.assert_array_equal(tiled.dequantize(), plain.dequantize())
    flat = gemmd.Quantized(
        tiled.data,
        tiled.scales.reshape(-1),
        name,
        tensor_scale=tiled.tensor_scale,
        scale_layout="blocked-128x4",
        axis=axis,
        shape=x.shape if tiled.element.is_packed else None,
    )
    np.testing.assert_array_equal(flat.dequantize(), plain.dequantize())


def test_the_shape_of_tiles_says_the_axis_and_their_number_may_not():
    for axis in (0, 1):
        q = gemmd.Quantized.of(np.ones((32, 64), np.float32), "mxfp8-e4m3", axis, scale_layout="blocked-128x4")
        assert gemmd.Quantized(q.data, q.scales, q.type, scale_layout=q.scale_layout).axis == axis
        with pytest.raises(ValueError, match="axis is None; 512 scales in tiles fit both"):
            gemmd.Quantized(q.data, q.scales.reshape(-1), q.type, scale_layout=q.scale_layout)


def test_packed_bytes_are_taken_as_they_lie(random):
    x = random.standard_normal((6, 64)).astype(np.float32)
    q = gemmd.Quantized.of(x, "mxfp4", 0)
    pairs = q.data.reshape(6, 32)  # as torch's float4_e2m1fn_x2
    again = gemmd.Quantized(pairs, q.scales, "mxfp4", shape=(6, 64))
    np.testing.assert_array_equal(again.codes(), q.codes())
    turned = gemmd.Quantized(pairs.T, q.scales.T, "mxfp4", shape=(64, 6))  # the same as a right factor
    assert (turned.order, turned.axis) == ("F", 1)
    np.testing.assert_array_equal(turned.codes(), q.codes().T)
    flat = gemmd.Quantized(q.data, q.scales.T, "fp4_e2m1", shape=(64, 6), order="F", block_k=32)
    np.testing.assert_array_equal(flat.dequantize(), q.dequantize().T)
    assert flat.type == "mxfp4"


def test_signed_codes_of_int4(random):
    codes = random.integers(-8, 8, (3, 32), dtype=np.int8)
    q = gemmd.Quantized(codes, np.full((3, 1), 2, np.float16), "int4-g32-f16")
    np.testing.assert_array_equal(q.dequantize(), codes * 2.0)
    assert repr(q) == "Quantized(3 x 32 int4-g32-f16, 3 x 1 scales)"
    assert q.dequantize("float32").dtype == np.float32


def planes(name, rows=4, columns=64, **others):
    q = gemmd.Quantized.of(np.ones((rows, columns), np.float32), name, 0)
    packed = {"shape": q.shape} if q.element.is_packed else {}
    given = {
        "scales": q.scales,
        "zero_points": q.zero_points,
        "tensor_scale": q.tensor_scale,
        "offsets": q.offsets,
        "type": name,
        **packed,
    }
    return gemmd.Quantized, (q.data,), {**given, **others}


def codes(shape=(4, 64), dtype=np.uint8, **named):
    return gemmd.Quantized, (np.zeros(shape, dtype),), named


def of(x, *words, **named):
    return gemmd.Quantized.of, (x, *words), named


MX, NV, ZP, OFFSET = "mxfp8-e4m3", "nvfp4", "int4-g32-f16-zp", "int4-g32-f16-offset"
BAD_SCALES = [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (planes(MX, scales=np.zeros((4, 3), np.uint8)), ValueError, r"\(4, 3\); of a 4 x 64 .* of 1 x 32"),
        (planes(MX, scales=np.zeros((4, 2), np.float32)), TypeError, "float32; mxfp8-e4m3 has float8_e8m0fnu"),
        (planes(MX, axis=1), ValueError, r"must be 1 x 64 \(axis 1\)"),
        (planes(MX, scales=None), ValueError, "scales are missing; mxfp8-e4m3"),
        (planes(MX, zero_points=np.zeros((4, 2), np.int8)), ValueError, "zero_points are set, and data is fp8"),
        (planes(MX, tensor_scale=1), ValueError, "tensor_scale is set, and data is fp8_e4m3 with e8m0 scales"),
        (planes(MX, block_k=32), ValueError, "block_k is 32"),
        (planes(MX, scale_layout="tiles"), ValueError, "scale_layout is 'tiles'; it must be 'plain' or 'blocked"),
        (planes(MX, axis=2), ValueError, "axis is 2"),
        (planes(MX, type="mxfp9"), ValueError, "type is 'mxfp9'; is mxfp4 meant"),
        (planes(NV, tensor_scale=None), ValueError, "tensor_scale is missing; nvfp4 has one"),
        (planes(NV, tensor_scale=[1, 2]), ValueError, r"tensor_scale has shape \(2,\)"),
        *((planes(NV, tensor_scale=bad), ValueError, f"tensor_scale is {text}") for bad, text in BAD_SCALES),
        (planes(NV, shape=(4, 63)), ValueError, "data has 128 bytes; 4 x 63 elements of 4 bits are 126"),
        (planes(NV, shape=(0, 64)), ValueError, r"shape is \(0, 64\)"),
        (planes(ZP, zero_points=None), ValueError, "zero_points is missing"),
        (planes(ZP, zero_points=np.full((4, 2), 17)), ValueError, r"\[0, 0\] is 17; of uint4 .* 0 to 16"),
        (planes(ZP, zero_points=np.full((4, 2), -1)), ValueError, r"zero_points\[0, 0\] is -1"),
        (planes(ZP, zero_points=np.zeros((2, 4), int)), ValueError, r"zero_points have shape \(2, 4\); it must be"),
        (planes(ZP, zero_points=np.zeros((4, 2))), TypeError, "zero_points are float64"),
        (planes(ZP, scale_layout="blocked-128x4"), ValueError, "f16 scales it must be 'plain'"),
        (planes("int4-g32-f16", zero_points=np.zeros((4, 2), int)), ValueError, "int4-g32-f16 has none"),
        (planes(NV, scales=np.full((4, 4), 0x81, np.uint8)), ValueError, r"\[0, 0\] is -0.00.*at least 0"),
        (planes(OFFSET, offsets=None), ValueError, "offsets is missing; int4-g32-f16-offset has one"),
        (planes(OFFSET, offsets=np.full((4, 2), np.nan, "f2")), ValueError, r"offsets\[0, 0\] is nan; .* finite"),
        (planes(OFFSET, offsets=np.zeros((4, 2), "f4")), TypeError, "offsets are float32; they must be float16"),
        (planes(OFFSET, offsets=np.zeros((2, 4), "f2")), ValueError, r"offsets have shape \(2, 4\); .* \(4, 2\)"),
        (planes(OFFSET, zero_points=np.zeros((4, 2), int)), ValueError, "offsets are set beside zero_points"),
        (planes(MX, offsets=np.zeros((4, 2))), ValueError, "offsets are set, and data is fp8_e4m3; only integers"),
        (planes("int8-row", offsets=np.zeros((4, 1), "f4")), ValueError, "offsets are of blocks along K"),
        *((planes("int8-g32", scales=np.full((4, 2), bad, np.float32)), ValueError, rf"scales\[0, 0\] is {text}")
          for bad, text in BAD_SCALES),
        *((planes("int8-row", scales=np.float32([1, bad, 1, 1])), ValueError, rf"scales\[1, 0\] is {text}")
          for bad, text in BAD_SCALES),
        (planes("int8-row", scales=np.ones(5, "f4")), ValueError, r"\(5,\); of a 4 x 64 matrix"),
        (planes("int8-row", scales=2.0), ValueError, "int8-row has one for each line"),
        (planes("int8-tensor", scales=np.ones(4, "f4")), ValueError, "int8-tensor has one scale"),
        (codes(dtype=np.int8, scales=np.ones((4, 1), "f4"), zero_points=[[200]] * 4), ValueError, "-128 to 127"),
        (codes(dtype=np.int8, zero_points=1), ValueError, "zero_points is set, and scales are missing"),
        (codes(dtype=np.int8, scales=np.ones((4, 2), "f4"), block_k=33), ValueError, "1 x 33; of int8 .* 1 x 32"),
        (codes(dtype=np.int8, scales=np.ones((4, 2), "f4"), block_lines=1), ValueError, "block_k is missing"),
        (codes(dtype=np.float32, scales=1), ValueError, "a f32 matrix has no scales"),
        (codes(type="fp4_e2m1"), ValueError, "scales are missing; fp4_e2m1"),
        (codes(type="fp4_e2m1", scales=1), ValueError, "block_k is missing; of fp4_e2m1 .* 1 x 32"),
        (codes(type="fp4_e2m1", scales=np.ones((4, 2), "f4"), block_k=32), TypeError, "must be float8_e8m0fnu"),
        (codes(dtype=np.int16, type="fp4_e2m1", scales=1), TypeError, "int16, which holds no fp4_e2m1"),
        (codes(dtype=np.int8, shape=(2, 2, 2)), ValueError, "a quantized array is a matrix"),
        (planes("mxfp4", shape=None), ValueError, r"a quantized array is a matrix"),
        (of([[1.0, np.nan]]), ValueError, r"x\[0, 1\] is nan"),
        (of([[1.0], [-np.inf]], "mxfp4", 1), ValueError, r"x\[1, 0\] is -inf"),
        (of([[1e300]], "int8"), ValueError, "finite, as float32"),
        (of([1.0, 2.0]), ValueError, r"x has shape \(2,\)"),
        (of(np.ones((0, 3))), ValueError, r"x has shape \(0, 3\)"),
        (of([[1.0]], "mxfp4"), ValueError, "axis is None; of mxfp4"),
        (of([[1.0]], "int5", 0), ValueError, "type is 'int5'"),
        (of([[1.0]], "mxfp4", 0, rule="up"), ValueError, "rule is 'up'; it must be 'floor' or 'round-up' or"),
        (of([[1.0]], "int4-g32-f16", 0, rule="round-up"), ValueError, "it is of e8m0 scales; those of int4-g32"),
        (of([[1.0]], "int4-g32-f16-zp", 0, rule="full-range"), ValueError, "without zero points and offsets"),
        (of([[1.0]], "int8", 0, scale_layout="blocked-128x4"), ValueError, "it must be 'plain'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call, kind, message):
    function, words, named = call
    with pytest.raises(kind, match=message):
        function(*words, **named)


def test_packed_bytes_are_not_taken_for_codes():
    for data, name in ((0x21, "mxfp4"), (64, "mxfp6-e2m3"), (16, "int4-g32-f16")):
        with pytest.raises(ValueError, match=rf"data\[0, 0\] is {data}; a code .* has [46] bits \(shape= says"):
            gemmd.Quantized(np.full((1, 32), data, np.uint8), type=name, **ones(name, 1, 32))
    with pytest.raises(ValueError, match=r"data\[0, 0\] is 8; of int4 it must be -8 to 7"):
        gemmd.Quantized(np.full((1, 32), 8, np.int8), type="int4-g32-f16", **ones("int4-g32-f16", 1, 32))


def test_memory_that_cannot_hold_it():
    q = gemmd.Quantized.of(np.ones((3, 5), np.float32), "nvfp4", 0)
    assert q.nbytes == 8 + 3 + 4
    placed = q.placed_in(np.zeros(20, np.uint8))
    np.testing.assert_array_equal(placed.dequantize(), q.dequantize())
    for memory in (
        np.zeros(14, np.uint8),
        np.zeros(20, np.int8),
        np.zeros((4, 5), np.uint8),
        np.zeros(40, np.uint8)[::2],
    ):
        with pytest.raises(ValueError, match="1-D contiguous uint8 of at least 15"):
            q.placed_in(memory)
