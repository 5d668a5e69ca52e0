// The benchmark's own kernels, in the emulator: what they fill, compare and read.
#include "kernels/workshop/bench/bench_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "kernels/workshop/bench/bench_case.h"
#include "kernels/workshop/bench/sampled_check.h"

namespace gemmd::bench {
namespace {

class DeviceWorkTest : public ::testing::Test {
 protected:
  DeviceWorkTest() { target_.emulator = &session_; }

  std::vector<float> Filled(DataType type, std::uint64_t seed, std::size_t units) {
    std::vector<float> plane(units * 4);
    FillWork work;
    work.data = plane.data();
    work.units = units;
    work.seed = seed;
    work.type = type;
    EXPECT_TRUE(kernels_.fill(work, target_).ok()) << session_.report.message;
    return plane;
  }

  const BenchWork kernels_ = EmulatedBenchWork();
  emulator::Session session_;
  LaunchTarget target_;
};

TEST_F(DeviceWorkTest, FillsWhatTheCheckComputesAgain) {
  constexpr std::size_t kUnits = 300;
  for (const DataType type :
       {DataType::kF16, DataType::kBf16, DataType::kF32, DataType::kF64, DataType::kInt8,
        DataType::kFp8E4M3, DataType::kFp8E5M2, DataType::kE8M0}) {
    const std::vector<float> plane = Filled(type, 5, kUnits);
    const auto* bytes = reinterpret_cast<const char*>(plane.data());
    const auto count = static_cast<std::int64_t>(kUnits * 128) / SizeBits(type);
    for (std::int64_t i = 0; i < count; i += 7) {
      const double expected = RandomElement(type, 5, static_cast<std::uint64_t>(i));
      ASSERT_EQ(ReadElement(type, bytes, i), expected) << Name(type) << " " << i;
      ASSERT_LT(std::fabs(expected), 256);
    }
  }
}

// A kernel of ladder D, on operands and scales as a run fills them, is within the check's bound.
TEST_F(DeviceWorkTest, FillsBlockScaledOperandsThatAKernelMultiplies) {
  const Case c{{200, 136, 160}, ParseTypes("mxfp8")->front(), {false, true}, true};
  const Problem problem = MakeProblem(c);
  const auto units = [](std::uint64_t bytes) { return static_cast<std::size_t>(bytes + 255) / 16; };
  const auto a = Filled(problem.a.type, kSeedOfA, units(problem.a.size_bytes()));
  const auto b = Filled(problem.b.type, kSeedOfB, units(problem.b.size_bytes()));
  const auto a_scales = Filled(problem.a_scaling.type, kSeedOfAScales,
                               units(ScaleBytes(problem.a_scaling, problem.m, problem.k)));
  const auto b_scales = Filled(problem.b_scaling.type, kSeedOfBScales,
                               units(ScaleBytes(problem.b_scaling, problem.n, problem.k)));
  std::vector<float> d(static_cast<std::size_t>(problem.m * problem.d.leading_dimension));
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.a_scales = a_scales.data();
  arguments.b_scales = b_scales.data();
  arguments.d = d.data();
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  const Kernel* kernel = BuiltinRegistry().Find("sm100/d10");
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(kernel->Rejection(problem), "");
  const absl::Status status =
      kernel->Launch(problem, kernel->Configure(problem, device), arguments, target_);
  ASSERT_TRUE(status.ok()) << status << session_.report.message;
  const std::vector<std::int64_t> rows = Sampled(problem.m, 9);
  std::vector<std::vector<char>> lines;
  for (const std::int64_t row : rows) {
    const auto* line = reinterpret_cast<const char*>(
        &d[static_cast<std::size_t>(row * problem.d.leading_dimension)]);
    lines.emplace_back(line, line + problem.n * 4);
  }
  EXPECT_LE(WorstError(problem, rows, Sampled(problem.n, 9), lines), 1);
}

TEST_F(DeviceWorkTest, CountsWhatDiffers) {
  constexpr std::int64_t kLines = 9;
  constexpr std::int64_t kColumns = 13;
  constexpr std::int64_t kPitch = 16;
  const std::vector<float> reference = Filled(DataType::kF32, 6, kLines * kPitch / 4);
  std::vector<float> d = reference;
  d[0] += 1;                         // beyond the limit
  d[kPitch + kColumns - 1] += 0.25;  // within it
  d[8 * kPitch + 3] = NAN;           // unwritten
  d[kPitch + kColumns] = NAN;        // padding
  std::vector<std::uint32_t> different(kCompareThreads);
  std::vector<std::uint32_t> largest(kCompareThreads);
  CompareWork work;
  work.d = d.data();
  work.reference = reference.data();
  work.lines = kLines;
  work.columns = kColumns;
  work.pitch = kPitch;
  work.limit = 0.5F;
  work.different = different.data();
  work.largest = largest.data();
  ASSERT_TRUE(kernels_.compare(work, target_).ok()) << session_.report.message;
  std::uint32_t count = 0;
  float most = 0;
  for (std::size_t i = 0; i < kCompareThreads; ++i) {
    count += different[i];
    float value;
    std::memcpy(&value, &largest[i], sizeof value);
    most = std::max(most, value);
  }
  EXPECT_EQ(count, 2u);
  EXPECT_NEAR(most, 1, 1e-6);
}

TEST_F(DeviceWorkTest, ReadsAndMultipliesWithoutAReport) {
  std::vector<std::uint32_t> sink(64);
  const std::vector<float> data = Filled(DataType::kBf16, 3, kTensorWorkBytes / 16);
  ReadWork read;
  read.data = data.data();
  read.units = kTensorWorkBytes / 16;
  read.blocks = 1;
  read.sink = sink.data();
  EXPECT_TRUE(kernels_.read(read, target_).ok()) << session_.report.message;
  TensorWork work;
  work.data = data.data();
  work.sink = sink.data();
  work.steps = 2;
  work.blocks = 1;
  work.is_bf16 = true;
  EXPECT_TRUE(kernels_.mma(work, target_).ok()) << session_.report.message;
  EXPECT_TRUE(kernels_.wgmma(work, target_).ok()) << session_.report.message;
}

}  // namespace
}  // namespace gemmd::bench
