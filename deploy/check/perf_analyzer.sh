#!/usr/bin/env bash
# Triton's load generator against a server, unmodified: concurrencies, a rate, asynchronous calls, a stream
# and system shared memory. Each run has to end well, and the server has to have counted what perf_analyzer
# says that it was served. About a minute.
#   deploy/check/perf_analyzer.sh         the server that Bazel built
#   GEMMD_BINARY=PATH ...                 another server
#
# The binary comes from PyPI's wheel of tritonclient 2.51.0, the last one that has it and runs on Debian 12. It
# wants libb64 of Debian, and a libcudart that nothing is asked of on a machine without a GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }

gemmd=$(realpath "${GEMMD_BINARY:-bazel-bin/server/gemmd}")
[[ -x $gemmd ]] || fail "there is no server at $gemmd: bazel build --config=opt //server:gemmd"
deploy/install_packages.sh libb64-0d python3-pip python3-venv unzip

work=$(mktemp -d)
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
python3 -m pip --quiet --disable-pip-version-check download --no-deps --dest "$work" \
  tritonclient==2.51.0 nvidia-cuda-runtime-cu12==12.9.79 ||
  fail "PyPI cannot be reached, or has no such packages"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install 'tritonclient[grpc]==2.73.0' ||
  fail "PyPI cannot be reached, or has no such packages"
for each in "$work"/*.whl; do unzip -q -o "$each" -d "$work"; done
analyzer=$work/tritonclient-2.51.0.data/data/bin/perf_analyzer
chmod +x "$analyzer"
export LD_LIBRARY_PATH=$work/nvidia/cuda_runtime/lib

# Its names of shared memory are those of the tensors: A_0_0, B_0_0 and D.
: >"$work/log"
"$gemmd" --device=cpu --listen=127.0.0.1:0 --shared-memory.name-prefix=gemmd-,A_,B_,D 2>"$work/log" &
server=$!
address=
for ((i = 0; i < 600 && ${#address} == 0; ++i)); do
  kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$work/log")"
  address=$(sed -n 's/.*"event":"serving".*"address":"\([^"]*\)".*/\1/p' "$work/log")
  [[ -n $address ]] || sleep 0.1
done
[[ -n $address ]] || fail "the server does not serve: $(cat "$work/log")"

# The requests that ModelStatistics has. perf_analyzer asks too, but after its first requests may have ended.
served() {
  "$work/venv/bin/python" - "$address" <<'PY'
import sys

import tritonclient.grpc as triton

with triton.InferenceServerClient(sys.argv[1]) as client:
    (model,) = client.get_inference_statistics("matmul_fp32").model_stats
    print(model.inference_stats.success.count)
PY
}

# Runs it for so many requests, all of which the server has to have counted.
requests=2000
run() {
  local name=$1 said client before counted
  shift
  before=$(served)
  said=$("$analyzer" -m matmul_fp32 -u "$address" -i grpc --shape A:64,64 --shape B:64,64 \
    --request-count "$requests" "$@" 2>&1) || fail "$name: $said"
  client=$(sed -n 's/^ *Request count: \([0-9]*\)/\1/p' <<<"$said" | paste -sd' ')
  counted=$(($(served) - before))
  [[ $client == "$requests" && $counted == "$requests" ]] ||
    fail "$name: perf_analyzer counts \"$client\", the server \"$counted\", and both should be $requests: $said"
  echo "$name: both count $requests"
}
for concurrency in 1 2 4 8; do
  run "concurrency $concurrency" --concurrency-range "$concurrency"
done
run "500 requests a second" --request-rate-range 500
run "asynchronous" --async --concurrency-range 8
run "a stream" --streaming --async --concurrency-range 8
run "system shared memory" --shared-memory system --concurrency-range 2
kill "$server"
wait "$server" || fail "the server did not end well: $(cat "$work/log")"
server=
echo "perf_analyzer is served"
