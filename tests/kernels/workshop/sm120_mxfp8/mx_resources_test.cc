// Checks what ptxas gives sm120/mx for sm_120a: registers for one block, no stack, nothing spilled.
// Says so and is skipped where a build has no device code.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/workshop/sm120_mxfp8/mx_params.h"
#include "tests/kernels/resources.h"

namespace gemmd::testing {
namespace {

TEST(MxResources, FitOneBlockAndSpillNothing) {
  const auto kernels = ReadResources("kernels/workshop/sm120_mxfp8/mx_resources.txt");
  if (!kernels.has_value()) {
    GTEST_SKIP() << "this build has no CUDA toolkit, or does not use it: ptxas was not asked";
  }
  ASSERT_EQ(kernels->size(), 4u) << "each pair of types";
  for (const KernelResources& kernel : *kernels) {
    std::printf("%s: %d registers\n", kernel.entry.c_str(), kernel.registers);
    EXPECT_EQ(kernel.architecture, "sm_120a");
    EXPECT_EQ(kernel.stack_bytes, 0) << kernel.entry;
    EXPECT_EQ(kernel.spilled_bytes, 0) << kernel.entry;
    EXPECT_EQ(kernel.static_shared_bytes, 0) << kernel.entry;
    // README.md has what CUDA 13.0 gave; another release may take some more.
    EXPECT_GT(kernel.registers, 0) << kernel.entry;
    EXPECT_LE(kernel.registers, 160) << kernel.entry;
  }
}

}  // namespace
}  // namespace gemmd::testing
