"""Kernels, plans and traces by the Python client; and asyncio's client, which has whatever the other has."""

import asyncio
import hashlib
import inspect

import numpy as np
import pytest
from testing.processes import Server

import gemmd
import gemmd.aio


def test_kernels_are_listed_and_a_choice_explained(client):
    kernels = {each.name: each for each in client.kernels()}
    assert kernels["cpu/panel_f64"].unavailable_reason == ""
    assert kernels["cpu/panel_f64"].determinism == "batch_invariant"
    assert any(each.unavailable_reason for each in kernels.values())
    candidates = client.explain(30, 40, 50, dtype="f8")
    chosen = [each for each in candidates if each.chosen]
    x = np.ones((30, 50))
    assert [each.kernel for each in chosen] == [client.matmul(x, np.ones((50, 40))).receipt.kernel]
    assert all(each.rejection for each in candidates if not each.plan)
    with pytest.raises(gemmd.InvalidArgument):
        client.explain(0, 1, 1)


def test_plans_are_tuned(own_server):
    with gemmd.Client(own_server.address) as client:
        tuning = client.tune([(16, 16, 16), (8, 4, 2)], dtype="f4", repeats=1)
        assert len(tuning.shapes) == 2
        assert tuning.device
        for candidates in tuning.shapes:
            [chosen] = [each for each in candidates if each.chosen]
            assert chosen.measured_us > 0
        [measured] = [each for each in client.explain(16, 16, 16) if each.chosen]
        assert measured.measured
        with pytest.raises(ValueError, match="must be M, N and K"):
            client.tune([(1, 2)])


def test_the_last_requests_are_traced(own_server):
    with gemmd.Client(own_server.address, tenant="traced") as client:
        d = client.matmul(np.ones((8, 4)), np.ones((4, 2)))
        with pytest.raises(gemmd.FailedPrecondition):
            client.matmul(np.ones((2, 2), "f2"), np.ones((2, 2), "f2"), kernel="cpu/panel_f64")
        traces = client.traces(last=3600)
        done = [each for each in traces.timelines if each.code == "OK"]
        assert done[-1].tenant == "traced"
        assert done[-1].receipt.request_id == d.receipt.request_id
        assert done[-1].receipt.stages
        assert traces.recorded_requests >= 1
        assert len(client.traces(most=1).timelines) == 1
        with pytest.raises(ValueError, match="last is 0"):
            client.traces(last=0)


def public(kind):
    """Names of methods and properties."""
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def test_asyncios_client_has_all_that_the_other_has(server, random):
    assert public(gemmd.Client) <= public(gemmd.aio.Client)

    async def use():
        async with gemmd.aio.Client(server.address) as client:
            w = random.standard_normal((4, 3))
            resident = await client.put(w)
            x = random.standard_normal((2, 4))
            task = client.submit(x, resident)
            assert np.array_equal(await task, await client.matmul(x, w))
            found = await client.resident(resident.handle)
            assert found.digest == resident.digest
            assert resident.handle in [each.handle for each in await client.residents()]
            np.testing.assert_allclose(await client.matmul(x[:, :3], resident.T), x[:, :3] @ w.T, rtol=1e-12)
            assert await client.kernels() == await asyncio.to_thread(client.sync.kernels)
            assert await client.explain(2, 3, 4, dtype="f8")
            assert (await client.traces(most=1)).timelines
            assert (await client.tune([(4, 4, 4)], repeats=1)).shapes
            await client.release(resident)

    asyncio.run(use())


def test_a_version():
    assert gemmd.__version__
    assert gemmd.__version__ == __import__("gemmd._version", fromlist=["_"]).__version__


def test_results_go_to_torch(client):
    torch = pytest.importorskip("torch")
    import ml_dtypes

    for kind in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        d = client.matmul(np.eye(3, dtype=kind), np.ones((3, 2), kind))
        tensor = d.torch()
        assert tensor.dtype == getattr(torch, np.dtype(kind).name)
        assert np.array_equal(tensor.float().numpy(), np.ones((3, 2)))


def test_a_result_without_torch_says_so(client):
    try:
        import torch  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="torch"):
            client.matmul(np.eye(2), np.eye(2)).torch()


def test_dask_takes_what_holds_for_a_block_alone(server):
    da = pytest.importorskip("dask.array")
    import gemmd.dask

    a = da.ones((4, 4), chunks=2)
    for name in ("c", "bias", "activation", "transpose_b", "alpha"):
        with pytest.raises(TypeError, match=f"{name}= goes with no product of blocks"):
            gemmd.dask.matmul(a, a, address=server.address, **{name: 1})
    mixed = gemmd.dask.matmul(a.astype("f4"), a, address=server.address)
    assert mixed.dtype == mixed.compute().dtype == np.float64


def test_operators_see_who_holds_what_and_end_a_server(tmp_path):
    token = "an-operators-token"
    digest = hashlib.sha256(token.encode()).hexdigest()
    policy = tmp_path / "policy.textproto"
    policy.write_text(f'token {{ name: "ci" tenant: "ci" sha256: "{digest}" role: OPERATOR role: USER }}')
    one = Server(f"--auth.policy-file={policy}")
    with gemmd.Client(one.address, token=token) as client:
        kept = client.put(np.ones((8, 4), "f4"))
        assert client.stats().holdings == ()
        held = {(each.quantity, each.party): each for each in client.stats(holders=3).holdings}
        assert held["operand_bytes", "all"].held == 8 * 4 * 4
        assert held["operand_bytes", "tenant"].name == "auth:ci"
        assert held["operand_bytes", "tenant"].limit > 0
        assert held["quota_requests", "all"].limit is None
        with pytest.raises(ValueError, match="holders is 101; it must be 0 to 100"):
            client.stats(holders=101)
        kept.release()
        draining = client.drain()
        assert (draining.requests, draining.uploads) == (0, 0)
    assert one.process.wait(30) == 0


def test_a_server_without_a_policy_is_ended_by_nobody(client):
    with pytest.raises(gemmd.FailedPrecondition, match="policy-file"):
        client.drain()
