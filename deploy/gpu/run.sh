#!/usr/bin/env bash
# Runs the GPU tests and benchmarks of this folder, prints one table and one closing line.
#   run.sh [quick|full]    quick: checks alone (some five minutes); full adds times
# Needs a driver and libcublasLt.so.13; says what it could not do without.
set -uo pipefail
cd "$(dirname "$0")" || exit

readonly mode=${1:-quick}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
table=()
failed=0

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 start end status=0 closing
  shift 2
  start=$(date +%s)
  echo "== $name: $*"
  timeout "$limit" "$@" 2>&1 | tee "$log/out" || status=$?
  end=$(date +%s)
  closing=$(grep -E '^[0-9]+ (passed|failures)' "$log/out" | tail -1)
  if ((status == 0)); then verdict=pass; else verdict=FAILED failed=$((failed + 1)); fi
  table+=("$(printf '%-7s %-26s %4d s  %s' "$verdict" "$name" $((end - start)) "${closing:-exit $status}")")
}

find_library() { find /usr/local /usr/lib /opt -name "$1" -not -type d 2> /dev/null | head -1; }
for library in libcublasLt.so.13 libcupti.so.13; do
  path=$(find_library "$library")
  if [[ -n $path ]]; then
    LD_LIBRARY_PATH=$(dirname "$path")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
  else
    echo "$library is not here"
  fi
done
nvidia-smi -L
gpus=$(nvidia-smi -L | grep -c '^GPU')

for recorded in recorded_*.txt; do
  if [[ -e $recorded ]]; then step "vectors: $recorded" 60 ./conformance_on_gpu replay "$recorded"; fi
done
step "ladder A" 200 ./ladder_a_on_gpu check
step "ladder B" 200 ./ladder_b_on_gpu check
step "cuBLASLt" 200 ./cublaslt_on_gpu check
step "device: products" 120 ./cuda_device_on_gpu products
step "device: accounting" 200 ./cuda_device_on_gpu accounting=100000
step "device: receipts" 60 ./cuda_device_on_gpu receipts
step "device: loss" 60 ./cuda_device_on_gpu loss
step "server" 120 ./server_check.sh
if ((gpus > 1)); then step "device: two GPUs" 120 ./cuda_device_on_gpu two_gpus; fi
for tool in memcheck racecheck; do
  if ! sanitizer=$(command -v compute-sanitizer); then
    echo "compute-sanitizer is not here: $tool not run"
  elif timeout 20 "$sanitizer" ./cublaslt_on_gpu small 2>&1 | grep -qi 'not supported'; then
    echo "compute-sanitizer does not support this device: $tool not run"
  else
    step "cuBLASLt: $tool" 300 "$sanitizer" --tool "$tool" --error-exitcode 1 ./cublaslt_on_gpu small
  fi
done
if [[ $mode == full ]]; then
  step "device: stream" 100 ./cuda_device_on_gpu stream
  step "shared memory" 100 ./shared_memory.sh
  step "device: latency" 60 ./cuda_device_on_gpu latency
  step "cuBLASLt: times" 300 ./cublaslt_on_gpu time
  step "ladder A: times" 300 ./kernel_bench --ladder=A
  step "ladder B: times" 300 ./kernel_bench --ladder=B
fi

echo
printf '%s\n' "${table[@]}"
echo "$((${#table[@]} - failed)) passed, $failed failed"
((failed == 0))
