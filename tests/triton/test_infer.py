"""Products of Triton's client have the bits of Gemm.Matmul's."""

import asyncio

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as aio
from ml_dtypes import bfloat16
from triton import infer_input, same_bits

import gemmd

REAL = [("matmul_fp64", "f8"), ("matmul_fp32", "f4"), ("matmul_fp16", "f2"), ("matmul_bf16", bfloat16)]


def numbers(random, shape, dtype):
    return random.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("model", "dtype"), REAL)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 300, 33), (256, 256, 256)])
def test_real_types(infer, client, random, model, dtype, shape):
    m, k, n = shape
    a, b = numbers(random, (m, k), dtype), numbers(random, (k, n), dtype)
    d = infer(model, A=a, B=b).as_numpy("D")
    assert same_bits(d, np.asarray(client.matmul(a, b)))


@pytest.mark.parametrize(("model", "dtype"), REAL)
def test_all_of_the_epilogue(infer, client, random, model, dtype):
    a, b = numbers(random, (20, 9), dtype), numbers(random, (11, 20), dtype)
    c, bias = numbers(random, (9, 11), dtype), numbers(random, 11, dtype)
    parameters = {
        "transpose_a": True,
        "transpose_b": True,
        "alpha": 2,
        "beta": -0.5,
        "activation": "relu",
        "determinism": "fast",
        "priority": 1,
        "timeout": 10_000_000,
    }
    del parameters["priority"]  # tritonclient has an argument for it, and for the timeout
    del parameters["timeout"]
    d = infer(model, parameters=parameters, A=a, B=b, C=c, BIAS=bias).as_numpy("D")
    expected = client.matmul(a, b, transpose_a=True, transpose_b=True, alpha=2, beta=-0.5, c=c, bias=bias,
                             activation="relu", determinism="fast")  # fmt: skip
    assert same_bits(d, np.asarray(expected))


def test_integers(infer, client, random):
    a = random.integers(-128, 128, (12, 40), dtype="i1")
    b = random.integers(-128, 128, (40, 9), dtype="i1")
    d = infer("matmul_int8", A=a, B=b).as_numpy("D")
    assert same_bits(d, a.astype("i4") @ b.astype("i4"))
    of_a = random.uniform(0.1, 1, (12, 1)).astype("f4")
    of_b = random.uniform(0.1, 1, (1, 9)).astype("f4")
    d = infer("matmul_int8", A=a, B=b, A_SCALE=of_a[:, 0], B_SCALE=of_b[0]).as_numpy("D")
    expected = client.matmul(gemmd.Quantized(a, of_a), gemmd.Quantized(b, of_b))
    assert same_bits(d, np.asarray(expected))
    d = infer("matmul_int8", parameters={"output_type": "FP16"}, A=a, B=b, A_SCALE=of_a, B_SCALE=of_b)
    assert d.as_numpy("D").dtype == np.float16


def test_c_counts_without_beta_as_with_one(infer, client, random):
    a, b, c = (numbers(random, (4, 4), "f4") for _ in range(3))
    assert same_bits(infer("matmul_fp32", A=a, B=b, C=c).as_numpy("D"), np.asarray(client.matmul(a, b, c=c)))


def test_a_stack_of_a_is_its_rows(infer, client, random):
    a, b = numbers(random, (2, 3, 5, 7), "f4"), numbers(random, (7, 4), "f4")
    c = numbers(random, (2, 3, 5, 4), "f4")
    d = infer("matmul_fp32", A=a, B=b, C=c).as_numpy("D")
    assert d.shape == (2, 3, 5, 4)
    assert same_bits(d, np.asarray(client.matmul(a, b, c=c)))


@pytest.mark.parametrize(("model", "dtype"), REAL)
@pytest.mark.parametrize("of_a", [(2, 3), ()])
def test_a_stack_of_b_is_a_batch(infer, client, random, model, dtype, of_a):
    a, b = numbers(random, (*of_a, 5, 7), dtype), numbers(random, (2, 3, 7, 4), dtype)
    c = numbers(random, (2, 3, 5, 4), dtype)
    d = infer(model, A=a, B=b, C=c).as_numpy("D")
    assert d.shape == (2, 3, 5, 4)
    assert same_bits(d, np.asarray(client.matmul(a, b, c=c)))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", bfloat16])
