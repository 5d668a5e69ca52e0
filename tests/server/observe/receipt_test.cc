#include "server/observe/receipt.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// The exposed times by the definition.
std::vector<TimeNs> MomentByMoment(const Receipt& receipt) {
  // As Attribute() states it.
  constexpr Stage kOrder[] = {Stage::kCompute, Stage::kCopyIn,  Stage::kCopyOut,
                              Stage::kVerify,  Stage::kDecode,  Stage::kAdmission,
                              Stage::kEncode,  Stage::kReceive, Stage::kQueue};
  const auto rank = [&](std::size_t i) {
    return std::find(std::begin(kOrder), std::end(kOrder), receipt.spans[i].stage);
  };
  std::vector<TimeNs> exposed(receipt.spans.size(), 0);
  for (TimeNs at = receipt.arrival; at < receipt.finish; ++at) {
    std::optional<std::size_t> charged;
    for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
      const bool runs = receipt.spans[i].start <= at && at < receipt.spans[i].end;
      if (runs && (!charged.has_value() || rank(i) < rank(*charged))) charged = i;
    }
    if (charged.has_value()) ++exposed[*charged];
  }
  return exposed;
}

TEST(ShapeOf, TellsProductsFromGroups) {
  Receipt receipt;
  receipt.m = 64;
  receipt.n = 4096;
  receipt.k = 1024;
  EXPECT_EQ(ShapeOf(receipt), "64x4096x1024");
  receipt.products = 8;
  EXPECT_EQ(ShapeOf(receipt), "8*64x4096x1024");
  receipt.are_groups = true;
  EXPECT_EQ(ShapeOf(receipt), "64/8x4096x1024");
}

TEST(Attribution, ChargesEachMomentOnce) {
  Receipt receipt;
  receipt.arrival = 100;
  receipt.finish = 200;
  receipt.spans = {{Stage::kDecode, 100, 110},
                   {Stage::kQueue, 110, 150},
                   {Stage::kCopyIn, 130, 160},    // hides 20 of the queue
                   {Stage::kCompute, 140, 180},   // hides 20 of the copy
                   {Stage::kCopyOut, 170, 190}};  // 10 of it hidden
  const Attribution attribution = Attribute(receipt);
  EXPECT_EQ(attribution.total, 100);
  EXPECT_EQ(attribution.exposed, (std::vector<TimeNs>{10, 20, 10, 40, 10}));
  EXPECT_EQ(attribution.unattributed, 10);
}

TEST(Attribution, SumsToTheTotalWhateverTheSpans) {
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    Receipt receipt;
    receipt.arrival = random() % 50;
    receipt.finish = receipt.arrival + random() % 100;
    for (unsigned i = random() % 12; i > 0; --i) {
      const TimeNs start = random() % 200;
      receipt.spans.push_back(
          {static_cast<Stage>(random() % kStageCount), start, start + TimeNs(random() % 60)});
    }
    const Attribution attribution = Attribute(receipt);
    EXPECT_EQ(attribution.exposed, MomentByMoment(receipt));
    EXPECT_EQ(std::accumulate(attribution.exposed.begin(), attribution.exposed.end(),
                              attribution.unattributed),
              attribution.total);
    EXPECT_GE(attribution.unattributed, 0);
  }
}

// A large batch on a GPU may go in as many launches. Each span against each would be an hour.
TEST(Attribution, OfManySlicesIsSoon) {
  Receipt receipt;
  constexpr TimeNs kSlices = 300000;
  for (TimeNs i = 0; i < kSlices; ++i) {
    receipt.spans.push_back({Stage::kQueue, 10 * i, 10 * i + 4});
    receipt.spans.push_back({Stage::kCompute, 10 * i + 2, 10 * i + 9});
  }
  receipt.finish = 10 * kSlices;
  const Attribution attribution = Attribute(receipt);
  EXPECT_EQ(attribution.unattributed, kSlices);
  EXPECT_EQ(attribution.exposed.front(), 2);
  EXPECT_EQ(attribution.exposed.back(), 7);
}

TEST(Attribution, IgnoresWhatLiesOutsideTheRequest) {
  Receipt receipt;
  receipt.arrival = 100;
  receipt.finish = 110;
  receipt.spans = {{Stage::kCompute, 0, 1000}};
  EXPECT_EQ(Attribute(receipt).exposed[0], 10);
  EXPECT_EQ(Attribute(receipt).unattributed, 0);
}

TEST(AchievedGflops, CountsTheWholeLaunch) {
  Receipt receipt;
  receipt.batch_flops = 5000;
  receipt.spans = {{Stage::kCompute, 0, 100}};
  EXPECT_DOUBLE_EQ(AchievedGflops(receipt), 50);
  EXPECT_EQ(AchievedGflops(Receipt{}), 0);
}

TEST(TypesOf, OneNameWhereAllAreAlike) {
  EXPECT_EQ(TypesOf(MakeProblem(2, 3, 4, DataType::kF32, DataType::kF32)), "f32");
  EXPECT_EQ(TypesOf(MakeProblem(2, 3, 4, DataType::kBf16, DataType::kF32)), "bf16,bf16->f32");
  Problem problem = MakeProblem(2, 3, 4, DataType::kBf16, DataType::kBf16);
  problem.b.type = DataType::kInt4;
  EXPECT_EQ(TypesOf(problem), "bf16,int4->bf16");
  problem.b_scaling = {true, DataType::kF16, 1, 32, ScaleOrder::kAlongK, true};
  EXPECT_EQ(TypesOf(problem), "bf16,int4(" + Name(problem.b_scaling) + ")->bf16");
  // An operand that is scaled is said to be, though all types are one.
  Problem scaled = MakeProblem(2, 3, 4, DataType::kInt8, DataType::kInt8);
  scaled.a_scaling = Scaling::kVector;
  EXPECT_EQ(TypesOf(scaled), "int8(vector),int8->int8");
}

TEST(Receipt, NamesItsShapeAndItsTrace) {
  Receipt receipt;
  receipt.m = 64;
  receipt.n = 4096;
  receipt.k = 1;
  EXPECT_EQ(ShapeOf(receipt), "64x4096x1");
  EXPECT_EQ(TraceparentOf(receipt), "");
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  receipt.trace = ReadTraceOrigin(parent, "");
  EXPECT_EQ(TraceparentOf(receipt), parent);
}

}  // namespace
}  // namespace gemmd
