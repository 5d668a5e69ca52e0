"""Products of stacks are one request, with the values that NumPy has and the bits that each has alone."""

import asyncio

import numpy as np
import pytest
from fake_products import FakeProducts

import gemmd
import gemmd.aio
from gemmd import _layout, types

F64 = types.by_name("f64")


def check(client, a, b, **asked):
    """The result, which is NumPy's to rounding and came in one request."""
    d = client.matmul(a, b, **asked)
    x = a.swapaxes(-1, -2) if asked.get("transpose_a") else a
    y = b.swapaxes(-1, -2) if asked.get("transpose_b") else b
    wanted = np.matmul(x.astype("f8"), y.astype("f8"))
    assert d.shape == wanted.shape
    rounding = 1e-12 if d.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(d, wanted, rtol=rounding, atol=rounding * (1 + np.abs(x).max(initial=0) ** 2))
    assert len(d.receipts) == (1 if d.size else 0)
    return d


def random_view(random, shape, dtype):
    """An array of that shape whose batch and matrices lie in one of many ways."""
    order = random.permutation(len(shape))
    big = [size * random.integers(1, 3) if random.random() < 0.3 else size for size in np.array(shape)[order]]
    x = random.standard_normal(big).astype(dtype)
    x = x[tuple(slice(None, None, large // size) for large, size in zip(big, np.array(shape)[order], strict=True))]
    x = x.transpose(np.argsort(order))
    if random.random() < 0.2:
        x = x[::-1]
    return x


@pytest.mark.parametrize("seed", range(60))
def test_random_shapes_and_strides(client, seed):
    random = np.random.default_rng(seed)
    batch = [int(random.integers(1, 5)) for _ in range(random.integers(1, 4))]
    m, n, k = (int(random.integers(1, 9)) for _ in range(3))

    def lead():
        cut = batch[int(random.integers(0, len(batch) + 1)) :] if random.random() < 0.3 else batch
        return [1 if random.random() < 0.2 else size for size in cut]

    a = random_view(random, (*lead(), m, k), random.choice(["f4", "f8"]))
    b = random_view(random, (*lead(), k, n), a.dtype)
    asked = {"determinism": str(random.choice(["fast", "batch_invariant"]))}
    asked["transport"] = str(random.choice(["auto", "stream"]))
    if asked.pop("transport") == "stream":
        client._engine.route = client._engine.route._replace(transport="stream", channels=2, chunk_bytes=4096)
    if random.random() < 0.3:
        a, asked["transpose_a"] = a.swapaxes(-1, -2), True
    if random.random() < 0.3:
        b, asked["transpose_b"] = b.swapaxes(-1, -2), True
    check(client, a, b, **asked)


@pytest.mark.parametrize("determinism", ["batch_invariant", "fast"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1"])
def test_each_product_has_the_bits_that_it_has_alone(client, random, dtype, determinism):
    a = (9 * random.standard_normal((7, 20, 40))).astype(dtype)
    b = (9 * random.standard_normal((7, 40, 30))).astype(dtype)
    for right in (b, b[:1]):
        d = client.matmul(a, right, determinism=determinism)
        for i, one in enumerate(d):
            alone = client.matmul(a[i], right[i % len(right)], determinism=determinism)
            assert one.tobytes() == alone.tobytes()


def test_the_receipt_is_of_all_products(client, random):
    a, b = random.standard_normal((5000, 4, 3)).astype("f4"), random.standard_normal((5000, 3, 2)).astype("f4")
    d = check(client, a, b)
    assert d.receipt.products == 5000
    assert d.receipt.flops == 5000 * 2 * 4 * 3 * 2
    assert d.receipt.result == "5000 matrices of 4 x 2 f32 row-major"
    assert d.receipt.result in str(d.receipt)
    assert client.matmul(a[0], b[0]).receipt.products == 1


def test_one_matrix_for_all_is_sent_once(client, random):
    a, b = random.standard_normal((1, 1, 40, 50)), random.standard_normal((3, 2, 50, 4))
    assert check(client, a, b).receipt.payload_bytes_in == a.nbytes + b.nbytes
    assert check(client, a[0, 0], b).receipt.payload_bytes_in == a.nbytes + b.nbytes
    wide = np.broadcast_to(a, (3, 2, 40, 50))
    assert check(client, wide, b).receipt.payload_bytes_in == a.nbytes + b.nbytes
    # Half broadcast: a copy.
    assert check(client, random.standard_normal((3, 1, 4, 50)), b).receipt.payload_bytes_in == 6 * 1600 + b.nbytes


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: x, (24, 0, 0)),  # 4 x 6 matrices, one after another
        (lambda x: x.swapaxes(1, 2), (24, 1, 0)),
        (lambda x: x[:, :, :5], (24, 0, 6)),
        (lambda x: x[:, :, :5].swapaxes(1, 2), (24, 1, 6)),
        (lambda x: x.transpose(1, 0, 2), (6, 0, 24)),  # in the same lines, beside each other
        (lambda x: x[:, :1], None),  # nor a quarter is wanted
        (lambda x: x[::2], None),  # half of it is gaps
        (lambda x: x[::-1], None),
        (lambda x: x[:, :, ::2], None),
    ],
)
def test_stacks_are_sent_from_where_they_lie(make, wanted):
    x = make(np.arange(8 * 4 * 6.0).reshape(8, 4, 6))
    laid, stride = _layout.lay_out_stack(x, F64)
    plane = laid.plane
    if wanted is not None:
        assert (stride, plane.order, plane.leading_dimension) == wanted
        assert np.shares_memory(laid.first, x)
    else:
        assert not np.shares_memory(laid.first, x)
    count, rows, columns = x.shape
    inner = columns if plane.order == 0 else rows
    leading = plane.leading_dimension or inner
    steps = (leading, 1) if plane.order == 0 else (1, leading)
    found = np.frombuffer(laid.data, "f8")
    assert found.size == (count - 1) * stride + ((rows if plane.order == 0 else columns) - 1) * leading + inner
    shown = np.lib.stride_tricks.as_strided(found, x.shape, tuple(8 * each for each in (stride, *steps)))
    np.testing.assert_array_equal(shown, x)


def test_windows_that_overlap_travel_once(client, random):
    x = random.standard_normal((40, 8))
    windows = np.lib.stride_tricks.sliding_window_view(x, 10, axis=0).swapaxes(1, 2)  # 31 of 10 x 8
    b = random.standard_normal((31, 8, 3))
    assert check(client, windows, b).receipt.payload_bytes_in == x.nbytes + b.nbytes


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0, 4, 5), (0, 5, 3)),
        ((3, 0, 5), (3, 5, 2)),
        ((3, 4, 5), (3, 5, 0)),
        ((3, 4, 0), (3, 0, 2)),
        ((3, 1, 4, 0), (2, 0, 2)),
        ((1, 4, 5), (0, 5, 3)),
        ((1, 1, 5), (1, 5, 1)),
    ],
)
def test_dimensions_of_zero_and_one(client, a, b):
    x, y = np.ones(a), np.ones(b)
    d = client.matmul(x, y)
    assert d.shape == np.matmul(x, y).shape
    np.testing.assert_array_equal(d, np.matmul(x, y))