def test_operands_that_stay(infer, client, random, dtype):
    w, a = numbers(random, (30, 17), dtype), numbers(random, (5, 30), dtype)
    with client.put(w, name="w") as resident:
        d = infer("linear/w", A=a)
        assert same_bits(d.as_numpy("D"), np.asarray(client.matmul(a, resident)))
        assert (d.get_response().model_name, d.get_response().model_version) == ("linear/w", "1")
        turned = numbers(random, (5, 17), dtype)
        d = infer("linear/w", parameters={"transpose_b": True}, A=turned).as_numpy("D")
        assert same_bits(d, np.asarray(client.matmul(turned, resident.T)))


@pytest.mark.parametrize("axis", [0, 1])
def test_quantized_operands_that_stay(infer, triton, client, random, axis):
    w = numbers(random, (64, 96), "f4")
    with client.put(w, name="q", store_as="int4-g32-f16", axis=axis) as resident:
        # Blocks along its columns make it a right factor that is transposed, and no other.
        inner = 64 if axis == 1 else 96
        shape = {each.name: list(each.shape) for each in triton.get_model_metadata("linear/q").inputs}["A"]
        a = numbers(random, (5, shape[1]), "f4")
        d = infer("linear/q", A=a).as_numpy("D")
        expected = client.matmul(a, resident if shape[1] == 64 else resident.T)
        assert same_bits(d, np.asarray(expected))
        assert inner in (64, 96)


def test_typed_contents(triton, client, random):
    stub = triton._client_stub
    for model, dtype, field in [
        ("matmul_fp32", "f4", "fp32_contents"),
        ("matmul_fp64", "f8", "fp64_contents"),
        ("matmul_int8", "i1", "int_contents"),
    ]:
        a, b = (random.integers(-9, 9, (3, 3)).astype(dtype) for _ in range(2))
        request = grpcclient.service_pb2.ModelInferRequest(model_name=model, id="typed")
        for name, array in [("A", a), ("B", b)]:
            one = request.inputs.add(name=name, datatype=model.split("_")[1].upper(), shape=array.shape)
            getattr(one.contents, field).extend(array.flatten().tolist())
        answer = stub.ModelInfer(request)
        assert answer.id == "typed"
        d = grpcclient.InferResult(answer).as_numpy("D")
        assert same_bits(d, np.asarray(client.matmul(a, b)))


def test_an_inner_dimension_of_0(infer, client, random):
    c = numbers(random, (3, 4), "f4")
    a, b = np.zeros((3, 0), "f4"), np.zeros((0, 4), "f4")
    assert same_bits(infer("matmul_fp32", A=a, B=b, C=c).as_numpy("D"), c)


def test_the_receipt_comes_where_it_is_asked_for(triton, random):
    a, b = numbers(random, (64, 64), "f4"), numbers(random, (64, 64), "f4")
    inputs = [infer_input("A", a), infer_input("B", b)]
    plain = triton.infer("matmul_fp32", inputs, request_id="seven").get_response()
    assert plain.id == "seven"
    assert not plain.parameters
    asked = triton.infer("matmul_fp32", inputs, parameters={"receipt": True, "verify": 3}).get_response().parameters
    times = {name: each.double_param for name, each in asked.items() if name.endswith("_us")}
    total = times.pop("receipt_total_us")
    assert total > 0
    assert sum(times.values()) == pytest.approx(total)
    assert asked["receipt_kernel"].string_param.startswith("cpu/")
    assert asked["receipt_request_id"].uint64_param > 0
    assert 0 <= asked["receipt_verification_residual"].double_param <= 1


def test_async_and_many_at_once(triton, client, random):
    import queue

    done = queue.Queue()
    pairs = [(numbers(random, (i + 1, 40), "f4"), numbers(random, (40, 30), "f4")) for i in range(16)]
    for i, (a, b) in enumerate(pairs):
        triton.async_infer(
            "matmul_fp32",
            [infer_input("A", a), infer_input("B", b)],
            lambda result, error: done.put((result, error)),
            request_id=str(i),
            priority=i % 4,
            timeout=60_000_000,
        )
    for _ in pairs:
        result, error = done.get(timeout=60)
        assert error is None
        a, b = pairs[int(result.get_response().id)]
        assert same_bits(result.as_numpy("D"), np.asarray(client.matmul(a, b)))


def test_aio(server, client, random):
    a, b = numbers(random, (8, 8), "f4"), numbers(random, (8, 8), "f4")

    async def ask():
        async with aio.InferenceServerClient(server.address) as one:
            assert await one.is_server_ready()
            inputs = [infer_input("A", a), infer_input("B", b)]
            results = await asyncio.gather(*(one.infer("matmul_fp32", inputs) for _ in range(8)))
            return [each.as_numpy("D") for each in results]

    expected = np.asarray(client.matmul(a, b))
    assert all(same_bits(each, expected) for each in asyncio.run(ask()))
