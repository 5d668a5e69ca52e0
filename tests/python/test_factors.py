"""What may be multiplied: transposed factors, matrices on the server by @, two types, nothing at all."""

import ml_dtypes
import numpy as np
import pytest

import gemmd

TYPES = ("f8", "f4", "f2", ml_dtypes.bfloat16)


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_transposed_factors(server, random, transport):
    a, b = random.standard_normal((6, 5)), random.standard_normal((4, 6))
    with gemmd.Client(server.address, transport=transport) as client:
        d = client.matmul(a, b, transpose_a=True, transpose_b=True)
        np.testing.assert_allclose(d, a.T @ b.T, rtol=1e-12)
        with client.put(a) as left, client.put(b) as right:
            assert (left.T.shape, left.T.ndim, left.T.dtype, left.T.T) == ((5, 6), 2, np.float64, left)
            assert np.array_equal(left.T.numpy(), a.T)
            for x, y, asked in (
                (left.T, right.T, {}),
                (left, right, {"transpose_a": True, "transpose_b": True}),
                (a.T, right.T, {}),
                (left.T, b, {"transpose_b": True}),
            ):
                assert client.matmul(x, y, **asked).tobytes() == d.tobytes()
                assert client.submit(x, y, **asked).result().tobytes() == d.tobytes()
            with client.matmul(left.T, right.T, keep=True) as kept:
                assert kept.numpy().tobytes() == d.tobytes()
            assert client.estimate(left.T, right.T).flops == 2 * 5 * 6 * 4


def test_transposes_of_stacks_and_of_transposed_ones(client, random):
    a, b = random.standard_normal((6, 5)), random.standard_normal((5, 3))
    with client.put(a) as left:
        np.testing.assert_allclose(client.matmul(left.T, b, transpose_a=True), a @ b, rtol=1e-12)
    stack = random.standard_normal((3, 6, 4))
    np.testing.assert_allclose(client.matmul(stack, a, transpose_a=True), stack.swapaxes(1, 2) @ a, rtol=1e-12)
    with pytest.raises(ValueError, match="transpose_b is set, and b is a vector"):
        client.matmul(np.ones((2, 2)), np.ones(2), transpose_b=True)
    with pytest.raises(TypeError, match="c is a transposed matrix on the server"):
        with client.put(a) as c:
            client.matmul(b.T, a.T, c=c.T)


@pytest.mark.parametrize(
    "name", ["int8-row", "int8-tensor", "mxfp4", "int4-g32-f16-zp", "fp8-e4m3-128x128", "nvfp4"]
)
def test_quantized_matrices_are_transposed_with_their_scales(client, random, name):
    x, w = random.standard_normal((7, 70)).astype("f4"), random.standard_normal((9, 70)).astype("f4")
    axis = None if "128x128" in name or "tensor" in name else 0
    q = gemmd.Quantized.of(w, name, axis)
    assert np.array_equal(q.T.dequantize(), q.dequantize().T)
    assert (q.T.shape, q.T.T.shape, q.T.type) == ((70, 9), (9, 70), name)
    wanted = client.matmul(x, gemmd.Quantized.of(np.ascontiguousarray(w.T), name, None if axis is None else 1))
    assert client.matmul(x, q.T).tobytes() == wanted.tobytes()
    assert client.matmul(x, q, transpose_b=True).tobytes() == wanted.tobytes()
    if q.scales.size > 1 and "row" not in name:
        with client.put(q) as resident:
            assert client.matmul(x, resident.T).tobytes() == wanted.tobytes()


def test_tiles_of_scales_are_transposed(random):
    q = gemmd.Quantized.of(random.standard_normal((140, 200)), "mxfp8-e4m3", 0, scale_layout="blocked-128x4")
    assert np.array_equal(q.T.dequantize(), q.dequantize().T)
    assert np.array_equal(q.T.T.scales, q.scales)


