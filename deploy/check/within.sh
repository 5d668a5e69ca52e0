#!/usr/bin/env bash
# Runs a check, and cuts it once its time is over: what it built by then stays in Bazel's cache, where
# the next run finds it.
#   deploy/check/within.sh SECONDS COMMAND...
#
# Ends with the command's status, and with 0 for a check that was cut before a test of it failed. It
# then prints "cut after N s: COMMAND", or "left out: COMMAND" where no second was left.
set -euo pipefail

[[ ${1:-} =~ ^-?[0-9]+$ && $# -ge 2 ]] || {
  echo "usage: deploy/check/within.sh SECONDS COMMAND..., not \"$*\"" >&2
  exit 2
}
seconds=$1
shift
if ((seconds <= 0)); then
  echo "left out: $*"
  exit 0
fi

log=$(mktemp)
ended=$(mktemp)  # the command's status, if it ended by itself, whatever that was
trap 'rm -f "$log" "$ended"' EXIT
# Bazel takes the signal to stop what it runs and to say which tests had failed.
# shellcheck disable=SC2016  # the inner shell expands it
run='trap is_cut=yes TERM; "${@:2}"; status=$?; [[ -n ${is_cut-} ]] || echo "$status" >"$1"'
timeout --kill-after=60 "$seconds" bash -c "$run" check "$ended" "$@" 2>&1 | tee "$log" || true
[[ ! -s $ended ]] || exit "$(<"$ended")"
if grep -E '^//.* (FAILED|TIMEOUT) in ' "$log"; then
  echo "cut after $seconds s, when tests had failed: $*" >&2
  exit 1
fi
echo "cut after $seconds s: $*"
