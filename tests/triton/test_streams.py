"""ModelStreamInfer: many products in flight on a stream."""

import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from triton import infer_input, same_bits
from tritonclient.utils import InferenceServerException


@pytest.fixture
def stream(server):
    """A client with a stream, and the queue of (result, error) that comes over it."""
    done = queue.Queue()
    with grpcclient.InferenceServerClient(server.address) as one:
        one.start_stream(lambda result, error: done.put((result, error)))
        yield one, done
        one.stop_stream()


def test_answers_come_by_id(stream, client, random):
    triton, done = stream
    with client.put(random.standard_normal((64, 32), dtype="f4"), name="streamed") as resident:
        rows = {str(i): random.standard_normal((1 + i % 5, 64), dtype="f4") for i in range(200)}
        for name, a in rows.items():
            triton.async_stream_infer("linear/streamed", [infer_input("A", a)], request_id=name)
        left = dict(rows)
        while left:
            result, error = done.get(timeout=60)
            assert error is None
            a = left.pop(result.get_response().id)
            assert same_bits(result.as_numpy("D"), np.asarray(client.matmul(a, resident)))
            assert not result.get_response().parameters


def test_one_that_fails_is_an_answer(stream, random):
    triton, done = stream
    a, b = random.standard_normal((3, 4), dtype="f4"), random.standard_normal((5, 6), dtype="f4")
    triton.async_stream_infer("matmul_fp32", [infer_input("A", a), infer_input("B", b)], request_id="bad")
    triton.async_stream_infer("nothing", [infer_input("A", a)], request_id="worse")
    triton.async_stream_infer("matmul_fp32", [infer_input("A", a), infer_input("B", b[:4])], request_id="good")
    answers = [done.get(timeout=60) for _ in range(3)]
    failed = sorted(str(error) for _, error in answers if error is not None)
    assert len(failed) == 2
    assert "[request id: \"bad\"] INVALID_ARGUMENT: unexpected shape [3,4] of input 'A'" in failed[0]
    assert '[request id: "worse"] NOT_FOUND: ' in failed[1]
    good = next(result for result, _ in answers if result is not None)
    assert good.get_response().id == "good"
    # As large a product as an answer carries goes too.
    large = np.ones((2048, 1), "f4")
    triton.async_stream_infer("matmul_fp32", [infer_input("A", large), infer_input("B", large.T.copy())])
    result, error = done.get(timeout=60)
    assert error is None
    assert same_bits(result.as_numpy("D"), np.ones((2048, 2048), "f4"))


def test_the_final_response_is_marked_where_that_is_asked_for(stream, server, random):
    address = server.address
    triton, done = stream
    a = random.standard_normal((3, 3), dtype="f4")
    inputs = [infer_input("A", a), infer_input("B", a)]
    triton.async_stream_infer("matmul_fp32", inputs, enable_empty_final_response=True)
    result, error = done.get(timeout=60)
    assert error is None
    assert result.get_response().parameters["triton_final_response"].bool_param
    # So is one that failed, which tritonclient shows to nobody.
    import grpc

    request = grpcclient.service_pb2.ModelInferRequest(model_name="matmul_fp32", id="bad")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    with grpc.insecure_channel(address) as channel:
        call = grpcclient.service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]))
        (answer,) = list(call)
    assert "input 'A' is missing" in answer.error_message
    assert answer.infer_response.id == "bad"
    assert answer.infer_response.parameters["triton_final_response"].bool_param


def test_bytes_that_are_no_request_end_the_stream(server):
    import grpc

    with grpc.insecure_channel(server.address) as channel:
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        with pytest.raises(grpc.RpcError) as ended:
            list(call(iter([b"\xff\xff\xff"])))
        assert ended.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "inference.ModelInferRequest" in ended.value.details()


def test_a_stream_that_ends_gets_its_answers(server, random):
    done = queue.Queue()
    a = random.standard_normal((100, 100), dtype="f4")
    with grpcclient.InferenceServerClient(server.address) as one:
        one.start_stream(lambda result, error: done.put((result, error)))
        for _ in range(20):
            one.async_stream_infer("matmul_fp32", [infer_input("A", a), infer_input("B", a)])
        one.stop_stream()
        assert done.qsize() == 20
        assert all(error is None for _, error in done.queue)


def test_a_stream_has_a_limit_of_requests():
    from testing.processes import Server

    with Server("--limits.requests-per-session=2") as server:
        done = queue.Queue()
        with grpcclient.InferenceServerClient(server.address) as one:
            one.start_stream(lambda result, error: done.put((result, error)))
            a = np.ones((1000, 1000), "f4")
            for _ in range(8):
                one.async_stream_infer("matmul_fp32", [infer_input("A", a), infer_input("B", a)])
            answers = [done.get(timeout=120) for _ in range(8)]
            one.stop_stream()
        errors = [error for _, error in answers if error is not None]
        assert len(errors) < 8
        for error in errors:
            assert isinstance(error, InferenceServerException)
            assert "RESOURCE_EXHAUSTED: the session has 2 requests in flight" in str(error)