def test_vectors_by_stacks(client, random):
    v, x = random.standard_normal(5), random.standard_normal((3, 2, 5, 5))
    np.testing.assert_allclose(client.matmul(v, x), v @ x, rtol=1e-12)
    np.testing.assert_allclose(client.matmul(x, v), x @ v, rtol=1e-12)
    assert client.matmul(v, x).receipt.products == 6


def test_epilogues_of_each_product(client, random):
    a, b = random.standard_normal((3, 2, 4, 5)), random.standard_normal((3, 2, 5, 6))
    bias = random.standard_normal(6)
    for shape in ((3, 2, 4, 6), (4, 6), (2, 1, 6), (3, 1, 4, 1), ()):
        c = random.standard_normal(shape)
        d = client.matmul(a, b, alpha=2, beta=-3, c=c, bias=bias, activation="relu")
        np.testing.assert_allclose(d, np.maximum(2 * (a @ b) - 3 * c + bias, 0), rtol=1e-12)
        assert d.receipt.products == 6
    one = random.standard_normal((4, 6))
    with client.put(one) as resident:
        np.testing.assert_allclose(client.matmul(a, b, c=resident, bias=bias), a @ b + one + bias, rtol=1e-12)


def test_out_of_every_layout(client, random):
    a, b = random.standard_normal((3, 6, 5)), random.standard_normal((3, 5, 4))
    for out in (
        np.zeros((3, 6, 4)),
        np.zeros((3, 4, 6)).swapaxes(1, 2),
        np.zeros((6, 4, 3)).transpose(2, 0, 1),
        np.zeros((3, 8, 4))[:, :6],
        np.zeros((3, 6, 4), order="F"),
    ):
        d = client.matmul(a, b, out=out)
        assert np.shares_memory(d, out)
        np.testing.assert_allclose(out, a @ b, rtol=1e-12)
        assert len(d.receipts) == 1
    # Over an operand.
    square = random.standard_normal((3, 5, 5))
    wanted = square @ square
    client.matmul(square, square, out=square)
    np.testing.assert_allclose(square, wanted, rtol=1e-12)


