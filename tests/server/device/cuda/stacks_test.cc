// Stacks on a CUDA device over a fake runtime: each product has the bits that it has alone, however
// the stack lies and is cut.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/planes/stack_block.h"
#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/testing/products/strided_batch.h"

namespace gemmd {
namespace {

using testing::CudaDeviceTest;
using testing::StridedBatch;

std::string Bytes(const HostBuffer& buffer) {
  std::string bytes;
  for (const HostPiece& piece : buffer) bytes.append(piece.data, piece.size_bytes);
  return bytes;
}

class CudaStacksTest : public CudaDeviceTest {
 protected:
  DeviceWork MakeStack(const StridedBatch& batch) {
    DeviceWork work = MakeWork(batch.problem, batch.of(0));
    Stack& stack = work.stack;
    stack.count = batch.count;
    SetStrides(batch.problem, WorkPlane::kA, batch.a_stride, &stack);
    SetStrides(batch.problem, WorkPlane::kB, batch.b_stride, &stack);
    SetStrides(batch.problem, WorkPlane::kC, batch.c_stride, &stack);
    SetStrides(batch.problem, WorkPlane::kBias, batch.bias_stride, &stack);
    stack.d_stride = batch.problem.d.outer() * batch.problem.d.leading_dimension;
    if (stack.is_one()) stack = {};
    const std::pair<WorkPlane, const void*> planes[] = {
        {WorkPlane::kA, batch.a.data()},
        {WorkPlane::kB, batch.b.data()},
        {WorkPlane::kC, batch.c.data()},
        {WorkPlane::kBias, batch.bias.data()},
        {WorkPlane::kAScales, batch.a_scales.data()},
        {WorkPlane::kBScales, batch.b_scales.data()}};
    for (const auto& [plane, data] : planes) {
      if (HasPlane(batch.problem, plane)) work.buffers[plane] = data;
    }
    work.buffers.d = *device_->AllocateResult(ResultOf(work.problem, stack));
    for (const HostPiece& piece : work.buffers.d) std::memset(piece.data, 7, piece.size_bytes);
    return work;
  }

  std::string Alone(const StridedBatch& batch, std::int64_t index) {
    const testing::Operands operands = batch.of(index);
    const DeviceWork work = MakeWork(batch.problem, operands);
    EXPECT_TRUE(Submit(work).get().status.ok());
    return Bytes(work.buffers.d);
  }

