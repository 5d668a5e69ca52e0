// Units cover D once, keep every thread busy, and those of a part of D are no larger.
#include "kernels/cpu/units.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

struct Cut {
  std::int64_t m = 0;
  std::int64_t n = 0;
  int workers = 0;
};

std::vector<Cut> RandomCuts() {
  std::mt19937 random(1);
  const auto upto = [&random](std::uint32_t most) {
    return 1 + static_cast<std::int64_t>(random() % (1 + random() % most));
  };
  std::vector<Cut> cuts;
  for (int i = 0; i < 200; ++i) cuts.push_back({upto(900), upto(2000), static_cast<int>(upto(16))});
  return cuts;
}

TEST(Units, CoverEveryElementOnce) {
  for (const Cut& cut : RandomCuts()) {
    const Units units(cut.m, cut.n, cut.workers);
    std::vector<int> times(static_cast<std::size_t>(cut.m * cut.n));
    for (std::int64_t index = 0; index < units.count(); ++index) {
      const Unit unit = units[index];
      ASSERT_LE(unit.rows, units.rows());
      ASSERT_LE(unit.columns, units.columns());
      for (std::int64_t row = unit.first_row; row < unit.first_row + unit.rows; ++row) {
        for (std::int64_t j = 0; j < unit.columns; ++j) {
          ++times[static_cast<std::size_t>(row * cut.n + unit.first_column + j)];
        }
      }
    }
    EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << cut.m << " x " << cut.n;
  }
}

// The thread that takes the last unit then works alone for a quarter of its time at most.
TEST(Units, AreFourForEachThreadOrAsSmallAsPays) {
  for (const Cut& cut : RandomCuts()) {
    const Units units(cut.m, cut.n, cut.workers);
    if (cut.workers == 1 || units.count() >= 4 * cut.workers) continue;
    EXPECT_LE(units.rows(), Units::kLeastRows) << cut.m << " x " << cut.n;
    EXPECT_LE(units.columns(), Units::kLeastColumns) << cut.m << " x " << cut.n;
  }
  EXPECT_EQ(Units(1024, 1024, 1).count(), 8);
  EXPECT_EQ(Units(1024, 1024, 2).count(), 8);
  EXPECT_EQ(Units(64, 2048, 2).count(), 8);
}

// A launch of a slice has the workspace that was planned for the whole.
TEST(Units, OfAPartAreNoLargerAndNoMoreAtWork) {
  std::mt19937 random(2);
  for (const Cut& cut : RandomCuts()) {
    const Units whole(cut.m, cut.n, cut.workers);
    const auto m = 1 + static_cast<std::int64_t>(random()) % cut.m;
    const auto n = 1 + static_cast<std::int64_t>(random()) % cut.n;
    const Units part(m, n, cut.workers);
    EXPECT_LE(part.rows(), whole.rows());
    EXPECT_LE(part.columns(), whole.columns());
    EXPECT_LE(std::min<std::int64_t>(part.count(), cut.workers),
              std::min<std::int64_t>(whole.count(), cut.workers));
  }
}

}  // namespace
}  // namespace gemmd
