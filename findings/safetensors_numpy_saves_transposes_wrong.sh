#!/bin/bash
# safetensors.numpy writes the memory of a transposed array under the shape of the transpose: the file holds another
# matrix. No warning is given. Its documentation asks for contiguous arrays.
#
# So `save_file({"w": w.T})`, which turns weights of K x N into the N x K that torch has, gives wrong products.
# numpy.ascontiguousarray(w.T) is saved right.
#
# Seen with safetensors 0.8.0 and NumPy 2.4.6, 2026-11-28:
#   [[0, 3], [1, 4], [2, 5]] is loaded as [[0, 1], [2, 3], [4, 5]]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6
"$folder/venv/bin/python" -W error - <<'PYTHON'
import numpy
import safetensors.numpy

transposed = numpy.arange(6, dtype="f4").reshape(2, 3).T
loaded = safetensors.numpy.load(safetensors.numpy.save({"w": transposed}))["w"]
print(f"{transposed.astype(int).tolist()} is loaded as {loaded.astype(int).tolist()}")
assert loaded.tolist() == [[0, 1], [2, 3], [4, 5]]
contiguous = numpy.ascontiguousarray(transposed)
assert (safetensors.numpy.load(safetensors.numpy.save({"w": contiguous}))["w"] == transposed).all()
PYTHON
