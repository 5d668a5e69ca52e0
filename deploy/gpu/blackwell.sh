#!/usr/bin/env bash
# For whoever has a Blackwell card: builds the kernels that no card has run, checks every bit of what they give, times
# them beside cuBLASLt and the published figures, and records what single instructions give.
#   deploy/gpu/blackwell.sh [FOLDER]            B200: ladders C and D; RTX 5090 or 5060: ladder B and sm120/mx
#   deploy/gpu/blackwell.sh rehearse [FOLDER]   the emulator in the card's place, which tells no times
# Everything that it prints and records is in FOLDER, blackwell-results by default. A step that fails or hangs does not
# keep the others from running; the last lines say which did. Takes CUDA's toolkit (CUDA_HOME, or /usr/local/cuda) and
# driver, a rehearsal neither; installs the packages that are missing. Arguments for Bazel come from BAZEL_FLAGS.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "blackwell.sh: $*" >&2; exit 1; }

mode=check
[[ ${1:-} != rehearse ]] || { mode=rehearse && shift; }
(($# <= 1)) || fail "usage: deploy/gpu/blackwell.sh [rehearse] [FOLDER]"
folder=${1:-blackwell-results}
[[ $folder != -* ]] || fail "usage: deploy/gpu/blackwell.sh [rehearse] [FOLDER], not \"$folder\""
cards=tests/kernels/workshop/cards
conformance=tests/kernels/conformance
bench=kernels/workshop/bench/kernel_bench
targets=("$conformance:conformance_emulated")
ladders=()

if [[ $mode == rehearse ]]; then
  architectures=(sm_100 sm_120)
  check=$cards/blackwell_emulated
  targets+=("$cards:blackwell_emulated")
  options=(--config=cpu)
else
  command -v nvidia-smi > /dev/null || fail "no nvidia-smi: no driver is here; \"rehearse\" goes without a card"
  nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
  [[ -x $nvcc ]] || fail "no $nvcc: no toolkit is here; CUDA_HOME says where it is, and \"rehearse\" goes without"
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
  case $capability in
  10.0)
    architectures=(sm_100)
    ladders=(C D)
    ;;
  12.0)
    architectures=(sm_120)
    ladders=(B)
    targets+=("tests/kernels/workshop/sm120_tma:ladder_b_on_gpu")
    ;;
  *) fail "the first GPU is of compute capability $capability; the kernels are for 10.0 and 12.0" ;;
  esac
  check=$cards/blackwell_on_gpu
  record=$conformance/conformance_on_${architectures[0]/_/}
  targets+=("$cards:blackwell_on_gpu" "${bench%/*}:kernel_bench" "$conformance:${record##*/}")
  options=("--@local_config_cuda//cuda:archs=${architectures[0]}a")
fi

deploy/install_packages.sh
read -ra flags <<< "${BAZEL_FLAGS:-}"
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt "${options[@]}" "${cache[@]}" "${flags[@]}" "${targets[@]/#///}"

mkdir -p "$folder"
log=$folder/log.txt
: > "$log"
passed=0
failed=()

# step NAME SECONDS PROGRAM ARGUMENT...
step() {
  local name=$1 limit=$2 program=$3 status=0
  shift 3
  echo "== $name" | tee -a "$log"
  timeout "$limit" "bazel-bin/$program" "$@" 2>&1 | tee -a "$log" || status=$?
  if ((status == 0)); then
    passed=$((passed + 1))
  else
    ((status != 124)) || echo "$name: not done after $limit s" | tee -a "$log"
    failed+=("$name")
  fi
  return 0
}

# Each in a process of its own: a kernel that faults leaves it without a GPU.
for kernel in $("bazel-bin/$check" list); do step "bits of $kernel" 600 "$check" "$kernel"; done

for architecture in "${architectures[@]}"; do
  recorded=$folder/recorded_${architecture/_/}.txt
  if [[ $mode == rehearse ]]; then
    step "vectors of $architecture" 3600 "$conformance/conformance_emulated" rehearse "$architecture" "$recorded"
  else
    step "vectors of $architecture" 3600 "$record" record "$recorded"
  fi
  step "vectors of $architecture in the emulator" 3600 "$conformance/conformance_emulated" replay "$recorded" first
  if [[ $mode == check && -s $recorded.differ ]]; then
    mapfile -t -n 4 differ < "$recorded.differ"  # a set has up to 32 MB
    step "results of the sets that differ" 600 "$record" dumps "$folder" "${differ[@]}"
  fi
done

for ladder in "${ladders[@]}"; do
  [[ $ladder != B ]] || step "bits of ladder B" 600 tests/kernels/workshop/sm120_tma/ladder_b_on_gpu check
  step "times of ladder $ladder" 1800 "$bench" --ladder="$ladder"
done
if [[ " ${ladders[*]} " == *" D "* ]]; then
  step "times of ladder D's experiments" 1800 "$bench" --types=mxfp8 --layouts=NT \
    --kernels=sm100/d8,sm100/d7_evict_first,sm100/d7_any_hilbert,sm100/d9,sm100/d9_boxes \
    --shapes=4096x4096x4096,8192x8192x8192,16384x16384x16384
fi

{
  [[ $mode == check ]] || echo "rehearsed: a card would also be timed"
  echo "$passed steps passed, ${#failed[@]} failed; all is in $folder"
  for name in "${failed[@]}"; do echo "failed: $name"; done
} | tee -a "$log"
((${#failed[@]} == 0))
