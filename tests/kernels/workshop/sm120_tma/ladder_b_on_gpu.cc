// Ladder B on this machine's GPU: every step compared with the emulator bit by bit at small
// sizes, and at full size with each other and with ladder A and with binary64. Not a test: it needs
// a GPU. Times are those of //kernels/workshop/bench:kernel_bench. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/workshop/sm120_tma:ladder_b_on_gpu
#include <cstdio>
#include <string>

#include "tests/kernels/mma/check_on_gpu.h"

int main(int argc, char** argv) {
  using gemmd::testing::ProductForm;
  const std::string mode = argc == 2 ? argv[1] : "";
  if (mode == "check") {
    return gemmd::testing::CheckOnGpu(
        {"sm120/bcf_dbf_rw", "sm120/k_stages", "sm120/tma_loads", "sm120/tma_r_32",
         "sm120/tma_r_64", "sm120/tma_rw", "sm120/pair_boxes", "sm120/warp_release",
         "sm120/warps_64x64", "sm120/warps_64x64_k64", "sm120/tma_rw_64x64", "sm80/a05"},
        {ProductForm::kF16AccumulateF32, ProductForm::kBf16AccumulateF32},
        {{4096, 4096, 4096}, {1023, 4095, 4097}, {8192, 8192, 8192}});
  }
  std::fprintf(stderr, "usage: %s check\n", argv[0]);
  return 2;
}
