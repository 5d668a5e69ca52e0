// Batches of small products in the emulator: each has the bits of a launch of its own, and nothing
// else is written.
#include "tests/kernels/hopper/small/small_batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"
#include "kernels/hopper/small/small_batches.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

std::vector<Arguments> OnHost(SmallBatch* batch) {
  return batch->At(batch->a.data(), batch->b.data(), batch->c_plane.data(), batch->bias.data(),
                   batch->d.data());
}

absl::Status LaunchOneByOne(const Kernel& kernel, const Config& config, SmallBatch* batch,
                            LaunchTarget target) {
  std::vector<unsigned char> workspace(kernel.WorkspaceBytes(batch->problem, config) + 256);
  for (Arguments arguments : OnHost(batch)) {
    arguments.workspace =
        workspace.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256) % 256;
    const absl::Status status = kernel.Launch(batch->problem, config, arguments, target);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// `edit` changes the operands of both.
template <class Edit>
void ExpectBitsOfLaunchesOneByOne(const SmallCase& c, int problems, Spacing spacing,
                                  const Edit& edit, std::uint64_t seed = 1) {
  SCOPED_TRACE(absl::StrCat(ToString(MakeSmallProblem(c)), " x ", problems));
  SmallBatch together(c, problems, spacing);
  SmallBatch one_by_one(c, problems, spacing);
  edit(&together);
  edit(&one_by_one);
  ASSERT_NE(FamilyOf(together.problem), nullptr);
  const Kernel& kernel = *FamilyOf(together.problem);
  ASSERT_TRUE(hopper::small::TakesBatch(together.problem, problems));
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  const Config config = kernel.Configure(together.problem, device);
  emulator::Session session;
  session.options.seed = seed;
  session.options.landing = emulator::Landing::kRandom;
  LaunchTarget target;
  target.emulator = &session;
  absl::Status status = kernel.LaunchBatch(together.problem, config, OnHost(&together), target);
  ASSERT_TRUE(status.ok()) << status;
  status = LaunchOneByOne(kernel, config, &one_by_one, target);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(std::memcmp(together.d.data(), one_by_one.d.data(), together.d.size()), 0);
}

void ExpectBitsOfLaunchesOneByOne(const SmallCase& c, int problems, Spacing spacing) {
  ExpectBitsOfLaunchesOneByOne(c, problems, spacing, [](SmallBatch*) {});
}

class SmallBatches : public ::testing::TestWithParam<DataType> {};

TEST_P(SmallBatches, GiveEachProductItsBits) {
  int which = 0;
  for (const SmallCase& c : SmallCases(GetParam())) {
    const Spacing spacings[] = {Spacing::kEqual, Spacing::kScattered, Spacing::kSharedA};
    ExpectBitsOfLaunchesOneByOne(c, 4 + which % 5, spacings[which % 3]);
    ++which;
  }
}

// Lines that start anywhere: by elements.
TEST_P(SmallBatches, ReadOperandsThatStartAnywhere) {
  for (const std::int64_t size : {16, 30, 40}) {
    SmallCase c;
    c.type = c.d_type = GetParam();
    c.m = c.n = c.k = size;
    c.gap = 1;
    // Families of 16-bit numbers and f32 take lines at multiples of 16 bytes alone.
    if (FamilyOf(MakeSmallProblem(c)) == nullptr) {
      c.gap = 0;
      c.k = c.m = 13;
    }
    ExpectBitsOfLaunchesOneByOne(c, 4, Spacing::kScattered);
  }
}

TEST_P(SmallBatches, GoOnInAnotherLaunch) {
  SmallCase c;
  c.type = c.d_type = GetParam();
  c.m = c.n = c.k = 8;
  ExpectBitsOfLaunchesOneByOne(c, 130, Spacing::kScattered);
}

TEST_P(SmallBatches, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SmallCase c;
    c.type = c.d_type = GetParam();
    c.m = 33;
    c.n = 40;
    c.k = 200;
    c.transpose_b = seed % 2 == 0;
    c.transpose_a = seed % 3 == 0;
    ExpectBitsOfLaunchesOneByOne(
        c, 4, Spacing::kEqual, [](SmallBatch*) {}, seed);
  }
}

// Infinities, NaN and, in f32, numbers that have no bf16 parts: sums are those of the family.
TEST_P(SmallBatches, TakeWhatIsNotFinite) {
  for (const std::int64_t size : {16, 32, 48}) {
    SmallCase c;
    c.type = c.d_type = GetParam();
    c.m = c.n = c.k = size;
    ExpectBitsOfLaunchesOneByOne(c, 4, Spacing::kEqual, [&](SmallBatch* batch) {
      const std::int64_t bytes = SizeBits(c.type) / 8;
      const auto put = [&](Arena* arena, int problem, std::int64_t element, double value) {
        SmallBatch::Put(
            c.type, value,
            arena->data() + arena->offsets[static_cast<std::size_t>(problem)] + element * bytes);
      };
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      put(&batch->a, 0, 3, kInfinity);
      put(&batch->b, 0, 5, -kInfinity);
      put(&batch->a, 1, 9, std::numeric_limits<double>::quiet_NaN());
      put(&batch->b, 2, 7, c.type == DataType::kF32 ? 0x1.8p127 : 1e4);
      put(&batch->a, 2, 7, c.type == DataType::kF32 ? 0x1p-149 : -1e4);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallBatches,
                         ::testing::Values(DataType::kBf16, DataType::kF16, DataType::kF32,
                                           DataType::kF64),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(SmallBatch, LeavesLargeProductsToTheirFamily) {
  const auto takes = [](DataType type, std::int64_t size, std::int64_t problems) {
    return hopper::small::TakesBatch(MakeProblem(size, size, size, type, type), problems);
  };
  EXPECT_FALSE(takes(DataType::kF32, 16, 1));
  EXPECT_TRUE(takes(DataType::kF32, 16, 2));
  EXPECT_TRUE(takes(DataType::kF32, 256, 2));
  EXPECT_FALSE(takes(DataType::kF32, 257, 3));
  EXPECT_TRUE(takes(DataType::kF32, 512, 4));
  EXPECT_FALSE(takes(DataType::kF32, 513, 64));
  EXPECT_TRUE(takes(DataType::kF64, 16, 2));
  EXPECT_FALSE(takes(DataType::kF64, 17, 3));
  EXPECT_TRUE(takes(DataType::kF64, 512, 4));
  EXPECT_TRUE(takes(DataType::kBf16, 64, 2));
  EXPECT_FALSE(takes(DataType::kBf16, 65, 1000));
  const Problem long_sums = MakeProblem(16, 16, 2049, DataType::kF32, DataType::kF32);
  EXPECT_FALSE(hopper::small::TakesBatch(long_sums, 1000));
}

// A batch is expected to take less than its launches one by one.
TEST(SmallBatch, IsPlannedAsOne) {
  for (const DataType type : {DataType::kBf16, DataType::kF32, DataType::kF64}) {
    const Problem problem = MakeProblem(32, 32, 32, type, type);
    const absl::StatusOr<Plan> one = Select(BuiltinRegistry(), problem, H200());
    const absl::StatusOr<Plan> many = Select(BuiltinRegistry(), problem, H200(), {}, nullptr, 8192);
    ASSERT_TRUE(one.ok() && many.ok());
    EXPECT_EQ(many->numerics_id, one->numerics_id);
    EXPECT_LT(many->predicted_us, 100 * one->predicted_us);
  }
}

}  // namespace
}  // namespace gemmd::testing
