// Batches and slices on a CUDA device over a fake runtime: the bits of each work are those it
// has alone, and what fails in the middle fails the launch alone.
#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/device/rows.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::CudaDeviceTest;
using testing::Distribution;
using testing::kMiB;
using testing::Operands;

class CudaBatchesTest : public CudaDeviceTest {
 protected:
  std::future<DeviceResult> SubmitLaunch(DeviceLaunch launch) {
    std::promise<DeviceResult> promise;
    std::future<DeviceResult> result = promise.get_future();
    device_->Submit(std::move(launch), [promise = std::move(promise)](DeviceResult done) mutable {
      promise.set_value(std::move(done));
    });
    return result;
  }

  // Works of random rows over one stored B, with operands that last as long as the test.
  std::vector<DeviceWork> RowsWorks(Problem shape, int count, std::mt19937* random,
                                    bool pinned = true) {
    auto weights = std::make_shared<Operands>(shape, Distribution::kNormal, (*random)());
    auto b = device_->Store(shape, WorkPlane::kB, weights->b.data());
    EXPECT_TRUE(b.ok()) << b.status();
    std::vector<DeviceWork> works;
    for (int i = 0; i < count; ++i) {
      Problem problem = shape;
      problem.m = i % 3 == 0 ? 1 : 1 + static_cast<std::int64_t>((*random)() % 16);
      const auto pad = static_cast<std::int64_t>((*random)() % 3);
      problem.a.rows = problem.d.rows = problem.c.rows = problem.m;
      problem.a.leading_dimension += pad;
      problem.d.leading_dimension += 2 - pad;
      auto operands = std::make_shared<Operands>(problem, Distribution::kNormal, (*random)());
      DeviceWork work = MakeWork(problem, *operands);
      work.buffers[WorkPlane::kB] = nullptr;
      work.resident[WorkPlane::kB] = *b;
      work.weights_id = 5;
      if (!weights->bias.empty()) work.buffers[WorkPlane::kBias] = weights->bias.data();
      if (!weights->b_scales.empty()) work.buffers[WorkPlane::kBScales] = weights->b_scales.data();
      if (pinned) {
        pieces_.push_back(*device_->AllocateOperand(operands->a.size()));
        std::memcpy(pieces_.back().data, operands->a.data(), operands->a.size());
        work.buffers[WorkPlane::kA] = pieces_.back().data;
      }
      operands_.push_back(std::move(operands));
      works.push_back(std::move(work));
    }
    operands_.push_back(std::move(weights));
    return works;
  }

  std::vector<DeviceWork> GroupWorks(int count, std::int64_t most, std::mt19937* random) {
    std::vector<DeviceWork> works;
    for (int i = 0; i < count; ++i) {
      const auto size = [&] {
        return 1 + static_cast<std::int64_t>((*random)() % static_cast<std::uint32_t>(most));
      };
      Problem problem = MakeProblem(size(), size(), size(), DataType::kF32, DataType::kF32,
                                    i % 3 == 0, i % 4 == 0);
      problem.epilogue.has_bias = i % 2 == 0;
      problem.epilogue.beta = i % 5 == 0 ? 0.5 : 0;
      operands_.push_back(std::make_shared<Operands>(problem, Distribution::kNormal, (*random)()));
      works.push_back(MakeWork(problem, *operands_.back()));
    }
    return works;
  }

  DeviceLaunch Join(std::vector<DeviceWork> works) const {
    Plan plan = *Select(registry_, device_->Landed(JoinedRows(works)), device_->traits());
    return DeviceLaunch::Rows(std::move(works), std::move(plan));
  }

