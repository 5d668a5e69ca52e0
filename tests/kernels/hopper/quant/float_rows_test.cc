// Rows of f32 by every format in the emulator: each bit of D is that of the model, which adds the
// products of three rows of bf16.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/hopper/quant/float_rows_places.h"
#include "kernels/hopper/quant/packed.h"
#include "tests/kernels/hopper/quant/entries.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::CodeFormat;
using hopper::quant::kCodeFormats;
using hopper::quant::kFloatRowsAtOnce;

DeviceTraits Emulated() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kEmulated;
  return traits;
}

void ExpectEveryBit(CodeFormat format, QuantCase c, const emulator::Options& options = {}) {
  c.a = DataType::kF32;
  QuantRun run(c);
  Problem problem = run.problem;
  problem.b_packing = Packing::kStrips;
  const Kernel& kernel = KernelOf(format);
  ASSERT_EQ(kernel.Rejection(problem), "");
  const Config config = kernel.Configure(problem, Emulated());
  ASSERT_LE(kernel.WorkspaceBytes(problem, config),
            static_cast<std::uint64_t>(run.WorkspaceBytes()));
  ExpectBitsOfTheModel(
      &run,
      [&](const LaunchTarget& target) {
        return kernel.Launch(problem, config, run.MakeArguments(), target);
      },
      options);
}

class FloatRows : public ::testing::TestWithParam<CodeFormat> {};

TEST_P(FloatRows, GiveEveryBitOfTheModel) {
  for (const std::int64_t m : {1, 2, 5, 6, 23, 70}) {
    SCOPED_TRACE(m);
    QuantCase c = CaseOf(GetParam(), m, 130 - m, 704);
    c.d_order = m % 2 == 0 ? Order::kRowMajor : Order::kColumnMajor;
    c.d = m % 3 == 0 ? DataType::kBf16 : DataType::kF32;
    c.b_is_k_major = m % 4 < 2;
    ExpectEveryBit(GetParam(), c);
  }
}

TEST_P(FloatRows, FuseTheEpilogue) {
  ForEveryEpilogue(CaseOf(GetParam(), 7, 70, 192),
                   [](const QuantCase& c) { ExpectEveryBit(GetParam(), c); });
}

TEST_P(FloatRows, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 2 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    ExpectEveryBit(GetParam(), CaseOf(GetParam(), static_cast<std::int64_t>(seed * 4), 64, 1280),
                   options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FloatRows, ::testing::ValuesIn(kCodeFormats),
                         [](const auto& info) { return FormatName(info.param); });

// Infinities and NaN are whole in the first part, and the least subnormals in none.
TEST(FloatRowsOfAnyKind, CountAsIeeeHasThem) {
  QuantCase c = CaseOf(CodeFormat::kInt4, 6, 64, 128);
  c.has_odd_rows = true;
  ExpectEveryBit(CodeFormat::kInt4, c);
}

// More rows than the workspace has room for.
TEST(FloatRowsOfAnyKind, AreMultipliedSoManyAtOnce) {
  QuantCase c = CaseOf(CodeFormat::kUint4G32Offset, kFloatRowsAtOnce + 3, 70, 64);
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    c.d_order = order;
    c.epilogue = {0.5, -1.5, true, Activation::kNone};
    ExpectEveryBit(CodeFormat::kUint4G32Offset, c);
  }
}

}  // namespace
}  // namespace gemmd::testing
