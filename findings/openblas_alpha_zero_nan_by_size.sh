#!/bin/bash
# With alpha = 0 OpenBLAS's gemm gives NaN for a NaN in A, or zeros as reference BLAS does: it depends on the processor,
# the size and the type.
#
# The reference (netlib's dgemm.f) does not read A and B where alpha is 0. In the OpenBLAS of SciPy's wheel the kernels
# of AVX-512 have a path for small matrices that multiplies by alpha, so that NaN stays; larger matrices, complex ones,
# gemv, and processors with AVX2 alone give zeros.
#
# Seen with SciPy 1.17.1, 2026-11-27, on an Intel processor with AVX-512; OPENBLAS_CORETYPE chooses the kernels:
#   SkylakeX  sgemm 8: nan     sgemm 1000: zeros   dgemm 8: nan     dgemm 1000: zeros   zgemm 8: zeros   dgemv 8: zeros
#   Haswell   sgemm 8: zeros   sgemm 1000: zeros   dgemm 8: zeros   dgemm 1000: zeros   zgemm 8: zeros   dgemv 8: zeros
set -euo pipefail
if ! grep -qw avx512f /proc/cpuinfo; then
  echo "this processor has no AVX-512, whose kernels differ" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6
cat > "$folder/alpha_zero.py" <<'PYTHON'
import sys

import numpy
from scipy.linalg import blas


def product(name, size):
    dtype = {"s": "f4", "d": "f8", "z": "c16"}[name[0]]
    a = numpy.full((size, size), numpy.nan, dtype, order="F")
    b = numpy.ones(size if "gemv" in name else (size, size), dtype, order="F")
    return "nan" if numpy.isnan(getattr(blas, name)(0, a, b)).any() else "zeros"


cases = [("sgemm", 8), ("sgemm", 1000), ("dgemm", 8), ("dgemm", 1000), ("zgemm", 8), ("dgemv", 8)]
seen = [product(*case) for case in cases]
print(sys.argv[1], *(f"{name} {size}: {what}" for (name, size), what in zip(cases, seen)), sep="   ")
assert seen == sys.argv[2:], f"expected {sys.argv[2:]}"
PYTHON
OPENBLAS_CORETYPE=SkylakeX "$folder/venv/bin/python" "$folder/alpha_zero.py" SkylakeX nan zeros nan zeros zeros zeros
OPENBLAS_CORETYPE=Haswell "$folder/venv/bin/python" "$folder/alpha_zero.py" Haswell zeros zeros zeros zeros zeros zeros