  static std::string Bytes(const DeviceWork& work) {
    std::string bytes;
    for (const HostPiece& piece : work.buffers.d) bytes.append(piece.data, piece.size_bytes);
    return bytes;
  }
  static void Poison(const std::vector<DeviceWork>& works) {
    for (const DeviceWork& work : works) {
      for (const HostPiece& piece : work.buffers.d) std::memset(piece.data, 7, piece.size_bytes);
    }
  }
  // Returns the result of each work when it runs alone.
  std::vector<std::string> Alone(const std::vector<DeviceWork>& works) {
    Poison(works);
    std::vector<std::string> bytes;
    for (const DeviceWork& work : works) {
      const absl::Status status = Submit(work).get().status;
      EXPECT_TRUE(status.ok()) << status;
      bytes.push_back(Bytes(work));
    }
    Poison(works);
    return bytes;
  }
  static void ExpectSame(const std::vector<DeviceWork>& works,
                         const std::vector<std::string>& alone) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      EXPECT_TRUE(Bytes(works[i]) == alone[i]) << ToString(works[i].problem);
    }
  }
  void ExpectAllFree() { EXPECT_TRUE(AllIsFree()); }

  std::vector<std::shared_ptr<Operands>> operands_;
  std::vector<HostPiece> pieces_;
};

std::vector<Problem> RowShapes() {
  std::vector<Problem> shapes = {MakeProblem(1, 40, 70, DataType::kF32, DataType::kF32),
                                 MakeProblem(1, 33, 64, DataType::kBf16, DataType::kBf16),
                                 MakeProblem(1, 35, 50, DataType::kInt8, DataType::kF32, false,
                                             true)};  // K-major, so nothing is transposed
  shapes[0].epilogue.has_bias = true;
  shapes[2].a_scaling = shapes[2].b_scaling = Scaling::kVector;
  return shapes;
}

TEST_F(CudaBatchesTest, JoinedRowsHaveTheBitsTheyHaveAlone) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Start(seed);
    std::mt19937 random(seed);
    for (const Problem& shape : RowShapes()) {
      std::vector<DeviceWork> works = RowsWorks(shape, seed == 0 ? 45 : 9, &random);
      const std::vector<std::string> alone = Alone(works);
      for (const DeviceWork& work : works) EXPECT_EQ(device_->FormOf(work), BatchForm::kRows);
      const DeviceResult result = SubmitLaunch(Join(works)).get();
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.spans.size(), 3u);
      ExpectSame(works, alone);
      std::shuffle(works.begin(), works.end(), random);
      Poison(works);
      auto first = SubmitLaunch(Join({works.begin(), works.begin() + 4}));
      auto second = SubmitLaunch(Join({works.begin() + 4, works.end()}));
      EXPECT_TRUE(first.get().status.ok());
      EXPECT_TRUE(second.get().status.ok());
      for (const DeviceWork& work : works) {
        EXPECT_NE(std::find(alone.begin(), alone.end(), Bytes(work)), alone.end());
      }
      works.clear();
      pieces_.clear();
    }
    ExpectAllFree();
    EXPECT_EQ(device_->host_memory_usage().in_flight_bytes, 0u);
  }
}

TEST_F(CudaBatchesTest, RowsThatCannotTravelTogetherRunOneByOne) {
  Start(1);
  std::mt19937 random(1);
  const Problem shape = RowShapes().front();
  // A plan that needs more memory than there is.
  std::vector<DeviceWork> works = RowsWorks(shape, 5, &random);
  std::vector<std::string> alone = Alone(works);
  DeviceLaunch launch = Join(works);
  launch.rows_plan.workspace_bytes = std::uint64_t{1} << 40;
  EXPECT_TRUE(SubmitLaunch(std::move(launch)).get().status.ok());
  ExpectSame(works, alone);
  // Rows where the device does not reach them.
  works = RowsWorks(shape, 5, &random, false);
  alone = Alone(works);
  for (const DeviceWork& work : works) EXPECT_NE(device_->FormOf(work), BatchForm::kRows);
  EXPECT_TRUE(SubmitLaunch(Join(works)).get().status.ok());
  ExpectSame(works, alone);
  works.clear();
  ExpectAllFree();
}

TEST_F(CudaBatchesTest, GroupsHaveTheBitsTheyHaveAlone) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    Start(seed);
    std::mt19937 random(seed);
    // The second is more than a slot holds, the third has a large work.
    for (const auto& [count, most] : {std::pair<int, int>{7, 20}, {24, 160}, {3, 260}}) {
      const std::vector<DeviceWork> works = GroupWorks(count, most, &random);
      const std::vector<std::string> alone = Alone(works);
      const DeviceResult result = SubmitLaunch(DeviceLaunch::Group(works)).get();
      ASSERT_TRUE(result.status.ok()) << result.status;
      ExpectSame(works, alone);
    }
    ExpectAllFree();
  }
}

