#!/usr/bin/env bash
# Runs nvcc; its arguments follow its path. Whatever it or ptxas warns of ends the compilation, as
# -Werror does for C++. So does a "Potential Performance Loss", which ptxas calls an information:
# kernels are written so that products overlap, and one whose wgmma are serialised has lost what it
# was written for.
set -euo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
"$@" 2> "$said" || status=$?
cat "$said" >&2
if ((status == 0)) && grep -qiE "warning|performance loss" "$said"; then
  echo "nvcc warned, and a warning is an error here (deploy/bazel/nvcc.sh)" >&2
  exit 1
fi
exit "$status"
