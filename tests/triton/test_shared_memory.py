"""System shared memory, by names that clients choose."""

import contextlib

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.utils.shared_memory as shm
from triton import DATATYPES, same_bits
from tritonclient.utils import InferenceServerException


@contextlib.contextmanager
def region(triton, key, name, bytes_):
    handle = shm.create_shared_memory_region(name, key, bytes_)
    try:
        triton.register_system_shared_memory(name, key, bytes_)
        yield handle
    finally:
        triton.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


def shared_input(name, array, region_name, offset):
    one = grpcclient.InferInput(name, array.shape, DATATYPES[array.dtype])
    one.set_shared_memory(region_name, array.nbytes, offset)
    return one


def test_nothing_travels(triton, client, random, shared_key):
    a, b = random.standard_normal((30, 40), dtype="f4"), random.standard_normal((40, 50), dtype="f4")
    with region(triton, shared_key(), "all of it", 1 << 16) as memory:
        shm.set_shared_memory_region(memory, [a, b], 64)
        inputs = [shared_input("A", a, "all of it", 64), shared_input("B", b, "all of it", 64 + a.nbytes)]
        at = 64 + a.nbytes + b.nbytes
        d = grpcclient.InferRequestedOutput("D")
        d.set_shared_memory("all of it", 30 * 50 * 4, at)
        answer = triton.infer("matmul_fp32", inputs, outputs=[d], parameters={"receipt": True}).get_response()
        assert [bytes(each) for each in answer.raw_output_contents] == [b""]
        place = answer.outputs[0].parameters
        assert place["shared_memory_region"].string_param == "all of it"
        assert place["shared_memory_byte_size"].uint64_param == 30 * 50 * 4
        result = shm.get_contents_as_numpy(memory, np.float32, (30, 50), at)
        assert same_bits(np.array(result), np.asarray(client.matmul(a, b)))
        status = triton.get_system_shared_memory_status().regions
        assert status["all of it"].byte_size == 1 << 16
    assert "all of it" not in triton.get_system_shared_memory_status().regions


def test_scales_lie_behind_their_matrix(triton, client, random, shared_key):
    a, b = (random.integers(-9, 9, (4, 4), dtype="i1") for _ in range(2))
    scales = random.uniform(1, 2, 4).astype("f4")
    with region(triton, shared_key(), "scaled", 4096) as memory:
        shm.set_shared_memory_region(memory, [a, scales, b])
        inputs = [
            shared_input("A", a, "scaled", 0),
            shared_input("A_SCALE", scales, "scaled", 16),
            shared_input("B", b, "scaled", 32),
        ]
        d = triton.infer("matmul_int8", inputs).as_numpy("D")
        np.testing.assert_allclose(d, (a.astype("f4") @ b) * scales[:, None], rtol=1e-6)
        inputs[1] = shared_input("A_SCALE", scales, "scaled", 20)
        with pytest.raises(InferenceServerException, match="'A_SCALE' must come as input 'A' does"):
            triton.infer("matmul_int8", inputs)


def test_names_are_their_tenant_s(triton, shared_key):
    key = shared_key()
    with region(triton, key, "mine", 4096):
        with pytest.raises(InferenceServerException, match='"mine" is registered already') as refused:
            triton.register_system_shared_memory("mine", key, 4096)
        assert refused.value.status() == "StatusCode.ALREADY_EXISTS"
        headers = {"gemmd-tenant": "others"}
        assert not triton.get_system_shared_memory_status(headers=headers).regions
        with pytest.raises(InferenceServerException, match="NOT_FOUND"):
            triton.get_system_shared_memory_status("mine", headers=headers)
        triton.unregister_system_shared_memory(headers=headers)
        assert "mine" in triton.get_system_shared_memory_status("mine").regions
        triton.register_system_shared_memory("mine", key, 4096, headers=headers)
        triton.unregister_system_shared_memory(headers=headers)
        a = np.ones((2, 2), "f4")
        inputs = [shared_input("A", a, "mine", 0), shared_input("B", a, "mine", 0)]
        with pytest.raises(InferenceServerException, match="input 'A': unable to find shared memory region"):
            triton.infer("matmul_fp32", inputs, headers=headers)


def test_wrong_regions(triton, shared_key):
    key = shared_key()
    with region(triton, key, "small", 64):
        for name, offset, bytes_, message in [
            ("", 0, 64, "name has 0 bytes"),
            ("x" * 300, 0, 64, "name has 300 bytes; it must have 1 to 255"),
            ("empty", 0, 0, "must be at least 1"),
            ("beyond", 32, 64, "96|64"),
        ]:
            with pytest.raises(InferenceServerException, match=message):
                triton.register_system_shared_memory(name, key, bytes_, offset)
        with pytest.raises(InferenceServerException, match="cannot be opened") as refused:
            triton.register_system_shared_memory("gone", key + "-gone", 64)
        assert refused.value.status() == "StatusCode.NOT_FOUND"
        with pytest.raises(InferenceServerException, match="names that begin with") as refused:
            triton.register_system_shared_memory("foreign", "/somebody-elses", 64)
        assert refused.value.status() == "StatusCode.PERMISSION_DENIED"
        a = np.ones((8, 8), "f4")
        inputs = [shared_input("A", a, "small", 0), shared_input("B", a, "small", 0)]
        with pytest.raises(InferenceServerException, match=r"INVALID_ARGUMENT.*a\.shared|region"):
            triton.infer("matmul_fp32", inputs)
        wrong = grpcclient.InferInput("A", (8, 8), "FP32")
        wrong.set_shared_memory("small", 64)
        with pytest.raises(InferenceServerException, match=r"byte size 64 of input 'A'.*takes 256"):
            triton.infer("matmul_fp32", [wrong, inputs[1]])


def test_memory_of_a_gpu_is_refused_where_it_is_not_taken(triton):
    assert not triton.get_cuda_shared_memory_status().regions
    triton.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException, match="cuda_ipc") as refused:
        triton.register_cuda_shared_memory("gpu", b"A" * 88, 0, 64)
    assert refused.value.status() == "StatusCode.PERMISSION_DENIED"
