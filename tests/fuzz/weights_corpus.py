#!/usr/bin/env python3
"""Writes the corpus of weights_fuzz into a folder: a file of weights of each kind and type.

weights_corpus.py FOLDER
"""
import io
import json
import pathlib
import struct
import sys
import zipfile

# (number, elements of a block, its bytes), as gguf_types.h has them.
GGUF_TYPES = [(0, 1, 4), (1, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (8, 32, 34), (9, 32, 36), (12, 256, 144),
              (14, 256, 210), (20, 32, 18), (23, 256, 136), (24, 1, 1), (28, 1, 8), (30, 1, 2), (39, 32, 17),
              (40, 64, 36), (41, 128, 18)]
DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
          "F8_E4M3FNUZ": 8, "I16": 16, "F16": 16, "BF16": 16, "I32": 32, "F32": 32, "C64": 64, "F64": 64}
# The tables of bitsandbytes, which its readers compare.
BITSANDBYTES = {
    "nf4": [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0],
    "fp4": [0.0, 0.0052083334885537624, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5, 0.1666666716337204, 0.25,
            0.0, -0.0052083334885537624, -0.6666666865348816, -1.0, -0.3333333432674408, -0.5, -0.1666666716337204,
            -0.25]}


def text(value):
    return struct.pack("<Q", len(value)) + value


def pad(file, alignment):
    return file + bytes(-len(file) % alignment)


def gguf(version, tensors, alignment=32):
    entries = [text(b"general.alignment") + struct.pack("<II", 4, alignment),
               text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
               text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc"),
               text(b"deep") + struct.pack("<IIQIQ", 9, 9, 1, 5, 1) + bytes(4)]
    file = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, sizes, kind, values in tensors:
        data = pad(data, alignment)
        file += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += values
    return pad(file, alignment) + data


def safetensors(tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, shape, values in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    return text(json.dumps(header).encode()) + data


def npy(descr, fortran_order, shape, values):
    header = repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


def npz(arrays):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=name == "b") as member:
                member.write(values)
    return file.getvalue()


def varint(value):
    value %= 1 << 64
    head = b""
    while value >= 0x80:
        head += bytes([value & 0x7f | 0x80])
        value >>= 7
    return head + bytes([value])


