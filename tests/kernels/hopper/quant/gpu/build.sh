#!/bin/bash
# Builds libquant.so for check_bench.py with nvcc alone: build.sh OUTPUT INCLUDE, where INCLUDE has
# kernels/ptx/wgmma_operands.h, which Bazel writes (bazel-bin).
set -eu
cd "$(dirname "$0")/../../../../.."
flags="-std=c++17 -O3 --fmad=false -gencode=arch=compute_90a,code=sm_90a -Xcompiler -fPIC"
libraries="$(pkg-config --libs --static absl_status absl_statusor absl_strings |
  sed 's/-Wl,[^ ]*//g; s/-latomic//')"
# shellcheck disable=SC2086
nvcc $flags ${QUANT_FLAGS:-} -Xptxas -v -I. "-I$2" -shared \
  tests/kernels/hopper/quant/gpu/quant_library.cu base/numbers/types.cc -o "$1" $libraries
