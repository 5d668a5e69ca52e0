// Where the products of a stack lie. Bits of products: tests/e2e/strided_batch_test.cc.
#include "server/device/stack.h"

#include <string>

#include "gtest/gtest.h"
#include "server/device/launch.h"

namespace gemmd {
namespace {

constexpr MatrixLayout kNone{};

bool operator==(const MatrixLayout& x, const MatrixLayout& y) {
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.order == y.order &&
         x.leading_dimension == y.leading_dimension;
}

TEST(Stack, OfOneProductIsThatProduct) {
  Problem problem = MakeProblem(3, 5, 7, DataType::kF32, DataType::kF32);
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB}) {
    EXPECT_TRUE(PlaneOf(problem, {}, plane) == PlaneOf(problem, plane));
  }
  EXPECT_TRUE(ResultOf(problem, {}) == problem.d);
  EXPECT_FALSE(problem.d == kNone);
  EXPECT_EQ(ProductBytes(problem, {}), ProductBytes(problem));
}

TEST(Stack, MatricesThatFollowEachOtherAreOneWithMoreLines) {
  Problem problem = MakeProblem(3, 5, 7, DataType::kF32, DataType::kF32);
  problem.d.leading_dimension = 6;
  Stack stack;
  stack.count = 10;
  stack.a_stride = 21;
  stack.d_stride = 18;
  EXPECT_TRUE(PlaneOf(problem, stack, WorkPlane::kA) ==
              (MatrixLayout{DataType::kF32, 30, 7, Order::kRowMajor, 7}));
  EXPECT_TRUE(PlaneOf(problem, stack, WorkPlane::kB) == problem.b);
  EXPECT_TRUE(ResultOf(problem, stack) ==
              (MatrixLayout{DataType::kF32, 30, 5, Order::kRowMajor, 6}));
  problem.a.order = Order::kColumnMajor;
  problem.a.leading_dimension = 3;
  EXPECT_TRUE(PlaneOf(problem, stack, WorkPlane::kA) ==
              (MatrixLayout{DataType::kF32, 3, 70, Order::kColumnMajor, 3}));
}

TEST(Stack, BytesEndWithTheLastElement) {
  const Problem problem = MakeProblem(3, 5, 7, DataType::kF16, DataType::kF16);
  Stack stack;
  stack.count = 4;
  stack.d_stride = 15;
  stack.a_stride = 100;
  EXPECT_EQ(PlaneBytes(problem, stack, WorkPlane::kA), (3U * 100 + 21) * 2);
  // Side by side in lines of 40.
  Problem beside = problem;
  beside.a.leading_dimension = 40;
  stack.a_stride = 10;
  EXPECT_EQ(PlaneBytes(beside, stack, WorkPlane::kA), (3U * 10 + 2 * 40 + 7) * 2);
  EXPECT_EQ(ProductBytes(problem, stack), (3U * 10 + 21) * 2 + 35 * 2 + 4 * 15 * 2);
}

TEST(Stack, ScalesGoWithTheirData) {
  Problem problem = MakeProblem(3, 5, 64, DataType::kInt8, DataType::kF32);
  problem.a_scaling = problem.b_scaling = Scaling::kVector;
  Stack stack;
  stack.count = 4;
  stack.d_stride = 15;
  stack.a_stride = 1000;
  EXPECT_EQ(PlaneBytes(problem, stack, WorkPlane::kAScales), 4U * 3 * 4);
  EXPECT_EQ(StrideBytes(problem, stack, WorkPlane::kAScales), 3U * 4);
  EXPECT_EQ(PlaneBytes(problem, stack, WorkPlane::kBScales), 5U * 4);
  EXPECT_EQ(StrideBytes(problem, stack, WorkPlane::kBScales), 0U);
}

