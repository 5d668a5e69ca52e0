#!/usr/bin/env bash
# Builds libFuzzer targets with Clang and runs each from its seeds.
#   deploy/check/fuzz.sh [RUNS [TARGET...]]     inputs a target, 20000 unless given; all targets
# A core with nothing else to do plays some 2500 sessions a second: 10000000 take over an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-20000}
targets=("${@:2}")
((${#targets[@]} > 0)) || targets=(http infer_request jwt operands payload_codec policy \
  proxy_header quantized_file session tls_files traceparent weights)

deploy/install_packages.sh clang-14 libclang-rt-14-dev
labels=("${targets[@]/#/\/\/tests/fuzz:}")
labels=("${labels[@]/%/_fuzz}")
# An output base of its own: another compiler would throw the usual build's analysis away.
bazel=(bazel "--output_base=$(bazel info output_base)-fuzz")
# No links in the tree, whose //... would follow them.
mapfile -t cache < <(deploy/bazel_cache.sh)
options=(--config=cpu --config=fuzz --symlink_prefix=/ "${cache[@]}")
"${bazel[@]}" build "${options[@]}" "${labels[@]}"
programs=$("${bazel[@]}" info "${options[@]}" bazel-bin)/tests/fuzz
"${bazel[@]}" shutdown
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A session's input is a play of a third as many events as it has bytes: longer ones meet no more
# states and take longer. Its choices weigh about the same, so rare features earn no preference.
declare -A how=([http]="-max_len=2048" [infer_request]="-max_len=1024" [jwt]="-max_len=2048" [operands]="-max_len=128"
  [payload_codec]="-max_len=4096" [policy]="-max_len=2048" [proxy_header]="-max_len=2100"
  [quantized_file]="-max_len=1024"
  [session]="-max_len=512 -entropic=0" [tls_files]="-max_len=8192" [traceparent]="-max_len=1024"
  [weights]="-max_len=2048")
for target in "${targets[@]}"; do
  mkdir "$work/$target"
  # Keys have no place in the tree, not even those that open nothing.
  if [[ $target == tls_files ]]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=fuzz \
      -keyout "$work/key" -out "$work/certificate" 2>/dev/null
    (cd "$work" && cat certificate <(echo '=') key <(echo '=') certificate >tls_files/whole)
  fi
  [[ $target != weights ]] || python3 tests/fuzz/weights_corpus.py "$work/weights"
  seeds=()
  [[ ! -d tests/fuzz/seeds/$target ]] || seeds=("tests/fuzz/seeds/$target")
  read -ra options <<<"${how[$target]}"
  if ! "$programs/${target}_fuzz" "$work/$target" "${seeds[@]}" \
    -runs="$runs" -seed=1 "${options[@]}" -artifact_prefix=./ >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    exit 1
  fi
  echo "$target: $(tail -n 1 "$work/log")"
done