def test_other_result_types(client, random):
    a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((3, 6, 5), (3, 5, 4)))
    d = client.matmul(a, b)
    assert d.dtype == np.int32
    np.testing.assert_array_equal(d, a.astype("i4") @ b.astype("i4"))
    np.testing.assert_array_equal(client.matmul(a, b, dtype="f32"), d)


def test_quantized_and_resident_factors_are_one_for_all(client, random):
    a, w = random.standard_normal((3, 6, 32)).astype("f4"), random.standard_normal((32, 4)).astype("f4")
    q = gemmd.Quantized.of(w, "int8-g32", axis=1)
    left = gemmd.Quantized.of(a[0], "int8", axis=0)
    stack = random.standard_normal((5, 32, 4)).astype("f4")
    d = client.matmul(left, stack)
    assert d.receipt.products == 5
    for i, one in enumerate(d):
        assert one.tobytes() == client.matmul(left, stack[i]).tobytes()
    with client.put(w) as plain, client.put(q) as quantized, client.put(a[0]) as resident:
        for right in (q, plain, quantized):
            for determinism in ("batch_invariant", "fast"):
                d = client.matmul(a, right, determinism=determinism)
                for i, one in enumerate(d):
                    assert one.tobytes() == client.matmul(a[i], right, determinism=determinism).tobytes()
        d = client.matmul(resident, stack)
        np.testing.assert_allclose(d, a[0].astype("f8") @ stack, rtol=1e-4, atol=1e-4)
        assert d.receipt.products == 5
        turned = client.matmul(resident.T, stack[:, :6].swapaxes(1, 2).copy().swapaxes(1, 2)[:, :6], kernel="")
        np.testing.assert_allclose(turned, a[0].T.astype("f8") @ stack[:, :6], rtol=1e-4, atol=1e-4)


def test_an_order_of_k_goes_with_stacks(client, random):
    w = random.standard_normal((32, 8)).astype("f4")
    order = random.permutation(32)
    made = gemmd.Quantized.of(w[order], "int4-g16-f16", axis=1)
    ordered = gemmd.Quantized(made.codes(), made.scales, made.type, axis=1, k_order=order)
    a = random.standard_normal((3, 5, 32)).astype("f4")
    for factor in (ordered, client.put(ordered)):
        d = client.matmul(a, factor, determinism="fast")
        np.testing.assert_allclose(d, a @ ordered.dequantize("float32"), rtol=1e-4, atol=1e-4)


def test_stacks_in_shared_memory_do_not_travel(client, random):
    a, b, out = client.shared((4, 6, 5), "f8"), client.shared((4, 5, 3), "f8"), client.shared((4, 6, 3), "f8")
    a[:], b[:] = random.standard_normal(a.shape), random.standard_normal(b.shape)
    d = client.matmul(a, b, out=out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-12)
    receipt = d.receipt
    assert (receipt.payload_bytes_in, receipt.payload_bytes_out, receipt.products) == (0, 0, 4)
    assert receipt.shared_bytes_in == a.nbytes + b.nbytes
    turned = client.shared((4, 3, 6), "f8").swapaxes(1, 2)
    assert client.matmul(a, b, out=turned).receipt.payload_bytes_out == 0
    np.testing.assert_allclose(turned, a @ b, rtol=1e-12)


def test_in_the_background_and_in_a_loop(client, random, server):
    a, b = random.standard_normal((3, 6, 5)), random.standard_normal((3, 5, 4))
    np.testing.assert_allclose(client.submit(a, b).result(60), a @ b, rtol=1e-12)

    async def main():
        async with gemmd.aio.Client(server.address) as loop_client:
            return await asyncio.gather(*(loop_client.matmul(a + i, b) for i in range(20)))

    for i, d in enumerate(asyncio.run(main())):
        np.testing.assert_allclose(d, (a + i) @ b, rtol=1e-12)
        assert d.receipt.products == 3


