// Checks the resources that ptxas gives each kernel of ladders C and D, for sm_100a and sm_103a:
// few registers, nothing spilled, no static shared memory, and a stack only where arrays are
// indexed at run time. Says so and is skipped where a build has no device code.
#include "tests/kernels/resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sm100/ladder_c_params.h"
#include "kernels/sm100/ladder_c_steps.h"

namespace gemmd::testing {
namespace {

constexpr const char* kWithoutToolkit =
    "this build has no CUDA toolkit, or does not use it: ptxas was not asked";

struct StepResources {
  int kernels = 0;
  int most_registers = 0;
  int most_stack_bytes = 0;
};

// By architecture and what the pattern finds of an entry's name.
using ByStep = std::map<std::pair<std::string, std::string>, StepResources>;

ByStep Gather(const std::vector<KernelResources>& kernels, const std::regex& pattern) {
  ByStep steps;
  for (const KernelResources& kernel : kernels) {
    EXPECT_EQ(kernel.spilled_bytes, 0) << kernel.entry;
    EXPECT_EQ(kernel.static_shared_bytes, 0) << kernel.entry;
    std::smatch match;
    if (!std::regex_search(kernel.entry, match, pattern)) continue;
    StepResources& step = steps[{kernel.architecture, match[1]}];
    ++step.kernels;
    step.most_registers = std::max(step.most_registers, kernel.registers);
    step.most_stack_bytes = std::max(step.most_stack_bytes, kernel.stack_bytes);
  }
  for (const auto& [name, step] : steps) {
    std::printf("%s %s: %d registers and %d bytes of stack at most\n", name.first.c_str(),
                name.second.c_str(), step.most_registers, step.most_stack_bytes);
  }
  return steps;
}

TEST(LadderCResources, AreFewAndSpillNothing) {
  const auto kernels = ReadResources("kernels/sm100/ladder_c_resources.txt");
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
  EXPECT_EQ(sm100::LadderCLayout<sm100::C2>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(sm100::LadderCLayout<sm100::C3>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(sm100::LadderCLayout<sm100::C4>::kSharedBytes, 2 * 8192 + 32u);
}

// The arrays of d0 to d4 lie in local memory; from d5 on there are none.
TEST(LadderDResources, SpillNothingAndHaveAStackUpToD4) {
  const auto kernels = ReadResources("kernels/sm100/ladder_d_resources.txt");
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
