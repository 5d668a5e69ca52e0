// wgmma, multicast and clusters: a correct kernel raises nothing, each planted fault is
// caught, on each of 20 seeds.
#include "tests/kernels/emulator/cluster_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/emulator/launch.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

using emulator::Landing;
using emulator::Violation;

constexpr std::int64_t kM = 100;
constexpr std::int64_t kN = 72;  // two tiles, ragged
constexpr std::int64_t kK = 392;

ptx::TensorMap MapOf(const HalfMatrix& matrix, std::uint32_t box_rows) {
  ptx::TensorMapSpec spec;
  spec.base = matrix.data();
  spec.element = ptx::TensorElement::kBf16;
  spec.size[0] = static_cast<std::uint64_t>(matrix.columns());
  spec.size[1] = static_cast<std::uint64_t>(matrix.rows());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension()) * 2;
  spec.box[0] = 64;
  spec.box[1] = box_rows;
  spec.swizzle = ptx::Swizzle::k128B;
  return *ptx::MakeTensorMap(spec);
}

struct Outcome {
  emulator::Report report;
  std::int64_t different = 0;
};

template <ClusterFault kFault>
Outcome RunProduct(std::uint64_t seed, Landing landing) {
  const ProductForm form = ProductForm::kBf16AccumulateF32;
  HalfMatrix a(kM, kK);
  HalfMatrix b(kN, kK);
  std::vector<float> d(kM * kN, -12345.0f);
  a.FillRandom(FormatOf(form), 5);
  b.FillRandom(FormatOf(form), 6);
  const ClusterProductParams params = {MapOf(a, 64),
                                       MapOf(b, 32),
                                       d.data(),
                                       static_cast<std::int32_t>(kM),
                                       static_cast<std::int32_t>(kN),
                                       (kK + 63) / 64};
  emulator::LaunchRequest request;
  request.kernel = "cluster_product";
  request.grid = {2, 2};
  request.cluster_size = 2;
  request.threads = ClusterProduct::kThreads;
  request.shared_bytes = ClusterProduct::kSharedBytes;
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), {d.data(), d.size() * 4, "D", false}};
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  Outcome outcome;
  outcome.report =
      emulator::Launch(request, options, [&] { ClusterProductKernel<kFault>(params); });
  static const std::vector<std::uint16_t> expected = ExactProduct(form, a, b, true);
  for (std::size_t i = 0; i < d.size(); ++i) {
    outcome.different += emulator::Narrow(FormatOf(form), d[i]) != expected[i];
  }
  return outcome;
}

TEST(ClusterProduct, RaisesNothingAndGivesEveryBit) {
  for (const Landing landing : {Landing::kEager, Landing::kLazy, Landing::kRandom}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Outcome outcome = RunProduct<ClusterFault::kNone>(seed, landing);
      ASSERT_TRUE(outcome.report.ok()) << outcome.report.message;
      ASSERT_EQ(outcome.different, 0);
    }
  }
}

template <ClusterFault kFault>
void ExpectCaught(std::initializer_list<Violation> rules) {
  for (const Landing landing : {Landing::kEager, Landing::kLazy, Landing::kRandom}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Outcome outcome = RunProduct<kFault>(seed, landing);
      const bool is_expected =
          std::find(rules.begin(), rules.end(), outcome.report.violation) != rules.end();
      EXPECT_TRUE(is_expected) << "seed " << seed << ": " << outcome.report.message;
      EXPECT_TRUE(!outcome.report.ok() || outcome.different > 0) << "seed " << seed;
    }
  }
}

TEST(ClusterProductFault, MissingWgmmaWait) {
  ExpectCaught<ClusterFault::kMissingWgmmaWait>({Violation::kRace, Violation::kUnfinished});
}
TEST(ClusterProductFault, StageReleasedBeforeTheWait) {
  ExpectCaught<ClusterFault::kEarlyRelease>({Violation::kRace});
}
TEST(ClusterProductFault, MissingWgmmaFence) {
  ExpectCaught<ClusterFault::kMissingWgmmaFence>({Violation::kMissingFence});
}
TEST(ClusterProductFault, WrongDescriptor) {
  ExpectCaught<ClusterFault::kWrongDescriptor>({Violation::kNone});  // by its wrong bits
}
TEST(ClusterProductFault, StageReleasedInOneBlockAlone) {
  ExpectCaught<ClusterFault::kLocalReleaseOnly>(
      {Violation::kRace, Violation::kNotLanded, Violation::kMbarrierProtocol});
}
TEST(ClusterProductFault, MissingClusterBarrierAtStart) {
  ExpectCaught<ClusterFault::kMissingStartBarrier>(
      {Violation::kRace, Violation::kMbarrierProtocol, Violation::kUnfinished});
}
TEST(ClusterProductFault, MissingClusterBarrierAtEnd) {
  ExpectCaught<ClusterFault::kMissingEndBarrier>({Violation::kRace, Violation::kUnfinished});
}
TEST(ClusterProductFault, MissingInitFence) {
  ExpectCaught<ClusterFault::kMissingInitFence>({Violation::kMissingFence});
}
TEST(ClusterProductFault, WarpgroupMeetsAtDifferentPlaces) {
  ExpectCaught<ClusterFault::kDivergedWarpgroup>({Violation::kDivergedCollective});
}

}  // namespace
}  // namespace gemmd::testing
