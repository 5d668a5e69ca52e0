#!/bin/bash
# A value beyond the largest of a type of ml_dtypes becomes NaN, infinity or the largest, by the type; and NaN becomes
# -0 in float4_e2m1fn. No warning is given.
#
# A program that quantizes with scales must clip before it casts to float8_e4m3fn, need not for float4_e2m1fn, and never
# learns of a NaN there.
#
# Seen with ml_dtypes 0.6.0 and NumPy 2.4.6, 2026-11-27:
#   float8_e4m3fn  464 -> 448, 465 -> nan, inf -> nan, nan -> nan
#   float8_e5m2    61439 -> 57344, 61440 -> inf, inf -> inf, nan -> nan
#   float6_e3m2fn  29 -> 28, 1000 -> 28, inf -> 28, nan -> -0
#   float4_e2m1fn  7 -> 6, 1000 -> 6, inf -> 6, nan -> -0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ml_dtypes==0.6.0 numpy==2.4.6
"$folder/venv/bin/python" -W error - <<'PYTHON'
import ml_dtypes
import numpy

EXPECTED = {
    "float8_e4m3fn": {"464": "448", "465": "nan", "inf": "nan", "nan": "nan"},
    "float8_e5m2": {"61439": "57344", "61440": "inf", "inf": "inf", "nan": "nan"},
    "float6_e3m2fn": {"29": "28", "1000": "28", "inf": "28", "nan": "-0"},
    "float4_e2m1fn": {"7": "6", "1000": "6", "inf": "6", "nan": "-0"},
}
for name, expected in EXPECTED.items():
    seen = {value: f"{float(numpy.float32(value).astype(getattr(ml_dtypes, name))):g}" for value in expected}
    print(f"{name:13}", ", ".join(f"{value} -> {became}" for value, became in seen.items()))
    assert seen == expected, f"{name}: expected {expected}"
PYTHON
