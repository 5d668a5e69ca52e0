#!/bin/bash
# A model that torchao's quantize_() has quantized can be neither pickled nor given to torch.save() whole: quantize_()
# sets an extra_repr on each layer that is a functools.partial bound as a method, which pickle refuses. Its
# state_dict(), and copy.deepcopy(), work.
#
# gemmd.torch.Linear of such a layer leaves that extra_repr, and is saved.
#
# Seen with torchao 0.18.0 and torch 2.15.0 (CPU), 2026-11-28:
#   torch.save of the model         AttributeError
#   without each extra_repr         saved
#   torch.save of its state_dict    saved
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 torchao==0.18.0 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import io

import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

model = torch.nn.Sequential(torch.nn.Linear(64, 64))
quantize_(model, Int8WeightOnlyConfig(version=2))


def outcome(name, what):
    try:
        torch.save(what, io.BytesIO())
        found = "saved"
    except AttributeError:
        found = "AttributeError"
    print(f"{name:32}{found}")
    return found


seen = [outcome("torch.save of the model", model)]
del model[0].extra_repr
seen += [outcome("without each extra_repr", model), outcome("torch.save of its state_dict", model.state_dict())]
assert seen == ["AttributeError", "saved", "saved"], seen
PYTHON
