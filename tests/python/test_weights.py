"""gemmd.weights: files of other programs through libgemmd.so.0, against what `gemm` makes of them."""

import ctypes.util
import json
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from testing.processes import gemm
from weight_files import act_order, gguf

import gemmd
import gemmd.weights
from gemmd import _safetensors

LIBRARY = os.environ["GEMMD_LIBRARY"]
Q8_0, F32, F16, BF16, Q4_1, IQ1_S = 8, 0, 1, 30, 3, 19
ROWS, K = 6, 96


@pytest.fixture
def model(random, tmp_path):
    """A GGUF file, and the float64 values of what can be read of it, by name."""
    blocks = ROWS * K // 32
    scales = random.standard_normal((blocks, 1)).astype(np.float16)
    codes = random.integers(-128, 128, (blocks, 32)).astype(np.int8)
    q8 = np.concatenate([scales.view(np.uint8), codes.view(np.uint8)], axis=1)
    f32 = random.standard_normal((ROWS, 5)).astype(np.float32)
    bf16 = random.standard_normal((ROWS, 5)).astype(np.float32).view(np.uint32) >> 16
    halves = random.standard_normal((blocks, 2)).astype(np.float16)
    nibbles = random.integers(0, 256, (blocks, 16), np.uint8)
    q4 = np.concatenate([halves.view(np.uint8), nibbles], axis=1)
    path = tmp_path / "model.gguf"
    path.write_bytes(
        gguf(
            {
                "q8": (Q8_0, ROWS, K, q8.tobytes()),
                "f32": (F32, ROWS, 5, f32.tobytes()),
                "bf16": (BF16, ROWS, 5, bf16.astype("<u2").tobytes()),
                "q4": (Q4_1, ROWS, K, q4.tobytes()),
                "iq1": (IQ1_S, 1, 256, bytes(50)),
            }
        )
    )
    both = np.concatenate([nibbles & 15, nibbles >> 4], axis=1)
    values = {
        "q8": (scales.astype(np.float64) * codes).reshape(ROWS, K),
        "f32": f32.astype(np.float64),
        "bf16": (bf16 << 16).astype(np.uint32).view(np.float32).astype(np.float64),
        "q4": (halves[:, :1].astype(np.float64) * both + halves[:, 1:]).reshape(ROWS, K),
    }
    return path, values


def real(x):
    return x.dequantize() if isinstance(x, gemmd.Quantized) else np.asarray(x, np.float64)


