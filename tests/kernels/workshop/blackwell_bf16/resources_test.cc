// Checks the resources that ptxas gives each kernel of ladder C, for sm_100a and sm_103a: few
// registers, nothing spilled, no static shared memory and no stack. Says so and is skipped where a
// build has no device code. Where there is a disassembler, checks that an elected thread issues
// without loops over lanes. README.md's table of steps has both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_params.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_steps.h"
#include "tests/kernels/machine_code.h"
#include "tests/kernels/step_resources.h"

namespace gemmd::testing {
namespace {

// The last two columns of README.md's table, of a step.
struct PageRow {
  int registers = 0;
  int loops = 0;  // over lanes
};

// By name. A row may have several steps, with as many numbers in each column.
std::map<std::string, PageRow> ReadPage() {
  std::ifstream page("kernels/workshop/blackwell_bf16/README.md");
  std::map<std::string, PageRow> rows;
  for (std::string line; std::getline(page, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    // Five cells, and what lies before the first bar and behind the last one.
    if (cells.size() != 7 || !absl::StartsWith(cells[1], " `c")) continue;
    const auto parts = [](const std::string& cell) {
      return std::vector<std::string>(absl::StrSplit(cell, ','));
    };
    const std::vector<std::string> names = parts(cells[1]);
    for (std::size_t i = 0; i < names.size(); ++i) {
      rows[absl::StrReplaceAll(names[i], {{"`", ""}, {" ", ""}})] = {
          std::stoi(parts(cells[4]).at(i)), std::stoi(parts(cells[5]).at(i))};
    }
  }
  return rows;
}

// C2Wide is c2_256 on the page, C4Elected c4_elected.
std::string PageName(const std::string& type) {
  return absl::StrReplaceAll(type, {{"C", "c"}, {"Wide", "_256"}, {"Elected", "_elected"}});
}

TEST(LadderCResources, AreFewAndSpillNothing) {
  const auto kernels = ReadResources("kernels/workshop/blackwell_bf16/ladder_c_resources.txt");
  if (!kernels.has_value()) GTEST_SKIP() << kWithoutToolkit;
  ByStep found = Gather(*kernels, std::regex("LadderCINS0_\\d+(C\\d[A-Za-z]*?)ENS"));
  // A thread of a wide tile has 128 sums.
  const std::map<std::string, int> limits = {{"C1", 64},      {"C2", 64},        {"C3", 64},
                                             {"C4", 64},      {"C4Elected", 64}, {"C2Wide", 192},
                                             {"C3Wide", 192}, {"C4Wide", 192}};
  const std::map<std::string, PageRow> page = ReadPage();
  EXPECT_EQ(page.size(), limits.size());
  for (const char* architecture : {"sm_100a", "sm_103a"}) {
    for (const auto& [name, limit] : limits) {
      const StepResources& step = found[{architecture, name}];
      // f16 and bf16, B of either major.
      EXPECT_EQ(step.kernels, 4) << architecture << " " << name;
      EXPECT_EQ(step.most_stack_bytes, 0) << architecture << " " << name;
      EXPECT_GT(step.most_registers, 0) << architecture << " " << name;
      EXPECT_LE(step.most_registers, limit) << architecture << " " << name;
      // The page has what CUDA 13.0 gave; another release may take some more or fewer.
      EXPECT_NEAR(step.most_registers, page.at(PageName(name)).registers, 8)
          << architecture << " " << name;
    }
  }
}

// Two tiles of 8 KB or one of 8 and one of 32, two mbarriers and the slot of tensor memory's
// address, all of it dynamic.
TEST(LadderCResources, TakeTwoTilesOfSharedMemory) {
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C2>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C3>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C4>::kSharedBytes, 2 * 8192 + 32u);
  EXPECT_EQ(blackwell_bf16::LadderCLayout<blackwell_bf16::C4Wide>::kSharedBytes, 5 * 8192 + 32u);
}

TEST(LadderCCode, AnElectedThreadIssuesWithoutLoops) {
  if (std::getenv(kDisassembler) == nullptr) GTEST_SKIP() << kWithoutDisassembler;
  if (!ReadResources("kernels/workshop/blackwell_bf16/ladder_c_resources.txt").has_value()) {
    GTEST_SKIP() << kWithoutToolkit;
  }
  const std::regex step("LadderCINS0_\\d+(C\\d[A-Za-z]*?)ENS");
  for (const std::string architecture : {"sm_100a", "sm_103a"}) {
    const auto kernels = Disassemble("kernels/workshop/blackwell_bf16/ladder_c_resources." +
                                     architecture + ".cubin");
    std::map<std::string, int> most;
    for (const KernelCode& kernel : *kernels) {
      std::smatch match;
      if (!std::regex_search(kernel.entry, match, step)) continue;
      int& loops = most.try_emplace(match[1], 0).first->second;
      loops = std::max(loops, LaneLoops(kernel));
    }
    for (const auto& [name, loops] : most) {
      std::printf("%s %s: %d loops over lanes at most\n", architecture.c_str(), name.c_str(),
                  loops);
      // c1 has no instruction of uniform registers.
      const bool has_none = name == "C1" || name == "C4Elected";
      EXPECT_EQ(loops == 0, has_none) << architecture << " " << name << ": " << loops;
      EXPECT_NEAR(loops, ReadPage().at(PageName(name)).loops, 2) << architecture << " " << name;
    }
    EXPECT_EQ(most.size(), 8u) << architecture;
  }
}

}  // namespace
}  // namespace gemmd::testing
