// Checks the resources that ptxas gives each kernel of ladder D, for sm_100a and sm_103a: few
// registers, nothing spilled, no static shared memory, and a stack only where arrays are indexed at
// run time. Says so and is skipped where a build has no device code. Where there is a disassembler,
// checks that elected threads issue without loops over lanes. README.md's table of steps says what
// layouts and ptxas give, and the model's page what a stage's instructions are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_params.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_steps.h"
#include "kernels/workshop/model/ladder.h"
#include "tests/kernels/machine_code.h"
#include "tests/kernels/step_resources.h"

namespace gemmd::testing {
namespace {

// A row of README.md's table: its last five columns, by the step's name.
struct PageRow {
  std::string stages;
  std::string shared_bytes;
  std::string columns;
  int registers = 0;
  int stack = 0;
};

std::map<std::string, PageRow> ReadPage() {
  std::ifstream page("kernels/workshop/blackwell_mxfp8/README.md");
  std::map<std::string, PageRow> rows;
  for (std::string line; std::getline(page, line);) {
    std::vector<std::string> cells;
    for (absl::string_view cell : absl::StrSplit(line, '|')) {
      cells.emplace_back(absl::StripAsciiWhitespace(cell));
    }
    // Thirteen cells, and what lies before the first bar and behind the last one.
    if (cells.size() != 13 || cells[1].rfind("`d", 0) != 0) continue;
    PageRow& row = rows[cells[1].substr(1, cells[1].size() - 2)];
    row = {cells[7], cells[8], cells[9], std::stoi(cells[10]), std::stoi(cells[11])};
    if (row.shared_bytes == "as d8, d9") row.shared_bytes = "205928, 222312";
  }
  return rows;
}

// The forms that a step has: stores by threads, by TMA, or either by the product's size.
template <class Step>
std::vector<std::string> SharedBytes() {
  using blackwell_mxfp8::LadderDLayout;
  std::vector<std::string> bytes;
  const bool has_threads = Step::kStores != blackwell_mxfp8::StoreWay::kTensor;
  const bool has_tensor = Step::kStores != blackwell_mxfp8::StoreWay::kThreads;
  if (has_threads) bytes.push_back(std::to_string(LadderDLayout<Step, false>::kSharedBytes));
  if (has_tensor) bytes.push_back(std::to_string(LadderDLayout<Step, true>::kSharedBytes));
  return bytes;
}

template <class Step>
void ExpectOnPage(const std::map<std::string, PageRow>& page) {
  const std::string name(absl::StripPrefix(Step::kName, "sm100/"));
  ASSERT_EQ(page.count(name), 1u) << name;
  const PageRow& row = page.at(name);
  constexpr bool kTensor = Step::kStores != blackwell_mxfp8::StoreWay::kThreads;
  using Layout = blackwell_mxfp8::LadderDLayout<Step, kTensor>;
  EXPECT_EQ(row.stages, std::to_string(Layout::kStages)) << name;
  EXPECT_EQ(row.columns, std::to_string(Layout::kColumns)) << name;
  EXPECT_EQ(row.shared_bytes, absl::StrJoin(SharedBytes<Step>(), ", ")) << name;
}

template <class... Steps>
void ExpectAllOnPage(const std::map<std::string, PageRow>& page) {
  (ExpectOnPage<Steps>(page), ...);
  EXPECT_EQ(page.size(), sizeof...(Steps));
}

TEST(LadderDPage, HasEachStepsLayout) {
  using namespace blackwell_mxfp8;  // NOLINT: its steps alone
  ExpectAllOnPage<D0, D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13, D14, D15, D9Boxes,
                  D7EvictFirst, D7AnyHilbert, D11Mxfp4, D11Nvfp4>(ReadPage());
}

// The step of a kernel's name: D9Boxes is d9_boxes on the page.
std::string PageName(const std::string& type) {
  std::string name;
  for (const char letter : type) {
    const bool is_capital = letter >= 'A' && letter <= 'Z';
    if (is_capital && !name.empty()) name += '_';
    name += is_capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return name;
}

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
  const std::map<std::string, PageRow> page = ReadPage();
  for (const char* architecture : {"sm_100a", "sm_103a"}) {
    for (const auto& [name, stores_by_tma] : steps) {
      const StepResources& step = found[{architecture, name}];
      EXPECT_EQ(step.kernels, stores_by_tma ? 2 : 1) << architecture << " " << name;
      EXPECT_EQ(step.most_stack_bytes > 0, with_arrays.count(name) == 1)
          << architecture << " " << name;
      EXPECT_GT(step.most_registers, 0) << architecture << " " << name;
      // 192 threads may have 255 each.
      EXPECT_LE(step.most_registers, 192) << architecture << " " << name;
      // The page has what CUDA 13.0 gave; another release may take some more or fewer.
      const PageRow& row = page.at(PageName(name));
      EXPECT_NEAR(step.most_registers, row.registers, 8) << architecture << " " << name;
      EXPECT_NEAR(step.most_stack_bytes, row.stack, 64) << architecture << " " << name;
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
    int on_the_page = 0;
    for (const KernelCode& kernel : *kernels) {
      std::smatch match;
      if (!std::regex_search(kernel.entry, match, step)) continue;
      const std::string name = match[1];
      const int loops = LaneLoops(kernel);
      const StageInstructions stage = CountStage(kernel);
      std::printf("%s %s%s: %d loops over lanes, %d instructions a stage, %d from the copies on\n",
                  architecture.c_str(), name.c_str(), match[2] == "1" ? " by TMA" : "", loops,
                  stage.from_wait, stage.from_copy);
      // README.md, "d13 to d15": stores by threads, and by TMA.
      static const std::map<std::string, int> kLoops = {{"D0 0", 12},  {"D1 0", 13}, {"D3 0", 22},
                                                        {"D8 0", 22},  {"D9 1", 30}, {"D12 0", 22},
                                                        {"D12 1", 34}, {"D13 0", 0}, {"D13 1", 0}};
      const auto on_page = kLoops.find(name + " " + match[2].str());
      if (on_page != kLoops.end()) {
        ++on_the_page;
        EXPECT_NEAR(loops, on_page->second, 2) << architecture << " " << name;
      }
      if (std::regex_match(name, std::regex("D\\d+"))) {
        // The model has those of the steps that it predicts; what follows d13 issues as it does.
        const int modelled = std::min(std::stoi(name.substr(1)), model::kSteps - 1);
        const int expected = model::ShapeOf(modelled, 8192).stage_instructions;
        EXPECT_NEAR(stage.from_wait, expected, 8) << architecture << " " << name;
      }
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
    EXPECT_EQ(on_the_page, 9) << architecture;
  }
}

}  // namespace
}  // namespace gemmd::testing
