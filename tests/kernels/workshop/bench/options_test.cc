#include "kernels/workshop/bench/options.h"

#include <gtest/gtest.h>

#include "kernels/workshop/bench/ladder.h"

namespace gemmd::bench {
namespace {

std::string Refusal(const std::vector<std::string>& arguments) {
  return std::string(ParseOptions(arguments).status().message());
}

TEST(Options, DefaultsAreOurKernelsOnTheLaddersShapes) {
  const absl::StatusOr<Options> options = ParseOptions({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->kernels, std::vector<std::string>{"sm*"});
  EXPECT_EQ(options->shapes.size(), 3u);
  EXPECT_EQ(Cases(*options).size(), 3u);
  EXPECT_EQ(options->protocol.sustained_ms, 100);
}

TEST(Options, ACaseForEachShapeTypeAndLayout) {
  const absl::StatusOr<Options> options = ParseOptions(
      {"--shapes=decode,300x301x302", "--types=f16,bf16", "--layouts=nt,TN", "--leading=tight"});
  ASSERT_TRUE(options.ok()) << options.status();
  const std::vector<Case> cases = Cases(*options);
  ASSERT_EQ(cases.size(), 8u * 2 * 2);
  EXPECT_EQ(cases.back().shape, (Shape{300, 301, 302}));
  EXPECT_EQ(ToString(cases.back().layout), "TN");
  EXPECT_FALSE(cases.back().is_padded);
}

TEST(Options, ALadderBringsItsKernelsTypesAndShapes) {
  const absl::StatusOr<Options> options = ParseOptions({"--ladder=A", "--shapes=4096x4096x4096"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->kernels.front(), "sm80/a01a");
  EXPECT_EQ(options->types.size(), 3u);
  EXPECT_EQ(options->shapes.size(), 1u);
}

TEST(Options, LadderDMeasuresBlockScaledProductsAtItsFourSizes) {
  const absl::StatusOr<Options> options = ParseOptions({"--ladder=D"});
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_EQ(options->kernels.size(), 16u);
  EXPECT_EQ(options->kernels.back(), "sm100/d15");
  const std::vector<Case> cases = Cases(*options);
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[3].shape, (Shape{16384, 16384, 16384}));
  for (const Case& c : cases) {
    EXPECT_STREQ(c.types.name, "mxfp8");
    EXPECT_EQ(ToString(c.layout), "NT");
  }
  const absl::StatusOr<Options> given = ParseOptions({"--ladder=D", "--layouts=NN"});
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(ToString(Cases(*given).front().layout), "NN");
}

TEST(Options, LadderCMeasuresBAlongKAsPublished) {
  const absl::StatusOr<Options> options = ParseOptions({"--ladder=C"});
  ASSERT_TRUE(options.ok()) << options.status();
  for (const Case& c : Cases(*options)) EXPECT_EQ(ToString(c.layout), "NT");
}

TEST(Options, RefusalsNameFlagValueAndLimit) {
  EXPECT_EQ(Refusal({"--shapes=4096"}),
            "shapes: \"4096\" is neither MxNxK, each of 1 to 1048576, nor one of ladder, hopper, "
            "decode");
  EXPECT_NE(Refusal({"--shapes=0x1x1"}), "");
  EXPECT_NE(Refusal({"--shapes=1x1x1x1"}), "");
  EXPECT_EQ(Refusal({"--rounds=0"}), "--rounds is \"0\"; it must be a number from 1 to 100");
  EXPECT_EQ(Refusal({"--layouts=NX"}), "layouts: \"NX\" is none of NN, NT, TN, TT");
  EXPECT_EQ(Refusal({"--settled=b,a"}), "--settled is \"a\"; it must be both, b or none");
  EXPECT_EQ(Refusal({"--rival-streams=1,9"}),
            "--rival-streams is \"9\"; it must be a number from 1 to 8");
  EXPECT_NE(Refusal({"--types=f8"}).find("types: \"f8\" is none of f16, "), std::string::npos);
  EXPECT_EQ(Refusal({"--ladder=A", "--kernels=sm80/*"}),
            "--ladder and --kernels exclude each other");
  EXPECT_EQ(Refusal({"--json="}), "--json is \"\"; it must be --flag=value");
  EXPECT_EQ(Refusal({"--jsn=x"}), "no flag is called --jsn=x");
  EXPECT_EQ(Refusal({"x"}), "\"x\" is no flag; see --help");
}

TEST(Options, GlobsMatchSlashes) {
  EXPECT_TRUE(MatchesAny({"sm*"}, "sm80/a01a"));
  EXPECT_TRUE(MatchesAny({"x", "*/a0?"}, "sm80/a05"));
  EXPECT_FALSE(MatchesAny({"sm80"}, "sm80/a05"));
}

TEST(Ladder, FiguresStandAsPublished) {
  const absl::StatusOr<Ladder> a = FindLadder("A");
  ASSERT_TRUE(a.ok());
  const Shape published = {8192, 8192, 8192};
  EXPECT_EQ(PublishedCell(*a, published, "sm80/a05"), "256 (0.89)");
  EXPECT_EQ(PublishedCell(*a, published, "sm80/a06"), "-");
  EXPECT_EQ(PublishedCublasCell(*a, published), "289 (1)");
  const absl::StatusOr<Ladder> b = FindLadder("B");
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(PublishedCell(*b, {4096, 4096, 4096}, "sm120/tma_r_32"), "34.31 (1.06)");
  EXPECT_EQ(PublishedCell(*b, {4096, 4096, 4096}, "sm120/tma_rw"), "-") << "nothing was published";
}

TEST(Ladder, FiguresAreOfTheSizeShown) {
  const absl::StatusOr<Ladder> d = FindLadder("D");
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(PublishedCell(*d, {2048, 2048, 2048}, "sm100/d0"), "478.5 (0.48)");
  EXPECT_EQ(PublishedCell(*d, {4096, 4096, 4096}, "sm100/d5"), "2199 (0.87)");
  EXPECT_EQ(PublishedCell(*d, {8192, 8192, 8192}, "sm100/d10"), "2599 (0.97)");
  EXPECT_EQ(PublishedCell(*d, {16384, 16384, 16384}, "sm100/d11"), "2425 (0.94)");
  EXPECT_EQ(PublishedCublasCell(*d, {2048, 2048, 2048}), "996 (1)");
  EXPECT_EQ(PublishedCublasCell(*d, {16384, 16384, 16384}), "2571 (1)");
  EXPECT_EQ(PublishedCell(*d, {4096, 4096, 4096}, "sm100/d12"), "-") << "nothing was published";
  EXPECT_EQ(PublishedCell(*d, {4096, 4096, 2048}, "sm100/d5"), "-") << "of no such shape";
  EXPECT_EQ(PublishedCublasCell(*d, {4096, 4096, 2048}), "-");
}

TEST(BenchCase, LinesArePaddedAsADeviceLandsThem) {
  const absl::StatusOr<std::vector<Types>> types = ParseTypes("bf16,int8");
  ASSERT_TRUE(types.ok());
  Case c{{1023, 4095, 4097}, (*types)[0], {false, true}, true};
  Problem problem = MakeProblem(c);
  EXPECT_EQ(problem.a.leading_dimension, 4160);
  EXPECT_EQ(problem.b.rows, 4095);
  EXPECT_EQ(problem.d.leading_dimension, 4096);
  c.is_padded = false;
  EXPECT_EQ(MakeProblem(c).a.leading_dimension, 4097);
  c.is_padded = true;
  c.types = (*types)[1];
  problem = MakeProblem(c);
  EXPECT_EQ(problem.n, 4096);
  EXPECT_EQ(problem.k, 4112);
  EXPECT_EQ(problem.d.type, DataType::kInt32);
}

TEST(BenchCase, BlockScaledOperandsKeepTheirSizeAndHaveScalesInTiles) {
  const Case c{{1023, 4095, 4097}, ParseTypes("mxfp8")->front(), {false, true}, true};
  const Problem problem = MakeProblem(c);
  EXPECT_EQ(problem.n, 4095);
  EXPECT_EQ(problem.k, 4097);
  EXPECT_EQ(problem.a.leading_dimension, 4224);
  EXPECT_EQ(Name(problem.a_scaling), "e8m0/1x32@tiles");
  EXPECT_EQ(problem.b_scaling, problem.a_scaling);
  // Tiles of 128 lines by 4 blocks of 32 of K, of 512 bytes each.
  EXPECT_EQ(ScaleBytes(problem.a_scaling, problem.m, problem.k), 8u * 33 * 512);
  EXPECT_EQ(ScaleBytes(problem.b_scaling, problem.n, problem.k), 32u * 33 * 512);
  EXPECT_EQ(ScaleBytes(Scaling::kNone, problem.m, problem.k), 0u);
}

}  // namespace
}  // namespace gemmd::bench
