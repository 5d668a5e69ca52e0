#!/usr/bin/env bash
# Proves that the steps of .ci/run fail when they should: plants one fault after another into a
# clone of HEAD, and runs the step that must notice. Takes minutes; run it when a step changes.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
git clone -q . "$work/clone"
cd "$work/clone"
output=$(bazel info output_base 2>/dev/null)
clean_up() {
  local base
  for base in "$output" "$output-asan" "$output-tsan" "$output-fuzz"; do
    bazel "--output_base=$base" clean --expunge >/dev/null 2>&1 || true
  done
  rm -rf "$work"
}
trap clean_up EXIT
missed=0

# plant NAME FILE TEXT PLANTED EXPECTED STEP...: replaces TEXT by PLANTED, a sed expression each,
# once in FILE; the step must fail and print EXPECTED, a line that names the place of the fault,
# because another fault must not pass for it.
plant() {
  local name=$1 file=$2 text=$3 planted=$4 expected=$5
  shift 5
  sed -i "0,/$text/s//$planted/" "$file"
  if git diff --quiet; then
    echo "$name: cannot be planted, because $file has changed: $text" >&2
    exit 1
  fi
  if "$@" >"$work/log" 2>&1; then
    echo "$name: NOT NOTICED by $*"
    missed=$((missed + 1))
  elif ! grep -qE "$expected" "$work/log"; then
    echo "$name: the step fails, and not because of it: $*"
    tail -n 30 "$work/log"
    missed=$((missed + 1))
  else
    echo "$name: noticed: $(grep -m 1 -oE "$expected.*" "$work/log")"
  fi
  git checkout -q .
}

# The function in which the server reads a request.
readonly decode='absl::Status Decode(const v1::MatmulHeader& header, MatmulCall\* call) {'
plant "a data race in the scheduler" server/scheduling/scheduler.cc \
  'absl::Status Scheduler::Submit(std::unique_ptr<Job> job) {' \
  '&\n  static int submitted = 0;\n  ++submitted;' \
  'ThreadSanitizer: data race .*scheduler\.cc:' \
  deploy/check/sanitize.sh tsan //tests/server/scheduling/...
plant "a leak in the server" server/rpc/codec/decode.cc \
  "$decode" \
  '&\n  const volatile char* leaked = new char[24];\n  static_cast<void>(leaked);' \
  '#1 .* gemmd::.*Decode\(.*decode\.cc:' \
  deploy/check/sanitize.sh asan //tests/e2e:estimate_test
plant "an overflow in the server" server/rpc/codec/decode.cc \
  "$decode" \
  '&\n  std::vector<char> small(8);\n  volatile std::size_t past = small.size();\n  small.data()[past] = 1;' \
  'heap-buffer-overflow .*decode\.cc:' \
  deploy/check/sanitize.sh asan //tests/e2e:estimate_test
plant "an undefined shift in the server" server/rpc/codec/decode.cc \
  "$decode" \
  '&\n  volatile int bits = 40;\n  volatile int shifted = 1 << bits;\n  static_cast<void>(shifted);' \
  'decode\.cc:.* shift exponent 40 is too large' \
  deploy/check/sanitize.sh asan //tests/e2e:estimate_test
plant "a finding of clang-tidy in a source" server/rpc/codec/decode.cc \
  "$decode" \
  '&\n  std::string moved = "a";\n  const std::string taken = std::move(moved);\n  if (moved == taken) return absl::OkStatus();' \
  'decode\.cc:.*bugprone-use-after-move' \
  deploy/check/tidy.sh //server/rpc/...
plant "a finding of clang-tidy in a header" server/rpc/codec/decode.h \
  'namespace gemmd {' \
  '&\ninline bool Planted(std::vector<int> a) { const std::vector<int> b = std::move(a); return a == b; }' \
  'decode\.h:.*bugprone-use-after-move' \
  deploy/check/tidy.sh //server/rpc/...
plant "what a mutex guards, read without it" server/rpc/calls/slow_calls.cc \
  'const MutexLock lock(mutex_);' '' \
  'slow_calls\.cc:.*clang-diagnostic-thread-safety-analysis' \
  deploy/check/tidy.sh //server/rpc/...
plant "a codec that reads what is not its own" proto/payload_codec.cc \
  'groups.empty() ? Find(fields, number) : nullptr' 'Find(fields, number)' \
  'the codec does not|^codec:' \
  deploy/check/fuzz.sh 20000 payload_codec
plant "a stale example in README" README.md \
  'gemm matmul A.npy B.npy -o C.npy' \
  'gemm matmul A.npy B.npy --output-file C.npy' \
  'output-file' \
  deploy/test.sh //tests/tidy:examples_test
plant "a stale example in --help" client/cli/commands/put_command.cc \
  'gemm put W.npy --lease 2h' \
  'gemm put W.npy --lease two-hours' \
  'two-hours' \
  deploy/test.sh //tests/tidy:examples_test
plant "a folder that no map names" README.md \
  '.base\/. | the tools' 'the tools' \
  'base.* : README\.md, .*does not name them' \
  deploy/test.sh //tests/tidy:documents_test
plant "a wait that a kernel could do without" kernels/landing/transpose_kernel.h \
  '  ptx::SyncThreads();' '  ptx::SyncThreads();\n  ptx::SyncThreads();' \
  'transpose_kernel\.h:.*nothing notices that it is left out' \
  deploy/test.sh //tests/kernels/landing:deletion_test

((missed == 0)) || { echo "$missed planted faults were not noticed" >&2; exit 1; }
echo "every planted fault was noticed"