def test_a_file_is_a_mapping_of_its_matrices(model):
    path, values = model
    with gemmd.weights.open(path) as weights:
        assert (weights.kind, len(weights), list(weights)) == ("GGUF", 4, ["q8", "f32", "bf16", "q4"])
        assert repr(weights) == f"Weights({str(path)!r}, GGUF, 4 matrices, 1 tensors without a form)"
        for name, matrix in weights.items():
            assert np.array_equal(real(matrix), values[name]), name
        assert weights["q8"].type == "int8-g32"
        assert weights["q4"].type == "int4-g32-f16-offset"
        assert weights["f32"].dtype == np.float32
        assert weights["bf16"].dtype.name == "bfloat16"
        about = weights.about["q8"]
        assert about == ("q8", "Q8_0", (ROWS, K), "int8-g32", None, 0, ROWS * (K + 4 * K // 32))
        assert weights.about["iq1"].form is None
        assert weights.about["iq1"].refusal.startswith("IQ1_S has no form here")
        assert "q8" in weights
        assert "iq1" not in weights
        assert weights.get("q9") is None


def test_what_is_put_has_the_digest_of_gemm_put(client, server, model):
    path, values = model
    x = np.ones((2, K), np.float32)
    with gemmd.weights.open(path) as weights:
        for name in weights:
            put = json.loads(gemm("--json", "--server", server.address, "put", f"{path}:{name}").stdout)
            with client.put(weights[name]) as there:
                assert there.digest.hex() == put["residents"][0]["digest"]
        for name in ("q8", "q4"):
            wanted = x @ values[name].T
            np.testing.assert_allclose(client.matmul(x, weights[name].T), wanted, rtol=1e-4, atol=1e-4)


def test_act_order_and_stacks(client, server, random, tmp_path):
    tensor, values, order = act_order(random, tmp_path)
    with gemmd.weights.open(tmp_path / "model.safetensors") as weights:
        (name,) = weights
        assert weights.about[name].type == "GPTQ"
        w = weights[name]
    assert np.array_equal(w.k_order, order)
    assert np.array_equal(w.dequantize(), values)
    put = json.loads(gemm("--json", "--server", server.address, "put", tensor).stdout)
    with client.put(w) as there:
        assert there.digest.hex() == put["residents"][0]["digest"]
    stack = random.standard_normal((3, 2, 4)).astype(np.float32)
    path = tmp_path / "experts.safetensors"
    header = _safetensors.Header({}, {"experts": _safetensors.Tensor("F32", stack.shape, 0, stack.nbytes)})
    path.write_bytes(_safetensors.text_of(header) + stack.tobytes())
    with gemmd.weights.open(str(path)) as weights:
        assert list(weights) == ["experts[0]", "experts[1]", "experts[2]"]
        assert weights.about["experts"].matrices == 3
        assert np.array_equal(weights["experts[2]"], stack[2])
        with pytest.raises(ValueError, match="it is a stack of 3 matrices, which go one by one"):
            weights["experts"]
        with pytest.raises(KeyError, match="there is no matrix 3"):
            weights["experts[3]"]


def test_every_format_comes_as_gemm_quantize_writes_it(model, tmp_path):
    path, _ = model
    with gemmd.weights.open(path) as weights:
        for name in ("q8", "q4"):
            weights[name].save(tmp_path / "python.gq")
            assert gemm("quantize", f"{path}:{name}", "-o", tmp_path / "gemm.gq").returncode == 0
            assert (tmp_path / "python.gq").read_bytes() == (tmp_path / "gemm.gq").read_bytes()


def test_arrays_live_on_without_the_file_and_cannot_be_written(model):
    path, values = model
    weights = gemmd.weights.open(path)
    matrix, q = weights["f32"], weights["q8"]
    weights.close()
    weights.close()
    del weights
    path.unlink()
    assert np.array_equal(matrix, values["f32"])
    assert np.array_equal(q.dequantize(), values["q8"])
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
        matrix.flags.writeable = True
    assert np.array_equal(pickle.loads(pickle.dumps(q)).dequantize(), values["q8"])


def test_what_cannot_be_read_is_refused_by_name(model, tmp_path):
    path, _ = model
    weights = gemmd.weights.open(path)
    with pytest.raises(KeyError, match=r"has no tensor .*f16.* among 5; like it are .*bf16"):
        weights["f16"]
    with pytest.raises(ValueError, match=f'^{re.escape(str(path))}: tensor "iq1": IQ1_S has no form here'):
        weights["iq1"]
    weights.close()
    with pytest.raises(ValueError, match=r"model\.gguf was closed"):
        weights["q8"]
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(str(tmp_path / 'missing'))}: open"):
        gemmd.weights.open(tmp_path / "missing")
    (tmp_path / "text").write_text("hello, world")
    with pytest.raises(ValueError, match="text: begins with"):
        gemmd.weights.open(tmp_path / "text")
    gemmd.Quantized.of(np.ones((2, 2)), "int8-row", 0).save(tmp_path / "w.gq")
    with pytest.raises(ValueError, match=r"w.gq: gemm quantize wrote it: it is one matrix"):
        gemmd.weights.open(tmp_path / "w.gq")


def test_without_the_library_it_is_said_where_it_is_looked_for(model, tmp_path):
    with pytest.raises(
        ImportError, match=r"libgemmd\.so\.0, gemmd's C library, which was not found: .*nowhere\.so"
    ):
        gemmd.weights.open(model[0], library=str(tmp_path / "nowhere.so"))
    other = ctypes.util.find_library("c")
    with pytest.raises(ImportError, match=f"{re.escape(other)} has no gemmd_version: it is no libgemmd.so.0"):
        gemmd.weights.open(model[0], library=other)
    assert len(gemmd.weights.open(model[0], library=LIBRARY)) == 4


def test_without_ml_dtypes_bf16_comes_as_its_codes(model):
    path, _ = model
    program = f"""
import sys; sys.modules["ml_dtypes"] = None
import gemmd.weights
w = gemmd.weights.open({str(path)!r})["bf16"]
print(w.type, w.shape, w.data.dtype)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == f"bf16 ({ROWS}, 5) uint16\n"
