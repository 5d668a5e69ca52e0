"""Clients, matrices on the server and layers in other processes."""

import multiprocessing
import pickle
import re

import numpy as np
import pytest

import gemmd
import gemmd.aio


def _use(made):
    """In another process: what the things there multiply to."""
    client, resident, layer = pickle.loads(made)
    x = np.ones((2, 3))
    return np.asarray(client.matmul(x, resident)), np.asarray(layer(x)), np.asarray(x @ resident), client.address


def test_another_process_multiplies_by_the_same_matrices(server):
    w = np.arange(12.0).reshape(3, 4)
    with gemmd.Client(server.address, tenant="pickles") as client, client.put(w) as resident:
        layer = client.linear(resident, np.ones(4), "relu")
        before = client.stats().operands.uploaded_bytes
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            d, of_layer, of_at, address = pool.apply(_use, (pickle.dumps((client, resident, layer)),))
        assert address == server.address
        assert np.array_equal(d, np.ones((2, 3)) @ w)
        assert np.array_equal(of_at, d)
        assert np.array_equal(of_layer, d + 1)
        assert client.stats().operands.uploaded_bytes == before


def test_arguments_come_along_and_equal_ones_share_a_client(server):
    retry = gemmd.RetryPolicy(max_attempts=2)
    with gemmd.Client(server.address, tenant="me", retry=retry, transport="stream", channels=2) as client:
        one, two = (pickle.loads(pickle.dumps(client)) for _ in range(2))
        assert one is two is not client
        assert one._engine.retry == retry
        assert one._engine.route == client._engine.route
        links = [each._engine.servers.only.link for each in (one, client)]
        assert links[0].metadata() == links[1].metadata() == (("gemmd-tenant", "me"),)
        one.close()
        three = pickle.loads(pickle.dumps(client))
        assert three is not one
        assert np.array_equal(three.matmul(np.eye(2), np.eye(2)), np.eye(2))
        other = pickle.loads(pickle.dumps(gemmd.aio.Client(server.address)))
        assert isinstance(other, gemmd.aio.Client)
        assert other.address == server.address


def test_a_released_matrix_and_a_transposed_one(server):
    with gemmd.Client(server.address) as client:
        with client.put(np.eye(3)) as resident:
            turned = pickle.loads(pickle.dumps(resident.T))
            assert np.array_equal(turned @ np.ones(3), np.ones(3))
        with pytest.raises(ValueError, match="was released"):
            pickle.loads(pickle.dumps(resident)).place  # noqa: B018


@pytest.mark.parametrize(
    ("asked", "secret"),
    [({"token": "s3cret"}, "token"), ({"tls": gemmd.Tls(certificate=b"cert", key=b"s3cret")}, "private key")],
)
def test_secrets_do_not_leave_by_a_pickle(monkeypatch, asked, secret):
    monkeypatch.setattr("grpc.ssl_channel_credentials", lambda *_: None)
    with gemmd.Client("localhost:1", **asked) as client:
        why = re.escape(f"has a secret, its {secret}, which a pickle would show")
        for each in (client, gemmd.Linear(client, None, None, "none", {})):
            with pytest.raises(TypeError, match=why) as refused:
                pickle.dumps(each)
            assert "s3cret" not in str(refused.value)


def test_values_pickle_and_products_under_way_say_why_not(client):
    x = np.ones((3, 3), "f4")
    d = client.matmul(x, x)
    for each in (d.receipt, client.info(), client.stats(), client.estimate(x, x), gemmd.RetryPolicy()):
        assert pickle.loads(pickle.dumps(each)) == each
    q = pickle.loads(pickle.dumps(gemmd.Quantized.of(x, "mxfp4", 0)))
    assert np.array_equal(q.dequantize(), x)
    error = pickle.loads(pickle.dumps(gemmd.NotFound("gone", missing_handles=["a"], retry_after=2)))
    assert (error.code, error.message, error.missing_handles, error.retry_after) == ("NOT_FOUND", "gone", ("a",), 2)
    pending = client.submit(x, x)
    with pytest.raises(TypeError, match="pickle what result"):
        pickle.dumps(pending)
    pending.result()
