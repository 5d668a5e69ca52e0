// Checks the resources that ptxas gives each kernel of ladder C, for sm_100a and sm_103a: few
// registers, nothing spilled, no static shared memory and no stack. Says so and is skipped where a
// build has no device code.
#include <gtest/gtest.h>

#include <regex>

#include "kernels/workshop/blackwell_bf16/ladder_c_params.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_steps.h"
#include "tests/kernels/step_resources.h"

namespace gemmd::testing {
namespace {

TEST(LadderCResources, AreFewAndSpillNothing) {
  const auto kernels = ReadResources("kernels/workshop/blackwell_bf16/ladder_c_resources.txt");
  if (!kernels.has_value()) GTEST_SKIP() << kWithoutToolkit;
  ByStep found = Gather(*kernels, std::regex("LadderC\\w*_2(C\\d)E"));
  // README.md has what CUDA 13.0 gave; another release may take some more.
  constexpr int kLimit = 64;
  for (const char* architecture : {"sm_100a", "sm_103a"}) {
    for (const char* name : {"C1", "C2", "C3", "C4"}) {
      const StepResources& step = found[{architecture, name}];
      // f16 and bf16, B of either major.
      EXPECT_EQ(step.kernels, 4) << architecture << " " << name;
      EXPECT_EQ(step.most_stack_bytes, 0) << architecture << " " << name;
      EXPECT_GT(step.most_registers, 0) << architecture << " " << name;
      EXPECT_LE(step.most_registers, kLimit) << architecture << " " << name;
    }
  }
}

// Two tiles of 8 KB, two mbarriers and the slot of tensor memory's address, all of it dynamic.
TEST(LadderCResources, TakeTwoTilesOfSharedMemory) {
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C2>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C3>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C4>::kSharedBytes, 2 * 8192 + 32u);
}

}  // namespace
}  // namespace gemmd::testing
