#!/usr/bin/env bash
# Runs tests under a sanitizer, and says which are left out and why.
#   deploy/check/sanitize.sh asan [TARGET...]   AddressSanitizer, LeakSanitizer and
#                                               UndefinedBehaviorSanitizer over server, client, e2e
#   deploy/check/sanitize.sh tsan [TARGET...]   ThreadSanitizer over what is plain C++
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
asan)
  targets=(//tests/client/... //tests/e2e/... //tests/proto/... //tests/server/...)
  declare -A reasons=(
    [loads_library]="loads libgemmd.so, which the system's g++ links without a sanitizer's runtime"
    [plays_hours]="plays hours of arrivals, which takes minutes there; scheduler_test runs the same code"
    [preloads]="preloads a library that counts copies; sanitizers have their own"
    [takes_all_descriptors]="leaves no file descriptor, and UBSan asks for memory through a pipe")
  ;;
tsan)
  targets=(//tests/client/... //tests/server/... //tests/base/...)
  declare -A reasons=(
    [computes]="minutes of arithmetic there; its subject is bits, not threads"
    [plays_hours]="plays hours of arrivals on one thread: nothing to race with"
    [loads_library]="loads libgemmd.so, which the system's g++ links without a sanitizer's runtime"
    [links_grpc]="gRPC and absl::Mutex come uninstrumented: false reports"
    [runs_fibers]="runs kernels in the emulator, whose fibers were never tried under it")
  ;;
*)
  echo "usage: deploy/check/sanitize.sh asan|tsan [TARGET...]" >&2
  exit 2
  ;;
esac
sanitizer=$1
(($# == 1)) || targets=("${@:2}")

deploy/install_packages.sh clang-14 libclang-rt-14-dev lld-14
mapfile -t cache < <(deploy/bazel_cache.sh)
# An output base of its own: another compiler would throw the usual build's analysis away. No
# links in the tree, whose //... would follow them.
bazel=(bazel "--output_base=$(bazel info output_base)-$sanitizer")
trap '"${bazel[@]}" shutdown' EXIT
status=0
"${bazel[@]}" test "--config=$sanitizer" --symlink_prefix=/ "${cache[@]}" --build_tests_only \
  -- "${targets[@]}" || status=$?
for tag in "${!reasons[@]}"; do
  echo "left out: ${reasons[$tag]}"
  "${bazel[@]}" query "attr(tags, '\\b$tag\\b', tests(set(${targets[*]})))" 2>/dev/null | sed 's/^/  /'
done
exit "$status"
