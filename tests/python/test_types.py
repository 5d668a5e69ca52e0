"""Every type, order, stride and batch shape: what NumPy says, the server says."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import gemmd

TYPES = [
    (np.float64, np.float64, 1e-12),
    (np.float32, np.float32, 1e-5),
    (np.float16, np.float16, 2e-3),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 1e-2),
    (np.int8, np.int32, 0),
    (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 1e-2),
    (ml_dtypes.float8_e5m2, ml_dtypes.bfloat16, 1e-2),
]


def values(random, shape, dtype):
    if np.dtype(dtype) == np.int8:
        return random.integers(-128, 128, shape, dtype=np.int8)
    return random.standard_normal(shape).astype(dtype)


def exact(a, b):
    return np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64))


def close(d, wanted, bound):
    d = np.asarray(d, np.float64)
    assert d.shape == wanted.shape
    scale = np.abs(wanted).max() if wanted.size else 0
    assert np.abs(d - wanted).max(initial=0) <= bound * max(scale, 1)


@pytest.mark.parametrize(("dtype", "result", "bound"), TYPES)
def test_each_type_gives_its_result(client, random, dtype, result, bound):
    a, b = values(random, (17, 33), dtype), values(random, (33, 9), dtype)
    d = client.matmul(a, b)
    assert d.dtype == np.dtype(result)
    assert isinstance(d, np.ndarray)
    assert d.flags.writeable
    close(d, exact(a, b), bound)


@pytest.mark.parametrize(("dtype", "result", "bound"), TYPES)
@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_either_transport_gives_the_same_bits(server, random, dtype, result, bound, transport):
    a, b = values(random, (70, 130), dtype), values(random, (130, 90), dtype)
    with gemmd.Client(server.address, transport=transport, channels=3, chunk_bytes=4096) as client:
        d = client.matmul(a, b)
        assert d.receipt.sent.transport == transport
        close(d, exact(a, b), bound)
    with gemmd.Client(server.address) as client:
        assert client.matmul(a, b).tobytes() == d.tobytes()


def layouts(x):
    """A matrix, laid out in every way."""
    rows, columns = x.shape
    yield "C", np.ascontiguousarray(x)
    yield "F", np.asfortranarray(x)
    wide = np.zeros((rows, columns + 3), x.dtype)
    wide[:, :columns] = x
    yield "strided rows", wide[:, :columns]
    tall = np.zeros((columns, rows + 2), x.dtype)
    tall[:, :rows] = x.T
    yield "strided columns", tall[:, :rows].T
    sparse = np.zeros((2 * rows, 3 * columns), x.dtype)
    sparse[::2, ::3] = x
    yield "both strided", sparse[::2, ::3]
    yield "backwards", np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]


def test_every_layout_of_both_factors(client, random):
    a, b = random.standard_normal((12, 20)), random.standard_normal((20, 15))
    wanted = client.matmul(a, b)
    for (first, x), (second, y) in itertools.product(layouts(a), layouts(b)):
        assert np.array_equal(client.matmul(x, y), wanted), (first, second)


@pytest.mark.parametrize("dtype", [each[0] for each in TYPES])
def test_a_strided_matrix_is_sent_with_its_leading_dimension(client, random, dtype):
    a, b = values(random, (8, 22), dtype)[:, :20], values(random, (20, 4), dtype)
    sent = (7 * 22 + 20 + 20 * 4) * a.itemsize
    assert client.matmul(a, b).receipt.payload_bytes_in == sent


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5,), (5,)),
        ((5,), (5, 3)),
        ((4, 5), (5,)),
        ((4, 5), (5, 3)),
        ((2, 4, 5), (5, 3)),
        ((2, 4, 5), (2, 5, 3)),
        ((4, 5), (2, 5, 3)),
        ((7, 1, 4, 5), (3, 5, 6)),
        ((2, 4, 5), (5,)),
        ((5,), (2, 5, 3)),
        ((1, 1, 4, 5), (1, 5, 3)),
        ((100, 1, 5), (100, 5, 1)),
        ((0, 5), (5, 3)),
        ((4, 5), (5, 0)),
        ((4, 0), (0, 3)),
        ((0, 4, 5), (0, 5, 3)),
        ((1, 1), (1, 1)),
    ],
)
def test_shapes_are_those_of_numpy(client, random, a, b):
    x, y = random.standard_normal(a), random.standard_normal(b)
    wanted = np.matmul(x, y)
    d = client.matmul(x, y)
    assert d.shape == np.shape(wanted)
    np.testing.assert_allclose(d, wanted, rtol=1e-12, atol=1e-12)
    if np.ndim(wanted):
        out = np.full(wanted.shape, np.nan)
        assert np.shares_memory(client.matmul(x, y, out=out), out) or not out.size
        np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)


def test_rows_of_a_batch_with_one_right_factor_are_one_product(client, random):
    a, b = random.standard_normal((6, 4, 5)), random.standard_normal((5, 3))
    d = client.matmul(a, b)
    assert len(d.receipts) == 1
    assert d.receipt.batch_rows >= 24
    assert client.matmul(a, np.stack([b] * 6)).receipt.products == 6


def test_out_of_every_layout(client, random):
    a, b = random.standard_normal((3, 6, 5)), random.standard_normal((3, 5, 4))
    wanted = np.matmul(a, b)
    big = np.zeros((6, 12, 8))
    for out in (
        np.zeros((3, 6, 4)),
        np.zeros((3, 4, 6)).transpose(0, 2, 1),
        np.zeros((6, 4, 3)).transpose(2, 0, 1),
        big[::2, ::2, ::2],
    ):
        client.matmul(a, b, out=out)
        np.testing.assert_allclose(out, wanted, rtol=1e-12)
    one = np.asfortranarray(np.zeros((6, 4)))
    client.matmul(a[0], b[0], out=one)
    np.testing.assert_allclose(one, wanted[0], rtol=1e-12)


def test_alpha_beta_c_bias_and_activations(client, random):
    a, b = random.standard_normal((6, 5)), random.standard_normal((5, 4))
    c, bias = random.standard_normal((6, 4)), random.standard_normal(4)
    np.testing.assert_allclose(client.matmul(a, b, alpha=2.5), 2.5 * (a @ b), rtol=1e-12)
    np.testing.assert_allclose(client.matmul(a, b, c=c), a @ b + c, rtol=1e-12)
    np.testing.assert_allclose(client.matmul(a, b, c=c, beta=-2), a @ b - 2 * c, rtol=1e-12)
    x = a @ b + bias
    np.testing.assert_allclose(client.matmul(a, b, bias=bias), x, rtol=1e-12)
    np.testing.assert_allclose(client.matmul(a, b, bias=bias, activation="relu"), np.maximum(x, 0), rtol=1e-12)
    np.testing.assert_allclose(client.matmul(a, b, bias=bias, activation="silu"), x / (1 + np.exp(-x)), rtol=1e-9)
    gelu = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(client.matmul(a, b, bias=bias, activation="gelu-tanh"), gelu, rtol=1e-9)
    batch = random.standard_normal((3, 6, 5))
    np.testing.assert_allclose(client.matmul(batch, b, c=c, bias=bias), batch @ b + c + bias, rtol=1e-11)
    # C of a vector's product has the product's shape.
    np.testing.assert_allclose(client.matmul(a[0], b, c=c[0]), a[0] @ b + c[0], rtol=1e-12)
    np.testing.assert_allclose(client.matmul(a, b[:, 0], c=c[:, 0]), a @ b[:, 0] + c[:, 0], rtol=1e-12)


def test_other_result_types(client, random):
    a = random.integers(-128, 128, (6, 5), dtype=np.int8)
    b = random.integers(-128, 128, (5, 4), dtype=np.int8)
    assert client.matmul(a, b, dtype="f32").dtype == np.float32
    assert client.matmul(a, b, dtype=np.float16).dtype == np.float16
    x = random.standard_normal((4, 4)).astype(ml_dtypes.float8_e4m3fn)
    assert client.matmul(x, x, dtype="float32").dtype == np.float32
    mixed = client.matmul(x, x.astype(ml_dtypes.float8_e5m2))
    assert mixed.dtype == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("kind", ["int8", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("axes", [(None, None), (0, 1), (0, None), (None, 1)])
def test_quantized_forms(client, random, kind, axes):
    a = gemmd.Quantized.of(random.standard_normal((7, 16)), kind, axes[0])
    b = gemmd.Quantized.of(random.standard_normal((16, 5)), kind, axes[1])
    wanted = a.dequantize().astype(np.float64) @ b.dequantize()
    close(client.matmul(a, b, dtype="f32"), wanted, 1e-5)
    with client.put(b) as resident:
        close(client.matmul(a, resident, dtype="f32"), wanted, 1e-5)
        back = resident.quantized()
        assert back.data.tobytes() == b.data.tobytes()
        assert np.array_equal(back.scales.ravel(), b.scales.ravel())


def test_codes_without_their_numpy_type(client, random):
    a = random.standard_normal((4, 6)).astype(ml_dtypes.bfloat16)
    b = random.standard_normal((6, 3)).astype(ml_dtypes.bfloat16)
    coded = client.matmul(
        gemmd.Quantized(a.view(np.uint16), type="bf16"), gemmd.Quantized(b.view(np.uint16), type="bf16")
    )
    assert np.array_equal(coded, client.matmul(a, b))


def test_lists_and_dlpack(client):
    assert client.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist() == [[11.0]]

    class Foreign:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, **options):
            return self.x.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    a = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(client.matmul(Foreign(a), Foreign(a.T)), a @ a.T)

    class Elsewhere(Foreign):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(TypeError, match="move it there"):
        client.matmul(Elsewhere(a), a.T)


def test_the_caller_arrays_are_not_changed_and_results_are_plain_in_arithmetic(client, random):
    a, b = random.standard_normal((4, 4)), random.standard_normal((4, 4))
    before = a.copy(), b.copy()
    d = client.matmul(a, b)
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])
    assert type(d + 1) is np.ndarray
    assert d[0].receipt is None
    assert float(client.matmul(a[0], b[0])) == pytest.approx(a[0] @ b[0])
