#!/usr/bin/env bash
# Products of 4096^3 bf16 whose operands and result lie in memory shared with gemmd, against the
# bare copies of the same bytes (pinned_copy.cu, built here if nvcc is there). It also does one of
# f32, with the bytes that loopback carried meanwhile.
#   shared_memory.sh [FOLDER]     for the JSON reports
set -uo pipefail
cd "$(dirname "$0")" || exit
# For each product 64 MiB go to the GPU.
readonly product_bytes=67108864

out=${1:-$(mktemp -d)}
server=
trap '[[ -z $server ]] || kill "$server" 2> /dev/null' EXIT

if [[ ! -x pinned_copy ]]; then
  if ! nvcc -O2 -o "$out/pinned_copy" pinned_copy.cu; then
    echo "pinned_copy is not here and cannot be built"
    exit 1
  fi
else
  cp pinned_copy "$out/pinned_copy"
fi

bare() { "$out/pinned_copy" | tee "$out/bare_$1.json"; }
loopback_bytes() { awk '$1 == "lo:" {print $2}' /proc/net/dev 2> /dev/null; }
bench() {
  local name=$1
  shift
  ./gemm bench --quiet --operands shared-memory --channels 1 --warm-up 300ms --save "$out/$name.json" "$@" ||
    exit 1
}

bare before || exit 1
./gemmd --device=cuda --listen=127.0.0.1:0 --shared-memory.name-prefix=gemmd- 2> "$out/gemmd.log" &
server=$!
for _ in $(seq 300); do
  grep -q '"event":"serving"' "$out/gemmd.log" && break
  sleep 0.1
done
GEMMD_SERVER=$(sed -n 's/.*"event":"serving".*"address":"\([^"]*\)".*/\1/p' "$out/gemmd.log")
export GEMMD_SERVER
if [[ -z $GEMMD_SERVER ]]; then
  cat "$out/gemmd.log"
  exit 1
fi

echo "== right?"
bench verified -s 1000x1100x900 --type bf16 -c 4 --duration 500ms --verify-fraction 0.2
for determinism in fast batch-invariant; do
  echo "== 4096^3 bf16, $determinism"
  bench "bf16_$determinism" -s 4096x4096x4096 --type bf16 --determinism "$determinism" -c 1,2,3,4 \
    --duration 1500ms
done
echo "== 4096^3 f32: bytes on loopback, acknowledgements and headers of TCP included"
before=$(loopback_bytes)
bench f32 -s 4096x4096x4096 --type f32 -c 2 --duration 1s
after=$(loopback_bytes)
./gemm stats | tee "$out/stats.txt"
bare after || exit 1
kill "$server"
wait "$server"
echo "server exit $?"
server=

python3 - "$out" "$product_bytes" "${before:-none}" "${after:-none}" << 'P'
import json, sys
folder, product_bytes, before, after = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
read = lambda name: json.load(open("%s/%s.json" % (folder, name)))
bare = [read("bare_before"), read("bare_after")]
best = {kind: max(b[kind]["in_gb_per_s"] for b in bare) for kind in bare[0]}
pair = {kind: min(b[kind]["pair_ms"] for b in bare) for kind in bare[0]}
print("bare copy to the GPU: %.1f GB/s from allocated, %.1f from registered memory; with D back at "
      "the same time %.3f and %.3f ms a product" % (best["allocated"], best["registered"],
                                                     pair["allocated"], pair["registered"]))
failed = 0
for name in ("bf16_fast", "bf16_batch-invariant"):
    top = 0
    for point in read(name)["points"]:
        rate = point["requests_per_s"]
        gb_per_s = rate * product_bytes / 1e9
        top = max(top, gb_per_s)
        print("%-22s in flight %d: %7.1f products/s, %5.1f GB/s to the GPU, %.3f of the bare copy, "
              "%.3f of both ways" % (name, point["load"]["concurrency"], rate, gb_per_s,
                                     gb_per_s / best["allocated"], pair["allocated"] * rate / 1e3))
    if name == "bf16_fast":
        failed += top < 0.85 * best["allocated"]
        print("target: at least 0.85 of the bare copy: %.3f" % (top / best["allocated"]))
f32 = sum(p["requests"] for p in read("f32")["points"])
if "none" in (before, after):
    sys.exit("4096^3 f32: this machine does not tell what loopback carries")
loopback = int(after) - int(before)
print("4096^3 f32: loopback carried %d bytes, at most %d a product (the %d measured; 201326592 bytes "
      "each in memory)" % (loopback, loopback / max(1, f32), f32))
failed += loopback / max(1, f32) > 100000
print("%d passed, %d failed" % (2 - failed, failed))
sys.exit(failed != 0)
P
