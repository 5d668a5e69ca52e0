"""Products of every quantized format: inline, streamed, resident, in shared memory, quantized by the server."""

import asyncio
import hashlib
import struct

import exact_quantization as exact
import fake_operands
import ml_dtypes
import numpy as np
import pytest

import gemmd
import gemmd.aio

M, K, N = 9, 150, 13  # K ends within a block of every format


def factors(random, name):
    """Factors of a format, with lines of very different magnitudes."""
    a = random.standard_normal((M, K)) * 2.0 ** random.integers(-8, 8, (M, 1))
    b = random.standard_normal((K, N)) * 2.0 ** random.integers(-8, 8, (1, N))
    a, b = exact.held(name, a), exact.held(name, b)
    return gemmd.Quantized.of(a, name, 0), gemmd.Quantized.of(np.asfortranarray(b), name, 1)


def values(x):
    return x.dequantize() if isinstance(x, gemmd.Quantized) else x.astype(np.float64)


def check(d, a, b):
    """The bound that kernels/cpu/quantized_gemm.h states of sums in f32, with a rounding for each decoded value."""
    x, y = values(a), values(b)
    wanted, magnitude = x @ y, np.abs(x) @ np.abs(y)
    vanishes = K * 2.0**-132 * np.abs(x).max(axis=1, keepdims=True) * np.abs(y).max(axis=0, keepdims=True)
    bound = (K + 10) * 2.0**-24 * magnitude + vanishes + 2.0**-24 * np.abs(wanted)
    assert d.shape == wanted.shape
    assert np.all(np.abs(d.astype(np.float64) - wanted) <= bound)


@pytest.fixture(scope="module")
def transports(server):
    with (
        gemmd.Client(server.address, transport="unary") as unary,
        gemmd.Client(server.address, transport="stream", chunk_bytes=4096) as stream,
    ):
        yield unary, stream


@pytest.mark.parametrize("name", exact.NAMES)
def test_products_wherever_the_planes_come_from(transports, random, name):
    unary, stream = transports
    a, b = factors(random, name)
    d = unary.matmul(a, b, dtype="f32")
    check(d, a, b)
    assert d.receipt.payload_bytes_in == a.nbytes + b.nbytes
    bits = d.tobytes()
    assert stream.matmul(a, b, dtype="f32").tobytes() == bits
    assert unary.submit(a, b, dtype="f32").result().tobytes() == bits
    left, right = (x.placed_in(unary.shared(x.nbytes, "u1")) for x in (a, b))
    shared = unary.matmul(left, right, dtype="f32")
    assert shared.tobytes() == bits
    assert (shared.receipt.payload_bytes_in, shared.receipt.shared_bytes_in) == (0, a.nbytes + b.nbytes)
    with unary.put(a) as x, unary.put(b) as w:
        assert (w.nbytes, w.shape) == (b.nbytes, b.shape)
        assert unary.matmul(x, w, dtype="f32").tobytes() == bits
        again = unary.resident(w.handle)
        assert unary.matmul(a, again, dtype="f32").tobytes() == bits
        assert again.numpy().tobytes() == b.codes().tobytes()
        back = again.quantized()
        assert (back.type, back.nbytes) == (b.type, b.nbytes)
        assert np.array_equal(back.dequantize(), b.dequantize())
        with unary.put(back) as twice:
            assert twice.digest == w.digest


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "name", ["int8-g64", "uint8-row-zp", "fp8-e4m3-128x128", "mxfp6-e2m3", "nvfp4", "int4-g32-bf16"]
)
def test_beside_floats(client, random, dtype, name):
    a, b = factors(random, name)
    plain = random.standard_normal((M, K)).astype(gemmd.types.by_name(dtype).dtype)
    for x, y in ((plain, b), (a, plain.T)):
        assert client.matmul(x, y).dtype == plain.dtype
        check(client.matmul(x, y, dtype="f32"), x, y)


@pytest.mark.parametrize(
    "pair", [("mxfp8-e4m3", "nvfp4"), ("int4-g32-f16-zp", "uint8-g64-zp"), ("mxfp4", "int8-row")]
)
def test_two_formats(client, random, pair):
    a, b = factors(random, pair[0])[0], factors(random, pair[1])[1]
    assert client.matmul(a, b).dtype == (np.float32 if "int4" in pair[0] else ml_dtypes.bfloat16)
    check(client.matmul(a, b, dtype="f32"), a, b)
    exact_sums = client.matmul(a, b, dtype="f64", accumulate="f64")
    np.testing.assert_allclose(exact_sums, values(a) @ values(b), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["mxfp8-e5m2", "nvfp4"])
def test_scales_in_tiles(client, random, name):
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N)))
    plain = client.matmul(gemmd.Quantized.of(a, name, 0), gemmd.Quantized.of(b, name, 1))
    x = gemmd.Quantized.of(a, name, 0, scale_layout="blocked-128x4")
    y = gemmd.Quantized.of(b, name, 1, scale_layout="blocked-128x4")
    assert client.matmul(x, y).tobytes() == plain.tobytes()
    with client.put(y) as w:
        assert client.matmul(x, w).tobytes() == plain.tobytes()
        assert w.quantized().scale_layout == "blocked-128x4"


