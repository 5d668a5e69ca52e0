#!/usr/bin/env bash
# For whoever has a Blackwell card: builds the kernels that no card has run, checks every bit of what they give, and
# times them beside cuBLASLt and the published figures. Takes CUDA's toolkit and driver, or for a rehearsal neither.
#   deploy/gpu/blackwell.sh            B200: ladders C and D; RTX 5090 or 5060: ladder B and sm120/mx
#   deploy/gpu/blackwell.sh rehearse   the checks alone, with the emulator in the card's place
# Arguments for Bazel come from BAZEL_FLAGS.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "blackwell.sh: $*" >&2; exit 1; }

mode=${1:-check}
targets=(//tests/kernels/workshop/cards:blackwell_on_gpu)
architecture=sm_100a
ladders=()
case $mode in
rehearse) ;;
check)
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
  case $capability in
  10.0) ladders=(C D) ;;
  12.0)
    architecture=sm_120a
    ladders=(B)
    targets+=(//tests/kernels/workshop/sm120_tma:ladder_b_on_gpu)
    ;;
  *) fail "the first GPU is of compute capability $capability; the kernels are for 10.0 and 12.0" ;;
  esac
  targets+=(//kernels/workshop/bench:kernel_bench)
  ;;
*) fail "usage: deploy/gpu/blackwell.sh [rehearse], not \"$mode\"" ;;
esac

read -ra flags <<<"${BAZEL_FLAGS:-}"
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt "--@local_config_cuda//cuda:archs=$architecture" "${cache[@]}" "${flags[@]}" "${targets[@]}"

bazel-bin/tests/kernels/workshop/cards/blackwell_on_gpu "$mode"
for ladder in "${ladders[@]}"; do
  [[ $ladder != B ]] || bazel-bin/tests/kernels/workshop/sm120_tma/ladder_b_on_gpu check
  bazel-bin/kernels/workshop/bench/kernel_bench --ladder="$ladder"
done
[[ $architecture != sm_100a || $mode == rehearse ]] || bazel-bin/kernels/workshop/bench/kernel_bench \
  --kernels=sm100/d8,sm100/d7_evict_first,sm100/d7_any_hilbert,sm100/d9,sm100/d9_boxes --types=mxfp8 --layouts=NT \
  --shapes=4096x4096x4096,8192x8192x8192,16384x16384x16384
