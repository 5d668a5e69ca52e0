#!/bin/bash
# tritonclient makes bfloat16 of float32 by cutting bits off, up to 2.41.0 at least; 2.73.0 has no such function and
# takes ml_dtypes.bfloat16 arrays, which are rounded to nearest.
#
# So an upgrade changes the bits with which values travel: half of them by one unit in the last place. Those of the
# old version are all too near to zero.
#
# Seen with tritonclient 2.41.0 and 2.73.0, ml_dtypes 0.6.0, 2026-11-27:
#   2.41.0: 0.0996094 and 3.98438 of 0.1 and 3.999 (nearest: 0.100098 and 4)
#   2.73.0: no serialize_bf16_tensor; triton_to_np_dtype("BF16") is bfloat16
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
pip numpy==2.4.6 ml_dtypes==0.6.0 python-rapidjson==1.20 urllib3==2.2.3
pip --no-deps tritonclient==2.41.0
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy
from tritonclient.utils import serialize_bf16_tensor


def sent(array):
    return numpy.frombuffer(serialize_bf16_tensor(array).item(), ml_dtypes.bfloat16)


x = numpy.array([0.1, 3.999], "f4")
cut, nearest = sent(x).astype("f8"), x.astype(ml_dtypes.bfloat16).astype("f8")
print(f"2.41.0: {cut[0]:g} and {cut[1]:g} of {x[0]:g} and {x[1]:g} (nearest: {nearest[0]:g} and {nearest[1]:g})")
assert cut.tolist() == [0.099609375, 3.984375] and nearest.tolist() == [0.10009765625, 4]
PYTHON
pip --no-deps tritonclient==2.73.0
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import tritonclient.utils

assert not hasattr(tritonclient.utils, "serialize_bf16_tensor")
assert tritonclient.utils.triton_to_np_dtype("BF16") is ml_dtypes.bfloat16
print('2.73.0: no serialize_bf16_tensor; triton_to_np_dtype("BF16") is bfloat16')
PYTHON
