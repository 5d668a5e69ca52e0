#!/bin/bash
# torch.nn.TransformerEncoderLayer with bitsandbytes' Linear8bitLt as linear1 and linear2 raises RuntimeError in eval()
# without gradients, and works with them: its fast path multiplies by linear1.weight itself, which holds int8 codes.
# Linear4bit works in both.
#
# gemmd.torch.replace() turns that path off, so that such a layer works.
#
# Seen with bitsandbytes 0.50.2 and torch 2.15.0 (CPU), 2026-11-28:
#   Linear8bitLt   no_grad: RuntimeError   fast path off: error 0.0011
#   Linear4bit     no_grad: error 0.038    fast path off: error 0.038
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 bitsandbytes==0.50.2 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import copy

import bitsandbytes
import torch

torch.manual_seed(0)
torch.set_grad_enabled(False)
encoder = torch.nn.TransformerEncoderLayer(64, 2, 64, batch_first=True).eval()
x = torch.randn(2, 5, 64)
wanted = encoder(x)


def error(layer):
    try:
        return f"error {float((layer(x) - wanted).norm() / wanted.norm()):.2g}"
    except RuntimeError:
        return "RuntimeError"


seen = []
for kind, more in ((bitsandbytes.nn.Linear8bitLt, {"has_fp16_weights": False}),
                   (bitsandbytes.nn.Linear4bit, {"compute_dtype": torch.float32, "quant_type": "fp4"})):
    layer = copy.deepcopy(encoder)
    for name in ("linear1", "linear2"):
        quantized = kind(64, 64, **more)
        quantized.load_state_dict(getattr(layer, name).state_dict())
        setattr(layer, name, quantized.to("cpu"))
    first = error(layer)
    layer.activation_relu_or_gelu = 0  # what forward() asks before it takes the fast path
    seen.append((first == "RuntimeError", error(layer) == "RuntimeError"))
    print(f"{kind.__name__:15}no_grad: {first:15}fast path off: {error(layer)}")
assert seen == [(True, False), (False, False)], seen
PYTHON
