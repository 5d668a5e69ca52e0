#!/bin/bash
# pickle.dumps() of a torch tensor of float8, float4_e2m1fn_x2 or uint16 succeeds, and pickle.loads() of it does not:
# AttributeError. torch.save() and torch.load() of the same tensor work, and so does pickle of other types.
#
# So whatever keeps or sends pickles (multiprocessing, joblib, a cache) loses such tensors where it reads them. Layers of
# gemmd.torch with such weights are to be kept by torch.save().
#
# Seen with torch 2.15.0 (CPU), 2026-11-28:
#   float16           pickle: the same               torch.save: the same
#   bfloat16          pickle: the same               torch.save: the same
#   float8_e4m3fn     pickle: AttributeError         torch.save: the same
#   float8_e8m0fnu    pickle: AttributeError         torch.save: the same
#   float4_e2m1fn_x2  pickle: AttributeError         torch.save: the same
#   uint16            pickle: AttributeError         torch.save: the same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import io
import pickle

import torch


def saved(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file)


def outcome(copy, tensor):
    try:
        found = copy(tensor)
    except AttributeError:
        return "AttributeError"
    return "the same" if torch.equal(found.view(torch.uint8), tensor.view(torch.uint8)) else "another"


seen = {}
for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn_x2", "uint16"):
    tensor = torch.arange(8, dtype=torch.uint8).view(getattr(torch, name))
    pickle.dumps(tensor)  # never fails
    seen[name] = outcome(lambda x: pickle.loads(pickle.dumps(x)), tensor), outcome(saved, tensor)
    print(f"{name:17} pickle: {seen[name][0]:22} torch.save: {seen[name][1]}")
whole, lost = ("the same", "the same"), ("AttributeError", "the same")
assert list(seen.values()) == [whole, whole, lost, lost, lost, lost], seen
PYTHON
