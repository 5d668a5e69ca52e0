#!/usr/bin/env bash
# clang-tidy over all sources, each with the .clang-tidy above it, or over those of the targets
# given. Bazel runs it: only what changed is checked again.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/install_packages.sh clang-tidy-22
(($# > 0)) || set -- //...
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt --config=tidy "${cache[@]}" "$@"