// Each brings 176 KiB, and a slot stages a MiB.
TEST_F(CudaBatchesTest, AGroupThatItsSlotDoesNotHoldGoesOneByOne) {
  Start(9);
  const Problem problem = MakeProblem(20, 200, 200, DataType::kF32, DataType::kF32);
  const auto& kernel =
      static_cast<const testing::ReferenceKernel&>(*registry_.Find("test/reference"));
  for (const int count : {5, 7}) {
    std::vector<DeviceWork> works;
    for (int i = 0; i < count; ++i) {
      operands_.push_back(std::make_shared<Operands>(problem, Distribution::kNormal,
                                                     static_cast<std::uint32_t>(i)));
      works.push_back(MakeWork(problem, *operands_.back()));
    }
    const int before = kernel.batches();
    EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Group(works)).get().status.ok());
    EXPECT_EQ(kernel.batches() - before, count == 5 ? 1 : 0);
  }
}

TEST_F(CudaBatchesTest, EqualProductsOfAGroupAreOneBatch) {
  Start(8);
  std::mt19937 random(8);
  std::vector<DeviceWork> works;
  for (int i = 0; i < 6; ++i) {
    const std::int64_t m = i % 2 == 0 ? 10 : 11;
    const Problem problem = MakeProblem(m, 20, 30, DataType::kF32, DataType::kF32);
    operands_.push_back(std::make_shared<Operands>(problem, Distribution::kNormal, random()));
    works.push_back(MakeWork(problem, *operands_.back()));
  }
  const std::vector<std::string> alone = Alone(works);
  const auto& kernel =
      static_cast<const testing::ReferenceKernel&>(*registry_.Find("test/reference"));
  const int before = kernel.batches();
  EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Group(works)).get().status.ok());
  EXPECT_EQ(kernel.batches() - before, 2);
  ExpectSame(works, alone);
}

TEST_F(CudaBatchesTest, SlicesHaveTheBitsOfTheWhole) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Start(seed);
    std::mt19937 random(seed);
    Problem tall = MakeProblem(1100, 30, 40, DataType::kF32, DataType::kF32);
    tall.epilogue.beta = 2;
    tall.epilogue.has_bias = true;
    for (const Problem& problem :
         {tall, MakeProblem(9, 1500, 60, DataType::kBf16, DataType::kBf16)}) {
      operands_.push_back(std::make_shared<Operands>(problem, Distribution::kNormal, seed));
      const std::vector<DeviceWork> works = {MakeWork(problem, *operands_.back())};
      const std::vector<std::string> alone = Alone(works);
      EXPECT_EQ(device_->Cut(works.front(), 1), nullptr);
      auto sliced = device_->Cut(works.front(), 0.01);
      ASSERT_NE(sliced, nullptr);
      EXPECT_EQ(sliced->slices(), problem.m == 9 ? 6 : 5);
      std::vector<std::future<DeviceResult>> results;
      for (int i = 0; i < sliced->slices(); ++i) {
        results.push_back(SubmitLaunch(DeviceLaunch::Slice(sliced, i)));
        // Others run between them.
        if (i == 1) {
          EXPECT_EQ(Compute(MakeProblem(5, 6, 7, DataType::kF32, DataType::kF32), 1), "");
        }
      }
      for (auto& result : results) EXPECT_TRUE(result.get().status.ok());
      ExpectSame(works, alone);
      EXPECT_EQ(cuda_->allocated_bytes(), 0u);
    }
  }
}

