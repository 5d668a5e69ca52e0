#!/bin/bash
# In dask a product x @ y of arrays computes each block of x once for every block column of y where x comes of an
# elementwise step or of map_blocks(): 16 times instead of 4 below. Without optimization it is once.
#
# dask's optimization joins that step with the product, whose tasks each make their own copy of the block. A costly step
# before a product, as reading, decoding or normalizing is, costs as many times as the product has block columns, and a
# step with effects has them as often. gemmd.dask.matmul() computes each block once. Elsewhere
# compute(optimize_graph=False) does, or x.persist() before.
#
# Seen with dask 2026.8.0, 2026-11-30:
#   x @ y            optimized: 16 calls for 4 blocks   not optimized: 4
#   tensordot        optimized: 16 calls for 4 blocks   not optimized: 4
#   einsum           optimized: 16 calls for 4 blocks   not optimized: 4
#   x * row          optimized: 4 calls for 4 blocks   not optimized: 4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'dask[array]==2026.8.0' numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import dask.array as da
import numpy as np

calls = 0


def step(block):
    global calls
    calls += 1
    return block


def count(array, **more):
    global calls
    calls = 0
    array.compute(scheduler="sync", **more)
    return calls


x = da.from_array(np.ones((64, 64)), (16, 64)).map_blocks(step, dtype="f8", meta=np.empty((0, 0)))
y = da.from_array(np.ones((64, 64)), (64, 16))
products = {
    "x @ y": x @ y,
    "tensordot": da.tensordot(x, y, 1),
    "einsum": da.einsum("ik,kj->ij", x, y),
    "x * row": x * y[:1].rechunk((1, 64)),
}
seen = {}
for name, made in products.items():
    seen[name] = count(made), count(made, optimize_graph=False)
    optimized, plain = seen[name]
    print(f"{name:16} optimized: {optimized} calls for {x.npartitions} blocks   not optimized: {plain}")
assert seen == {"x @ y": (16, 4), "tensordot": (16, 4), "einsum": (16, 4), "x * row": (4, 4)}, seen
PYTHON
