#!/usr/bin/env bash
# clang-tidy over every source, each with the .clang-tidy above it. Bazel runs it, so that only
# what changed is checked again. Arguments are targets, //... unless given.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/install_packages.sh clang-tidy-22
(($# > 0)) || set -- //...
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt --config=tidy "${cache[@]}" "$@"
