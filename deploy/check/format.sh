#!/usr/bin/env bash
# Fails if a source is not as the formatters leave it: clang-format for C++ and protocol
# buffers, buildifier for Bazel where it is installed (Debian 12 has no package of it).
set -euo pipefail
cd "$(dirname "$0")/../.."

git ls-files '*.cc' '*.h' '*.hpp' '*.cu' '*.cuh' | xargs -r "${CLANG_FORMAT:-clang-format-14}" \
  --dry-run --Werror
if command -v buildifier >/dev/null; then
  git ls-files '*.bazel' '*.bzl' WORKSPACE | xargs -r buildifier --mode=check
else
  echo "buildifier is not installed: Bazel files were not checked"
fi
echo "formatted"
