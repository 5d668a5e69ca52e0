#!/usr/bin/env bash
# README's second command: installs what is missing, builds everything, passes every test.
# Arguments go to Bazel: options, --config=cpu for example, and targets, //... unless given. Targets
# that were built before of the same text are not built again (bazel_cache.sh; GEMMD_BAZEL_CACHE=
# goes without).
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install_packages.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mapfile -t cache < <(deploy/bazel_cache.sh)
[[ " $*" == *" //"* ]] || set -- "$@" //...
status=0
bazel test --config=opt "${cache[@]}" "$@" 2>&1 | tee "$log" || status=$?

# Bazel's summary, as one line that says how many targets passed.
passed=$(grep -cE '^//.* PASSED in ' "$log" || true)
failed=$(grep -cE '^//.* (FAILED|TIMEOUT|NO STATUS|FAILED TO BUILD)' "$log" || true)
skipped=$(grep -cE '^//.* SKIPPED' "$log" || true)
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
