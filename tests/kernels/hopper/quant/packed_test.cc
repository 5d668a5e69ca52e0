// The registry entries of products by packed weights, and when selection takes them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

constexpr char kName[] = "sm90/packed_int4";
constexpr char kMxfp4Name[] = "sm90/packed_mxfp4";
constexpr char kNvfp4Name[] = "sm90/packed_nvfp4";

using hopper::quant::CodeFormat;

DeviceTraits Emulated() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kEmulated;
  traits.name = "emulated";
  traits.compute_capability = 90;
  return traits;
}

Problem Packed(Problem problem) {
  problem.b_packing = Packing::kStrips;
  return problem;
}

std::string ReasonOf(const Problem& problem, const char* name = kName) {
  return Explain(BuiltinRegistry(), problem, Emulated(), name).front().rejection;
}

class PackedWeights : public ::testing::TestWithParam<std::pair<CodeFormat, const char*>> {};

TEST_P(PackedWeights, HaveTheBitsOfTheModelInEveryConfig) {
  const auto& [format, name] = GetParam();
  const Kernel& kernel = *BuiltinRegistry().Find(name);
  for (const std::int64_t m : {1, 7, 16, 70}) {
    QuantRun run(CaseOf(format, m, 512, 192));
    const Problem problem = Packed(run.problem);
    const std::vector<Config> configs = kernel.Alternatives(problem, Emulated());
    EXPECT_GE(configs.size(), 4U);
    for (const Config& config : configs) {
      SCOPED_TRACE(ToString(config));
      EXPECT_EQ(kernel.PlannedNumericsId(problem, config), kernel.NumericsId(problem));
      ExpectBitsOfTheModel(&run,
                           [&](const LaunchTarget& target) {
                             return kernel.Launch(problem, config, run.MakeArguments(), target);
                           },
                           {});
    }
  }
}