def field(number, value):
    """A field in protobuf's wire format: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_tensor(name, kind, dims, values=None, more=b""):
    head = b"".join(field(1, each) for each in dims) + field(2, kind) + field(8, name)
    return field(5, head + (b"" if values is None else field(9, values)) + more)


def onnx_node(kind, inputs, output, **attributes):
    node = b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, kind)
    for name, value in attributes.items():
        node += field(5, field(1, name.encode()) + (value if isinstance(value, bytes) else field(3, value)))
    return field(1, node)


def onnx(*graph):
    return field(1, 10) + field(2, b"fuzz") + field(7, b"".join(graph)) + field(8, field(2, 21))


def onnx_files():
    ones = struct.pack("<8f", *[(-1.0) ** i for i in range(8)])
    codes = bytes(range(64))
    files = {}
    for bits in (2, 4, 8):
        scales = onnx_tensor(b"s", 1, [2, 2], ones[:16])
        b = onnx_tensor(b"b", 2, [2, 2, 2 * bits], codes[:8 * bits])
        zeros = onnx_tensor(b"z", 2, [2, -(-2 * bits // 8)], codes[3:3 + 2 * -(-2 * bits // 8)])
        groups = onnx_tensor(b"g", 6, [20], None, field(5, bytes([0] * 16 + [1] * 4)))
        how = {"K": 20, "N": 2, "bits": bits, "block_size": 16}
        files[f"onnx_nbits_{bits}"] = onnx(b, scales, onnx_node(b"MatMulNBits", [b"x", b"b", b"s"], b"y", **how))
        files[f"onnx_nbits_{bits}_zeros"] = onnx(b, scales, zeros, groups, onnx_node(
            b"MatMulNBits", [b"x", b"b", b"s", b"z", b"g"], b"y", **how))
    for kind, size in ((2, 32), (3, 32), (17, 32), (19, 32), (21, 16), (22, 16), (23, 16), (25, 8), (26, 8)):
        for axis in (0, 1):
            shape = [16, 2] if axis == 0 else [2, 16]
            of_scales = [1, 2] if axis == 0 else [2, 1]
            inputs = [b"b", b"s"] + [b"z"] * (kind not in (17, 19, 23))
            files[f"onnx_linear_{kind}_{axis}"] = onnx(
                onnx_tensor(b"b", kind, shape, codes[:size]), onnx_tensor(b"s", 1, of_scales, ones[:8]),
                onnx_tensor(b"z", kind, of_scales, b"ab"[:2 if kind < 20 else 1]),
                onnx_node(b"DequantizeLinear", inputs, b"r", axis=axis, block_size=16),
                onnx_node(b"Gemm", [b"x", b"r"], b"y", transB=axis))
    files["onnx_rows"] = onnx(onnx_tensor(b"b", 3, [8, 4], codes[:32]), onnx_tensor(b"s", 1, [4], ones[:16]),
                              onnx_node(b"QLinearMatMul", [b"x", b"1", b"2", b"b", b"s"], b"y"))
    files["onnx_names"] = onnx(onnx_tensor(b"w_quantized", 2, [8, 4], codes[:32]),
                               onnx_tensor(b"w_scale", 1, [], None, field(4, ones[:4])),
                               onnx_tensor(b"w_zero_point", 2, [], None, field(5, b"a")),
                               onnx_node(b"MatMulInteger", [b"x", b"w_quantized"], b"y"))
    files["onnx_plain"] = onnx(*[onnx_tensor(b"w%d" % kind, kind, [2, 2], codes[:size]) for kind, size in (
        (1, 16), (2, 4), (9, 4), (10, 8), (11, 32), (16, 8), (18, 4), (99, 5))])
    where = [field(13, field(1, key) + field(2, value)) for key, value in (
        (b"location", b"w.bin"), (b"offset", b"8"), (b"length", b"16"))]
    files["onnx_external"] = onnx(onnx_tensor(b"w", 1, [2, 2], None, b"".join(where) + field(14, 1)))
    branch = field(6, onnx_node(b"MatMulNBits", [b"x", b"b", b"s"], b"y", K=16, N=1, bits=4, block_size=16))
    files["onnx_deep"] = onnx(onnx_tensor(b"b", 2, [1, 1, 8], codes[:8]), onnx_tensor(b"s", 10, [1], b"\0\x3c"),
                              onnx_node(b"If", [b"c"], b"y", then_branch=branch),
                              onnx_node(b"Constant", [], b"c", value=field(5, field(2, 9) + field(9, b"\1"))),
                              field(15, field(1, onnx_tensor(b"p", 1, [1], ones[:4])[2:])))
    return files


def main(folder):
    files = {}
    for kind, elements, size in GGUF_TYPES:
        blocks = bytes((7 * i + kind) % 256 & ~0x40 for i in range(4 * size))
        files[f"gguf_{kind}"] = gguf(3, [(b"w", (2 * elements, 2), kind, blocks)])
    files["gguf_two"] = gguf(2, [(b"v", (3,), 0, bytes(12)), (b"w", (2, 1, 2), 1, bytes(8))], 8)
    for dtype, bits in DTYPES.items():
        files[f"safetensors_{dtype}"] = safetensors([("w", dtype, [2, 4], bytes(bits))], {"format": "pt"})
    files["safetensors_two"] = safetensors([("v", "F32", [2, 1], bytes(8)), ("w", "U8", [0], b"")],
                                           {"gemmd.version": "1"})
    scales = bytes(range(64, 80)) * 2
    for name, qweight in (("gptq", [8, 8]), ("awq", [64, 1])):
        files[name] = safetensors([("l.qweight", "I32", qweight, bytes(range(256)) if name == "gptq" else bytes(256)),
                                   ("l.qzeros", "I32", [2, 1], b"\x77\x66\x55\x44" * 2),
                                   ("l.scales", "F16", [2, 8], scales)], {"format": "pt"})
    groups = struct.pack("<64i", *[k // 32 for k in range(64)])
    files["gptq_groups"] = safetensors([("l.g_idx", "I32", [64], groups), ("l.qweight", "I32", [8, 8], bytes(256)),
                                        ("l.qzeros", "I32", [2, 1], bytes(8)), ("l.scales", "F16", [2, 8], scales)], {})
    files["awq_gemv"] = safetensors([("l.qweight", "I32", [8, 8], bytes(range(256))),
                                     ("l.qzeros", "I32", [8, 4], bytes(128)),
                                     ("l.scales", "F16", [8, 32], bytes(range(64)) * 8)], {})
    ones = struct.pack("<8f", *[(-1.0) ** i for i in range(8)])
    halves = bytes(range(64))
    files["gptq_3"] = safetensors([("l.qweight", "I32", [6, 32], bytes(range(256)) * 3),
                                   ("l.qzeros", "I32", [2, 3], bytes(24)), ("l.scales", "F16", [2, 32], scales * 4)], {})
    files["gptq_7"] = safetensors([("l.qweight", "I32", [14, 32], bytes(range(256)) * 7),
                                   ("l.qzeros", "I32", [2, 7], bytes(56)), ("l.scales", "F16", [2, 32], scales * 4)], {})
    files["awq_gemv_fast"] = safetensors([("l.qweight", "I16", [2, 64], bytes(range(256))),
                                          ("l.qzeros", "F16", [32, 8], bytes(range(64)) * 8),
                                          ("l.scales", "F16", [32, 8], bytes(range(64)) * 8)], {})
    for name, tensors in {
            "fp8_blocks": [("w", "F8_E4M3", [2, 130], bytes(range(130)) * 2), ("w_scale_inv", "F32", [1, 2], ones[:8])],
            "fnuz": [("w", "F8_E4M3FNUZ", [2, 130], bytes(range(130)) + bytes(range(126, 256))),
                     ("w_scale", "F32", [2], ones[:8])],
            "fp8_rows": [("w", "F8_E4M3", [8, 8], halves), ("w_scale", "BF16", [8, 1], ones[:16])],
            "fp8_stack": [("w", "F8_E5M2", [2, 4, 8], halves), ("w_scale", "F32", [2], ones[:8])],
            "mxfp8": [("w", "F8_E4M3", [2, 32], halves), ("w_scale", "U8", [2, 1], b"\x7f\xff")],
            "int8": [("w", "I8", [8, 8], halves), ("w_scale", "F32", [8, 1], ones), ("w_zero_point", "I8", [8, 1], b"a" * 8)],
            "nvfp4": [("w_packed", "U8", [2, 32], halves), ("w_scale", "F8_E4M3", [2, 4], b"abcdefgh"),
                      ("w_global_scale", "F32", [1], ones[:4])],
            "modelopt_int4": [("w", "U8", [1, 64], halves), ("w_scale", "F32", [2, 2], ones[:16])],
            "gpt_oss": [("w_blocks", "U8", [2, 1, 2, 16], halves), ("w_scales", "U8", [2, 1, 2], b"abcd")],
            "pack_quantized": [("w_packed", "I32", [2, 8], halves), ("w_scale", "BF16", [2, 2], ones[:8]),
                               ("w_shape", "I64", [2], struct.pack("<2q", 2, 64)),
                               ("w_zero_point", "I32", [1, 2], ones[:8])],
            "torchao": [("0._weight_qdata", "I8", [8, 8], halves), ("0._weight_scale", "F32", [8, 1], ones)],
            "mlx": [("l.weight", "U32", [2, 8], halves), ("l.scales", "F16", [2, 2], scales[:8]),
                    ("l.biases", "F16", [2, 2], scales[:8])],
            "mlx_mxfp4": [("l.weight", "U32", [2, 8], halves), ("l.scales", "U8", [2, 2], b"abcd")],
            "comfy_nvfp4": [("l.comfy_quant", "U8", [18], b'{"format":"nvfp4"}'), ("l.weight", "U8", [2, 32], halves),
                            ("l.weight_scale", "F8_E4M3", [128, 4], bytes(range(64)) * 8),
                            ("l.weight_scale_2", "F32", [], ones[:4])],
            "sdnq": [("l.weight", "U8", [8, 8], halves), ("l.scale", "F32", [8, 1], ones),
                     ("l.zero_point", "F32", [8, 1], ones)],
            "comfy": [("l.weight", "F8_E4M3", [8, 8], halves), ("l.scale_weight", "F32", [], ones[:4])]}.items():
        files[name] = safetensors(tensors, {})
    for name, kind, said, tensors in (
            ("torchao_nvfp4", "NVFP4Tensor", {"block_size": 16, "is_swizzled_scales": True},
             [("qdata", "U8", [2, 32], halves), ("scale", "F8_E4M3", [32, 16], bytes(range(64)) * 8),
              ("per_tensor_scale", "F32", [], ones[:4])]),
            ("torchao_mxfp8", "MXTensor",
             {"elem_dtype": {"_type": "torch.dtype", "_data": "float8_e5m2"}, "block_size": 32, "is_swizzled_scales": False},
             [("qdata", "F8_E5M2", [2, 32], halves), ("scale", "F8_E8M0", [2, 1], b"\x7f\xff")]),
            ("torchao_int4", "Int4Tensor", {"block_size": [1, 32]},
             [("qdata", "I8", [2, 32], halves), ("scale", "BF16", [2, 2], ones[:8]), ("zero_point", "BF16", [2, 2], ones[:8])])):
        files[name] = safetensors([(f"0._weight_{plane}", *rest) for plane, *rest in tensors],
                                  {"0.weight": json.dumps({"_type": kind, "_data": said})})
    for bits, n in ((1, 8), (2, 4), (4, 2), (8, 1)):
        files[f"hqq_{bits}"] = safetensors(
            [("l.W_q", "U8", [2, 32], halves), ("l.scale", "BF16", [2 * n, 1], ones[:4 * n]),
             ("l.zero", "BF16", [2 * n, 1], ones[:4 * n]), ("l.shape", "I64", [2], struct.pack("<2q", n, 64)),
             *[(f"l.{name}", "I32", [], struct.pack("<i", number))
               for name, number in (("nbits", bits), ("group_size", 32), ("axis", 1))],
             ("l.packing", "U8", [7], b"%dbit_u8" % bits)], {})
    for bits, n in ((2, 4), (4, 2)):
        files[f"quanto_{bits}"] = safetensors(
            [("l.weight._data._data", "U8", [2, 32], halves), ("l.weight._scale", "F16", [2 * n, 1], scales[:4 * n]),
             ("l.weight._shift", "F16", [2 * n, 1], scales[:4 * n]), ("l.bias", "F32", [n], ones[:4 * n])], {})
    nested = [("w.nested_absmax", "F32", [1], ones[:4]), ("w.nested_quant_map", "F32", [256], ones * 32)]
    for kind, table in BITSANDBYTES.items():
        state = {"quant_type": kind, "blocksize": 64, "dtype": "float32", "shape": [2, 64]}
        more = {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.5}
        for name, absmax, said, planes in (("plain", ("F32", ones[:8]), {}, []), ("nested", ("U8", b"ab"), more, nested)):
            text_of_state = json.dumps({**state, **said}).encode()
            files[f"bitsandbytes_{kind}_{name}"] = safetensors(
                [("w", "U8", [64, 1], halves), ("w.absmax", absmax[0], [2], absmax[1]),
                 ("w.quant_map", "F32", [16], struct.pack("<16f", *table)), *planes,
                 (f"w.quant_state.bitsandbytes__{kind}", "U8", [len(text_of_state)], text_of_state)], {})
    files["bitsandbytes_int8"] = safetensors([("l.weight", "I8", [8, 8], halves), ("l.SCB", "F32", [8], ones),
                                              ("l.weight_format", "U8", [], b"\0")], {})
    files["config_groups"] = json.dumps({"quantization_config": {
        "quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 4, "group_size": 32, "block_structure": [128, 128]}}}}}).encode()
    files["config"] = json.dumps({"quantization_config": {"quant_method": "awq", "version": "gemm", "bits": 4,
                                                          "group_size": 128, "dynamic": {"a": [{}]}}}).encode()
    files["index"] = json.dumps({"metadata": {"total_size": 1, "deep": [[{}]]},
                                 "weight_map": {"a": "one.safetensors", "b": "two"}}).encode()
    files["npz"] = npz({"a": npy("<f4", False, (2, 2), bytes(16)), "b": npy("<f8", True, (2, 1), bytes(16)),
                        "c": npy("|O", False, (1,), b"x")})
    files.update(onnx_files())
    for name, content in files.items():
        (pathlib.Path(folder) / name).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1])
