#!/usr/bin/env bash
# Tests the messages of kernel_bench where it can measure nothing. Devices are hidden, so that the
# test is the same on machines that have some.
set -u
export CUDA_VISIBLE_DEVICES=
expect() {
  local wanted=$1 text=$2
  shift 2
  answer=$("$@" 2>&1)
  code=$?
  if [[ $code != "$wanted" || $answer != *"$text"* ]]; then
    echo "$*: exit code $code, not $wanted, or no \"$text\" in: $answer" >&2
    exit 1
  fi
}
expect 3 "no GPU: " "$1" --ladder=A
expect 3 "no GPU: " "$1" --ladder=D
expect 2 'shapes: "4096" is neither MxNxK' "$1" --shapes=4096
expect 2 'ladder is "Z"; it must be A, B, C or D' "$1" --ladder=Z
expect 0 "--markdown=FILE" "$1" --help
expect 0 "--ladder=A|B|C|D" "$1" --help
