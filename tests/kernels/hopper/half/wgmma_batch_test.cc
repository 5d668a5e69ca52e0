// Batches of the Hopper GEMM in the emulator: each problem has the bits of a launch of its own,
// and nothing else is written.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/half/hopper_batch.h"

namespace gemmd::testing {
namespace {

struct BatchCase {
  HopperCase each;
  int problems;
  Spacing spacing;
  std::uint64_t seed = 1;
  int settled = 0;  // the first ones' operands are
};

std::vector<Arguments> OnHost(HopperBatch* batch) {
  return batch->At(batch->a.data(), batch->b.data(), batch->c_plane.data(), batch->bias.data(),
                   batch->d.data());
}

void ExpectBitsOfLaunchesOneByOne(const char* name, const BatchCase& c) {
  const Kernel& kernel = *BuiltinRegistry().Find(name);
  HopperBatch together(c.each, c.problems, c.spacing);
  HopperBatch one_by_one(c.each, c.problems, c.spacing);
  ASSERT_EQ(kernel.Rejection(together.problem), "") << name;
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  const Config config = kernel.Configure(together.problem, device);
  emulator::Session session;
  session.options.seed = c.seed;
  session.options.landing = emulator::Landing::kRandom;
  LaunchTarget target;
  target.emulator = &session;
  std::vector<Arguments> settled = OnHost(&together);
  for (int i = 0; i < c.settled; ++i) {
    Arguments& arguments = settled[static_cast<std::size_t>(i)];
    arguments.a_is_settled = arguments.b_is_settled = true;
  }
  const absl::Status status = kernel.LaunchBatch(together.problem, config, settled, target);
  ASSERT_TRUE(status.ok()) << name << ": " << status;
  for (const Arguments& arguments : OnHost(&one_by_one)) {
    ASSERT_TRUE(kernel.Launch(one_by_one.problem, config, arguments, target).ok());
  }
  EXPECT_EQ(std::memcmp(together.d.data(), one_by_one.d.data(), together.d.size()), 0)
      << name << ", " << ToString(together.problem);
}

class HopperBatches : public ::testing::TestWithParam<const char*> {};

// Whole and ragged tiles, M short of a box, B in both orders, planes near and far.
TEST_P(HopperBatches, GiveEachProblemItsBits) {
  const HopperCase cases[] = {{64, 136, 128, DataType::kF16, false, true},
                              {130, 77, 100, DataType::kBf16, false, true},
                              {5, 130, 72, DataType::kBf16, false, true}};
  for (const HopperCase& each : cases) {
    for (const Spacing spacing : {Spacing::kEqual, Spacing::kScattered, Spacing::kSharedA}) {
      ExpectBitsOfLaunchesOneByOne(GetParam(), {each, 3, spacing});
    }
  }
}

TEST_P(HopperBatches, TakeTheOtherLayoutsAndEpilogues) {
  for (const Spacing spacing : {Spacing::kEqual, Spacing::kScattered}) {
    for (const bool writes_f32 : {false, true}) {
      HopperCase each = {70, 90, 80, DataType::kBf16, false, false};
      each.writes_f32 = writes_f32;
      each.epilogue = {0.5, -1.5, true, Activation::kRelu};
      if (!BuiltinRegistry().Find(GetParam())->Rejection(MakeHopperProblem(each)).empty()) {
        each = {70, 90, 80, DataType::kBf16, false, true};
      }
      ExpectBitsOfLaunchesOneByOne(GetParam(), {each, 3, spacing});
      each.d_order = Order::kColumnMajor;
      each.transpose_a = false;
      if (!BuiltinRegistry().Find(GetParam())->Rejection(MakeHopperProblem(each)).empty()) continue;
      ExpectBitsOfLaunchesOneByOne(GetParam(), {each, 3, spacing});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HopperBatches, ::testing::ValuesIn(kHopperEntries),
                         [](const auto& info) { return std::string(info.param).substr(5); });

// More than one launch holds, and rounds with other seeds.
TEST(HopperBatch, GoesOnInAnotherLaunch) {
  for (const Spacing spacing : {Spacing::kEqual, Spacing::kScattered}) {
    ExpectBitsOfLaunchesOneByOne("sm90/one64x64",
                                 {{9, 72, 40, DataType::kF16, false, true}, 35, spacing, 1, 32});
  }
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ExpectBitsOfLaunchesOneByOne("sm90/one64x128", {{70, 140, 600, DataType::kF16, false, true},
                                                    4,
                                                    Spacing::kScattered,
                                                    seed,
                                                    seed % 2 == 0 ? 4 : 0});
  }
}

TEST(HopperBatch, OfNoneIsNothing) {
  const Kernel& kernel = *BuiltinRegistry().Find("sm90/one64x64");
  const Problem problem = MakeHopperProblem({8, 8, 8, DataType::kF16, false, true});
  EXPECT_TRUE(kernel.LaunchBatch(problem, {}, {}, LaunchTarget()).ok());
}

// A batch of small problems takes tiles that fill the device together.
TEST(HopperBatch, IsPlannedAsOne) {
  DeviceTraits device;
  device.kind = DeviceKind::kCuda;
  device.compute_capability = 90;
  device.compute_units = 132;
  device.memory_gbps = 4300;
  const Problem problem = MakeHopperProblem({1024, 1024, 1024, DataType::kBf16, false, true});
  const absl::StatusOr<Plan> one = Select(BuiltinRegistry(), problem, device);
  const absl::StatusOr<Plan> many = Select(BuiltinRegistry(), problem, device, {}, nullptr, 64);
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_EQ(one->kernel->traits().name, "sm90/one64x128");
  EXPECT_EQ(many->kernel->traits().name, "sm90/coop128x256");
  EXPECT_EQ(many->numerics_id, one->numerics_id);
  EXPECT_LT(many->predicted_us, 64 * one->predicted_us);
}

}  // namespace
}  // namespace gemmd::testing