def test_batches_vectors_and_epilogues(client, random):
    w = gemmd.Quantized.of(random.standard_normal((K, N)), "mxfp8-e4m3", 1)
    x = random.standard_normal((2, 3, K)).astype(np.float32)
    wanted = np.maximum(x.astype(np.float64) @ w.dequantize() + 1, 0)
    bias = np.ones(N, np.float32)
    np.testing.assert_allclose(client.matmul(x, w, bias=bias, activation="relu"), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(client.matmul(x[0, 0], w), x[0, 0] @ w.dequantize(), rtol=1e-4, atol=1e-4)
    with client.linear(w, bias, "relu") as layer:
        np.testing.assert_allclose(layer(x), wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(layer.submit(x).result(), wanted, rtol=1e-4, atol=1e-4)
    with client.matmul(x[0], w, keep=True) as kept:
        assert kept.dtype == np.float32

    async def rows():
        async with gemmd.aio.Client(client.address) as many:
            resident = await many.put(w)
            found = await asyncio.gather(*(many.matmul(each, resident) for each in x))
            await many.release(resident)
            return np.stack(found)

    np.testing.assert_allclose(np.maximum(asyncio.run(rows()) + 1, 0), wanted, rtol=1e-4, atol=1e-4)


def test_a_lost_one_is_refilled(client, random):
    a, b = factors(random, "nvfp4")
    w = client.put(b)
    d = client.matmul(a, w)
    client.resident(w.handle).release()
    assert client.matmul(a, w).tobytes() == d.tobytes()
    w.release()


@pytest.mark.parametrize(
    "name", ["nvfp4", "int4-g32-f16-zp", "int4-g64-f32-offset", "fp8-e4m3-128x128", "int8-row"]
)
def test_digests_are_those_of_the_contract(client, random, name):
    b = factors(random, name)[1]
    element, scale, blocks = {
        "nvfp4": (17, 8, (16, 1, 0)),
        "int4-g32-f16-zp": (14, 4, (32, 1, 0)),
        "int4-g64-f32-offset": (14, 2, (64, 1, 0)),
        "fp8-e4m3-128x128": (8, 2, (128, 128, 0)),
        "int8-row": (6, 2, None),
    }[name]
    planes = [(0, element, (K, N), 1, b.data.tobytes("A")), (1, scale, b.scales.shape, 0, b.scales.tobytes())]
    if b.zero_points is not None:
        planes.append((2, 13, b.zero_points.shape, 0, b.zero_points.tobytes()))
    if b.tensor_scale is not None:
        planes.append((3, 2, (1, 1), 0, b.tensor_scale.tobytes()))
    if b.offsets is not None:
        planes.append((4, scale, b.offsets.shape, 0, b.offsets.tobytes()))
    text = b"gemmd.v1.operand\n" + struct.pack("<II", element, len(planes))
    for plane, kind, shape, order, data in planes:
        text += struct.pack("<IIQQIQ", plane, kind, *shape, order, len(data)) + hashlib.sha256(data).digest()
    text += struct.pack("<III", *blocks) if blocks else b""
    with client.put(b) as w:
        assert w.digest == hashlib.sha256(text).digest()
    if blocks:
        order = random.permutation(K).astype("<u4")
        packed = {"shape": b.shape, "order": b.order} if b.data.ndim == 1 else {}
        planes = {"zero_points": b.zero_points, "tensor_scale": b.tensor_scale, "offsets": b.offsets}
        with client.put(gemmd.Quantized(b.data, b.scales, name, **planes, **packed, axis=1, k_order=order)) as w:
            assert w.digest == hashlib.sha256(text + order.tobytes()).digest()


def test_axes_and_types_that_do_not_go_together(client, random):
    b = factors(random, "mxfp4")[1]
    with pytest.raises(ValueError, match=r"b was quantized with axis 0: .* must run along columns, axis 1"):
        client.matmul(np.ones((M, K), "f4"), gemmd.Quantized.of(np.ones((K, K)), "mxfp4", 0))
    with pytest.raises(ValueError, match="a was quantized with axis 1"):
        client.matmul(gemmd.Quantized.of(np.ones((N, K)), "mxfp4", 1), b)
    lines = gemmd.Quantized.of(np.ones((M, K)), "int8", 1)
    with pytest.raises(ValueError, match="the left factor has one, or one for each of its 9 rows"):
        client.matmul(lines, b)
    with pytest.raises(TypeError, match="a is f64 and b is fp4_e2m1"):
        client.matmul(np.ones((M, K)), b)
    for bad in (np.uint8, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu):
        with pytest.raises(TypeError, match=r"means nothing without scales: give gemmd\.Quantized"):
            client.matmul(np.ones((M, K), bad), b)


def test_the_server_names_what_it_refuses(client, random):
    a, b = factors(random, "mxfp8-e4m3")
    with pytest.raises(gemmd.InvalidArgument) as refused:
        client.matmul(a, b, dtype="int32")
    assert refused.value.field == "output_type"


@pytest.mark.parametrize("name", exact.NAMES)
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_the_server_quantizes_what_is_put(client, random, name, kind):
    x = exact.held(name, random.standard_normal((K, N)).astype(kind))
    a = random.standard_normal((M, K)).astype(np.float32)
    for order, axis in (("C", 1), ("F", 1), ("C", 0)):
        laid = np.asarray(x, order=order)
        wanted = gemmd.Quantized.of(laid, name, axis)
        with client.put(laid, store_as=name, axis=axis) as kept, client.put(wanted) as sent:
            assert kept.digest == sent.digest
            assert kept.saved_bytes == laid.nbytes - wanted.nbytes
            if axis == 1:
                assert client.matmul(a, kept).tobytes() == client.matmul(a, wanted).tobytes()


def test_a_layer_that_the_server_quantizes_is_refilled(client, random):
    x, w = random.standard_normal((M, K)).astype("f4"), random.standard_normal((K, N)).astype("f4")
    with client.linear(w, store_as="mxfp8-e4m3") as layer:
        y = layer(x)
        check(y, x, gemmd.Quantized.of(w, "mxfp8-e4m3", 1))
        client.resident(layer.w.handle).release()
        assert layer(x).tobytes() == y.tobytes()


def plane(kind, rows, columns, order=0):
    return {"type": kind, "rows": rows, "columns": columns, "order": order}


def blocks(k):
    return {"block_k": k, "block_lines": 1}


KEPT = [
    ("mxfp8-e4m3", 1, {"data": plane(8, 70, 40), "scales": plane(12, 3, 40), "quantization": blocks(32)}),
    ("int8-row-zp", 0, {"data": plane(6, 70, 40), "scales": plane(2, 70, 1), "zero_points": plane(6, 70, 1)}),
    ("fp8-e5m2-tensor", 1, {"data": plane(9, 70, 40), "scales": plane(2, 1, 1)}),
    ("int4-g64-bf16", 1, {"data": plane(11, 70, 40), "scales": plane(5, 2, 40), "quantization": blocks(64)}),
    (
        "uint8-g16-offset",
        1,
        {
            "data": plane(13, 70, 40),
            "scales": plane(2, 5, 40),
            "offsets": plane(2, 5, 40),
            "quantization": blocks(16),
        },
    ),
    (
        "nvfp4",
        0,
        {
            "data": plane(17, 70, 40),
            "scales": plane(8, 70, 3),
            "tensor_scale": plane(2, 1, 1),
            "quantization": blocks(16),
        },
    ),
]


@pytest.mark.parametrize(("name", "axis", "wanted"), KEPT)
def test_what_put_asks_a_server_to_keep(name, axis, wanted):
    fake = fake_operands.FakeOperands(lambda begin: begin.stored_form)
    x = np.arange(2800, dtype=np.float32).reshape(70, 40)
    try:
        with gemmd.Client(fake.address) as client:
            kept = client.put(x, store_as=name, axis=axis)
    finally:
        fake.close()
    [(begin, size)] = fake.begins
    assert begin.stored_form == type(begin.stored_form)(**wanted)
    assert begin.operand == type(begin.operand)(data=plane(2, 70, 40))
    assert (size, fake.digests) == (x.nbytes, [])  # nobody asks for the digest: it names nothing
    assert (kept.digest, kept.saved_bytes, kept.shape) == (b"k" * 32, 12, (70, 40))
    assert kept.nbytes == gemmd.Quantized.of(x, name, axis).nbytes


def test_a_server_that_keeps_it_as_it_came_is_told_of():
    fake = fake_operands.FakeOperands(lambda begin: begin.operand)
    try:
        with gemmd.Client(fake.address) as client:
            assert client.put(np.ones((4, 4), "f4")).saved_bytes == 12
            with pytest.raises(gemmd.Unimplemented, match="keeps the matrix as f32, not as fp4_e2m1"):
                client.put(np.ones((4, 4), "f4"), store_as="mxfp4")
    finally:
        fake.close()


def test_the_server_names_what_it_does_not_quantize(client):
    x = np.ones((4, 40), np.float32)
    for bad, why in ((x.astype(np.float64), "f64; only f32, f16 and bf16"), (np.where(x == 1, np.nan, x), "nan")):
        with pytest.raises(gemmd.InvalidArgument, match=why):
            client.put(bad, store_as="mxfp4")


def test_one_that_is_there_already_is_quantized_all_the_same(client, random):
    w = random.standard_normal((K, N)).astype(np.float32)
    with client.put(w) as plain, client.put(w, store_as="nvfp4") as kept, client.put(w, store_as="nvfp4") as again:
        assert again.digest == kept.digest != plain.digest


def test_what_is_not_quantized_by_the_server(client):
    x = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match="store_as is 'int8', and x is quantized already"):
        client.put(gemmd.Quantized.of(x), store_as="int8")
    with pytest.raises(ValueError, match="type is 'fp5'"):
        client.put(x, store_as="fp5")
    with pytest.raises(ValueError, match="axis is 2"):
        client.put(x, store_as="mxfp4", axis=2)
    with client.put(x) as w, pytest.raises(ValueError, match="w is on the server already"):
        client.linear(w, store_as="mxfp4")
