// Checks the resources that ptxas gives each kernel of ladder D, for sm_100a and sm_103a: few
// registers, nothing spilled, no static shared memory, and a stack only where arrays are indexed at
// run time. Says so and is skipped where a build has no device code. Where there is a disassembler,
// checks that elected threads issue without loops over lanes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/kernels/machine_code.h"
#include "tests/kernels/step_resources.h"

namespace gemmd::testing {
namespace {

// The arrays of d0 to d4 lie in local memory; from d5 on there are none.
TEST(LadderDResources, SpillNothingAndHaveAStackUpToD4) {
  const auto kernels = ReadResources("kernels/workshop/blackwell_mxfp8/ladder_d_resources.txt");
  if (!kernels.has_value()) GTEST_SKIP() << kWithoutToolkit;
  ByStep found = Gather(*kernels, std::regex("LadderDINS0_\\d+(D\\d+[A-Za-z0-9]*?)ELb"));
  // By name, and whether a form stores by TMA, too.
  std::map<std::string, bool> steps = {{"D7EvictFirst", false},
                                       {"D7AnyHilbert", false},
                                       {"D9Boxes", true},
                                       {"D11Mxfp4", true},
                                       {"D11Nvfp4", true}};
  for (int i = 0; i <= 15; ++i) steps["D" + std::to_string(i)] = i >= 9;
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

// A stage of 256 of K has eight products and six copies of scales. With loops a product is some 25
// instructions, without them some four; the rest of a stage lies ahead of the first copy.
TEST(LadderDCode, ElectedThreadsIssueWithoutLoops) {
  if (std::getenv(kDisassembler) == nullptr) GTEST_SKIP() << kWithoutDisassembler;
  const auto reported = ReadResources("kernels/workshop/blackwell_mxfp8/ladder_d_resources.txt");
  if (!reported.has_value()) GTEST_SKIP() << kWithoutToolkit;
  const std::regex step("LadderDINS0_\\d+(D\\d+[A-Za-z0-9]*?)ELb([01])E");
  for (const std::string architecture : {"sm_100a", "sm_103a"}) {
    const auto kernels = Disassemble("kernels/workshop/blackwell_mxfp8/ladder_d_resources." +
                                     architecture + ".cubin");
    int elected = 0;
    int indexed = 0;
    for (const KernelCode& kernel : *kernels) {
      std::smatch match;
      if (!std::regex_search(kernel.entry, match, step)) continue;
      const std::string name = match[1];
      const int loops = LaneLoops(kernel);
      const StageInstructions stage = CountStage(kernel);
      std::printf("%s %s%s: %d loops over lanes, %d instructions a stage, %d from the copies on\n",
                  architecture.c_str(), name.c_str(), match[2] == "1" ? " by TMA" : "", loops,
                  stage.from_wait, stage.from_copy);
      if (name == "D13" || name == "D14" || name == "D15") {
        ++elected;
        EXPECT_EQ(loops, 0) << architecture << " " << name;
        EXPECT_GT(stage.from_copy, 14) << architecture << " " << name;
        EXPECT_LE(stage.from_copy, 64) << architecture << " " << name;
        EXPECT_LE(stage.from_wait, 180) << architecture << " " << name;
      } else {
        ++indexed;
        EXPECT_GE(loops, 12) << architecture << " " << name;
        EXPECT_GE(stage.from_copy, 100) << architecture << " " << name;
      }
    }
    EXPECT_EQ(elected, 6) << architecture;
    EXPECT_GT(indexed, 0) << architecture;
  }
}

}  // namespace
}  // namespace gemmd::testing
