#!/usr/bin/env bash
# Builds everything that needs a GPU to run and packs it into one file for a machine that
# has a driver and CUDA's libraries (cuBLASLt; CUPTI and compute-sanitizer where they are):
#   deploy/gpu/bundle.sh [FILE]     default: gemmd-gpu-tests.tar.xz
# There:  tar -xJf gemmd-gpu-tests.tar.xz && gemmd-gpu-tests/run.sh
# Arguments for Bazel come from BAZEL_FLAGS. The code is for one architecture, sm_90a.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly bundle=${1:-gemmd-gpu-tests.tar.xz}
readonly limit_bytes=60000000
readonly targets=(
  //kernels/workshop/bench:kernel_bench
  //tests/kernels/conformance:conformance_on_gpu
  //tests/kernels/workshop/ampere_mma:ladder_a_on_gpu
  //tests/kernels/workshop/sm120_tma:ladder_b_on_gpu
  //tests/kernels/cublaslt:cublaslt_on_gpu
  //tests/server/device/gpu:cuda_device_on_gpu
  //server:gemmd
  //client/cli:gemm
)

read -ra flags <<< "${BAZEL_FLAGS:-}"
bazel build --config=opt --config=h200 --define=faults=on "${flags[@]}" "${targets[@]}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly folder=$work/gemmd-gpu-tests
mkdir "$folder"
for target in "${targets[@]}"; do
  path=bazel-bin/${target#//}
  strip -o "$folder/${target##*:}" "${path/://}"
done
# Vectors that another GPU gave, where they are recorded.
cp tests/kernels/conformance/recorded_*.txt "$folder" 2> /dev/null || true
cp deploy/gpu/*.cu deploy/gpu/run.sh deploy/gpu/server_check.sh deploy/gpu/shared_memory.sh "$folder"
tar -C "$work" -cJf "$bundle" gemmd-gpu-tests
size=$(stat -c %s "$bundle")
echo "$bundle: $size bytes"
if ((size > limit_bytes)); then
  echo "the bundle may have $limit_bytes bytes" >&2
  exit 1
fi
