#!/bin/bash
# Builds libquant.so for check_bench.py with nvcc alone: build.sh OUTPUT INCLUDE FORMAT..., where
# INCLUDE has kernels/ptx/wgmma_operands.h, which Bazel writes (bazel-bin), and a FORMAT is one of
# packed.h's: kInt4G32. Objects lie beside OUTPUT, and those that are newer than all sources stay.
set -eu
output=$(realpath "$1") include=$(realpath "$2")
shift 2
cd "$(dirname "$0")/../../../../.."
flags="-std=c++17 -O3 --fmad=false -gencode=arch=compute_90a,code=sm_90a -Xcompiler -fPIC"
flags="$flags -I. -I$include -Xptxas -v"
libraries="$(pkg-config --libs --static absl_status absl_statusor absl_strings |
  sed 's/-Wl,[^ ]*//g; s/-latomic//')"
here=tests/kernels/hopper/quant/gpu
cases=
objects=
for format in "$@"; do
  object=$output.$format.o
  cases="$cases QUANT_CASE($format)"
  objects="$objects $object"
  if [[ -e $object && -z $(find kernels/hopper/quant kernels/ptx -newer "$object" -name '*.h') ]]; then
    continue
  fi
  # shellcheck disable=SC2086
  nvcc $flags "-DQUANT_FORMAT=$format" -c $here/quant_products.cu -o "$object"
done
# shellcheck disable=SC2086
nvcc $flags "-DQUANT_FORMATS=$cases" -shared $here/quant_library.cu base/numbers/types.cc \
  base/numbers/quant/code_table.cc $objects \
  -o "$output" $libraries
strip "$output"