TEST(Stack, PartsOfABufferShareItsPieces) {
  char first[8];
  char second[8];
  const HostBuffer buffer = {{first, 8, nullptr}, {second, 8, nullptr}};
  EXPECT_EQ(SizeOf(buffer), 16U);
  const HostBuffer part = PartOf(buffer, 6, 5);
  ASSERT_EQ(part.size(), 2U);
  EXPECT_EQ(part[0].data, first + 6);
  EXPECT_EQ(part[0].size_bytes, 2U);
  EXPECT_EQ(part[1].data, second);
  EXPECT_EQ(part[1].size_bytes, 3U);
  EXPECT_EQ(PartOf(buffer, 8, 8).front().data, second);
  EXPECT_TRUE(PartOf(buffer, 16, 0).empty());
}

TEST(Stack, PartsAreWorksOfTheirOwn) {
  char memory[4000];
  DeviceWork stacked;
  stacked.problem = MakeProblem(3, 5, 7, DataType::kF32, DataType::kF32);
  stacked.stack = {10, 21, 0, 0, 0, 15};
  stacked.plan.predicted_us = 100;
  stacked.buffers[WorkPlane::kA] = memory;
  stacked.buffers[WorkPlane::kB] = memory + 1000;
  stacked.buffers.d = {{memory + 2000, 600, nullptr}};
  const DeviceWork part = PartOf(stacked, 2, 5);
  EXPECT_EQ(part.stack.count, 3);
  EXPECT_EQ(part.stack.a_stride, 21);
  EXPECT_EQ(part.buffers[WorkPlane::kA], memory + 2 * 84);
  EXPECT_EQ(part.buffers[WorkPlane::kB], memory + 1000);
  EXPECT_EQ(part.buffers.d.front().data, memory + 2000 + 2 * 60);
  EXPECT_EQ(SizeOf(part.buffers.d), 180U);
  EXPECT_DOUBLE_EQ(part.plan.predicted_us, 30);
  EXPECT_EQ(part.rows(), 9);
  EXPECT_EQ(part.flops(), 3 * stacked.problem.flops());
  const std::vector<DeviceWork> products = ProductsOf(stacked, 0, 10);
  ASSERT_EQ(products.size(), 10U);
  EXPECT_TRUE(products[9].stack.is_one());
  EXPECT_EQ(products[9].buffers.d.front().data, memory + 2000 + 9 * 60);
}

TEST(StackSlices, CoverEachProductOnce) {
  char memory[4000];
  DeviceWork stacked;
  stacked.problem = MakeProblem(1, 1, 1, DataType::kF32, DataType::kF32);
  stacked.buffers.d = {{memory, 4000, nullptr}};
  for (const std::int64_t count : {3, 7, 100, 101}) {
    stacked.stack = {count, 0, 0, 0, 0, 1};
    EXPECT_EQ(StackSlices::Make(stacked, count), nullptr);
    for (const std::int64_t each : {std::int64_t{1}, std::int64_t{2}, count - 1}) {
      const auto slices = StackSlices::Make(stacked, each);
      ASSERT_NE(slices, nullptr);
      const char* next = memory;
      for (int i = 0; i < slices->slices(); ++i) {
        const std::vector<DeviceWork> works = slices->WorksOf(i);
        EXPECT_GE(works.size(), 1U);
        EXPECT_LE(works.size(), static_cast<std::size_t>(each));
        for (const DeviceWork& work : works) {
          EXPECT_EQ(work.buffers.d.front().data, next);
          next += 4;
        }
      }
      EXPECT_EQ(next, memory + 4 * count);
    }
  }
}

TEST(DeviceWork, SaysHowManyProductsATimeHolds) {
  DeviceWork work;
  work.stack.count = 50;
  for (const auto& [predicted, us, products] :
       {std::tuple{0.0, 100.0, 50}, {100.0, 100.0, 50}, {100.0, 10.0, 5}, {1e9, 1.0, 1}}) {
    work.plan.predicted_us = predicted;
    EXPECT_EQ(work.ProductsWithin(us), products);
  }
}

}  // namespace
}  // namespace gemmd
