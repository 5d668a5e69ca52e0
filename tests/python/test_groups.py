"""Groups of rows by matrices of their own, as a mixture of experts has them: one request, each row's own bits."""

import asyncio

import numpy as np
import pytest
from fake_products import FakeProducts

import gemmd
import gemmd.aio


def ends_of(random, rows, count):
    """Random ends; some groups are empty."""
    return np.sort(np.append(random.integers(0, rows + 1, count - 1), rows))


def groups_of(ends):
    return [slice(begin, end) for begin, end in zip((0, *ends), ends, strict=False)]


@pytest.mark.parametrize("seed", range(20))
def test_each_row_is_that_of_a_product_by_itself(client, seed):
    random = np.random.default_rng(seed)
    rows, count, k, n = (
        int(x) for x in (random.integers(1, 200), random.integers(1, 9), *random.integers(1, 60, 2))
    )
    dtype = str(random.choice(["f8", "f4", "f2"]))
    x = random.standard_normal((rows, k)).astype(dtype)
    w = random.standard_normal((count, k, n)).astype(dtype)
    ends = ends_of(random, rows, count)
    stays = client.put(w.reshape(-1, n)).stack(count)
    for factor in (w, stays, np.ascontiguousarray(w.swapaxes(1, 2)).swapaxes(1, 2)):
        d = client.grouped_matmul(x, factor, ends)
        assert d.shape == (rows, n)
        assert len(d.receipts) == 1
        for i, group in enumerate(groups_of(ends)):
            if group.start < group.stop:
                assert d[group].tobytes() == client.matmul(x[group], w[i]).tobytes()
    stays.release()


def test_the_receipt_and_the_epilogue(client, random):
    x = random.standard_normal((30, 16)).astype("f4")
    w = random.standard_normal((4, 16, 8)).astype("f4")
    ends = np.array([5, 5, 20, 30], "i4")
    bias, c = random.standard_normal((4, 8)).astype("f4"), random.standard_normal((30, 8)).astype("f4")
    d = client.grouped_matmul(x, w, ends, bias=bias, c=c, beta=0.5, alpha=2.0, activation="relu", verify=0)
    assert d.receipt.products == 4
    assert d.receipt.flops == 2 * 30 * 16 * 8
    for i, group in enumerate(groups_of(ends)):
        if group.start < group.stop:
            one = client.matmul(x[group], w[i], bias=bias[i], c=c[group], beta=0.5, alpha=2.0, activation="relu")
            assert one.tobytes() == d[group].tobytes()
    one_bias = client.grouped_matmul(x, w, ends, bias=bias[0])
    assert one_bias[6].tobytes() == client.matmul(x[6:7], w[2], bias=bias[0]).tobytes()
    wanted = client.grouped_matmul(x, w, ends)
    for out in (np.full((30, 8), np.nan, "f4"), np.full((30, 8), np.nan, "f4", order="F")):
        client.grouped_matmul(x, w, ends, out=out)
        assert np.array_equal(out, wanted)
    # out= that is an operand is written at the end.
    square = random.standard_normal((4, 16, 16)).astype("f4")
    wanted = client.grouped_matmul(x, square, ends)
    client.grouped_matmul(x, square, ends, out=x)
    assert np.array_equal(x, wanted)
    x = random.standard_normal((30, 16)).astype("f4")
    client.grouped_matmul(x, w, ends, verify=3)


def test_nan_of_an_expert_stays_in_its_rows(client):
    x, w = np.ones((9, 4)), np.ones((3, 4, 5))
    w[1] = np.nan
    assert np.array_equal(client.grouped_matmul(x, w, [4, 4, 9]), np.full((9, 5), 4.0))
    assert np.isnan(client.grouped_matmul(x, w, [4, 6, 9])).any(axis=1).nonzero()[0].tolist() == [4, 5]


@pytest.mark.parametrize("form", ["int4-g32-f16", "int8-g32", "mxfp4"])
def test_quantized_experts(client, random, form):
    w = random.standard_normal((6, 24, 64)).astype("f4")  # experts x N x K
    x = random.standard_normal((40, 64)).astype("f4")
    ends = ends_of(random, 40, 6)
    with client.put(gemmd.Quantized.of(w.reshape(-1, 64), form, axis=0)) as resident:
        experts = resident.stack(6)
        d = client.grouped_matmul(x, experts.mT, ends)
        for i, group in enumerate(groups_of(ends)):
            if group.start < group.stop:
                assert d[group].tobytes() == client.matmul(x[group], experts[i].mT).tobytes()


