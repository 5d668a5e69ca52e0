// Checks the resources that ptxas gives each kernel of ladder D, for sm_100a and sm_103a: few
// registers, nothing spilled, no static shared memory, and a stack only where arrays are indexed at
// run time. Says so and is skipped where a build has no device code.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/kernels/step_resources.h"

namespace gemmd::testing {
namespace {

// The arrays of d0 to d4 lie in local memory; from d5 on there are none.
TEST(LadderDResources, SpillNothingAndHaveAStackUpToD4) {
  const auto kernels = ReadResources("kernels/workshop/blackwell_mxfp8/ladder_d_resources.txt");
  if (!kernels.has_value()) GTEST_SKIP() << kWithoutToolkit;
  ByStep found = Gather(*kernels, std::regex("LadderDINS0_\\d+(D\\d+(?:Mxfp4|Nvfp4)?)ELb"));
  // By name, and whether a form stores by TMA, too.
  std::map<std::string, bool> steps = {{"D11Mxfp4", true}, {"D11Nvfp4", true}};
  for (int i = 0; i <= 12; ++i) steps["D" + std::to_string(i)] = i >= 9;
  const std::set<std::string> with_arrays = {"D0", "D1", "D2", "D3", "D4"};
  for (const char* architecture : {"sm_100a", "sm_103a"}) {
    for (const auto& [name, stores_by_tma] : steps) {
      const StepResources& step = found[{architecture, name}];
      EXPECT_EQ(step.kernels, stores_by_tma ? 2 : 1) << architecture << " " << name;
      EXPECT_EQ(step.most_stack_bytes > 0, with_arrays.count(name) == 1)
          << architecture << " " << name;
      EXPECT_GT(step.most_registers, 0) << architecture << " " << name;
      // 192 threads may have 255 each.
      EXPECT_LE(step.most_registers, 192) << architecture << " " << name;
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
