#!/bin/bash
# numpy.sum() of bfloat16 adds in bfloat16, one after another: 4096 ones give 256. numpy.matmul() of the same ones gives
# 4096, and so does sum() of float16.
#
# Above 256 neighbours in bfloat16 are 2 apart, so that adding 1 changes nothing. A check such as
# `d.sum()`, or a mean, over a result in bfloat16 is then far off though every element is right.
#
# Seen with ml_dtypes 0.6.0 and NumPy 2.4.6, 2026-11-27:
#   sum of bfloat16 256, mean 0.0625, matmul 4096; sum of float16 4096
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ml_dtypes==0.6.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy

ones = numpy.ones(4096, ml_dtypes.bfloat16)
added, mean, product = float(ones.sum()), float(ones.mean()), float(ones @ ones)
half = float(numpy.ones(4096, numpy.float16).sum())
print(f"sum of bfloat16 {added:g}, mean {mean:g}, matmul {product:g}; sum of float16 {half:g}")
assert (added, product, half) == (256, 4096, 4096) and mean != 1
PYTHON
