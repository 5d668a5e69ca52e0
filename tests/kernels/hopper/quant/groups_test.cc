// Groups of rows, each by a packed B of its own, in the emulator: each row has the bits that its
// group has alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/hopper/quant/group_launches.h"
#include "kernels/hopper/quant/packing.h"
#include "tests/kernels/hopper/quant/entries.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::CodeFormat;
using hopper::quant::kCodeFormats;
using hopper::quant::kGroupTilings;

// A stack of B is one B of as many more lines: packed, its matrices lie one behind another.
class Groups {
 public:
  // `c`: of all rows, by matrices of c.n lines.
  Groups(CodeFormat format, const QuantCase& c, std::vector<std::int64_t> row_ends, int every = 1)
      : kernel_(KernelOf(format)),
        row_ends_(std::move(row_ends)),
        every_(every),
        run_(Whole(c, static_cast<std::int64_t>(row_ends_.size()) * every)),
        problem_(MakeQuantProblem(c)),
        alone_(problem_.d),
        together_(problem_.d) {
    problem_.b_packing = Packing::kStrips;
    problem_.c = run_.problem.c;
  }

  // By the launches that the kernel chooses.
  void ExpectBitsOfGroupsAlone(const emulator::Options& options) {
    ASSERT_EQ(kernel_.Rejection(problem_), "");
    ASSERT_TRUE(kernel_.TakesGroups(problem_, Step(WeightPlane::kCodes)));
    ExpectBits(options, [&](const RowGroups& groups, const Arguments& arguments,
                            const LaunchTarget& target) {
      return kernel_.LaunchGroups(problem_, kernel_.Configure(problem_, {}), groups, arguments,
                                  target);
    });
  }

  // Each group by the first tiling that has room for it.
  void ExpectBitsInEachTiling() {
    ExpectBits(
        {}, [&](const RowGroups& groups, const Arguments& arguments, const LaunchTarget& target) {
          hopper::quant::GroupsByTiling by_tiling;
          for (std::size_t i = 0; i < row_ends_.size(); ++i) {
            if (Rows(i) == 0) continue;
            const int tiling = hopper::quant::GroupTilingFor(Rows(i));
            by_tiling.of_tiling[tiling].push_back(
                {Begin(i), row_ends_[i], static_cast<std::int64_t>(i)});
          }
          return hopper::quant::LaunchTilings(by_tiling, problem_, groups, arguments, target);
        });
  }

 private:
  static QuantCase Whole(QuantCase c, std::int64_t matrices) {
    c.n *= matrices;
    return c;
  }
  std::int64_t Begin(std::size_t group) const { return group == 0 ? 0 : row_ends_[group - 1]; }
  std::int64_t Rows(std::size_t group) const { return row_ends_[group] - Begin(group); }
  std::int64_t Step(WeightPlane plane) const {
    return every_ * static_cast<std::int64_t>(PackedBytes(problem_, plane));
  }
  std::int64_t BiasBytes() const { return problem_.n * SizeBits(problem_.d.type) / 8; }

  template <class Launch>
  void ExpectBits(const emulator::Options& options, const Launch& launch) {
    for (std::size_t i = 0; i < row_ends_.size(); ++i) {
      if (Rows(i) > 0) LaunchAlone(i, options);
    }
    const RowGroups groups = {row_ends_, Step(WeightPlane::kCodes), every_ * BiasBytes()};
    Arguments arguments = run_.MakeArguments();
    arguments.d = together_.data();
    const emulator::Report report = QuantRun::RunIn(
        [&](const LaunchTarget& target) { return launch(groups, arguments, target); }, options);
    ASSERT_EQ(report.message, "");
    EXPECT_EQ(std::memcmp(together_.data(), alone_.data(), problem_.d.size_bytes()), 0);
    EXPECT_TRUE(together_.IsPaddingUntouched());
  }

