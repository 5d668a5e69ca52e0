#!/bin/bash
# On a CPU with AVX-512, bitsandbytes decodes 4 bits with scales of other blocks where K is a multiple of 16 but not of
# the block of 64: blocks are of the flattened N x K and cross rows, and its kernel begins at row r with scale r * (K /
# 64), rounded down. Linear4bit's product has these values; nothing warns. The codes and scales are right: the same
# tensors, decoded as one row, are as near to W as they are for other K.
#
# gemmd takes each block's own scale, so that its results there are not bitsandbytes' on such a CPU.
#
# Seen with bitsandbytes 0.50.2 and torch 2.15.0 (CPU), 2026-11-29:
#   K 64    decoded: error 0.091   product: error 0.092   as one row: error 0.091
#   K 96    decoded: error 0.73    product: error 0.74    as one row: error 0.093
#   K 100   decoded: error 0.091   product: error 0.09    as one row: error 0.091
#   K 4304  decoded: error 0.53    product: error 0.54    as one row: error 0.091
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 bitsandbytes==0.50.2 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import copy

import bitsandbytes
import torch
from bitsandbytes import functional

if torch.backends.cpu.get_cpu_capability() != "AVX512":
    raise SystemExit(print("this needs a CPU with AVX-512") or 1)
torch.manual_seed(0)
torch.set_grad_enabled(False)
N = 256
seen = []
for k in (64, 96, 100, 4304):
    linear = torch.nn.Linear(k, N, bias=False)
    linear.weight *= torch.logspace(0, 1, N)[torch.randperm(N), None]  # rows of 1 to 10 times the size
    layer = bitsandbytes.nn.Linear4bit(k, N, False, torch.float32, quant_type="nf4", compress_statistics=False)
    layer.load_state_dict(linear.state_dict())
    layer = layer.to("cpu")
    state = copy.copy(layer.weight.quant_state)
    decoded = functional.dequantize_4bit(layer.weight.data, state)
    state.shape = torch.Size((1, N * k))
    one_row = functional.dequantize_4bit(layer.weight.data, state).reshape(N, k)
    x = torch.randn(64, k)
    pairs = ((decoded, linear.weight), (layer(x), linear(x)), (one_row, linear.weight))
    errors = [float((ours - wanted).norm() / wanted.norm()) for ours, wanted in pairs]
    print("K {:<6}decoded: error {:<8.2g}product: error {:<8.2g}as one row: error {:.2g}".format(k, *errors))
    seen.append([error > 0.2 for error in errors])
right, wrong = [False, False, False], [True, True, False]
assert seen == [right, wrong, right, wrong], seen
PYTHON
