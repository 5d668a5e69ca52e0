#!/usr/bin/env bash
# Triton's own client against a server, unmodified: tests/triton. gemmd's client is beside it, whose
# products have to have the same bits. Packages come from PyPI, and without it this fails. Half a minute once
# pip has them in its cache.
#   deploy/check/triton.sh                the server that Bazel built
#   GEMMD_BINARY=PATH ...                 another server
#   GEMM_BINARY=PATH ...                  another command line
#   deploy/check/triton.sh perf           perf_analyzer too, which takes another minute: once for a release
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

case ${1:-} in
"" | perf) ;;
*)
  echo "usage: deploy/check/triton.sh [perf]" >&2
  exit 2
  ;;
esac

GEMMD_BINARY=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
GEMM_BINARY=$(realpath "${GEMM_BINARY:-bazel-bin/client/cli/gemm}")
export GEMMD_BINARY GEMM_BINARY
[[ -x $GEMMD_BINARY ]] || fail "there is no server at $GEMMD_BINARY: bazel build --config=opt //server:gemmd"
[[ -x $GEMM_BINARY ]] || fail "there is no command line at $GEMM_BINARY: bazel build --config=opt //client/cli:gemm"
python3 -c 'import ensurepip, venv' 2>/dev/null || {
  deploy/install_packages.sh python3-venv
  python3 -c 'import ensurepip, venv'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=$work/venv/bin
python3 -m venv "$work/venv"
pip() { "$bin/pip" --quiet --disable-pip-version-check "$@"; }
from_pypi() {
  pip install "$@" || fail "PyPI cannot be reached, or has no such packages: $*"
}

step "packages"
pip wheel --no-index --no-deps --wheel-dir "$work" client/python
from_pypi "$(echo "$work"/gemmd_client-*.whl)" 'tritonclient[grpc]==2.73.0' pytest==9.2.0 ml_dtypes
"$bin/pip" list --disable-pip-version-check 2>/dev/null |
  grep -E '^(grpcio|ml_dtypes|numpy|protobuf|tritonclient) ' | tr -s ' ' | paste -sd, -

step "tests"
"$bin/python" -m pytest -q -p no:cacheprovider -o python_files="test_*.py" tests/triton

[[ ${1:-} == perf ]] || exit 0
deploy/check/perf_analyzer.sh
