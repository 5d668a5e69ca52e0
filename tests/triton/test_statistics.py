"""ModelStatistics counts what was served."""

import numpy as np
import pytest
from testing.processes import Server
from triton import infer_input
from tritonclient.utils import InferenceServerException

STAGES = ["queue", "compute_input", "compute_infer", "compute_output"]


def statistics(triton, model, **more):
    (one,) = triton.get_inference_statistics(model, **more).model_stats
    return one


def test_counts_are_those_of_what_was_served(own_server):
    import tritonclient.grpc as grpcclient

    with grpcclient.InferenceServerClient(own_server.address) as triton:
        before = statistics(triton, "matmul_fp32")
        assert (before.inference_count, before.inference_stats.success.ns) == (0, 0)
        a = np.ones((50, 50), "f4")
        inputs = [infer_input("A", a), infer_input("B", a)]
        for _ in range(7):
            triton.infer("matmul_fp32", inputs)
        for _ in range(2):
            with pytest.raises(InferenceServerException):
                triton.infer("matmul_fp32", inputs[:1])
        after = statistics(triton, "matmul_fp32")
        totals = after.inference_stats
        assert (after.inference_count, after.execution_count) == (7, 7)
        assert (totals.success.count, totals.fail.count) == (7, 2)
        assert [getattr(totals, each).count for each in STAGES] == [7] * 4
        assert 0 < sum(getattr(totals, each).ns for each in STAGES) <= totals.success.ns
        assert after.last_inference > 1.7e12
        rows = triton.get_inference_statistics().model_stats
        assert {each.name: each.inference_count for each in rows} == {
            "matmul_fp64": 0,
            "matmul_fp32": 7,
            "matmul_fp16": 0,
            "matmul_bf16": 0,
            "matmul_int8": 0,
        }


def test_each_tenant_sees_its_own(triton):
    a = np.ones((2, 2), "f8")
    mine = {"gemmd-tenant": "counted"}
    triton.infer("matmul_fp64", [infer_input("A", a), infer_input("B", a)], headers=mine)
    assert statistics(triton, "matmul_fp64", headers=mine).inference_count == 1
    assert statistics(triton, "matmul_fp64", headers={"gemmd-tenant": "another"}).inference_count == 0


def test_unknown_models_have_none(triton):
    with pytest.raises(InferenceServerException, match="NOT_FOUND"):
        triton.get_inference_statistics("nobody's")


def test_a_server_that_drains_is_not_ready():
    import tritonclient.grpc as grpcclient

    with Server() as server:
        with grpcclient.InferenceServerClient(server.address) as triton:
            assert triton.is_server_ready()
            triton.start_stream(lambda result, error: None)
            server.process.terminate()
            server.wait_for("draining")
            # The server may have closed its port, or says that it drains: either way another one is to be asked.
            a = np.ones((2, 2), "f4")
            with pytest.raises(InferenceServerException, match="UNAVAILABLE"):
                triton.infer("matmul_fp32", [infer_input("A", a), infer_input("B", a)])
            triton.stop_stream(cancel_requests=True)
        assert server.stop() == 0


def test_what_was_let_in_is_answered_while_the_server_drains(random):
    import queue
    import time

    import tritonclient.grpc as grpcclient

    import gemmd

    a = random.standard_normal((2800, 2800), dtype="f4")
    large = [infer_input("A", a), infer_input("B", a)]
    small = [infer_input("A", a[:2, :2]), infer_input("B", a[:2, :2])]
    done, streamed = queue.Queue(), queue.Queue()
    with Server() as server, grpcclient.InferenceServerClient(server.address) as triton:
        with gemmd.Client(server.address) as client:
            triton.async_infer("matmul_fp32", large, lambda result, error: done.put((result, error)))
            give_up = time.monotonic() + 60
            while client.stats().in_flight_requests == 0:
                assert time.monotonic() < give_up
        server.process.terminate()
        server.wait_for("draining")
        assert triton.is_server_live()
        assert not triton.is_server_ready()
        assert not triton.is_model_ready("matmul_fp32")
        with pytest.raises(InferenceServerException, match="UNAVAILABLE"):
            triton.infer("matmul_fp32", small)
        # A stream that begins now ends at once.
        triton.start_stream(lambda result, error: streamed.put((result, error)))
        result, error = streamed.get(timeout=60)
        assert result is None
        assert "UNAVAILABLE" in str(error)
        triton.stop_stream()
        result, error = done.get(timeout=60)
        assert error is None
        assert result.as_numpy("D").shape == (2800, 2800)
        assert server.stop() == 0
