#!/bin/bash
# scipy.linalg.blas writes into NumPy arrays that are read-only: those given as c with overwrite_c=True, and the y of
# daxpy without any flag.
#
# NumPy refuses `y += x` for such an array (ValueError: output array is read-only). Results that a program shares, and
# arrays over mapped files and broadcasts, are read-only so that nobody changes them: SciPy changes them silently.
#
# Seen with SciPy 1.17.1 and NumPy 2.4.6, 2026-11-27:
#   dgemm  [[2.0, 2.0], [2.0, 2.0]], was zeros, writeable: False
#   daxpy  [1.0, 1.0, 1.0], was zeros, writeable: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy
from scipy.linalg import blas

c = numpy.zeros((2, 2), order="F")
y = numpy.zeros(3)
for array in (c, y):
    array.setflags(write=False)
ones = numpy.ones((2, 2), order="F")
blas.dgemm(1.0, ones, ones, beta=1.0, c=c, overwrite_c=True)
print(f"dgemm  {c.tolist()}, was zeros, writeable: {c.flags.writeable}")
blas.daxpy(numpy.ones(3), y)
print(f"daxpy  {y.tolist()}, was zeros, writeable: {y.flags.writeable}")
assert (c == 2).all() and (y == 1).all(), "read-only arrays stay as they are now"
PYTHON
