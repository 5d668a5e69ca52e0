#include "kernels/bench/options.h"

#include <gtest/gtest.h>

#include "kernels/bench/ladder.h"

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
  EXPECT_EQ(PublishedCell(*a, "sm80/a05"), "256 (0.89)");
  EXPECT_EQ(PublishedCell(*a, "sm80/a06"), "-");
  const absl::StatusOr<Ladder> b = FindLadder("B");
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(PublishedCell(*b, "sm120/tma_r_32"), "34.31 (1.06)");
  EXPECT_EQ(PublishedCell(*b, "sm120/tma_rw"), "-") << "nothing was published";
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

}  // namespace
}  // namespace gemmd::bench
