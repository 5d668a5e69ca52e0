#!/usr/bin/env bash
# Runs gemmd on a GPU as a process: a product, then each fault that the build has, with what the
# client is told and how the process ends. The build has them with --define=faults=on.
set -uo pipefail
cd "$(dirname "$0")" || exit

work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill -9 "$server" 2> /dev/null; rm -rf "$work"' EXIT
passed=0
failed=0

# check WHAT CONDITION...
check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "pass    $what"
  else
    failed=$((failed + 1))
    echo "FAILED  $what: $*"
    cat "$work/answer" "$work/log" 2> /dev/null
  fi
}

start() {
  ./gemmd --device=cuda --listen=127.0.0.1:0 --cuda.stall-timeout-ms=2000 2> "$work/log" &
  server=$!
  for _ in $(seq 600); do
    grep -q '"event":"serving"' "$work/log" && break
    sleep 0.1
  done
  GEMMD_SERVER=$(sed -n 's/.*"event":"serving".*"address":"\([^"]*\)".*/\1/p' "$work/log")
  export GEMMD_SERVER
}

# The client retries what may pass, until its timeout.
matmul() { ./gemm --timeout=3s matmul "$work/a.npy" "$work/b.npy" "$@" > "$work/answer" 2>&1; }

# Until the process ends: its exit code in `code`, the milliseconds since `since`.
await_end() {
  wait "$server"
  code=$?
  server=
  took_ms=$((($(date +%s%N) - since) / 1000000))
}

python3 - "$work" <<'P'
import sys, struct
# Two f32 matrices as .npy files, without NumPy.
for name, rows, columns in (("a", 300, 500), ("b", 500, 200)):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    values = [((i * 2654435761) % 1000) / 500 - 1 for i in range(rows * columns)]
    with open("%s/%s.npy" % (sys.argv[1], name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<%df" % len(values), *values))
P

start
check "a product" matmul
check "from one of the project's kernels" grep -q 'sm90/f32_bf16x6' "$work/answer"
matmul --kernel=cublaslt/f32
check "and by name from a vendor's" grep -q 'cublaslt/f32' "$work/answer"
matmul --kernel=fault/launch_failure
check "a refused launch is INTERNAL" grep -qi 'internal' "$work/answer"
matmul --kernel=fault/allocation_failure
check "no memory is RESOURCE_EXHAUSTED" grep -qi 'RESOURCE_EXHAUSTED' "$work/answer"
check "and the server goes on" matmul
./gemm info > "$work/answer" 2>&1
check "with nothing held" grep -qE ' 0 B +0 B +0 B' "$work/answer"
since=$(date +%s%N)
kill -TERM "$server"
await_end
check "SIGTERM: exit code 0" test "$code" = 0

for fault in illegal_access stall; do
  start
  since=$(date +%s%N)
  matmul --kernel=fault/$fault &
  client=$!
  await_end
  wait "$client"
  check "$fault is UNAVAILABLE" grep -q 'UNAVAILABLE' "$work/answer"
  check "$fault says why in the log" grep -q 'device cuda:0 is lost' "$work/log"
  check "$fault: exit code 4" test "$code" = 4
  limit_ms=1000
  [[ $fault == stall ]] && limit_ms=3000
  check "$fault: all of it in $took_ms ms" test "$took_ms" -lt "$limit_ms"
done
echo "$passed passed, $failed failed"
((failed == 0))