  void LaunchAlone(std::size_t group, const emulator::Options& options) {
    Problem own = problem_;
    own.m = own.a.rows = own.c.rows = own.d.rows = Rows(group);
    const auto lines = [&](const MatrixLayout& layout) {
      return Begin(group) * layout.row_stride() * SizeBits(layout.type) / 8;
    };
    const auto at = [](const void* plane, std::int64_t bytes) {
      return plane == nullptr ? nullptr : static_cast<const char*>(plane) + bytes;
    };
    const auto product = static_cast<std::int64_t>(group);
    Arguments arguments = run_.MakeArguments();
    arguments.a = at(arguments.a, lines(own.a));
    arguments.b = at(arguments.b, product * Step(WeightPlane::kCodes));
    arguments.b_scales = at(arguments.b_scales, product * Step(WeightPlane::kScales));
    arguments.b_zero_points = at(arguments.b_zero_points, product * Step(WeightPlane::kZeroPoints));
    arguments.b_offsets = at(arguments.b_offsets, product * Step(WeightPlane::kOffsets));
    arguments.c = at(arguments.c, lines(own.c));
    arguments.bias = at(arguments.bias, product * every_ * BiasBytes());
    arguments.d = static_cast<char*>(alone_.data()) + lines(own.d);
    const emulator::Report report = QuantRun::RunIn(
        [&](const LaunchTarget& target) {
          return kernel_.Launch(own, kernel_.Configure(own, {}), arguments, target);
        },
        options);
    ASSERT_EQ(report.message, "");
  }

  const Kernel& kernel_;
  const std::vector<std::int64_t> row_ends_;
  const int every_;
  QuantRun run_;
  Problem problem_;
  Plane alone_;
  Plane together_;
};

class PackedGroupsTest : public ::testing::TestWithParam<CodeFormat> {};

// Groups for each tiling, and of several tiles of the last; none, one row, a tile and the next.
TEST_P(PackedGroupsTest, GiveEachRowItsBits) {
  const bool takes_many = hopper::quant::GroupTilingCount(GetParam()) == kGroupTilings;
  std::vector<std::int64_t> ends = {0, 1, 9, 9, 25, 26};
  if (takes_many) ends.insert(ends.end(), {66, 66, 206});
  QuantCase c = CaseOf(GetParam(), ends.back(), 512, 192);
  c.has_nan = true;
  Groups(GetParam(), c, ends).ExpectBitsInEachTiling();
}

TEST_P(PackedGroupsTest, ApplyTheEpilogueOfEachGroup) {
  const std::vector<std::int64_t> ends = {3, 4, 4, 24, 40};
  QuantCase c = CaseOf(GetParam(), ends.back(), 128, 320);
  c.epilogue = {0.5, -1.5, true, Activation::kRelu};
  c.has_zero_points = c.is_integer() && !c.has_offsets;
  c.d = DataType::kF32;
  c.b_is_settled = false;
  emulator::Options options;
  options.landing = emulator::Landing::kRandom;
  Groups(GetParam(), c, ends, 2).ExpectBitsOfGroupsAlone(options);
}

std::string ParameterName(const ::testing::TestParamInfo<CodeFormat>& info) {
  return FormatName(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, PackedGroupsTest, ::testing::ValuesIn(kCodeFormats), ParameterName);

TEST(PackedGroups, DrawnAtRandom) {
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    const CodeFormat format = kCodeFormats[random() % std::size(kCodeFormats)];
    std::vector<std::int64_t> ends(1 + random() % 6);
    std::int64_t end = 0;
    constexpr int kMost[] = {0, 1, 8, 20, 70};
    for (std::int64_t& each : ends) {
      end += static_cast<std::int64_t>(random() % (kMost[random() % 5] + 1));
      each = end;
    }
    if (end == 0) ends.back() = end = 1;
    QuantCase c = CaseOf(format, end, 128 * static_cast<std::int64_t>(1 + random() % 4),
                         64 * static_cast<std::int64_t>(2 + random() % 5));
    if (!c.is_e2m1() && random() % 2 == 0) c.a = DataType::kF16;
    SCOPED_TRACE(FormatName(format));
    emulator::Options options;
    options.seed = static_cast<std::uint64_t>(i);
    Groups(format, c, ends).ExpectBitsOfGroupsAlone(options);
  }
}