  // As the scheduler does it.
  absl::Status RunCut(const DeviceWork& stacked, double slice_us) {
    const std::shared_ptr<SlicedWork> sliced = device_->Cut(stacked, slice_us);
    if (sliced == nullptr) return Submit(stacked).get().status;
    slices_ += sliced->slices();
    for (int slice = 0; slice < sliced->slices(); ++slice) {
      std::vector<DeviceWork> works = sliced->WorksOf(slice);
      groups_ += works.empty() ? 0 : 1;
      std::promise<DeviceResult> promise;
      std::future<DeviceResult> result = promise.get_future();
      device_->Submit(works.empty() ? DeviceLaunch::Slice(sliced, slice)
                                    : DeviceLaunch::Group(std::move(works)),
                      [&promise](DeviceResult done) { promise.set_value(std::move(done)); });
      if (absl::Status s = result.get().status; !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void ExpectBitsOfEach(const StridedBatch& batch, const DeviceWork& stacked) {
    const std::string all = Bytes(stacked.buffers.d);
    const std::uint64_t one = batch.problem.d.size_bytes();
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const std::uint64_t begin = static_cast<std::uint64_t>(i) * batch.result_stride();
      // Between lines the device may leave what was there.
      std::string got = all.substr(begin, one);
      std::string expected = Alone(batch, i);
      for (std::string* bytes : {&got, &expected}) {
        ClearPadding(batch.problem.d, {{bytes->data(), bytes->size(), nullptr}});
      }
      ASSERT_EQ(got, expected) << ToString(batch.problem) << ", product " << i << " of "
                               << batch.count;
    }
  }

  int slices_ = 0;
  int groups_ = 0;
};

TEST_F(CudaStacksTest, EachProductHasTheBitsThatItHasAlone) {
  int laid_out = 0;
  int stacks = 0;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    Start(seed);
    for (const auto& [type, output] : {std::pair{DataType::kF32, DataType::kF32},
                                       {DataType::kF16, DataType::kF16},
                                       {DataType::kInt8, DataType::kF32}}) {
      const std::vector<Problem> problems = testing::SmallProblems(type, output);
      for (std::size_t i = seed; i < problems.size(); i += 13) {
        const StridedBatch batch = testing::RandomBatch(problems[i], 7, seed * 1000 + i);
        const DeviceWork stacked = MakeStack(batch);
        const absl::Status status = Submit(stacked).get().status;
        ASSERT_TRUE(status.ok()) << status;
        ExpectBitsOfEach(batch, stacked);
        ++stacks;
        laid_out += LayOutStack(stacked).has_value() ? 1 : 0;
      }
    }
    EXPECT_TRUE(AllIsFree());
  }
  // Both ways are tried.
  EXPECT_GT(laid_out, 0);
  EXPECT_LT(laid_out, stacks);
}

TEST_F(CudaStacksTest, SlicesChangeNoBits) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Start(seed);
    for (const std::int64_t size : {8, 13, 32, 64}) {
      const Problem problem = MakeProblem(size, size, size, DataType::kF32, DataType::kF32);
      const StridedBatch batch =
          testing::RandomBatch(problem, 150, seed * 100 + static_cast<std::uint32_t>(size));
      DeviceWork stacked = MakeStack(batch);
      stacked.plan.predicted_us = 100;
      const absl::Status status = RunCut(stacked, 40);
      ASSERT_TRUE(status.ok()) << status;
      ExpectBitsOfEach(batch, stacked);
    }
    EXPECT_TRUE(AllIsFree());
  }
  EXPECT_GT(slices_, groups_);
  EXPECT_GT(groups_, 0);
}

// Room is taken for the launches that are under way at once, of what comes with the request alone.
TEST_F(CudaStacksTest, ReservesWhatItsLaunchesTake) {
  Start(1, 64 * testing::kMiB);
  for (const std::int64_t size : {16, 128, 320, 1024}) {
    const Problem problem = MakeProblem(8, size, size, DataType::kF32, DataType::kF32);
    DeviceWork work;
    work.problem = problem;
    work.plan = *Select(registry_, device_->Landed(problem), device_->traits());
    work.stack.count = 40;
    SetStrides(problem, WorkPlane::kA, 8 * size, &work.stack);
    work.stack.d_stride = 8 * size;
    Residency resident;
    const Footprint one = device_->FootprintOf(problem, work.plan, resident);
    const Footprint all = device_->StackFootprintOf(problem, work.stack, work.plan, resident);
    EXPECT_GE(all.in_flight_bytes, one.in_flight_bytes + one.workspace_bytes);
    EXPECT_LE(all.in_flight_bytes, 64 * testing::kMiB);
    // The weights stay: a launch takes more products, and its block is what is reserved at least.
    resident[WorkPlane::kB] = true;
    const Footprint without = device_->StackFootprintOf(problem, work.stack, work.plan, resident);
    const auto block = LayOutStack(work, resident);
    ASSERT_TRUE(block.has_value());
    const std::uint64_t launch = std::min<std::uint64_t>(block->total_bytes, 128 << 10);
    EXPECT_GE(without.in_flight_bytes, launch) << size;
  }
}

// The planes of 100 products come as two copies and go as one, and one launch computes them.
TEST_F(CudaStacksTest, OneThatLiesTightlyIsOneLaunch) {
  Start(1);
  StridedBatch batch;
  batch.problem = MakeProblem(8, 8, 8, DataType::kF32, DataType::kF32);
  batch.count = 100;
  batch.a_stride = batch.b_stride = 64;
  batch.a = testing::RandomPlane({DataType::kF32, 800, 8, Order::kRowMajor, 8},
                                 testing::Distribution::kNormal, 1);
  batch.b = batch.a;
  const DeviceWork stacked = MakeStack(batch);
  ASSERT_TRUE(LayOutStack(stacked).has_value());
  EXPECT_EQ(device_->Cut(stacked, 1e9), nullptr);
  const Footprint footprint =
      device_->StackFootprintOf(stacked.problem, stacked.stack, stacked.plan, {});
  EXPECT_GE(footprint.in_flight_bytes, LayOutStack(stacked)->total_bytes);
  const DeviceResult result = Submit(stacked).get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.spans.size(), 3U);
  EXPECT_EQ(result.copied.in, 2U * 25600);
  EXPECT_EQ(result.copied.out, 25600U);
  ExpectBitsOfEach(batch, stacked);
}

}  // namespace
}  // namespace gemmd
