#!/bin/bash
# comfy-kitchen, ComfyUI's library, gives NVFP4 weights the names, types and, where N is a multiple of 128 and K of 64,
# the shapes that ModelOpt's have (weight, weight_scale, weight_scale_2), but packs the first of two codes in the high
# half of a byte, and holds the scales in the tiles of cuBLASLt. Read as ModelOpt's such a file gives other values,
# without an error. ComfyUI says which it is in a tensor beside it, comfy_quant.
#
# gemmd reads the tiles where there is comfy_quant, and ModelOpt's order where there is none.
#
# Seen with comfy-kitchen 0.2.40 and torch 2.15.0 (CPU), 2026-12-01:
#   weight uint8 (128, 32)   weight_scale float8_e4m3fn (128, 4)   weight_scale_2 float32 ()
#   its own decoder 0.0; as ModelOpt's have it 1.4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 comfy-kitchen==0.2.40 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import torch
from comfy_kitchen.tensor import QuantizedTensor

torch.manual_seed(1)
table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
table = torch.cat([table, -table])
scales = torch.tensor([1.0, 2.0, 4.0, 8.0]).repeat(128, 1) * torch.linspace(1, 3, 128)[:, None]
weight = table[torch.randint(0, 16, (128, 64))].reshape(128, 4, 16)
weight[:, :, 0] = 6  # so that each block has the scale that is given here
weight = (weight * scales[:, :, None]).reshape(128, 64)
tensor = QuantizedTensor.from_float(weight, "TensorCoreNVFP4Layout")
state = tensor.state_dict("weight")
print("   ".join(f"{name} {str(each.dtype)[6:]} {tuple(each.shape)}" for name, each in state.items()))
codes = torch.stack([state["weight"] & 15, state["weight"] >> 4], 2).reshape(128, 64).long()
of_lines = state["weight_scale"].float().repeat_interleave(16, 1)
as_modelopt = table[codes] * of_lines * state["weight_scale_2"]
own = tensor.dequantize()


def error(values):
    return ((values - weight).norm() / weight.norm()).item()


print(f"its own decoder {error(own):.1f}; as ModelOpt's have it {error(as_modelopt):.3g}")
assert error(own) < 0.1 < 0.5 < error(as_modelopt)
PYTHON
