#!/bin/bash
# onnxruntime rounds the f32 operand of a product to int8 where the other one is a DequantizeLinear of int4, although
# both nodes are of f32 and no quantizer has touched that operand. Without optimization, and at the level "basic", it
# does not.
#
# The rewriting makes MatMulNBits of the two nodes, whose accuracy_level is 4, int8, unless the session has
# session.qdq_matmulnbits_accuracy_level. So a comparison with onnxruntime says that other programs' products of the
# same weights are off by half a percent.
#
# Seen with onnxruntime 1.32.0 and onnx 1.23.2 on the CPU, 2026-11-29:
#   by default 0.0054 of the product's norm, with accuracy level 1 3e-07, without optimization 3e-07
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

random = numpy.random.default_rng(1)
k, n = 256, 64
codes = helper.make_tensor("w", TensorProto.INT4, [k, n], random.integers(0, 256, k * n // 2, numpy.uint8).tobytes(), raw=True)
scales = numpy_helper.from_array(numpy.full((k // 32, n), 2.0**-7, numpy.float32), "s")
graph = helper.make_graph(
    [helper.make_node("DequantizeLinear", ["w", "s"], ["real"], axis=0, block_size=32),
     helper.make_node("MatMul", ["x", "real"], ["y"])], "product",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", n])], [codes, scales])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
onnx.checker.check_model(model)
x = random.standard_normal((4, k)).astype(numpy.float32)
expected = x.astype(numpy.float64) @ (numpy_helper.to_array(codes).astype(numpy.float64) * 2.0**-7)


def error(level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, accuracy=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    if accuracy:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", accuracy)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    y = session.run(None, {"x": x})[0]
    return numpy.linalg.norm(y - expected) / numpy.linalg.norm(expected)


default, of_f32, plain = error(), error(accuracy="1"), error(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
print(f"by default {default:.2g} of the product's norm, with accuracy level 1 {of_f32:.2g}, without optimization {plain:.2g}")
assert default > 1e-3 and max(of_f32, plain) < 1e-6
PYTHON
