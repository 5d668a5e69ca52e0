#!/bin/bash
# numpy.load() refuses what numpy.save() wrote of a float8_e5m2 array, and sliding_window_view() and as_strided() refuse
# such an array: the type's code is '<f1', which NumPy does not understand. The other fp8 types have '<V1'.
#
# With float8_e4m3fn windows are of its type, and numpy.load() gives void elements, whose view() is the array again. A
# program that was tried with E4M3 fails with E5M2.
#
# Seen with ml_dtypes 0.6.0 and NumPy 2.4.6, 2026-11-30:
#   float8_e4m3fn <V1: windows float8_e4m3fn, as_strided float8_e4m3fn, load |V1
#   float8_e5m2 <f1: windows TypeError, as_strided TypeError, load ValueError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy


def outcome(work):
    try:
        return work().dtype
    except (TypeError, ValueError) as error:
        return type(error).__name__


tricks = numpy.lib.stride_tricks
found = {}
for name in ("float8_e4m3fn", "float8_e5m2"):
    x = numpy.ones((8, 8), getattr(ml_dtypes, name))
    numpy.save("x.npy", x)
    windows = outcome(lambda: tricks.sliding_window_view(x, 3, axis=0))
    strided = outcome(lambda: tricks.as_strided(x, (4, 8)))
    loaded = outcome(lambda: numpy.load("x.npy"))
    found[name] = windows, strided, loaded
    print(f"{name} {x.dtype.str}: windows {windows}, as_strided {strided}, load {loaded}")
assert found["float8_e5m2"] == ("TypeError", "TypeError", "ValueError"), found
assert "Error" not in str(found["float8_e4m3fn"]), found
PYTHON
