#!/usr/bin/env bash
# Builds libFuzzer targets with Clang and runs each from its seeds.
#   deploy/check/fuzz.sh [RUNS [TARGET...]]     inputs a target, 20000 unless given; all targets
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-20000}
targets=("${@:2}")
((${#targets[@]} > 0)) || targets=(payload_codec session)

deploy/install_packages.sh clang-14 libclang-rt-14-dev
labels=("${targets[@]/#/\/\/tests/fuzz:}")
labels=("${labels[@]/%/_fuzz}")
# An output base of its own: another compiler would throw the usual build's analysis away.
bazel=(bazel "--output_base=$(bazel info output_base)-fuzz")
# No links in the tree, whose //... would follow them.
options=(--config=cpu --config=fuzz --symlink_prefix=/)
"${bazel[@]}" build "${options[@]}" "${labels[@]}"
programs=$("${bazel[@]}" info "${options[@]}" bazel-bin)/tests/fuzz
"${bazel[@]}" shutdown
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in "${targets[@]}"; do
  mkdir "$work/$target"
  if ! "$programs/${target}_fuzz" "$work/$target" "tests/fuzz/seeds/$target" \
    -runs="$runs" -seed=1 -max_len=4096 -artifact_prefix=./ >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    exit 1
  fi
  echo "$target: $(tail -n 1 "$work/log")"
done