def test_at_multiplies_by_what_is_on_the_server(client, random):
    x, w = random.standard_normal((3, 6)), random.standard_normal((6, 4))
    with client.put(w) as resident:
        wanted = client.matmul(x, w).tobytes()
        assert (x @ resident).tobytes() == wanted
        assert (x.tolist() @ resident).tobytes() == wanted
        assert (resident.T @ x.T).T.tobytes() == client.matmul(resident.T, x.T).T.tobytes()
        np.testing.assert_allclose(resident @ resident.T, w @ w.T, rtol=1e-12)
        with pytest.raises(TypeError, match="is on the server: numpy"):
            np.asarray(resident)
        with pytest.raises(TypeError, match="is on the server: numpy"):
            np.asarray(resident.T)
        with pytest.raises(TypeError):
            x + resident
        with pytest.raises(TypeError, match="x is on the server already"):
            client.put(resident)
        assert "6 x 4" in repr(resident.T)
        with client.linear(resident.T, activation="relu") as layer:
            np.testing.assert_allclose(layer(x[:, :4]), np.maximum(x[:, :4] @ w.T, 0), atol=1e-12)
    with pytest.raises(TypeError, match=r"client.matmul\(\) multiplies it"):
        x @ gemmd.Quantized.of(w, "int8")


def test_a_client_lives_as_long_as_its_matrices(server):
    resident = gemmd.Client(server.address).put(np.eye(3))
    assert np.array_equal(np.ones((2, 3)) @ resident, np.ones((2, 3)))
    resident.release()


@pytest.mark.parametrize("a", TYPES)
@pytest.mark.parametrize("b", TYPES)
def test_two_types_become_the_one_that_holds_both(client, random, a, b):
    x, y = random.standard_normal((5, 7)).astype(a), random.standard_normal((7, 3)).astype(b)
    d = client.matmul(x, y)
    # NumPy says nothing of f16 beside bf16.
    is_half = {x.dtype.name, y.dtype.name} == {"float16", "bfloat16"}
    assert d.dtype == (np.float32 if is_half else np.result_type(x, y))
    assert d.tobytes() == client.matmul(x.astype(d.dtype), y.astype(d.dtype)).tobytes()


def test_integers_and_fp8_beside_f64(client, random):
    x = random.integers(-9, 9, (5, 7))
    y = random.standard_normal((7, 3))
    for kind in ("i1", "i4", ml_dtypes.float8_e4m3fn):
        d = client.matmul(x.astype(kind), y)
        assert d.dtype == np.float64
        assert d.tobytes() == client.matmul(x.astype("f8"), y).tobytes()
    with pytest.raises(TypeError, match=r"int64 arrays: astype\('float64'\)"):
        client.matmul(x, y)
    with pytest.raises(TypeError, match="a is int8 and b is int32"):
        client.matmul(x.astype("i1"), x.T.astype("i4"))
    with client.put(y.astype("f4")) as resident:
        assert client.matmul(x.astype("f2"), resident).dtype == np.float32
        with pytest.raises(TypeError, match="only arrays are made one type here"):
            client.matmul(y.T @ y, resident.T)
    with client.put(y.astype(ml_dtypes.bfloat16)) as resident:
        with pytest.raises(TypeError, match="a is f16 and b is bf16"):  # as they are given
            client.matmul(x.astype("f2"), resident)


def test_what_is_added_takes_the_products_type_where_it_holds_it(client, random):
    a, b = random.standard_normal((3, 4)), random.standard_normal((4, 5))
    c, bias = random.standard_normal((3, 5)).astype("f4"), [1.0, 2, 3, 4, 5]
    np.testing.assert_allclose(client.matmul(a, b, c=c, bias=bias), a @ b + c + bias, rtol=1e-12)
    half = client.matmul(a.astype("f2"), b.astype("f2"), c=1.5)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, (a @ b + 1.5), atol=0.05)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu_tanh", "silu"])
