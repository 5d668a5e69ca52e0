// A fault planted into ladder A's source (BUILD.bazel says which) is caught on each of 20
// seeds: by a rule of the emulator, or by a wrong bit of D.
#include <gtest/gtest.h>

#include "kernels/emulator/launch.h"
#include "kernels/mma/half_gemm_types.h"
#include "tests/kernels/mma/half_operands.h"

// The changed copy of ladder_a.h.
#include LADDER_A_HEADER

namespace gemmd::testing {
namespace {

Outcome RunFaulty(std::uint64_t seed, emulator::Landing landing) {
  const Shape shape{128, 128, 384};
  const ProductForm form = ProductForm::kF16AccumulateF32;
  HalfMatrix a(shape.m, shape.k);
  HalfMatrix b(shape.k, shape.n);
  HalfMatrix d(shape.m, shape.n);
  a.FillRandom(FormatOf(form), 1);
  b.FillRandom(FormatOf(form), 2);
  d.Fill(0x7fc1);
  const mma::HalfGemmParams params = {a.data(),
                                      b.data(),
                                      d.data(),
                                      a.leading_dimension(),
                                      b.leading_dimension(),
                                      d.leading_dimension(),
                                      static_cast<std::int32_t>(shape.m),
                                      static_cast<std::int32_t>(shape.n),
                                      static_cast<std::int32_t>(shape.k),
                                      1,
                                      1};
  using Step = sm80::LADDER_A_STEP;
  emulator::LaunchRequest request;
  request.kernel = Step::kName;
  request.threads = sm80::kThreads;
  request.shared_bytes = sm80::LadderASharedBytes(Step::kStages);
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), d.Writable("D")};
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  Outcome outcome;
  outcome.report = emulator::Launch(request, options,
                                    [&] { sm80::LadderA<Step, mma::F16AccumulateF32>(params); });
  static const std::vector<std::uint16_t> expected = ExactProduct(form, a, b, false);
  if (outcome.report.ok()) outcome.different = CountDifferent(d, expected);
  return outcome;
}

TEST(PlantedFault, IsCaughtOnEverySeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = RunFaulty(seed, emulator::Landing::kRandom);
    EXPECT_FALSE(outcome.ok()) << "seed " << seed;
    if (seed == 1) {
      RecordProperty("caught_by", outcome.report.ok() ? "wrong bits" : outcome.report.message);
      std::printf("%s\n", outcome.report.ok() ? "wrong bits" : outcome.report.message.c_str());
    }
  }
}

TEST(PlantedFault, IsCaughtEvenWhereCopiesLandAtOnce) {
  EXPECT_FALSE(RunFaulty(1, emulator::Landing::kEager).ok());
}

}  // namespace
}  // namespace gemmd::testing