def test_estimates_of_stacks(client):
    stack = client.estimate(np.ones((30, 64, 64)), np.ones((30, 64, 64)))
    assert stack.flops == 30 * client.estimate(np.ones((64, 64)), np.ones((64, 64))).flops


def test_large_stacks_over_several_connections(server, random):
    a, b = random.standard_normal((30, 200, 190)), random.standard_normal((30, 190, 210))
    told = []
    with gemmd.Client(server.address, transport="stream", channels=3) as client:
        d = client.matmul(a, b, progress=lambda count, total: told.append((count, total)))
        np.testing.assert_allclose(d, a @ b, rtol=1e-10, atol=1e-10)
        assert d.receipt.sent.channels == 3
    assert told[-1] == (a.nbytes + b.nbytes + d.nbytes,) * 2


def test_what_does_not_go_together(client):
    with pytest.raises(ValueError, match="keep=True keeps one matrix"):
        client.matmul(np.ones((3, 4, 5)), np.ones((3, 5, 2)), keep=True)
    with pytest.raises(ValueError, match="broadcast"):
        client.matmul(np.ones((3, 4, 5)), np.ones((2, 5, 2)))
    with pytest.raises(ValueError, match="out has shape"):
        client.matmul(np.ones((3, 4, 5)), np.ones((3, 5, 2)), out=np.ones((3, 2, 4)))
    with pytest.raises(gemmd.FailedPrecondition, match="kernel"):
        client.matmul(np.ones((3, 4, 5)), np.ones((3, 5, 2)), kernel="no/such")


def test_verification_of_each_product(client, random):
    a, b = random.standard_normal((3, 6, 5)), random.standard_normal((3, 5, 4))
    d = client.matmul(a, b, verify=2)
    np.testing.assert_allclose(d, a @ b, rtol=1e-12)
    assert all(each.verification_residual <= 1 for each in d.receipts)


@pytest.mark.parametrize("seed", range(20))
def test_an_older_server_gets_the_products_one_by_one(seed):
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((3, 2, 4, 5)), random.standard_normal((*(3, 2)[seed % 2 :], 5, 6))
    c = random.standard_normal((2, 4, 6))
    with FakeProducts(has_batches=False) as old, gemmd.Client(old.address, transport="unary") as client:
        out = np.zeros((3, 2, 4, 6))
        d = client.matmul(a, b, c=c, out=out)
        np.testing.assert_allclose(out, a @ b + c, rtol=1e-12)
        assert len(d.receipts) == 6
        assert d.receipt.products == 0
        # It is not asked again for what it does not know.
        client.matmul(a, b)
        assert [each.HasField("batch") for each in old.requests] == [True] + 12 * [False]


def test_a_result_of_the_first_product_alone_is_no_result():
    a = np.broadcast_to(np.arange(20.0).reshape(4, 5), (3, 4, 5))
    b = np.broadcast_to(np.ones((5, 2)), (3, 5, 2))
    with FakeProducts(has_batches=False) as old, gemmd.Client(old.address, transport="unary") as client:
        d = client.matmul(a, b, determinism="fast")
        np.testing.assert_array_equal(d, a @ b)
        assert len(d.receipts) == 3


def test_what_a_server_does_not_take_of_a_batch_goes_one_by_one():
    a, b = np.ones((3, 4, 5)), np.ones((3, 5, 2))
    with FakeProducts(True, "b is a resident operand with a k_order") as some, gemmd.Client(some.address) as client:
        assert len(client.matmul(a, b).receipts) == 3
        some.refuses = ""
        assert client.matmul(a, b).receipt.products == 3


@pytest.mark.parametrize("seed", range(40))
def test_requests_say_where_everything_lies(seed):
    random = np.random.default_rng(100 + seed)
    with FakeProducts(has_batches=True) as server, gemmd.Client(server.address) as client:
        batch = tuple(random.integers(1, 4, 2))
        m, n, k = random.integers(1, 7, 3)
        a, b, c = (random_view(random, (*batch, *each), "f8") for each in ((m, k), (k, n), (m, n)))
        out = random_view(random, (*batch, m, n), "f8")
        client.matmul(a, b, c=c, beta=-2, out=out, determinism="fast")
        np.testing.assert_allclose(out, a @ b - 2 * c, rtol=1e-10, atol=1e-12)
        assert len(server.requests) == 1