def test_factors_without_elements_leave_what_is_added(client, random, activation):
    c, bias = random.standard_normal((3, 5)), random.standard_normal(5)
    asked = {"c": c, "bias": bias, "beta": -0.5, "activation": activation}
    d = client.matmul(np.ones((3, 0)), np.ones((0, 5)), **asked)
    near = client.matmul(np.zeros((3, 1)), np.zeros((1, 5)), **asked)
    assert np.array_equal(d, near)
    assert np.array_equal(client.matmul(np.ones((0, 3)).T, np.ones((5, 0)).T, **asked), near)
    assert np.array_equal(client.matmul(np.ones((3, 0)), np.ones((0, 5)), keep=True).numpy(), np.zeros((3, 5)))
    out = np.empty((2, 3, 5), np.float32)
    bias = bias.astype("f4")
    client.matmul(np.ones((2, 3, 0), "f4"), np.ones((0, 5), "f4"), bias=bias, out=out)
    assert np.array_equal(out, np.broadcast_to(bias, out.shape))
    assert client.matmul(np.ones((0, 4)), np.ones((4, 5)), bias=bias).shape == (0, 5)
    with pytest.raises(ValueError, match="keep=True goes with products that have elements"):
        client.matmul(np.ones((0, 4)), np.ones((4, 5)), keep=True)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("int4-g32", "is int4-g32-f16 or int4-g32-f16-zp or int4-g32-f16-offset or int4-g32-bf16 meant"),
        ("mxfp4_e2m1", "is mxfp4"),
        ("nvfp5", "is nvfp4"),
        ("int8-g48", "int8-g64"),
        ("Q4_0", "docs/quantization.md has all"),
    ],
)
def test_a_format_that_there_is_not_has_a_near_miss(client, name, meant):
    for call in (
        lambda: gemmd.Quantized.of(np.ones((2, 2)), name, 0),
        lambda: gemmd.Quantized(np.ones((2, 2), np.int8), 1.0, name),
        lambda: client.put(np.ones((2, 2), "f4"), store_as=name),
    ):
        with pytest.raises(ValueError, match=f"type is {name!r}; ") as refused:
            call()
        assert meant in str(refused.value)
        assert len(str(refused.value)) < 200


def test_errors_say_their_code_once(client):
    with pytest.raises(gemmd.NotFound) as refused:
        client.resident("0123456789abcdef")
    assert "NOT_FOUND" not in str(refused.value)
    assert refused.value.code == "NOT_FOUND"


def test_alpha_and_beta_of_zero(client):
    nan = np.full((2, 2), np.nan)
    one = np.ones((2, 2))
    assert np.isnan(client.matmul(nan, one, alpha=0)).all()
    assert np.array_equal(client.matmul(one, one, beta=0, c=nan), one @ one)
    assert np.array_equal(client.matmul(one[:, :0], one[:0], beta=0, c=nan), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("asked", "kind", "why"),
    [
        ({"alpha": 10**400}, ValueError, "alpha is 10+; it must be finite"),
        ({"beta": "x", "c": 1}, TypeError, "beta is 'x'; it must be a number"),
        ({"alpha": None}, TypeError, "alpha is None; it must be a number"),
        ({"c": 10**400}, ValueError, "c is 10+, which f32, the product's type, does not hold"),
        ({"verify": -1}, ValueError, "verify is -1; it must be the number of random vectors"),
        ({"verify": 1.5}, ValueError, "verify is 1.5; it must be"),
        ({"verify": 1 << 32}, ValueError, "verify is 4294967296; it must be"),
    ],
)
def test_a_number_that_is_none_is_named(client, asked, kind, why):
    with pytest.raises(kind, match=why):
        client.matmul(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), **asked)


def test_the_sign_of_zero(client):
    """docs/numerics.md: every code comes back from x times 1 but -0, which a sum that begins with 0 makes +0."""
    for kind in (np.float16, ml_dtypes.bfloat16):
        codes = np.arange(65536, dtype=np.uint16)
        x = codes.view(kind).reshape(-1, 1)
        back = np.asarray(client.matmul(x, np.ones((1, 1), kind))).reshape(-1)
        finite = ~np.isnan(x.reshape(-1).astype("f4"))
        changed = codes[finite & (back.view(np.uint16) != codes)]
        assert changed.tolist() == [0x8000]
        assert back.view(np.uint16)[0x8000] == 0


def test_three_dimensions_are_told_what_to_do(client):
    with pytest.raises(ValueError, match=r"\.stack\(len\(x\)\) of that has the matrices"):
        client.put(np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=r"x.reshape\(1, -1\) is a row"):
        client.put(np.ones(3))


def test_a_result_over_what_put_sent_is_written_at_the_end(client, random):
    a, w = random.standard_normal((4, 4)), random.standard_normal((4, 4))
    wanted = a @ w.T
    with client.put(w) as resident:
        client.resident(resident.handle).release()  # as an eviction: its bytes are sent again
        np.testing.assert_allclose(client.matmul(a, resident.T, out=w), wanted, rtol=1e-12)
