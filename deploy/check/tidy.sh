#!/usr/bin/env bash
# clang-tidy with .clang-tidy over the sources of the product, or over those given as arguments
# (tests, say: they take as long again).
set -euo pipefail
cd "$(dirname "$0")/../.."

bazel build --config=opt //... >/dev/null 2>&1 || { echo "build first: it fails" >&2; exit 1; }
deploy/compile_commands.py --config=opt
if (($# > 0)); then sources=("$@"); else mapfile -t sources < <(git ls-files 'client/*.cc' 'digest/*.cc' 'kernels/*.cc' 'proto/*.cc' 'ranges/*.cc' 'server/*.cc' 'sync/*.cc'); fi
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -n 4 "${CLANG_TIDY:-clang-tidy-14}" --quiet -p . 2>/dev/null
echo "tidy: ${#sources[@]} sources"