// All or some of the operand that all slices read may come before them.
TEST_F(CudaBatchesTest, SlicesHaveTheirBitsHoweverMuchCameAhead) {
  bool has_several = false;
  for (const Problem& problem :
       {MakeProblem(1000, 1100, 300, DataType::kF32, DataType::kF32),
        MakeProblem(1000, 600, 300, DataType::kBf16, DataType::kBf16, true, true),
        MakeProblem(700, 600, 250, DataType::kInt8, DataType::kInt32, true, false)}) {
    Start(21);
    operands_.push_back(std::make_shared<Operands>(problem, Distribution::kNormal, 21));
    const std::vector<DeviceWork> works = {MakeWork(problem, *operands_.back())};
    const std::vector<std::string> alone = Alone(works);
    const int pieces = device_->Cut(works.front(), 0.01)->pieces_ahead();
    EXPECT_GT(pieces, 0);
    has_several |= pieces > 1;
    for (int ahead = 0; ahead <= pieces; ++ahead) {
      auto sliced = device_->Cut(works.front(), 0.01);
      std::vector<std::future<DeviceResult>> results;
      for (int i = 0; i < ahead; ++i) {
        results.push_back(SubmitLaunch(DeviceLaunch::Ahead(sliced, i)));
        EXPECT_EQ(Compute(MakeProblem(5, 6, 7, DataType::kF32, DataType::kF32), 1), "");
      }
      for (int i = 0; i < sliced->slices(); ++i) {
        results.push_back(SubmitLaunch(DeviceLaunch::Slice(sliced, i)));
      }
      std::uint64_t copied = 0;
      for (auto& result : results) {
        const DeviceResult slice = result.get();
        EXPECT_TRUE(slice.status.ok()) << slice.status;
        copied += slice.copied.in;
      }
      EXPECT_EQ(copied, problem.a.size_bytes() + problem.b.size_bytes());
      ExpectSame(works, alone);
      sliced = nullptr;
      EXPECT_EQ(cuda_->allocated_bytes(), 0u);
    }
  }
  EXPECT_TRUE(has_several);
}

TEST_F(CudaBatchesTest, WhatCameAheadIsGivenBackWhereNoSliceFollows) {
  Start(22);
  const Problem problem = MakeProblem(600, 1000, 300, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 1);
  auto sliced = device_->Cut(MakeWork(problem, operands), 0.01);
  EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Ahead(sliced, 0)).get().status.ok());
  EXPECT_GT(cuda_->allocated_bytes(), 0u);
  sliced = nullptr;
  EXPECT_EQ(Compute(problem, 2), "");
  EXPECT_EQ(cuda_->allocated_bytes(), 0u);

  sliced = device_->Cut(MakeWork(problem, operands), 0.01);
  cuda_->FailCall("Copy", absl::InternalError("a fault"));
  EXPECT_EQ(SubmitLaunch(DeviceLaunch::Ahead(sliced, 0)).get().status.message(), "a fault");
  EXPECT_EQ(SubmitLaunch(DeviceLaunch::Slice(sliced, 0)).get().status.message(),
            "an earlier slice of the work failed");
  sliced = nullptr;
  EXPECT_EQ(Compute(problem, 2), "");
  EXPECT_EQ(cuda_->allocated_bytes(), 0u);
}

TEST_F(CudaBatchesTest, ASlicedWorkThatIsDroppedGivesItsMemoryBack) {
  Start(3);
  const Problem problem = MakeProblem(2000, 30, 40, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 1);
  auto sliced = device_->Cut(MakeWork(problem, operands), 0.01);
  ASSERT_NE(sliced, nullptr);
  EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Slice(sliced, 0)).get().status.ok());
  EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Slice(sliced, 1)).get().status.ok());
  EXPECT_GT(cuda_->allocated_bytes(), 0u);
  sliced = nullptr;
  EXPECT_EQ(Compute(problem, 2), "");  // on the streams that the slices used
  EXPECT_EQ(cuda_->allocated_bytes(), 0u);
}

