// Checks the resources that ptxas gives each kernel of ladder C, for sm_100a and sm_103a: no stack,
// nothing spilled, few registers, no static shared memory. Says so and is skipped where a build has
// no device code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include "kernels/sm100/ladder_c_params.h"
#include "kernels/sm100/ladder_c_steps.h"

namespace gemmd {
namespace {

constexpr char kReport[] = "kernels/sm100/ladder_c_resources.txt";

struct Resources {
  int kernels = 0;
  int most_registers = 0;
};

int NumberBefore(const std::string& line, const std::string& words) {
  std::smatch match;
  const std::regex pattern("(\\d+) " + words);
  return std::regex_search(line, match, pattern) ? std::stoi(match[1]) : 0;
}

TEST(LadderCResources, AreFewAndSpillNothing) {
  std::ifstream file(kReport);
  ASSERT_TRUE(file.good()) << kReport;
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().find("no device code in this build") == 0) {
    GTEST_SKIP() << "this build has no CUDA toolkit, or does not use it: ptxas was not asked";
  }
  std::map<std::pair<std::string, std::string>, Resources> found;  // by architecture and step
  Resources* current = nullptr;
  const std::regex entry("Compiling entry function '\\w*LadderC\\w*_2(C\\d)E\\w*' for '(\\w+)'");
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) {
      current = &found[{match[2], match[1]}];
      ++current->kernels;
      continue;
    }
    if (current == nullptr) continue;
    EXPECT_EQ(NumberBefore(line, "bytes stack frame"), 0) << line;
    EXPECT_EQ(NumberBefore(line, "bytes spill stores"), 0) << line;
    EXPECT_EQ(NumberBefore(line, "bytes spill loads"), 0) << line;
    EXPECT_EQ(NumberBefore(line, "bytes smem"), 0) << line;
    current->most_registers = std::max(current->most_registers, NumberBefore(line, "registers"));
  }
  // README.md has what CUDA 13.0 gave; another release may take some more.
  const std::map<std::string, int> limits = {{"C1", 64}, {"C2", 64}, {"C3", 64}, {"C4", 64}};
  for (const char* architecture : {"sm_100a", "sm_103a"}) {
    for (const auto& [step, limit] : limits) {
      const Resources& resources = found[{architecture, step}];
      // f16 and bf16, B of either major.
      EXPECT_EQ(resources.kernels, 4) << architecture << " " << step;
      EXPECT_GT(resources.most_registers, 0) << architecture << " " << step;
      EXPECT_LE(resources.most_registers, limit) << architecture << " " << step;
      std::printf("%s %s: %d registers at most\n", architecture, step.c_str(),
                  resources.most_registers);
    }
  }
}

// Two tiles of 8 KB, two mbarriers and the slot of tensor memory's address, all of it dynamic.
TEST(LadderCResources, TakeTwoTilesOfSharedMemory) {
  EXPECT_EQ(sm100::LadderCLayout<sm100::C2>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(sm100::LadderCLayout<sm100::C3>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(sm100::LadderCLayout<sm100::C4>::kSharedBytes, 2 * 8192 + 32u);
}

}  // namespace
}  // namespace gemmd
