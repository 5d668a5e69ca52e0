// Where the products of a stack lie. Bits of products: tests/e2e/strided_batch_test.cc.
#include "server/device/stack.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/launch.h"
#include "server/device/resident_part.h"

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
  stack.strides[WorkPlane::kA] = 21;
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
  stack.strides[WorkPlane::kA] = 100;
  EXPECT_EQ(PlaneBytes(problem, stack, WorkPlane::kA), (3U * 100 + 21) * 2);
  // Side by side in lines of 40.
  Problem beside = problem;
  beside.a.leading_dimension = 40;
  stack.strides[WorkPlane::kA] = 10;
  EXPECT_EQ(PlaneBytes(beside, stack, WorkPlane::kA), (3U * 10 + 2 * 40 + 7) * 2);
  EXPECT_EQ(ProductBytes(problem, stack), (3U * 10 + 21) * 2 + 35 * 2 + 4 * 15 * 2);
}

TEST(Stack, ScalesGoWithTheirData) {
  Problem problem = MakeProblem(3, 5, 64, DataType::kInt8, DataType::kF32);
  problem.a_scaling = problem.b_scaling = Scaling::kVector;
  Stack stack;
  stack.count = 4;
  stack.d_stride = 15;
  SetStrides(problem, WorkPlane::kA, 1000, &stack);
  EXPECT_EQ(stack.strides[WorkPlane::kA], 1000);
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
  stacked.stack.count = 10;
  stacked.stack.strides[WorkPlane::kA] = 21;
  stacked.stack.d_stride = 15;
  stacked.plan.predicted_us = 100;
  stacked.buffers[WorkPlane::kA] = memory;
  stacked.buffers[WorkPlane::kB] = memory + 1000;
  stacked.buffers.d = {{memory + 2000, 600, nullptr}};
  const DeviceWork part = PartOf(stacked, 2, 5);
  EXPECT_EQ(part.stack.count, 3);
  EXPECT_EQ(part.stack.strides[WorkPlane::kA], 21);
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

// Memory that stays at an address.
class Staying final : public ResidentOperand {
 public:
  explicit Staying(const char* memory) : memory_(memory) {}
  const void* data() const override { return memory_; }
  const MatrixLayout& layout() const override { return layout_; }
  std::uint64_t size_bytes() const override { return 0; }

 private:
  const char* const memory_;
  const MatrixLayout layout_;
};

TEST(Stack, PartsFindTheirMatricesInWhatStays) {
  char memory[4000];
  DeviceWork stacked;
  stacked.problem = MakeProblem(3, 5, 7, DataType::kF32, DataType::kF32);
  stacked.stack.count = 10;
  stacked.stack.d_stride = 15;
  SetStrides(stacked.problem, WorkPlane::kB, 35, &stacked.stack);
  stacked.buffers.d = {{memory, 600, nullptr}};
  const auto whole = std::make_shared<const Staying>(memory);
  // Matrices are 256 bytes apart there, and 140 in what was given.
  stacked.resident[WorkPlane::kB] =
      std::make_shared<const ResidentPart>(whole, ResidentPart::Place{512, 256, 280});
  stacked.resident[WorkPlane::kA] = whole;
  const DeviceWork part = PartOf(stacked, 3, 6);
  const ResidentOperand& b = *part.resident[WorkPlane::kB];
  EXPECT_EQ(b.data(), memory + 512 + 3 * 256);
  EXPECT_EQ(b.step_bytes(), 256U);
  EXPECT_EQ(b.begin_in_whole(), 280U + 3 * 140);
  EXPECT_EQ(&b.whole(), whole.get());
  EXPECT_EQ(part.resident[WorkPlane::kA], whole);
  const std::vector<DeviceWork> products = ProductsOf(part, 0, 3);
  const ResidentOperand& last = *products[2].resident[WorkPlane::kB];
  EXPECT_EQ(last.data(), memory + 512 + 5 * 256);
  EXPECT_EQ(last.step_bytes(), 0U);
  EXPECT_EQ(last.begin_in_whole(), 280U + 5 * 140);
}

// Makes groups of f32, row-major, by matrices that follow each other. `memory` is A's, B's and D's.
DeviceWork GroupsOf(const std::vector<std::int64_t>& ends, char* memory) {
  DeviceWork grouped;
  grouped.problem = MakeProblem(ends.back(), 5, 7, DataType::kF32, DataType::kF32);
  grouped.stack.count = static_cast<std::int64_t>(ends.size());
  grouped.stack.row_ends = std::make_shared<const std::vector<std::int64_t>>(ends);
  SetStrides(grouped.problem, WorkPlane::kB, 35, &grouped.stack);
  auto plans = std::make_shared<std::map<std::int64_t, Plan>>();
  for (std::int64_t i = 0; i < grouped.stack.count; ++i) {
    const std::int64_t rows = grouped.stack.row_end(i) - grouped.stack.row_begin(i);
    if (rows != 0) (*plans)[rows].predicted_us = static_cast<double>(rows);
  }
  grouped.plans = std::move(plans);
  grouped.buffers[WorkPlane::kA] = memory;
  grouped.buffers[WorkPlane::kB] = memory;
  grouped.buffers.d = {{memory, grouped.problem.d.size_bytes(), nullptr}};
  return grouped;
}

TEST(Groups, AreProductsOfTheirRows) {
  char memory[20000];
  const DeviceWork grouped = GroupsOf({3, 3, 8, 10}, memory);
  EXPECT_EQ(grouped.rows(), 10);
  EXPECT_EQ(grouped.flops(), grouped.problem.flops());
  EXPECT_EQ(PlaneBytes(grouped.problem, grouped.stack, WorkPlane::kB), 4U * 35 * 4);
  EXPECT_TRUE(ResultOf(grouped.problem, grouped.stack) == grouped.problem.d);
  const std::vector<DeviceWork> products = ProductsOf(grouped, 0, 4);
  ASSERT_EQ(products.size(), 3U);
  const DeviceWork& third = products[1];
  EXPECT_TRUE(third.stack.is_one());
  EXPECT_FALSE(third.stack.has_groups());
  EXPECT_EQ(third.problem.m, 5);
  EXPECT_EQ(third.problem.d.rows, 5);
  EXPECT_EQ(third.problem.b.columns, 5);
  EXPECT_EQ(third.problem.b_scale_lines, 0);
  EXPECT_EQ(third.buffers[WorkPlane::kA], memory + 3 * 7 * 4);
  EXPECT_EQ(third.buffers[WorkPlane::kB], memory + 2 * 35 * 4);
  EXPECT_EQ(third.buffers.d.front().data, memory + 3 * 5 * 4);
  EXPECT_EQ(SizeOf(third.buffers.d), 5U * 5 * 4);
  EXPECT_EQ(third.plan.predicted_us, 5);
}

TEST(GroupSlices, CoverEachRowOnce) {
  std::vector<char> memory(1 << 20);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> ends;
    std::int64_t last = 0;
    const int count = 1 + static_cast<int>(random() % 9);
    for (int i = 0; i < count; ++i) {
      last += random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 2000);
      ends.push_back(last);
    }
    if (last == 0) continue;
    const DeviceWork grouped = GroupsOf(ends, memory.data());
    const double slice_us = 1 + static_cast<double>(random() % 3000);
    const bool cuts_rows = random() % 2 == 0;
    const auto sliced = GroupSlices::Make(grouped, slice_us, cuts_rows);
    std::vector<DeviceWork> works = ProductsOf(grouped, 0, count);
    if (sliced != nullptr) {
      works.clear();
      for (int slice = 0; slice < sliced->slices(); ++slice) {
        const std::vector<DeviceWork> some = sliced->WorksOf(slice);
        ASSERT_FALSE(some.empty());
        works.insert(works.end(), some.begin(), some.end());
      }
    }
    // D is written once, from the first row to the last.
    const char* next = memory.data();
    double us = 0;
    for (const DeviceWork& work : works) {
      ASSERT_EQ(work.buffers.d.front().data, next);
      ASSERT_EQ(work.buffers[WorkPlane::kA],
                memory.data() + (next - memory.data()) / (5 * 4) * (7 * 4));
      next += work.problem.m * 5 * 4;
      us += work.plan.predicted_us;
      if (sliced != nullptr && cuts_rows && work.problem.m >= 512) {
        ASSERT_LE(work.plan.predicted_us, std::max(512.0, slice_us));
      }
    }
    ASSERT_EQ(next, memory.data() + last * 5 * 4);
    ASSERT_NEAR(us, static_cast<double>(last), 1e-6);
  }
}

TEST(StackSlices, CoverEachProductOnce) {
  char memory[4000];
  DeviceWork stacked;
  stacked.problem = MakeProblem(1, 1, 1, DataType::kF32, DataType::kF32);
  stacked.buffers.d = {{memory, 4000, nullptr}};
  for (const std::int64_t count : {3, 7, 100, 101}) {
    stacked.stack.count = count;
    stacked.stack.d_stride = 1;
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
