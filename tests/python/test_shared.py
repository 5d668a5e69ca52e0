"""Memory that client and server share."""

import gc
import os
import time

import numpy as np
import pytest
from testing import processes

import gemmd


def eventually(what):
    give_up = time.monotonic() + 60
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def files():
    return [each for each in os.listdir("/dev/shm") if each.startswith(processes.SHARED_PREFIX)]


def test_nothing_travels(client, random):
    a, b = client.shared((50, 60), "f8"), client.shared((60, 40), np.float64)
    d = client.shared((50, 40), "f8")
    assert not a.any()
    a[:], b[:] = random.standard_normal(a.shape), random.standard_normal(b.shape)
    result = client.matmul(a, b, out=d)
    assert np.shares_memory(result, d)
    np.testing.assert_allclose(d, a @ b, rtol=1e-12)
    receipt = result.receipt
    assert (receipt.payload_bytes_in, receipt.payload_bytes_out) == (0, 0)
    assert receipt.shared_bytes_in == a.nbytes + b.nbytes
    assert receipt.shared_bytes_out == d.nbytes


def test_views_count_and_others_travel(client, random):
    pool = client.shared(10000, "f8")
    a = pool[3:603].reshape(20, 30)
    b = pool[1000:1600].reshape(20, 30).T
    d = pool[2000:2800].reshape(2, 20, 20)
    a[:], b[:] = random.standard_normal(a.shape), random.standard_normal(b.shape)
    both = np.stack([np.asarray(a)] * 2)
    result = client.matmul(a, b, out=d[0])
    np.testing.assert_allclose(d[0], a @ b, rtol=1e-12)
    assert result.receipt.payload_bytes_in == 0
    np.testing.assert_allclose(client.matmul(both, np.stack([b, b]), out=d), both @ b, rtol=1e-12)
    ordinary = client.matmul(np.array(a), b)
    assert ordinary.receipt.payload_bytes_in == a.nbytes
    np.testing.assert_allclose(ordinary, a @ b, rtol=1e-12)
    c = client.matmul(a, b, c=d[0], out=d[0])
    np.testing.assert_allclose(c, 2 * (a @ b), rtol=1e-12)


def test_a_region_ends_with_its_last_view(server):
    with gemmd.Client(server.address) as client:
        before = client.stats().shared_memory.regions
        a = client.shared((100, 100))
        view = a[:10]
        assert client.stats().shared_memory.regions == before + 1
        assert len(files()) >= 1
        del a
        gc.collect()
        assert client.stats().shared_memory.regions == before + 1
        del view
        gc.collect()
        eventually(lambda: client.stats().shared_memory.regions == before)
    assert files() == []


def test_a_region_where_another_one_was_is_found(client):
    for _ in range(20):
        a = client.shared((30, 30), "f8")
        assert client.matmul(a, a).receipt.payload_bytes_in == 0
        del a


def test_closing_unregisters_and_arrays_go_on(server):
    client = gemmd.Client(server.address)
    a = client.shared((100, 100))
    client.close()
    a[:] = 1
    assert a.sum() == 10000
    assert files() == []
    with gemmd.Client(server.address) as other:
        eventually(lambda: other.stats().shared_memory.regions == 0)
        assert other.matmul(a, a).receipt.payload_bytes_in == 2 * a.nbytes


def test_a_restarted_server_gets_the_region_again(own_server, random):
    with gemmd.Client(own_server.address, retry=gemmd.RetryPolicy(max_attempts=50)) as client:
        a = client.shared((40, 40), "f8")
        a[:] = random.standard_normal(a.shape)
        d = client.shared((40, 40), "f8")
        for _ in range(2):
            client.matmul(a, a, out=d)
            np.testing.assert_allclose(d, a @ a, rtol=1e-12)
            own_server.kill()
            own_server.start()
        client.matmul(a, a, out=d)
        assert client.stats().shared_memory.bytes_in == 2 * a.nbytes


def test_what_cannot_be_made(client):
    with pytest.raises(ValueError, match="at least one"):
        client.shared((0, 3))
    with pytest.raises(gemmd.ResourceExhausted):
        client.shared((1 << 40, 1), "i1")
    assert files() == [] or gc.collect() is not None
