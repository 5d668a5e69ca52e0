#!/bin/bash
# In numpy.matmul() the bits of a row of A @ B depend on how many rows A has: row 0 alone, or of up to
# eight, has other bits than row 0 of 256.
#
# OpenBLAS has a kernel for vectors and others for small products, which add in other orders. So a test that compares a
# batched product with products of single rows by equality fails, though both are right.
#
# Seen with NumPy 2.4.6 and OPENBLAS_CORETYPE=Haswell, 2026-11-27:
#   row 0 has other bits among [1, 2, 3, 4, 8] rows than among 256; of (1, 2, 3, 4, 8, 64, 128)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6
OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'PYTHON'
import numpy

random = numpy.random.default_rng(1)
a = random.standard_normal((256, 1000), dtype="f4")
b = random.standard_normal((1000, 300), dtype="f4")
whole = (a @ b)[0]
rows = (1, 2, 3, 4, 8, 64, 128)
differ = [m for m in rows if not numpy.array_equal((a[:m] @ b)[0], whole)]
print(f"row 0 has other bits among {differ} rows than among 256; of {rows}")
assert 1 in differ and 128 not in differ, differ
PYTHON
