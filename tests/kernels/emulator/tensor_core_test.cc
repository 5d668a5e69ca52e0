// mma.sync gives the bits that an H200 gave, for operands of six kinds in three forms.
#include "kernels/emulator/arithmetic/tensor_core.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/emulator/launch.h"
#include "tests/kernels/ptx/mma_probe.h"
#include "tests/kernels/ptx/mma_vectors.h"
#include "tests/kernels/ptx/recorded.h"

namespace gemmd::testing {
namespace {

std::uint64_t Emulate(int form, MmaOperands operands) {
  const MmaInputs inputs(form, operands);
  std::vector<std::uint32_t> out(kMmaWarps * 32 * 4);
  const ptx::MmaProbeParams params = {inputs.words().data(), out.data()};
  emulator::LaunchRequest request;
  request.kernel = "mma_probe";
  request.grid.x = kMmaWarps;
  request.buffers = {{params.in, inputs.words().size() * 4, "in", true},
                     {params.out, out.size() * 4, "out", false}};
  const emulator::Report report = emulator::Launch(request, {}, [&] {
    if (form == 0) ptx::MmaProbe<ptx::MmaForm::kF16ToF32>(params);
    if (form == 1) ptx::MmaProbe<ptx::MmaForm::kBf16ToF32>(params);
    if (form == 2) ptx::MmaProbe<ptx::MmaForm::kF16ToF16>(params);
  });
  EXPECT_TRUE(report.ok()) << report.message;
  return HashBytes(out.data(), out.size() * 4);
}

TEST(TensorCore, GivesTheBitsOfAnH200) {
  auto recorded = ReadRecorded("tests/kernels/ptx/recorded_sm90.txt");
  for (int form = 0; form < kMmaForms; ++form) {
    for (const MmaOperands operands : kMmaOperands) {
      const std::string name = MmaVectorName(form, operands);
      ASSERT_EQ(recorded.count(name), 1u) << name;
      EXPECT_EQ(Emulate(form, operands), recorded[name]) << name;
    }
  }
}

emulator::Factors Ones(int count) {
  emulator::Factors factors = {};
  for (int k = 0; k < emulator::kBlockProducts; ++k) {
    factors.Set(emulator::HalfFormat::kF16, k, k < count ? 0x3c00 : 0);
  }
  return factors;
}

TEST(TensorCore, TruncatesWhatLies25BitsBelowTheLargest) {
  const emulator::Factors one = Ones(1);
  EXPECT_EQ(emulator::AlignedSum(0x1p25, one, one), 0x1p25 + 1);
  EXPECT_EQ(emulator::AlignedSum(0x1p26, one, one), 0x1p26);
  EXPECT_EQ(emulator::AlignedSum(0, Ones(16), Ones(16)), 16);
}

TEST(TensorCore, RoundsTowardZeroInF32AndToEvenInF16) {
  EXPECT_EQ(emulator::RoundToF32(1 + 0x1.8p-24), 1.0f);
  EXPECT_EQ(emulator::RoundToF32(-1 - 0x1.8p-24), -1.0f);
  EXPECT_EQ(emulator::RoundToF16(1 + 0x1p-11), 0x3c00);            // a tie
  EXPECT_EQ(emulator::RoundToF16(1 + 0x1p-11 + 0x1p-25), 0x3c01);  // just above it
  EXPECT_EQ(emulator::RoundToF16(65520), 0x7c00);
}

}  // namespace
}  // namespace gemmd::testing