TEST(PackedGroups, GoOnInAnotherLaunch) {
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < 1030; ++i) ends.push_back(i);
  const QuantCase c = CaseOf(CodeFormat::kMxfp4, ends.back(), 128, 64);
  Groups(CodeFormat::kMxfp4, c, ends).ExpectBitsOfGroupsAlone({});
}

// An H100's, as launches take it, which know no device.
DeviceTraits Traits() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCuda;
  traits.compute_capability = 90;
  traits.compute_units = 132;
  traits.memory_gbps = 3000;
  return traits;
}
// The numbers of groups that go by each tiling, and alone.
std::vector<std::size_t> CountByTiling(CodeFormat format, std::int64_t n,
                                       const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> ends;
  for (const std::int64_t each : rows) ends.push_back((ends.empty() ? 0 : ends.back()) + each);
  Problem problem = MakeQuantProblem(CaseOf(format, ends.back(), n, 4096));
  problem.b_packing = Packing::kStrips;
  const RowGroups groups = {ends, 1, 0};
  const hopper::quant::GroupsByTiling by_tiling =
      hopper::quant::ByTiling(problem, groups, Traits());
  std::vector<std::size_t> counts;
  for (const auto& its : by_tiling.of_tiling) counts.push_back(its.size());
  counts.push_back(by_tiling.alone.size());
  return counts;
}

TEST(PackedGroups, GoByTheQuickestTilings) {
  using Counts = std::vector<std::size_t>;
  constexpr CodeFormat kInt4 = CodeFormat::kInt4;
  EXPECT_EQ(CountByTiling(kInt4, 14336, std::vector<std::int64_t>(64, 1)),
            (Counts{64, 0, 0, 0, 0, 0}));
  // Bytes bind both tilings that have room: that with less work for nothing.
  EXPECT_EQ(CountByTiling(kInt4, 14336, std::vector<std::int64_t>(64, 8)),
            (Counts{0, 64, 0, 0, 0, 0}));
  EXPECT_EQ(CountByTiling(kInt4, 14336, std::vector<std::int64_t>(64, 256)),
            (Counts{0, 0, 0, 0, 64, 0}));
  // Two of few rows are not worth a launch of their own.
  EXPECT_EQ(CountByTiling(kInt4, 14336, {8, 8, 8, 8, 1, 1}), (Counts{0, 6, 0, 0, 0, 0}));
  // Nor is one of many beside others of some.
  EXPECT_EQ(CountByTiling(kInt4, 14336, {188, 60, 60, 60, 60, 60}), (Counts{0, 0, 0, 6, 0, 0}));
  // Lines that no tiling of many rows takes, and weights with offsets.
  EXPECT_EQ(CountByTiling(kInt4, 14336 + 128, {1, 40}), (Counts{1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(CountByTiling(CodeFormat::kUint4Offset, 14336, {1, 40}), (Counts{1, 0, 0, 0, 0, 1}));
}

// Where a stack's matrices lie is a number of packed ones, and rows of f32 have no such launch.
TEST(PackedGroups, AreRefusedOtherwise) {
  const Kernel& kernel = KernelOf(CodeFormat::kInt4);
  QuantCase c = CaseOf(CodeFormat::kInt4, 8, 128, 256);
  Problem problem = MakeQuantProblem(c);
  const std::int64_t bytes = 128 * 256 / 2;
  EXPECT_FALSE(kernel.TakesGroups(problem, bytes));
  problem.b_packing = Packing::kStrips;
  EXPECT_TRUE(kernel.TakesGroups(problem, bytes));
  EXPECT_TRUE(kernel.TakesGroups(problem, 3 * bytes));
  EXPECT_FALSE(kernel.TakesGroups(problem, 0));
  EXPECT_FALSE(kernel.TakesGroups(problem, bytes + 256));
  c.a = DataType::kF32;
  Problem floats = MakeQuantProblem(c);
  floats.b_packing = Packing::kStrips;
  EXPECT_EQ(kernel.Rejection(floats), "");
  EXPECT_FALSE(kernel.TakesGroups(floats, bytes));
}

}  // namespace
}  // namespace gemmd::testing
