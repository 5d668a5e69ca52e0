#!/usr/bin/env bash
# Builds the C library and installs it: deploy/install_library.sh PREFIX, for example /usr/local.
set -euo pipefail
prefix=$(realpath -m "${1:?usage: deploy/install_library.sh PREFIX}")
cd "$(dirname "$0")/.."
mapfile -t cache < <(deploy/bazel_cache.sh)
bazel build --config=opt "${cache[@]}" //client/c:libgemmd //client/blas:libgemmd_blas
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";.*/\1/p' base/version.h)
client/c/install.sh bazel-bin/client/c/libgemmd.so.0 client/include/gemmd "$version" "$prefix"
install -D -m 644 -s -t "$prefix/lib" bazel-bin/client/blas/libgemmd_blas.so
