#!/usr/bin/env bash
# Builds the libFuzzer targets with Clang and runs each from its seeds.
#   deploy/check/fuzz.sh [RUNS]     inputs a target; 20000 unless given
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-20000}

deploy/install_packages.sh clang-14 libclang-rt-14-dev
# An output base of its own: another compiler would throw the usual build's analysis away.
bazel=(bazel "--output_base=$(bazel info output_base)-fuzz")
# No links in the tree, whose //... would follow them.
options=(--config=cpu --config=fuzz --symlink_prefix=/)
"${bazel[@]}" build "${options[@]}" \
  //tests/fuzz:payload_codec_fuzz //tests/fuzz:session_fuzz
programs=$("${bazel[@]}" info "${options[@]}" bazel-bin)/tests/fuzz
"${bazel[@]}" shutdown
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in payload_codec session; do
  mkdir "$work/$target"
  if ! "$programs/${target}_fuzz" "$work/$target" "tests/fuzz/seeds/$target" \
    -runs="$runs" -seed=1 -max_len=4096 -artifact_prefix=./ >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    exit 1
  fi
  echo "$target: $(tail -n 1 "$work/log")"
done
