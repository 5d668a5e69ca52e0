// Every step of ladder D in the emulator: each bit of D, on whole and ragged shapes, and where
// tiles and columns lie.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "kernels/sm100/ladder_d_launch.h"
#include "tests/kernels/sm100/ladder_d_run.h"

namespace gemmd::testing {
namespace {

// d8 to d12 as they are where products are large, on products that are not.
struct LargeD8 : sm100::D8 {
  static constexpr int kLargeFrom = 1;
};
struct LargeD10 : sm100::D10 {
  static constexpr int kLargeFrom = 1;
};
struct LargeD11 : sm100::D11 {
  static constexpr int kLargeFrom = 1;
};

struct Step {
  const char* name;
  MxLaunch* launch;
};

std::ostream& operator<<(std::ostream& out, const Step& step) { return out << step.name; }

template <class T>
constexpr Step Make(const char* name) {
  return {name, sm100::LaunchLadderD<T>};
}

const Step kSteps[] = {
    Make<sm100::D0>("d0"),       Make<sm100::D1>("d1"),     Make<sm100::D2>("d2"),
    Make<sm100::D3>("d3"),       Make<sm100::D4>("d4"),     Make<sm100::D5>("d5"),
    Make<sm100::D6>("d6"),       Make<sm100::D7>("d7"),     Make<sm100::D8>("d8"),
    Make<sm100::D9>("d9"),       Make<sm100::D10>("d10"),   Make<sm100::D11>("d11"),
    Make<sm100::D12>("d12"),     Make<LargeD8>("large_d8"), Make<LargeD10>("large_d10"),
    Make<LargeD11>("large_d11"),
};

// The bits of a case, computed once for all steps.
const std::vector<float>& ExpectedOf(const MxCase& each) {
  static auto* const all = new std::map<std::string, std::vector<float>>();
  std::ostringstream name;
  name << each;
  auto [found, is_new] = all->try_emplace(name.str());
  if (is_new) {
    const MxOperands operands(each);
    found->second = MxProduct(operands.a, operands.b);
  }
  return found->second;
}

class LadderD : public ::testing::TestWithParam<Step> {};

TEST_P(LadderD, GivesEveryBitOfTheProduct) {
  constexpr DataType kE5m2 = DataType::kFp8E5M2;
  const MxCase cases[] = {
      {{256, 256, 256}},
      {{512, 256, 384}},
      {{300, 200, 173}, DataType::kFp8E4M3, kE5m2, 3, 1},  // D's rows are aligned to nothing
      {{1, 132, 40}, kE5m2, DataType::kFp8E4M3, 4},        // N ends in a whole unit of 16 bytes
  };
  for (const MxCase& each : cases) {
    emulator::Options options;
    EXPECT_EQ(RunMx(GetParam().launch, each, options, ExpectedOf(each)), "") << each;
  }
}

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderD, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gemmd::testing
