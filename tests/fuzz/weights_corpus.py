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
    for name, tensors in {
            "fp8_blocks": [("w", "F8_E4M3", [2, 130], bytes(range(130)) * 2), ("w_scale_inv", "F32", [1, 2], ones[:8])],
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
            "comfy": [("l.weight", "F8_E4M3", [8, 8], halves), ("l.scale_weight", "F32", [], ones[:4])]}.items():
        files[name] = safetensors(tensors, {})
    files["config_groups"] = json.dumps({"quantization_config": {
        "quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 4, "group_size": 32, "block_structure": [128, 128]}}}}}).encode()
    files["config"] = json.dumps({"quantization_config": {"quant_method": "awq", "version": "gemm", "bits": 4,
                                                          "group_size": 128, "dynamic": {"a": [{}]}}}).encode()
    files["index"] = json.dumps({"metadata": {"total_size": 1, "deep": [[{}]]},
                                 "weight_map": {"a": "one.safetensors", "b": "two"}}).encode()
    files["npz"] = npz({"a": npy("<f4", False, (2, 2), bytes(16)), "b": npy("<f8", True, (2, 1), bytes(16)),
                        "c": npy("|O", False, (1,), b"x")})
    for name, content in files.items():
        (pathlib.Path(folder) / name).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1])
