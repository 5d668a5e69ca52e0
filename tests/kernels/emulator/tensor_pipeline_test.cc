// TMA, mbarriers and fences: a correct kernel raises nothing, each planted fault is caught,
// on each of 20 seeds.
#include "tests/kernels/emulator/tensor_pipeline.h"

#include <gtest/gtest.h>

#include "kernels/emulator/launch.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

using emulator::Landing;
using emulator::Violation;

constexpr std::int64_t kM = 100;  // two tiles, ragged
constexpr std::int64_t kN = 64;
constexpr std::int64_t kK = 328;

ptx::TensorMap MapOf(const HalfMatrix& matrix, ptx::Swizzle swizzle) {
  ptx::TensorMapSpec spec;
  spec.base = matrix.data();
  spec.element = ptx::TensorElement::kBf16;
  spec.size[0] = static_cast<std::uint64_t>(matrix.columns());
  spec.size[1] = static_cast<std::uint64_t>(matrix.rows());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension()) * 2;
  spec.box[0] = 64;
  spec.box[1] = 64;
  spec.swizzle = swizzle;
  return *ptx::MakeTensorMap(spec);
}

struct Outcome {
  emulator::Report report;
  std::int64_t different = 0;
};

template <PipelineFault kFault>
Outcome RunPipeline(std::uint64_t seed, Landing landing) {
  const ProductForm form = ProductForm::kBf16AccumulateF32;
  HalfMatrix a(kM, kK);
  HalfMatrix b(kN, kK);
  HalfMatrix d(kM, kN);
  a.FillRandom(FormatOf(form), 3);
  b.FillRandom(FormatOf(form), 4);
  d.Fill(0x7fc1);
  const TensorPipelineParams params = {MapOf(a, ptx::Swizzle::k128B), MapOf(b, ptx::Swizzle::k128B),
                                       MapOf(d, ptx::Swizzle::kNone), (kK + 63) / 64};
  emulator::LaunchRequest request;
  request.kernel = "tensor_pipeline";
  request.grid = {1, 2};
  request.threads = TensorPipeline::kThreads;
  request.shared_bytes = TensorPipeline::kSharedBytes;
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), d.Writable("D")};
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  Outcome outcome;
  outcome.report =
      emulator::Launch(request, options, [&] { TensorPipelineKernel<kFault>(params); });
  static const std::vector<std::uint16_t> expected = ExactProduct(form, a, b, true);
  if (outcome.report.ok()) outcome.different = CountDifferent(d, expected);
  return outcome;
}

TEST(TensorPipeline, RaisesNothingAndGivesEveryBit) {
  for (const Landing landing : {Landing::kEager, Landing::kLazy, Landing::kRandom}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Outcome outcome = RunPipeline<PipelineFault::kNone>(seed, landing);
      ASSERT_TRUE(outcome.report.ok()) << outcome.report.message;
      ASSERT_EQ(outcome.different, 0);
    }
  }
}

// A fault and the rules that may catch it.
template <PipelineFault kFault>
void ExpectCaught(std::initializer_list<Violation> rules) {
  for (const Landing landing : {Landing::kEager, Landing::kLazy, Landing::kRandom}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Outcome outcome = RunPipeline<kFault>(seed, landing);
      const bool is_expected =
          std::find(rules.begin(), rules.end(), outcome.report.violation) != rules.end();
      EXPECT_TRUE(is_expected) << "seed " << seed << ": " << outcome.report.message;
      EXPECT_TRUE(!outcome.report.ok() || outcome.different > 0) << "seed " << seed;
    }
  }
}

TEST(TensorPipelineFault, WrongSwizzle) {
  ExpectCaught<PipelineFault::kWrongSwizzle>({Violation::kNone});  // by its wrong bits
}
TEST(TensorPipelineFault, MissingFullWait) {
  ExpectCaught<PipelineFault::kMissingFullWait>({Violation::kNotLanded, Violation::kUnwritten});
}
TEST(TensorPipelineFault, WrongParity) {
  ExpectCaught<PipelineFault::kWrongParity>({Violation::kNotLanded, Violation::kUnwritten});
}
TEST(TensorPipelineFault, TooFewTransactionBytes) {
  ExpectCaught<PipelineFault::kTooFewBytes>({Violation::kMbarrierProtocol, Violation::kDeadlock,
                                             Violation::kRace, Violation::kNotLanded});
}
TEST(TensorPipelineFault, TooManyTransactionBytes) {
  ExpectCaught<PipelineFault::kTooManyBytes>({Violation::kDeadlock});
}
TEST(TensorPipelineFault, MissingEmptyWait) {
  ExpectCaught<PipelineFault::kMissingEmptyWait>(
      {Violation::kRace, Violation::kNotLanded, Violation::kMbarrierProtocol});
}
TEST(TensorPipelineFault, MissingWarpBarrierBeforeTheArrival) {
  ExpectCaught<PipelineFault::kMissingWarpBarrier>({Violation::kRace});
}
TEST(TensorPipelineFault, MissingInitFence) {
  ExpectCaught<PipelineFault::kMissingInitFence>({Violation::kMissingFence});
}
TEST(TensorPipelineFault, MissingInitBarrier) {
  ExpectCaught<PipelineFault::kMissingInitBarrier>(
      {Violation::kRace, Violation::kMbarrierProtocol});
}
TEST(TensorPipelineFault, UnfencedStore) {
  ExpectCaught<PipelineFault::kUnfencedStore>({Violation::kMissingFence});
}
TEST(TensorPipelineFault, MissingStoreBarrier) {
  ExpectCaught<PipelineFault::kMissingStoreBarrier>(
      {Violation::kRace, Violation::kUnwritten, Violation::kMissingFence});
}
TEST(TensorPipelineFault, MissingStoreWait) {
  ExpectCaught<PipelineFault::kMissingStoreWait>({Violation::kUnfinished});
}
TEST(TensorPipelineFault, TooManyArrivals) {
  ExpectCaught<PipelineFault::kTooManyArrivals>({Violation::kRace, Violation::kMbarrierProtocol,
                                                 Violation::kNotLanded, Violation::kDeadlock});
}
TEST(TensorPipelineFault, TooFewArrivals) {
  ExpectCaught<PipelineFault::kTooFewArrivals>({Violation::kDeadlock, Violation::kNotLanded,
                                                Violation::kRace, Violation::kMbarrierProtocol});
}

TEST(Deadlock, SaysWhoWaitsForWhat) {
  const Outcome outcome = RunPipeline<PipelineFault::kTooManyBytes>(1, Landing::kRandom);
  EXPECT_NE(outcome.report.message.find("256 for mbarrier shared+40960 of block rank 0, parity 0"),
            std::string::npos)
      << outcome.report.message;
}

}  // namespace
}  // namespace gemmd::testing
