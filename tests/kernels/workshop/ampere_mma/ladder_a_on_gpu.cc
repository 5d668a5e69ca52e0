// Ladder A on this machine's GPU: every step compared with the emulator bit by bit at small
// sizes, and at full size with each other and with binary64. Not a test: it needs a GPU.
// Times are those of //kernels/workshop/bench:kernel_bench. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/workshop/ampere_mma:ladder_a_on_gpu
#include <cstdio>
#include <string>

#include "tests/kernels/mma/check_on_gpu.h"

int main(int argc, char** argv) {
  using gemmd::testing::ProductForm;
  const std::string mode = argc == 2 ? argv[1] : "";
  if (mode == "check") {
    return gemmd::testing::CheckOnGpu(
        {"sm80/a01a", "sm80/a01b", "sm80/a02", "sm80/a03a", "sm80/a03b", "sm80/a04", "sm80/a05",
         "sm80/a06"},
        {ProductForm::kF16AccumulateF32, ProductForm::kF16AccumulateF16,
         ProductForm::kBf16AccumulateF32},
        {{4096, 4096, 4096}, {1023, 4095, 4097}});
  }
  std::fprintf(stderr, "usage: %s check\n", argv[0]);
  return 2;
}
