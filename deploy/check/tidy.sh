#!/usr/bin/env bash
# clang-tidy with .clang-tidy over our C++ sources, or over those given as arguments.
set -euo pipefail
cd "$(dirname "$0")/../.."

bazel build --config=opt //... >/dev/null 2>&1 || { echo "build first: it fails" >&2; exit 1; }
deploy/compile_commands.py --config=opt
if (($# > 0)); then sources=("$@"); else mapfile -t sources < <(git ls-files '*.cc'); fi
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -n 4 "${CLANG_TIDY:-clang-tidy-14}" --quiet -p . 2>/dev/null
echo "tidy: ${#sources[@]} sources"