def test_layers_whose_rows_stay(client, random):
    x = random.standard_normal((40, 16)).astype("f4")
    up, down = random.standard_normal((6, 16, 24)).astype("f4"), random.standard_normal((6, 24, 16)).astype("f4")
    ends = ends_of(random, 40, 6)
    wanted_h = client.grouped_matmul(x, up, ends, activation="relu")
    wanted = client.grouped_matmul(wanted_h, down, ends, c=x, beta=1.0)
    matrices = x, up.reshape(-1, 24), down.reshape(-1, 16)
    with client.put(matrices[0]) as there, client.put(matrices[1]) as of_up, client.put(matrices[2]) as of_down:
        with client.grouped_matmul(there, of_up.stack(6), ends, activation="relu", keep=True) as h:
            assert h.shape == (40, 24)
            assert h.receipt.products == 6
            assert np.array_equal(h.numpy(), wanted_h)
            d = client.grouped_matmul(h, of_down.stack(6), ends, c=there, beta=1.0)
    assert np.array_equal(d, wanted)


def test_long_groups_go_in_slices(client, random):
    x = random.standard_normal((3000, 256)).astype("f4")
    w = random.standard_normal((3, 256, 512)).astype("f4")
    ends = [2990, 2991, 3000]
    d = client.grouped_matmul(x, w, ends)
    for i, group in enumerate(groups_of(ends)):
        assert d[group].tobytes() == client.matmul(x[group], w[i]).tobytes()


def test_over_a_stream_in_the_background_and_by_aio(client, random):
    x, w, ends = random.standard_normal((50, 7)), random.standard_normal((5, 7, 3)), [10, 20, 20, 45, 50]
    wanted = client.grouped_matmul(x, w, ends).tobytes()
    assert client.submit(x, w, row_ends=ends).result().tobytes() == wanted

    async def main():
        async with gemmd.aio.Client(client.address) as other:
            return await other.grouped_matmul(x, w, ends)

    assert asyncio.run(main()).tobytes() == wanted
    client._engine.route = client._engine.route._replace(transport="stream", channels=2, chunk_bytes=4096)
    assert client.grouped_matmul(x, w, ends).tobytes() == wanted


def test_a_server_without_groups_gets_them_one_by_one(random):
    x, w, ends = random.standard_normal((9, 4)), random.standard_normal((3, 4, 5)), [4, 4, 9]
    with FakeProducts(has_batches=False) as server, gemmd.Client(server.address) as client:
        d = client.grouped_matmul(x, w, ends)
        np.testing.assert_allclose(d[:4], x[:4] @ w[0], rtol=1e-12)
        np.testing.assert_allclose(d[4:], x[4:] @ w[2], rtol=1e-12)
        assert len(d.receipts) == 2


def test_what_does_not_go_together(client, random):
    x, w = random.standard_normal((9, 4)), random.standard_normal((3, 4, 5))
    for offsets, why in (
        ([4, 9], "it must be 3 integers"),
        ([[4, 5, 9]], "it must be 3 integers"),
        ([4.0, 5.0, 9.0], "it must be 3 integers"),
        ([4, 3, 9], "offsets has 3 behind 4"),
        ([-1, 3, 9], "offsets has -1 behind 0"),
        ([4, 5, 8], "the last of offsets is 8; it must be 9"),
        ([4, 5, 10], "the last of offsets is 10; it must be 9"),
    ):
        with pytest.raises(ValueError, match=why):
            client.grouped_matmul(x, w, offsets)
    with pytest.raises(ValueError, match="groups are rows of one"):
        client.grouped_matmul(x, w[0], [9])
    with pytest.raises(ValueError, match="K is 4 and 5"):
        client.grouped_matmul(x, w.swapaxes(1, 2), [3, 6, 9])
    with pytest.raises(ValueError, match="keep=True"):
        client.grouped_matmul(x, w, [3, 6, 9], keep=True, out=np.zeros((9, 5)))
    assert client.grouped_matmul(x[:0], w, [0, 0, 0]).shape == (0, 5)


def test_an_order_of_k_of_the_tokens_is_that_of_the_experts(client, random):
    plain = gemmd.Quantized.of(random.standard_normal((9, 64)).astype("f4"), "int8-g32", axis=0)
    order = random.permutation(64)
    x = gemmd.Quantized(plain.data, plain.scales, "int8", block_k=32, block_lines=1, axis=0, k_order=order)
    w = random.standard_normal((3, 64, 5)).astype("f4")
    d = client.grouped_matmul(x, w, [4, 4, 9])
    wanted = plain.dequantize() @ w[:, order]
    np.testing.assert_allclose(d[:4], wanted[0, :4], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(d[4:], wanted[2, 4:], rtol=1e-4, atol=1e-4)
    with client.put(w.reshape(-1, 5)) as there, pytest.raises(ValueError, match="a has a k_order"):
        client.grouped_matmul(x, there.stack(3), [4, 4, 9])
