#!/usr/bin/env python3
"""Compares gemm's reading of ONNX files with onnx and the quantizers of onnxruntime, to the bit.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/against_onnx.py

Installs pinned packages in a temporary folder, so CI does not run it. Models of products are quantized by
onnxruntime's own tools. It decodes them by a session whose other operand is a unit matrix, in f32; gemm's values come
from a server, by a unit matrix too. Both are exact: one product of each sum is not 0. The sign of a zero is not
compared.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import against_tools

PACKAGES = ["onnx==1.23.2", "onnxruntime==1.32.0", "onnx_ir==1.1.0", "ml_dtypes==0.6.0", "numpy==2.4.6"]


def compare_all(server, folder):
    import ml_dtypes
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    folder = pathlib.Path(folder)
    random = numpy.random.default_rng(3)
    compared, forms, refused = {}, {}, 0

    def matrices(k, n):
        """Real ones: plain, with outliers, zeros, tiny elements, of one sign."""
        normal = random.standard_normal((k, n)).astype(numpy.float32)
        outlier, zeros = normal.copy(), normal.copy()
        outlier[5] *= 1000
        zeros[:32] = 0
        return {"normal": normal, "outlier": outlier, "zeros": zeros, "tiny": normal * 1e-6, "positive": abs(normal),
                "negative": -abs(normal)}

    def model_of(weight, node="MatMul", **attributes):
        """y = x @ w, saved as exporters do."""
        k, n = weight.shape if not attributes.get("transB") else weight.shape[::-1]
        graph = helper.make_graph(
            [helper.make_node(node, ["x", "w"], ["y"], name="product", **attributes)], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", n])], [numpy_helper.from_array(weight, "w")])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def listed(path):
        code, output, error = server.gemm("weights", path, "--json", "--check")
        assert code == 0, error
        return {each["name"]: each for each in json.loads(output)["tensors"]}

    def values_here(path, name, k, rows_are_n=True):
        unit, out = folder / "unit.npy", folder / "d.npy"
        numpy.save(unit, numpy.eye(k, dtype=numpy.float32))
        turn = ["--transpose-b"] if rows_are_n else []
        code, _, error = server.gemm("matmul", unit, f"{path}:{name}", *turn, "--output-type", "f32", "-o", out)
        assert code == 0, f"{path} {name}: {error}"
        return numpy.load(out)

    def values_there(path, k):
        """Without rewriting, which would decode once more, or round activations."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": numpy.eye(k, dtype=numpy.float32)})[0]

    def count(kind, form):
        compared[kind] = compared.get(kind, 0) + 1
        forms.setdefault(kind, set()).add(form)

    def compare(kind, path, k, expected=None):
        """The only matrix of a model."""
        tensors = {name: each for name, each in listed(path).items() if len(each["shape"]) == 2}
        assert len(tensors) == 1, tensors
        (name, tensor), = tensors.items()
        assert "refused" not in tensor, tensor
        expected = values_there(path, k) if expected is None else expected
        here = values_here(path, name, k)
        differ = numpy.argwhere(here != expected)
        assert len(differ) == 0, (f"{path} {name}: {len(differ)} of {here.size} differ, first at {differ[0]}: "
                                  f"{here[tuple(differ[0])]} for {expected[tuple(differ[0])]}")
        count(kind, tensor["form"])

    # MatMulNBits and DequantizeLinear in blocks, by onnxruntime's quantizer; one in three with its data in a file.
    path = folder / "model.onnx"
    for bits in (2, 4, 8):
        for block in (16, 32, 64, 128, 256):
            for symmetric in (True, False):
                for i, (name, weight) in enumerate(matrices(*((256, 24) if bits != 4 else (272, 22))).items()):
                    for quant_format in (QuantFormat.QOperator, QuantFormat.QDQ):
                        if quant_format == QuantFormat.QDQ and bits != 4:
                            continue
                        config = DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=symmetric, bits=bits,
                                                              quant_format=quant_format)
                        quantizer = MatMulNBitsQuantizer(model_of(weight), bits=bits, algo_config=config)
                        quantizer.process()
                        for old in folder.glob("model.onnx*"):
                            old.unlink()
                        quantizer.model.save_model_to_file(str(path), use_external_data_format=i % 3 == 0)
                        if i % 3 == 0:
                            assert (folder / "model.onnx.data").exists(), list(folder.iterdir())
                        compare(f"{'MatMulNBits' if quant_format == QuantFormat.QOperator else 'DequantizeLinear'} "
                                f"of {bits} bits", path, weight.shape[0])

    # MatMulNBits with scales of f16 and bf16 and a padded last block, packed here as its specification says.
    def nbits_model(bits, block, n, k, scale_type, has_zeros):
        blocks = -(-k // block)
        codes = random.integers(0, 256, (n, blocks, block * bits // 8), numpy.uint8)
        scales = random.standard_normal((n, blocks)).astype(scale_type)
        initializers = [numpy_helper.from_array(codes, "b"), numpy_helper.from_array(scales, "s")]
        zeros = random.integers(0, 256, (n, -(-blocks * bits // 8)), numpy.uint8)
        if has_zeros:
            initializers.append(numpy_helper.from_array(zeros, "z"))
        node = helper.make_node("MatMulNBits", ["x", "b", "s"] + ["z"] * has_zeros, ["y"], domain="com.microsoft", K=k,
                                N=n, bits=bits, block_size=block)
        kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(scale_type))
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, ["m", k])],
                                  [helper.make_tensor_value_info("y", kind, ["m", n])], initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21),
                                                          helper.make_opsetid("com.microsoft", 1)], ir_version=10), path)

        def unpack(packed, columns):
            each = packed.reshape(n, -1)[:, :, None] >> numpy.arange(0, 8, bits) & (1 << bits) - 1
            return each.reshape(n, -1)[:, :columns].astype(numpy.float64)

        zero = unpack(zeros, blocks) if has_zeros else numpy.full((n, blocks), 2**(bits - 1))
        scale = scales.astype(numpy.float64)
        real = (unpack(codes, blocks * block) - zero.repeat(block, 1)) * scale.repeat(block, 1)
        return real[:, :k].T.astype(numpy.float32)

    for bits in (2, 4, 8):
        for block, k in ((16, 100), (32, 97), (64, 200), (128, 384), (256, 700), (512, 512)):
            for has_zeros in (False, True):
                for scale_type in (numpy.float32, numpy.float16, ml_dtypes.bfloat16):
                    expected = nbits_model(bits, block, 10, k, scale_type, has_zeros)
                    if scale_type == numpy.float32 and block <= 256:  # it runs no larger ones of 2 bits
                        there = values_there(path, k)
                        assert (there == expected).all(), (bits, block, k, has_zeros)
                    compare(f"MatMulNBits of {bits} bits, by its specification", path, k, expected)

    # quantize_dynamic and quantize_static, whole tensors and columns.
    class Reader:
        def __init__(self, k):
            self.left = [random.standard_normal((4, k)).astype(numpy.float32) for _ in range(3)]

        def get_next(self):
            return {"x": self.left.pop()} if self.left else None

    def decoded(path, transposed):
        """W_quantized by onnx's own rule, in f32."""
        tensors = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
        code = tensors["w_quantized"]
        real = (code.astype(numpy.float32) - tensors["w_zero_point"].astype(numpy.float32)) * tensors["w_scale"]
        return real.T if transposed else real

    def compare_named(kind, transposed=False):
        tensor = listed(path)["w_quantized"]
        expected = decoded(path, transposed)
        here = values_here(path, "w_quantized", expected.shape[0])
        assert (here == expected).all(), kind
        count(kind, tensor["form"])

    for name, weight in matrices(96, 40).items():
        onnx.save(model_of(weight), folder / "float.onnx")
        for per_channel in (False, True):
            for weight_type in (QuantType.QInt8, QuantType.QUInt8):
                quantize_dynamic(folder / "float.onnx", path, per_channel=per_channel, weight_type=weight_type)
                compare_named("quantize_dynamic")
                for quant_format in (QuantFormat.QDQ, QuantFormat.QOperator):
                    quantize_static(folder / "float.onnx", path, Reader(96), quant_format, per_channel=per_channel,
                                    activation_type=weight_type, weight_type=weight_type)
                    compare_named(f"quantize_static {quant_format.name}")

    # DequantizeLinear of each type, by onnxruntime's own kernel where it has one, else by onnx's numpy types.
    small = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2,
             "INT8": numpy.int8, "UINT8": numpy.uint8, "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
             "FLOAT8E5M2": ml_dtypes.float8_e5m2}
    for type_name, dtype in small.items():
        number = getattr(TensorProto, type_name)
        is_float = type_name.startswith("FLOAT")
        for k, n in ((64, 5), (96, 8), (50, 7), (260, 3)):
            for axis in (0, 1):
                for block in (0, 16, 32, 128):
                    for has_zeros in (False, True):
                        if is_float and (has_zeros or block not in (0, 128)):
                            continue
                        shape = [k, n] if axis == 0 else [n, k]
                        if is_float:
                            codes = random.standard_normal(shape).astype(dtype)
                        else:
                            low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
                            codes = random.integers(low, high + 1, shape).astype(dtype)
                        of_scales = list(shape)
                        of_scales[axis] = -(-k // block) if block else 1
                        scales = random.standard_normal(of_scales).astype(numpy.float32)
                        zeros = None
                        if has_zeros:
                            zeros = random.integers(low, high + 1, of_scales).astype(dtype)
                        whole = (lambda each: each.repeat(block, axis)[tuple(map(slice, shape))]) if block else (
                            lambda each: each)
                        real = codes.astype(numpy.float32)
                        if has_zeros:
                            real = real - whole(zeros).astype(numpy.float32)
                        real = real * whole(scales)
                        if not block:  # a scale for each line: a list
                            scales = scales.reshape(-1)
                            zeros = zeros.reshape(-1) if has_zeros else None
                        tensors = [("w", codes), ("w_s", scales)] + ([("w_z", zeros)] if has_zeros else [])
                        initializers = [numpy_helper.from_array(each, name) for name, each in tensors]
                        attributes = {"axis": axis, "block_size": block} if block else {"axis": 1 - axis}
                        nodes = [helper.make_node("DequantizeLinear", [name for name, _ in tensors], ["real"], **attributes),
                                 helper.make_node("Gemm", ["x", "real"], ["y"], transB=axis)]
                        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])],
                                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", n])],
                                                  initializers)
                        opset = 25 if "INT2" in type_name else 21
                        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                                    ir_version=13 if opset == 25 else 10), path)
                        compare(f"DequantizeLinear of {type_name}", path, k, real if axis == 0 else real.T)
                        assert number == onnx.load(path).graph.initializer[0].data_type

    # Plain initializers, as they lie: raw, typed, in one file beside the model, in many.
    plain = {"F64": numpy.float64, "F32": numpy.float32, "F16": numpy.float16, "BF16": ml_dtypes.bfloat16,
             "I8": numpy.int8, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
    for how in ("raw", "typed", "one file", "many files"):
        tensors, graph_tensors = {}, []
        for kind, dtype in plain.items():
            for i, real in enumerate(matrices(48, 12).values()):
                with numpy.errstate(all="ignore"):
                    array = numpy.clip(real, -100, 100).astype(dtype)
                name = f"onnx::{kind}/{i}"
                tensors[name] = array
                if how == "typed":
                    number = helper.np_dtype_to_tensor_dtype(array.dtype)
                    graph_tensors.append(helper.make_tensor(name, number, array.shape, array.flatten()))
                else:
                    graph_tensors.append(numpy_helper.from_array(array, name))
        model = helper.make_model(helper.make_graph([], "g", [], [], graph_tensors), ir_version=10)
        path = folder / f"plain_{how.replace(' ', '_')}.onnx"
        if how.endswith("file") or how.endswith("files"):
            onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=how == "one file",
                      location="weights.bin" if how == "one file" else None, size_threshold=0)
        else:
            onnx.save(model, path)
        here = listed(path)
        assert set(here) == set(tensors)
        for name, array in tensors.items():
            kind = name.split("::")[1].split("/")[0]
            assert here[name]["type"] == kind and here[name]["shape"] == list(array.shape), here[name]
            code, output, error = server.gemm("--json", "put", f"{path}:{name}")
            assert code == 0, f"{name}: {error}"
            handle = json.loads(output)["residents"][0]["handle"]
            code, _, error = server.gemm("get", handle, "-o", folder / "back.npy")
            assert code == 0, error
            back = numpy.load(folder / "back.npy")
            assert back.shape == array.shape and back.tobytes() == array.tobytes(), name
            server.gemm("rm", handle)
            count(f"plain, {how}", kind)

    # By name: types without a form.
    others = [helper.make_tensor("fnuz", TensorProto.FLOAT8E4M3FNUZ, [2, 2], bytes(4), raw=True),
              helper.make_tensor("text", TensorProto.STRING, [1, 1], [b"a"]),
              helper.make_tensor("u4", TensorProto.UINT4, [3, 3], bytes(5), raw=True),
              numpy_helper.from_array(numpy.zeros((2, 2), numpy.int64), "i64"),
              numpy_helper.from_array(numpy.zeros(7, numpy.float32), "vector")]
    path = folder / "others.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], others), ir_version=10), path)
    for name, tensor in listed(path).items():
        print(f"{name}: {tensor['refused']}")
        refused += 1
    for kind, number in compared.items():
        print(f"{kind}: {number}, {' '.join(sorted(forms[kind]))}")
    print(f"{sum(compared.values())} matrices have the values that the tools read; {refused} are refused by name")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        against_tools.serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(subprocess.run([against_tools.install(temporary, PACKAGES), __file__, temporary]).returncode)
