"""Matrices on the server: put, kept results, leases, and refills of what it lost."""

import hashlib
import struct

import numpy as np
import pytest

import gemmd


def test_put_is_used_downloaded_and_released(client, random):
    w = random.standard_normal((300, 40)).astype("f4")
    x = random.standard_normal((7, 300)).astype("f4")
    with client.put(w) as resident:
        assert (resident.shape, resident.dtype, resident.nbytes) == ((300, 40), np.float32, 48000)
        assert np.array_equal(client.matmul(x, resident), client.matmul(x, w))
        assert np.array_equal(resident.numpy(), w)
        assert resident.handle in [each.handle for each in client.residents()]
        again = client.resident(resident.handle)
        assert again.digest == resident.digest
        assert np.array_equal(client.matmul(x, again), client.matmul(x, w))
        assert client.matmul(x, resident).receipt.payload_bytes_in == x.nbytes
    assert again.handle not in [each.handle for each in client.residents()]


def test_the_digest_is_that_of_the_contract(client):
    w = np.arange(700 * 500, dtype="f4").reshape(700, 500)
    data = w.tobytes()
    chunks = [hashlib.sha256(data[at : at + (1 << 20)]).digest() for at in range(0, len(data), 1 << 20)]
    text = b"gemmd.v1.operand\n" + struct.pack("<II", 2, 1)
    text += struct.pack("<IIQQIQ", 0, 2, 700, 500, 0, len(data)) + b"".join(chunks)
    with client.put(w) as resident:
        assert resident.digest == hashlib.sha256(text).digest()


def test_a_large_matrix_goes_over_several_connections_and_once(client, random):
    w = random.integers(0, 256, (5000, 7001), dtype=np.uint8).view("i1")
    before = client.stats().operands.uploaded_bytes
    with client.put(w) as resident:
        assert client.stats().operands.uploaded_bytes - before == w.nbytes
        with client.put(w):
            pass
        assert client.stats().operands.uploaded_bytes - before == w.nbytes
        del resident
    with client.put(w) as resident:
        assert np.array_equal(resident.numpy(), w)


def test_a_fortran_matrix_and_a_strided_one(client, random):
    w = random.standard_normal((30, 20))
    x = random.standard_normal((4, 30))
    for each in (np.asfortranarray(w), np.stack([w, w], 1).reshape(60, 20)[::2]):
        with client.put(each) as resident:
            assert np.array_equal(resident.numpy(), w)
            np.testing.assert_allclose(client.matmul(x, resident), x @ w, rtol=1e-12)


def test_a_lost_matrix_is_refilled_in_the_midst_of_a_product(client, random):
    a, b = random.standard_normal((200, 300)), random.standard_normal((300, 100))
    for transport in ("unary", "stream"):
        with gemmd.Client(client.address, transport=transport) as other:
            left, right = other.put(a), other.put(b)
            for _ in range(3):
                client.resident(left.handle).release()
                client.resident(right.handle).release()
                np.testing.assert_allclose(other.matmul(left, right), a @ b, rtol=1e-11)
                left, right = other.put(a), other.put(b)
            right.release()
            left.release()


def test_results_stay_and_feed_products(client, random):
    a, b = random.standard_normal((20, 30)), random.standard_normal((30, 20))
    with client.matmul(a, b, keep=True, lease=60) as kept:
        assert kept.shape == (20, 20)
        assert kept.receipt.payload_bytes_out == 0
        np.testing.assert_allclose(kept.numpy(), a @ b, rtol=1e-12)
        with client.matmul(kept, kept, keep=True) as squared:
            np.testing.assert_allclose(squared.numpy(), (a @ b) @ (a @ b), rtol=1e-11)
        np.testing.assert_allclose(client.matmul(a, b, c=kept), 2 * (a @ b), rtol=1e-11)


def test_leases(client):
    with client.put(np.ones((4, 4)), lease=120) as w:
        assert 100 < w.renew() <= 120
        assert 20 < w.renew(lease=30) <= 30


def test_tenants_do_not_see_each_other(server):
    x = np.ones((3, 3))
    with gemmd.Client(server.address, tenant="one") as one, gemmd.Client(server.address, tenant="two") as two:
        with one.put(x) as w:
            with pytest.raises(gemmd.NotFound):
                two.resident(w.handle)
            assert [each.handle for each in one.residents()] == [w.handle]
            assert two.residents() == []


def test_a_layer(client, random):
    w, bias = random.standard_normal((30, 8)), random.standard_normal(8)
    x = random.standard_normal((2, 5, 30))
    with client.linear(w, bias, "relu") as layer:
        np.testing.assert_allclose(layer(x), np.maximum(x @ w + bias, 0), atol=1e-12)
        np.testing.assert_allclose(layer.submit(x[0]).result(), np.maximum(x[0] @ w + bias, 0), atol=1e-12)
        assert layer(x[0, 0]).shape == (8,)


@pytest.mark.parametrize("store_as", [None, "mxfp8-e4m3"])
def test_what_was_changed_after_put_is_told(client, store_as):
    x = np.ones((64, 64), "f4")
    w = client.put(x, store_as=store_as)
    client.matmul(x, w, out=x)
    assert np.array_equal(client.matmul(x, w), np.full((64, 64), 4096, "f4"))
    client.resident(w.handle).release()
    with pytest.raises(gemmd.InvalidArgument, match="has changed since, and its digest"):
        client.matmul(x, w)
