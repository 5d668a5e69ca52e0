#!/usr/bin/env bash
# README's first command: from a fresh Debian 12 to a product that NumPy agrees with.
#
# Installs what is missing, builds, starts gemmd on a free port, multiplies .npy files
# through `gemm`, compares with NumPy, prints the receipts, and stops the server. CUDA kernels are
# compiled for this machine's GPUs alone, because all architectures take minutes; without a GPU
# none are compiled.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

# Bazel's options for device code. A GPU of another kind than these has no kernels here.
device_code() {
  local -A archs=()
  local capability
  while read -r capability; do
    case $capability in
    8.*) archs[sm_80]=1 ;;
    9.0) archs[sm_90a]=1 ;;
    10.0) archs[sm_100a]=1 ;;
    12.0) archs[sm_120a]=1 ;;
    esac
  done < <(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true)
  if ((${#archs[@]} == 0)) || [[ ! -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
    echo --config=cpu
  else
    local IFS=,
    echo "--@local_config_cuda//cuda:archs=${!archs[*]}"
  fi
}

step "1 of 4: packages"
deploy/install_packages.sh

device_code=$(device_code)
step "2 of 4: build ($device_code), minutes on a machine that has not built it before"
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt "$device_code" "${cache[@]}" //server:gemmd //client/cli:gemm

work=$(mktemp -d)
server=
cleanup() {
  [[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

run() {
  printf '$ %s\n' "$*"
  "$@"
}

step "3 of 4: matrices, server and products"
/usr/bin/python3 - "$work" <<'PYTHON'
import sys
import numpy

random = numpy.random.default_rng(2026)
for name, dtype in (("f32", "f4"), ("f64", "f8")):
    numpy.save(f"{sys.argv[1]}/A-{name}.npy", random.standard_normal((1500, 1700)).astype(dtype))
    numpy.save(f"{sys.argv[1]}/B-{name}.npy", random.standard_normal((1700, 900)).astype(dtype))
print("A is 1500 x 1700, B is 1700 x 900, in f32 and f64")
PYTHON

bazel-bin/server/gemmd --listen=127.0.0.1:0 2>"$work/gemmd.log" &
server=$!
until grep -q '"event":"serving"' "$work/gemmd.log"; do
  kill -0 "$server" 2>/dev/null || { cat "$work/gemmd.log" >&2; exit 1; }
  sleep 0.05
done
cat "$work/gemmd.log"
GEMMD_SERVER=$(sed -n 's/.*"event":"serving".*"address":"\([^"]*\)".*/\1/p' "$work/gemmd.log")
export GEMMD_SERVER

gemm=bazel-bin/client/cli/gemm
for type in f32 f64; do
  run "$gemm" matmul "$work/A-$type.npy" "$work/B-$type.npy" -o "$work/C-$type.npy"
done

step "4 of 4: NumPy's opinion"
/usr/bin/python3 - "$work" <<'PYTHON'
import sys
import numpy

for name, bound in (("f32", 1e-5), ("f64", 1e-13)):
    a, b, c = (numpy.load(f"{sys.argv[1]}/{x}-{name}.npy") for x in "ABC")
    exact = a.astype("f8") @ b.astype("f8")
    error = numpy.linalg.norm(c - exact) / numpy.linalg.norm(exact)
    print(f"{name}: relative error {error:.1e}, at most {bound:.0e} allowed")
    assert c.dtype == a.dtype and error <= bound, "the product is wrong"
PYTHON

kill -TERM "$server"
wait "$server"
server=
tail -n 2 "$work/gemmd.log"
echo "the server finished what it had admitted and exited with 0"
