#!/usr/bin/env bash
# Reads the machine code of ladders C and D, of which ptxas says little: no loops over lanes where threads that
# issue are elected, and few instructions a stage. nvdisasm comes from PyPI into a folder that goes away.
#   deploy/check/machine_code.sh
#   GEMMD_NVDISASM=PATH ...        a disassembler that is here
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }

if [[ -z ${GEMMD_NVDISASM:-} ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  python3 -m venv "$work/venv"
  package=nvidia-cuda-nvdisasm==13.5.37
  "$work/venv/bin/pip" --quiet --disable-pip-version-check install "$package" ||
    fail "PyPI cannot be reached, or has no $package"
  GEMMD_NVDISASM=$(find "$work/venv" -name nvdisasm -type f)
fi
[[ -x $GEMMD_NVDISASM ]] || fail "there is no disassembler at \"$GEMMD_NVDISASM\""

mapfile -t cache < <(deploy/bazel_cache.sh)
bazel test --config=opt "${cache[@]}" --test_env=GEMMD_NVDISASM="$GEMMD_NVDISASM" --test_output=errors \
  //tests/kernels/workshop/blackwell_bf16:resources_test //tests/kernels/workshop/blackwell_mxfp8:resources_test
