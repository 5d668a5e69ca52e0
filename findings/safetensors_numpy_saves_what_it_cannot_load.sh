#!/bin/bash
# safetensors.numpy saves arrays of ml_dtypes' bfloat16 and float8 types, and fails to load what it has saved: KeyError
# of the type's name. The files are right, and other readers take them.
#
# A program that quantizes with NumPy finds out when its weights are needed. safetensors.deserialize() gives the bytes,
# which numpy.frombuffer() reads as the type.
#
# Seen with safetensors 0.8.0, ml_dtypes 0.6.0 and NumPy 2.4.6, 2026-11-28:
#   bfloat16: saved; load: KeyError('BF16'); the bytes of the file are the array's
#   float8_e4m3fn: saved; load: KeyError('F8_E4M3'); the bytes of the file are the array's
#   float8_e5m2: saved; load: KeyError('F8_E5M2'); the bytes of the file are the array's
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check safetensors==0.8.0 ml_dtypes==0.6.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy
import safetensors
import safetensors.numpy

for name, dtype in (("bfloat16", "BF16"), ("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")):
    array = numpy.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name))
    saved = safetensors.numpy.save({"w": array})
    try:
        safetensors.numpy.load(saved)
        raise AssertionError(f"{name} is loaded now")
    except KeyError as error:
        failure = error
    assert failure.args == (dtype,)
    [(_, tensor)] = safetensors.deserialize(saved)
    assert bytes(tensor["data"]) == array.tobytes()
    print(f"{name}: saved; load: {failure!r}; the bytes of the file are the array's")
PYTHON
