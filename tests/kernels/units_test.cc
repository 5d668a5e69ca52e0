// Units cover D once, keep every thread busy, and let others wait for no long time.
#include "kernels/cpu/units.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

struct Cut {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  int workers = 0;
};

std::vector<Cut> RandomCuts() {
  std::mt19937 random(1);
  const auto upto = [&random](std::uint32_t most) {
    return 1 + static_cast<std::int64_t>(random() % (1 + random() % most));
  };
  std::vector<Cut> cuts;
  for (int i = 0; i < 200; ++i) {
    cuts.push_back({upto(900), upto(2000), upto(20000), static_cast<int>(upto(16))});
  }
  return cuts;
}

TEST(Units, CoverEveryElementOnce) {
  for (const Cut& cut : RandomCuts()) {
    const Units units(cut.m, cut.n, cut.k, cut.workers);
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
    const Units units(cut.m, cut.n, cut.k, cut.workers);
    if (cut.workers == 1 || units.count() >= 4 * cut.workers) continue;
    EXPECT_LE(units.rows(), Units::kLeastRows) << cut.m << " x " << cut.n;
    EXPECT_LE(units.columns(), Units::kLeastColumns) << cut.m << " x " << cut.n;
  }
  EXPECT_EQ(Units(1024, 1024, 64, 1).count(), 8);
  EXPECT_EQ(Units(1024, 1024, 64, 2).count(), 8);
  EXPECT_EQ(Units(64, 2048, 64, 2).count(), 8);
}

// Others wait for a unit at most.
TEST(Units, AreShortOrAsSmallAsPays) {
  for (const Cut& cut : RandomCuts()) {
    const Units units(cut.m, cut.n, cut.k, cut.workers);
    if (units.rows() * units.columns() * cut.k <= Units::kMostProducts) continue;
    EXPECT_LE(units.rows(), Units::kLeastShortRows) << cut.m << " x " << cut.n;
    EXPECT_LE(units.columns(), Units::kLeastColumns) << cut.m << " x " << cut.n;
  }
  const Units units(4096, 4096, 1024, 2);
  EXPECT_EQ(units.rows(), 256);
  EXPECT_EQ(units.columns(), 128);
}

}  // namespace
}  // namespace gemmd
