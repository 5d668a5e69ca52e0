#!/bin/bash
# torchao's Float8WeightOnlyConfig makes NaN of a row of weights that is all zero, as a pruned neuron's is: the row's
# scale is 0, its codes are 0 / 0, and so is each result of that neuron. Int8WeightOnlyConfig keeps the zeros.
#
# gemmd takes such a file as it is, so that its results there are NaN as torchao's are.
#
# Seen with torchao 0.18.0 and torch 2.15.0 (CPU), 2026-11-28:
#   Float8WeightOnlyConfig   scale 0   result nan
#   Int8WeightOnlyConfig     scale 1.1920929e-07   result 0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 torchao==0.18.0 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import torch
from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

seen = []
for config in (Float8WeightOnlyConfig(), Int8WeightOnlyConfig(version=2)):
    linear = torch.nn.Linear(64, 4, bias=False)
    linear.weight.data[1] = 0
    quantize_(linear, config)
    scale, result = linear.weight.scale.flatten()[1].item(), linear(torch.ones(1, 64))[0, 1].item()
    print(f"{type(config).__name__:24} scale {scale:.8g}   result {result}")
    seen.append((scale == 0, result != result))
assert seen == [(True, True), (False, False)], seen
PYTHON
