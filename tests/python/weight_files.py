"""Files of weights as other programs write them, from the formats' own descriptions."""

import json
import struct

import numpy as np

from gemmd import _safetensors


def gguf(tensors):
    """A file of GGUF version 3: tensors by name, each its number of type, its rows and columns, and its bytes."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0), b""
    for name, (kind, rows, columns, content) in tensors.items():
        head += struct.pack("<Q", len(name)) + name.encode()
        head += struct.pack("<IQQIQ", 2, columns, rows, kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def act_order(random, folder, rows=16, k=96):
    """A layer of GPTQ with act-order in groups of 32: its file, its values N x K, and the order of K."""
    codes, groups = random.integers(0, 16, (k, rows)), random.permutation(np.arange(k) // 32)
    scales = random.uniform(0.5, 1, (k // 32, rows)).astype(np.float16)
    shifts = 4 * np.arange(8)
    planes = {
        "qweight": ("I32", (codes.reshape(k // 8, 8, rows) << shifts[None, :, None]).sum(1).astype(np.uint32)),
        "qzeros": ("I32", np.full((k // 32, rows // 8), 0x77777777, np.uint32)),
        "scales": ("F16", scales),
        "g_idx": ("I32", groups.astype(np.int32)),
    }
    tensors, data = {}, b""
    for name, (dtype, plane) in planes.items():
        tensors[f"fc.{name}"] = _safetensors.Tensor(dtype, plane.shape, len(data), len(data) + plane.nbytes)
        data += plane.tobytes()
    (folder / "model.safetensors").write_bytes(_safetensors.text_of(_safetensors.Header({}, tensors)) + data)
    config = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}}
    (folder / "config.json").write_text(json.dumps(config))
    values = (codes - 8).T * scales.astype(np.float64)[groups].T
    return f"{folder / 'model.safetensors'}:fc.weight", values, np.argsort(groups, kind="stable")
