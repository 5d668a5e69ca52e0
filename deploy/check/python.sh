#!/usr/bin/env bash
# The Python client: its wheel in an empty virtual environment, types, lint, and its tests against a server.
# It also checks the quantized formats of base/numbers/quant against ml_dtypes, through
# tests/base/numbers/quant/codec.cc. Packages come from PyPI, and without it this fails. The tests run twice,
# with products by gRPC's Python and by libgemmd: five minutes once pip has the packages in its cache.
#   deploy/check/python.sh                the server that Bazel built, and this machine's python3
#   GEMMD_BINARY=PATH ...                 another server
#   GEMMD_CODEC=PATH ...                  another codec
#   GEMM_BINARY=PATH ...                  another command line
#   GEMMD_LIBRARY=PATH ...                another libgemmd.so.0
#   PYTHON=python3.13 ...                 another interpreter
#   deploy/check/python.sh 'protobuf<5'   with such packages (again after the tools, so that they hold)
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

python=${PYTHON:-python3}
GEMMD_BINARY=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
GEMMD_CODEC=$(realpath "${GEMMD_CODEC:-bazel-bin/tests/base/numbers/quant/codec}")
GEMM_BINARY=$(realpath "${GEMM_BINARY:-bazel-bin/client/cli/gemm}")
GEMMD_LIBRARY=$(realpath "${GEMMD_LIBRARY:-bazel-bin/client/c/libgemmd.so.0}")
export GEMMD_BINARY GEMMD_CODEC GEMM_BINARY GEMMD_LIBRARY
[[ -x $GEMMD_BINARY ]] || fail "there is no server at $GEMMD_BINARY: bazel build --config=opt //server:gemmd"
[[ -x $GEMM_BINARY ]] || fail "there is no command line at $GEMM_BINARY: bazel build --config=opt //client/cli:gemm"
[[ -f $GEMMD_LIBRARY ]] || fail "there is no library at $GEMMD_LIBRARY: bazel build --config=opt //client/c:libgemmd"
[[ -x $GEMMD_CODEC ]] || fail "there is no codec at $GEMMD_CODEC: bazel build --config=opt //tests/base/numbers/quant:codec"
"$python" -c 'import ensurepip, venv' 2>/dev/null || {
  deploy/install_packages.sh python3-venv
  "$python" -c 'import ensurepip, venv'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=$work/venv/bin
"$python" -m venv "$work/venv"
pip() { "$bin/pip" --quiet --disable-pip-version-check "$@"; }
from_pypi() {
  pip install "$@" || fail "PyPI cannot be reached, or has no such packages: $*"
}

step "the wheel, built without a network"
pip wheel --no-index --no-deps --wheel-dir "$work" client/python
wheel=$(echo "$work"/gemmd_client-*.whl)

step "the wheel alone in an empty environment"
from_pypi "$wheel"
(cd "$work" && "$bin/python" - <<'PY'
import sys

import gemmd

alien = [name for name in ("ml_dtypes", "torch", "dask", "ray", "tqdm", "gemmd.v1") if name in sys.modules]
assert not alien, f"import gemmd imports {alien}"
assert gemmd.Quantized.of([[1.0, 2.0]]).data.tolist() == [[64, 127]]
assert gemmd.Quantized.of([[1.0, 2.0]], "mxfp4", 0).data.tolist() == [0x64]
PY
)

step "tools"
from_pypi pytest==9.2.0 mypy==2.4.1 ruff==0.17.6 ml_dtypes 'dask[array]' distributed perfetto==0.59.1
(($# == 0)) || from_pypi --force-reinstall "$@"
"$bin/pip" list --disable-pip-version-check 2>/dev/null |
  grep -E '^(grpcio|ml_dtypes|numpy|protobuf) ' | tr -s ' ' | paste -sd, -

if (($# == 0)); then
  step "types and lint"
  (cd client/python && "$bin/mypy" --cache-dir="$work/mypy")
  "$bin/ruff" check --no-cache --config client/python/pyproject.toml client/python tests/conftest.py tests/python tests/reports tests/testing tests/triton
  "$bin/ruff" format --no-cache --check --config client/python/pyproject.toml client/python tests/conftest.py tests/python tests/reports tests/testing tests/triton
fi

step "tests"
tests=("$bin/python" -m pytest -q -p no:cacheprovider -o python_files="test_*.py")
"${tests[@]}" tests/python tests/reports

step "tests, products by libgemmd"
GEMMD_DATA_PATH=libgemmd "${tests[@]}" tests/python tests/reports