TEST_P(PackedWeights, AreServedByTheEntryOfTheirFormatAlone) {
  const auto& [format, name] = GetParam();
  const Problem problem = MakeQuantProblem(CaseOf(format, 5, 128, 256));
  EXPECT_EQ(Select(BuiltinRegistry(), Packed(problem), Emulated())->kernel->traits().name, name);
  EXPECT_EQ(ReasonOf(problem, name), "takes B that stays on the device, where it is packed");
  int offered = 0;
  for (const Candidate& each : Explain(BuiltinRegistry(), Packed(problem), Emulated())) {
    offered += each.rejection.empty() ? 1 : 0;
  }
  EXPECT_EQ(offered, 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, PackedWeights,
    ::testing::Values(std::pair(CodeFormat::kInt4, kName), std::pair(CodeFormat::kInt4G64, kName),
                      std::pair(CodeFormat::kInt4G32, kName),
                      std::pair(CodeFormat::kUint4Offset, kName),
                      std::pair(CodeFormat::kUint4G64Offset, kName),
                      std::pair(CodeFormat::kUint4G32Offset, kName),
                      std::pair(CodeFormat::kUint4G32FloatOffset, kName),
                      std::pair(CodeFormat::kUint8G32Offset, "sm90/packed_int8"),
                      std::pair(CodeFormat::kMxfp4, kMxfp4Name),
                      std::pair(CodeFormat::kNvfp4, kNvfp4Name),
                      std::pair(CodeFormat::kInt8, "sm90/packed_int8"),
                      std::pair(CodeFormat::kInt8G64, "sm90/packed_int8"),
                      std::pair(CodeFormat::kInt8G32, "sm90/packed_int8"),
                      std::pair(CodeFormat::kE4m3, "sm90/packed_fp8"),
                      std::pair(CodeFormat::kE5m2, "sm90/packed_fp8"),
                      std::pair(CodeFormat::kMxE4m3, "sm90/packed_mxfp8"),
                      std::pair(CodeFormat::kMxE5m2, "sm90/packed_mxfp8"),
                      std::pair(CodeFormat::kMxE3m2, "sm90/packed_mxfp6"),
                      std::pair(CodeFormat::kMxE2m3, "sm90/packed_mxfp6")),
    [](const auto& info) { return FormatName(info.param.first); });

// A B that stays has the bits of one that comes with its product, which is decoded to bf16 and
// multiplied as any bf16 is; unless its scales are very far apart, so the ids differ.
class PackedChains : public ::testing::TestWithParam<std::pair<CodeFormat, const char*>> {};

TEST_P(PackedChains, HaveTheBitsOfTheProductOfDecodedWeights) {
  for (const bool b_is_k_major : {true, false}) {
    for (const DataType d : {DataType::kF32, DataType::kBf16}) {
      QuantCase c = CaseOf(GetParam().first, 21, 136, 320);
      c.b_is_k_major = b_is_k_major;
      c.d = d;
      c.epilogue = {0.5, 0, true, Activation::kRelu};
      QuantRun run(c);
      const Problem& sent = run.problem;
      const Plan decoded = *Select(BuiltinRegistry(), sent, Emulated());
      EXPECT_EQ(Select(BuiltinRegistry(), Packed(sent), Emulated())->kernel->traits().name,
                GetParam().second);
      EXPECT_EQ(decoded.kernel->traits().name.rfind("dequantize/sm90/", 0), 0U)
          << decoded.kernel->traits().name;
      Bytes workspace(static_cast<std::int64_t>(decoded.workspace_bytes));
      Arguments arguments = run.MakeArguments();
      arguments.b = run.codes.data();
      arguments.b_scales = run.scales.data();
      arguments.workspace = workspace.data();
      ExpectBitsOfTheModel(&run,
                           [&](const LaunchTarget& target) {
                             return decoded.kernel->Launch(sent, decoded.config, arguments, target);
                           },
                           {});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedChains,
                         ::testing::Values(std::pair(CodeFormat::kMxfp4, kMxfp4Name),
                                           std::pair(CodeFormat::kNvfp4, kNvfp4Name)),
                         [](const auto& info) { return FormatName(info.param.first); });

TEST(PackedFp4, SaysWhatItDoesNotTake) {
  const Problem mxfp4 = Packed(MakeQuantProblem(CaseOf(CodeFormat::kMxfp4, 5, 128, 256)));
  const Problem nvfp4 = Packed(MakeQuantProblem(CaseOf(CodeFormat::kNvfp4, 5, 128, 256)));
  EXPECT_EQ(ReasonOf(mxfp4, kMxfp4Name), "");
  EXPECT_EQ(ReasonOf(nvfp4, kNvfp4Name), "");
  EXPECT_EQ(ReasonOf(mxfp4), "takes B of int4 or uint4, not fp4_e2m1 with scales of e8m0/1x32");
  EXPECT_EQ(ReasonOf(mxfp4, kNvfp4Name), "takes B of nvfp4, not fp4_e2m1 with scales of e8m0/1x32");
  EXPECT_EQ(ReasonOf(nvfp4, kMxfp4Name),
            "takes B of mxfp4, not fp4_e2m1 with scales of fp8_e4m3/1x16+tensor");
}

// One kernel by either type of codes, each under an id of its own.
TEST(PackedInt8, HasAnIdForEachTypeOfCodes) {
  const Kernel& kernel = *BuiltinRegistry().Find("sm90/packed_int8");
  QuantCase c = CaseOf(CodeFormat::kInt8, 5, 128, 256);
  c.has_zero_points = true;
  const std::string of_int8 = kernel.NumericsId(Packed(MakeQuantProblem(c)));
  c.b = DataType::kUint8;
  EXPECT_EQ(ReasonOf(Packed(MakeQuantProblem(c)), "sm90/packed_int8"), "");
  EXPECT_NE(kernel.NumericsId(Packed(MakeQuantProblem(c))), of_int8);
}

// As a panel of a product may: fewer columns than the config's blocks have.
TEST(PackedInt4, AConfigServesFewerColumnsThanItsOwn) {
  const Kernel& kernel = *BuiltinRegistry().Find(kName);
  const Problem whole = Packed(MakeQuantProblem({70, 1024, 128}));
  QuantRun run({70, 256, 128});
  for (const Config& config : kernel.Alternatives(whole, Emulated())) {
    SCOPED_TRACE(ToString(config));
    ExpectBitsOfTheModel(&run,
                         [&](const LaunchTarget& target) {
                           return kernel.Launch(Packed(run.problem), config, run.MakeArguments(),
                                                target);
                         },
                         {});
  }
}

TEST(PackedInt4, TheOrderOfScalesIsNoPartOfTheNumerics) {
  const Kernel& kernel = *BuiltinRegistry().Find(kName);
  QuantCase along_lines = {5, 128, 256};
  along_lines.b_is_k_major = false;
  EXPECT_EQ(kernel.NumericsId(Packed(MakeQuantProblem(along_lines))),
            kernel.NumericsId(Packed(MakeQuantProblem({5, 128, 256}))));
}

TEST(PackedInt4, SaysWhatItDoesNotTake) {
  Problem problem = Packed(MakeQuantProblem({5, 128, 256}));
  EXPECT_EQ(ReasonOf(problem), "");
  Problem other = problem;
  other.a.leading_dimension = 257;
  EXPECT_EQ(ReasonOf(other), "takes a leading dimension of A that is a multiple of 8, not 257");
  other = problem;
  other.transpose_a = true;
  EXPECT_EQ(ReasonOf(other), "takes A whose lines run along K");
  other = problem;
  other.a.type = DataType::kF32;
  EXPECT_EQ(ReasonOf(other), "");
  other.a.leading_dimension = 258;
  EXPECT_EQ(ReasonOf(other), "takes a leading dimension of A that is a multiple of 4, not 258");
  other.a.type = DataType::kF64;
  EXPECT_EQ(ReasonOf(other), "takes A of f16, bf16 or f32, not f64");
  other = problem;
  other.accumulate = DataType::kF64;
  EXPECT_EQ(ReasonOf(other), "does not accumulate in f64");
  other = problem;
  other.m = std::int64_t{1} << 31;
  EXPECT_EQ(ReasonOf(other), "takes dimensions up to 2147482623");
}

}  // namespace
}  // namespace gemmd::testing
