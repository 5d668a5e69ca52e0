// Groups of rows by the Hopper GEMM in the emulator: each row has the bits of its group alone, and
// nothing else is written.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/hopper/half/hopper_groups.h"

namespace gemmd::testing {
namespace {

Arguments OnHost(HopperGroups* groups) {
  Arguments arguments;
  arguments.a = groups->a.data();
  arguments.b = groups->b.data();
  arguments.c = groups->c_plane.data();
  arguments.bias = groups->bias.data();
  arguments.d = groups->d.data();
  return arguments;
}

DeviceTraits Emulated() {
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  return device;
}

void ExpectBitsOfGroupsAlone(const char* name, const HopperCase& c,
                             const std::vector<std::int64_t>& ends, std::uint64_t seed = 1) {
  const Kernel& kernel = *BuiltinRegistry().Find(name);
  HopperGroups together(c, ends);
  HopperGroups alone(c, ends);
  const RowGroups groups = together.groups();
  ASSERT_EQ(kernel.Rejection(together.problem), "") << name;
  ASSERT_TRUE(kernel.TakesGroups(together.problem, groups.b_step)) << name;
  emulator::Session session;
  session.options.seed = seed;
  session.options.landing = emulator::Landing::kRandom;
  LaunchTarget target;
  target.emulator = &session;
  Arguments arguments = OnHost(&together);
  arguments.a_is_settled = arguments.b_is_settled = seed % 2 == 0;
  const absl::Status status = kernel.LaunchGroups(
      together.problem, kernel.Configure(together.problem, Emulated()), groups, arguments, target);
  ASSERT_TRUE(status.ok()) << name << ": " << status;
  const Arguments all = OnHost(&alone);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Problem problem = alone.ProblemOf(i);
    if (problem.m == 0) continue;
    ASSERT_TRUE(kernel
                    .Launch(problem, kernel.Configure(problem, Emulated()),
                            alone.ArgumentsOf(i, all), target)
                    .ok());
  }
  EXPECT_EQ(std::memcmp(together.d.data(), alone.d.data(), together.d.size()), 0)
      << name << ", " << ToString(together.problem) << ", " << ends.size() << " groups";
}

class HopperGroupsTest : public ::testing::TestWithParam<const char*> {};

// Empty groups, one row, a tile and a bit, the last rows of a tile of a pair; N in whole units and
// not; B in both orders.
TEST_P(HopperGroupsTest, GiveEachRowItsBits) {
  ExpectBitsOfGroupsAlone(GetParam(), {300, 136, 128, DataType::kBf16, false, true},
                          {0, 1, 1, 130, 258, 258, 300});
  ExpectBitsOfGroupsAlone(GetParam(), {200, 77, 100, DataType::kF16, false, true}, {64, 65, 200},
                          2);
  ExpectBitsOfGroupsAlone(GetParam(), {40, 136, 72, DataType::kBf16, false, false},
                          {3, 5, 14, 14, 40});
}

TEST_P(HopperGroupsTest, ApplyTheEpilogueOfEachGroup) {
  HopperCase c = {150, 90, 80, DataType::kBf16, false, false};
  c.epilogue = {0.5, -1.5, true, Activation::kRelu};
  ExpectBitsOfGroupsAlone(GetParam(), c, {20, 20, 149, 150});
  c.writes_f32 = true;
  c.transpose_b = true;
  ExpectBitsOfGroupsAlone(GetParam(), c, {70, 150}, 2);
}

TEST_P(HopperGroupsTest, DrawnAtRandom) {
  std::mt19937 random(11);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto draw = [&](int most) { return static_cast<std::int64_t>(random() % most) + 1; };
    const HopperCase c = {draw(400),       draw(300), draw(150),
                          DataType::kBf16, false,     random() % 2 == 0};
    ExpectBitsOfGroupsAlone(GetParam(), c, DrawEnds(c.m, static_cast<int>(draw(12)), &random),
                            seed);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HopperGroupsTest, ::testing::ValuesIn(GroupEntries()),
                         [](const auto& info) { return std::string(info.param).substr(5); });

TEST(HopperGroups, GoOnInAnotherLaunch) {
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < 1030; ++i) ends.push_back(i % 100 == 7 && i > 0 ? ends.back() : i);
  const std::int64_t rows = ends.back();
  ExpectBitsOfGroupsAlone("sm90/one64x64", {rows, 8, 16, DataType::kF16, false, true}, ends);
}

// A is the kernel's rows and lies by lines, and steps are what TMA takes.
TEST(HopperGroups, AreRefusedWhereMapsCannotSayThem) {
  const Kernel& kernel = *BuiltinRegistry().Find("sm90/one64x128");
  const HopperCase c = {64, 64, 64, DataType::kBf16, false, true};
  EXPECT_TRUE(kernel.TakesGroups(MakeHopperProblem(c), 8192));
  EXPECT_FALSE(kernel.TakesGroups(MakeHopperProblem(c), 8200));
  EXPECT_FALSE(kernel.TakesGroups(MakeHopperProblem(c), 0));
  HopperCase columns = c;
  columns.d_order = Order::kColumnMajor;
  EXPECT_FALSE(kernel.TakesGroups(MakeHopperProblem(columns), 8192));
  HopperCase transposed = c;
  transposed.transpose_a = true;
  EXPECT_FALSE(kernel.TakesGroups(MakeHopperProblem(transposed), 8192));
  EXPECT_FALSE(BuiltinRegistry().Find("sm90/one64x32")->TakesGroups(MakeHopperProblem(c), 8192));
}

}  // namespace
}  // namespace gemmd::testing