TEST_F(CudaBatchesTest, AFaultInTheMiddleFailsTheLaunchAlone) {
  const std::pair<const char*, int> faults[] = {{"CopySpans", 0}, {"CopySpans", 1}, {"Launch", 0},
                                                {"Record", 1},    {"Record", 2},    {"Free", 0}};
  for (const auto& [method, skip] : faults) {
    SCOPED_TRACE(std::string(method) + " " + std::to_string(skip));
    Start(4);
    std::mt19937 random(4);
    std::vector<DeviceWork> works = RowsWorks(RowShapes().front(), 6, &random);
    const std::vector<std::string> alone = Alone(works);
    cuda_->FailCall(method, absl::InternalError("a fault"), skip);
    EXPECT_EQ(SubmitLaunch(Join(works)).get().status.message(), "a fault");
    EXPECT_TRUE(SubmitLaunch(Join(works)).get().status.ok());
    ExpectSame(works, alone);
    works.clear();
    ExpectAllFree();
    EXPECT_TRUE(lost_.empty());
  }
  Start(5);
  std::mt19937 random(5);
  const std::vector<DeviceWork> group = GroupWorks(6, 20, &random);
  const std::vector<std::string> alone = Alone(group);
  cuda_->FailCall("Launch", absl::InternalError("a fault"), 3);
  EXPECT_EQ(SubmitLaunch(DeviceLaunch::Group(group)).get().status.message(), "a fault");
  EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Group(group)).get().status.ok());
  ExpectSame(group, alone);
  ExpectAllFree();

  const Problem problem = MakeProblem(2000, 30, 40, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 1);
  const auto sliced = device_->Cut(MakeWork(problem, operands), 0.01);
  cuda_->FailCall("Launch", absl::InternalError("a fault"), 1);
  EXPECT_TRUE(SubmitLaunch(DeviceLaunch::Slice(sliced, 0)).get().status.ok());
  EXPECT_EQ(SubmitLaunch(DeviceLaunch::Slice(sliced, 1)).get().status.message(), "a fault");
  EXPECT_EQ(SubmitLaunch(DeviceLaunch::Slice(sliced, 2)).get().status.message(),
            "an earlier slice of the work failed");
  EXPECT_EQ(cuda_->allocated_bytes(), 0u);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(CudaBatchesTest, ABatchTriesAgainWhileMemoryIsFragmented) {
  Start(6);
  std::mt19937 random(6);
  const std::vector<DeviceWork> works = RowsWorks(RowShapes().front(), 6, &random);
  const std::vector<std::string> alone = Alone(works);
  cuda_->FailCall("Allocate", absl::ResourceExhaustedError("fragments"));
  EXPECT_TRUE(SubmitLaunch(Join(works)).get().status.ok());
  ExpectSame(works, alone);
}

TEST_F(CudaBatchesTest, ALostDeviceFailsBatchesAndSlices) {
  for (const char* method : {"CopySpans", "Launch", "IsDone", "Copy"}) {
    SCOPED_TRACE(method);
    lost_.clear();
    Start(7);
    std::mt19937 random(7);
    const std::vector<DeviceWork> rows = RowsWorks(RowShapes().front(), 6, &random);
    const std::vector<DeviceWork> group = GroupWorks(6, 20, &random);
    const Problem problem = MakeProblem(2000, 30, 40, DataType::kF32, DataType::kF32);
    const Operands operands(problem, Distribution::kNormal, 1);
    const auto sliced = device_->Cut(MakeWork(problem, operands), 0.01);
    cuda_->FailCall(method, absl::UnavailableError("cudaErrorIllegalAddress"));
    std::vector<std::future<DeviceResult>> results;
    results.push_back(SubmitLaunch(Join(rows)));
    results.push_back(SubmitLaunch(DeviceLaunch::Group(group)));
    results.push_back(SubmitLaunch(DeviceLaunch::Slice(sliced, 0)));
    results.push_back(SubmitLaunch(DeviceLaunch::Slice(sliced, 1)));
    int unavailable = 0;
    for (auto& result : results) {
      const absl::Status status = result.get().status;
      if (!status.ok()) ++unavailable;
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    }
    EXPECT_GT(unavailable, 0);
    EXPECT_EQ(lost_.size(), 1u);
    EXPECT_TRUE(absl::IsUnavailable(SubmitLaunch(Join(rows)).get().status));
  }
}

}  // namespace
}  // namespace gemmd
