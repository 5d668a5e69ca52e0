// Planes that stay on a CUDA device over a fake runtime, and results that are written there: their
// bits are those of products whose planes come and go, no byte of them crosses to the host, and
// whatever happens, all memory comes back.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/rows.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::CudaDeviceTest;
using testing::Distribution;
using testing::kMiB;
using testing::Operands;
using testing::PlaneBytes;

class CudaKeptTest : public CudaDeviceTest {
 protected:
  DeviceResult Launch(DeviceLaunch launch) {
    std::promise<DeviceResult> promise;
    std::future<DeviceResult> result = promise.get_future();
    device_->Submit(std::move(launch), [promise = std::move(promise)](DeviceResult done) mutable {
      promise.set_value(std::move(done));
    });
    return result.get();
  }

  static void CopyPieces(const HostBuffer& from, std::string* to) {
    to->clear();
    for (const HostPiece& piece : from) to->append(piece.data, piece.size_bytes);
  }

  // The product with everything in host memory.
  std::string Reference(const Problem& problem, const Operands& operands) {
    const DeviceWork work = MakeWork(problem, operands);
    const absl::Status status = Submit(work).get().status;
    EXPECT_TRUE(status.ok()) << status;
    std::string bytes;
    CopyPieces(work.buffers.d, &bytes);
    return bytes;
  }

  // Moves the planes from host memory to where they stay.
  void StorePlane(WorkPlane plane, const void* data, DeviceWork* work) {
    if (data == nullptr) return;
    auto stored = device_->Store(work->problem, plane, data);
    ASSERT_TRUE(stored.ok()) << stored.status();
    work->resident[plane] = *std::move(stored);
  }
  void StoreAll(DeviceWork* work) {
    HostBuffers& buffers = work->buffers;
    for (const WorkPlane plane : kWorkPlanes) {
      StorePlane(plane, std::exchange(buffers[plane], nullptr), work);
    }
  }
  void KeepResult(DeviceWork* work) {
    work->buffers.d.clear();
    auto kept = device_->AllocateKept(work->problem.d);
    ASSERT_TRUE(kept.ok()) << kept.status();
    work->resident.d = *std::move(kept);
  }
  std::string Fetched(const ResidentOperand& operand, const MatrixLayout& layout) {
    std::string bytes(layout.size_bytes(), '?');
    const absl::Status status = device_->Fetch(operand, bytes.data());
    EXPECT_TRUE(status.ok()) << status;
    return bytes;
  }
  static Problem Tight(Problem problem) {
    problem.d.leading_dimension = problem.d.inner();
    return problem;
  }
};

TEST_F(CudaKeptTest, AChainCrossesNothingAndHasTheBitsOfOneThatDoes) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    // So small that nothing is cut; so large that what is copied goes through the feeder; ragged.
    for (const std::int64_t size : {40, seed < 2 ? 210 : 64, 101}) {
      const DataType type = seed % 2 == 0 ? DataType::kBf16 : DataType::kF32;
      SCOPED_TRACE(std::string(Name(type)) + " " + std::to_string(size));
      Start(seed);
      const Problem problem = MakeProblem(size, size, size, type, type);
      Operands operands(problem, Distribution::kNormal, seed);
      // One that is sent back and forth.
      std::string expected(operands.a.begin(), operands.a.end());
      constexpr int kLinks = 3;
      for (int i = 0; i < kLinks; ++i) {
        std::memcpy(operands.a.data(), expected.data(), expected.size());
        expected = Reference(problem, operands);
      }
      Operands first(problem, Distribution::kNormal, seed);
      DeviceWork work = MakeWork(problem, first);
      StoreAll(&work);
      const std::uint64_t crossed = cuda_->crossed_bytes();
      const CopiedBytes counted = device_->copied();
      for (int i = 0; i < kLinks; ++i) {
        KeepResult(&work);
        const DeviceResult result = Submit(work).get();
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_EQ(result.copied.in + result.copied.out, 0u);
        EXPECT_EQ(result.spans.size(), 1u);  // it computes, and that is all
        work.resident[WorkPlane::kA] = std::move(work.resident.d);
      }
      EXPECT_EQ(cuda_->crossed_bytes(), crossed);
      EXPECT_EQ(device_->copied().in, counted.in);
      EXPECT_EQ(device_->copied().out, counted.out);
      EXPECT_TRUE(Fetched(*work.resident[WorkPlane::kA], problem.d) == expected);
      EXPECT_EQ(device_->copied().out, counted.out + problem.d.size_bytes());
      EXPECT_EQ(cuda_->crossed_bytes(), crossed + problem.d.size_bytes());
      work = {};
      EXPECT_TRUE(AllIsFree());
    }
  }
}

// Every plane of every layout and epilogue, from where it stays to where D stays.
TEST_F(CudaKeptTest, EveryPlaneMayStay) {
  Start(3);
  for (const DataType type : {DataType::kF32, DataType::kBf16}) {
    const std::vector<Problem> problems = testing::SmallProblems(type, type);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const Problem problem = Tight(problems[i]);
      Operands operands(problem, Distribution::kNormal, static_cast<std::uint32_t>(i));
      const std::string expected = Reference(problem, operands);
      DeviceWork work = MakeWork(problem, operands);
      Residency all;
      for (const WorkPlane plane : kWorkPlanes) all[plane] = true;
      all.d = true;
      const Footprint footprint = device_->FootprintOf(problem, work.plan, all);
      StoreAll(&work);
      const std::uint64_t residents = device_->memory().usage().resident_bytes;
      KeepResult(&work);
      EXPECT_EQ(device_->memory().usage().resident_bytes, residents + footprint.kept_bytes);
      EXPECT_EQ(footprint.in_flight_bytes, 0u);
      const std::uint64_t crossed = cuda_->crossed_bytes();
      const DeviceResult result = Submit(work).get();
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(cuda_->crossed_bytes(), crossed);
      EXPECT_TRUE(Fetched(*work.resident.d, problem.d) == expected) << ToString(problem);
      // The stored operand is as it was.
      DeviceWork again = MakeWork(problem, operands);
      again.buffers = {};
      again.buffers.d = *device_->AllocateResult(problem.d);
      ResidentPlanes planes = work.resident;
      planes.d = nullptr;
      again.resident = planes;
      ASSERT_TRUE(Submit(again).get().status.ok());
      std::string bytes;
      CopyPieces(again.buffers.d, &bytes);
      EXPECT_TRUE(bytes == expected) << ToString(problem);
    }
  }
  EXPECT_TRUE(AllIsFree());
}

// M, N and K are rounded up for 8-bit operands, and D is not.
TEST_F(CudaKeptTest, EightBitProductsLeaveWhatWasAskedFor) {
  Start(4);
  std::vector<Problem> problems;
  for (const Problem& each : testing::SmallProblems(DataType::kInt8, DataType::kBf16)) {
    if (problems.size() < 40) problems.push_back(Tight(each));
  }
  problems.push_back(MakeProblem(32, 48, 16, DataType::kInt8, DataType::kInt32));
  // Large enough for panels.
  problems.push_back(MakeProblem(700, 130, 99, DataType::kInt8, DataType::kF32));
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    Operands operands(problem, Distribution::kNormal, static_cast<std::uint32_t>(i));
    const std::string expected = Reference(problem, operands);
    DeviceWork work = MakeWork(problem, operands);
    if (i % 3 != 0) StoreAll(&work);
    KeepResult(&work);
    const DeviceResult result = Submit(work).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.copied.out, 0u);
    EXPECT_TRUE(Fetched(*work.resident.d, problem.d) == expected) << ToString(problem);
  }
  EXPECT_TRUE(AllIsFree());
}

// Another layout is made on the device.
TEST_F(CudaKeptTest, AnotherUseOfAStoredPlaneIsMadeOnTheDevice) {
  Start(5);
  for (const DataType type : {DataType::kInt8, DataType::kTf32, DataType::kF32}) {
    Problem problem = MakeProblem(7, 70, 50, type, DefaultOutputType(type));
    Operands operands(problem, Distribution::kNormal, 5);
    const auto as_b = device_->Store(problem, WorkPlane::kB, operands.b.data());
    ASSERT_TRUE(as_b.ok());
    const std::uint64_t crossed = cuda_->crossed_bytes();
    // The plane is kept again as A, transposed, and then as B.
    Problem other = MakeProblem(70, 9, 50, type, DefaultOutputType(type), true, false);
    other.a = problem.b;
    const auto as_a = device_->StoreAgain(**as_b, other, WorkPlane::kA);
    ASSERT_TRUE(as_a.ok()) << as_a.status();
    const auto again = device_->StoreAgain(**as_a, problem, WorkPlane::kB);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(cuda_->crossed_bytes(), crossed);
    for (const auto& each : {*as_b, *as_a, *again}) {
      EXPECT_TRUE(Fetched(*each, problem.b) == std::string(operands.b.begin(), operands.b.end()));
    }
    const std::string expected = Reference(problem, operands);
    DeviceWork work = MakeWork(problem, operands);
    work.buffers[WorkPlane::kB] = nullptr;
    work.resident[WorkPlane::kB] = *again;
    ASSERT_TRUE(Submit(work).get().status.ok());
    std::string bytes;
    CopyPieces(work.buffers.d, &bytes);
    EXPECT_TRUE(bytes == expected);
  }
  EXPECT_TRUE(AllIsFree());
}

// One of a single row is a bias, whichever its order; its lines are then of one element each.
TEST_F(CudaKeptTest, AResultOfOneRowIsABias) {
  Start(6);
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    Problem row = MakeProblem(1, 37, 20, DataType::kF32, DataType::kF32);
    row.d.order = order;
    row.d.leading_dimension = row.d.inner();
    row.c = row.d;
    Operands operands(row, Distribution::kNormal, 1);
    const std::string expected_row = Reference(row, operands);
    DeviceWork made = MakeWork(row, operands);
    KeepResult(&made);
    ASSERT_TRUE(Submit(made).get().status.ok());

    Problem problem = MakeProblem(5, 37, 20, DataType::kF32, DataType::kF32);
    problem.epilogue.has_bias = true;
    Operands others(problem, Distribution::kNormal, 2);
    std::memcpy(others.bias.data(), expected_row.data(), expected_row.size());
    const std::string expected = Reference(problem, others);
    const std::uint64_t crossed = cuda_->crossed_bytes();
    auto bias = device_->StoreAgain(*made.resident.d, problem, WorkPlane::kBias);
    ASSERT_TRUE(bias.ok()) << bias.status();
    EXPECT_EQ(cuda_->crossed_bytes(), crossed);
    DeviceWork work = MakeWork(problem, others);
    work.buffers[WorkPlane::kBias] = nullptr;
    work.resident[WorkPlane::kBias] = *std::move(bias);
    ASSERT_TRUE(Submit(work).get().status.ok());
    std::string bytes;
    CopyPieces(work.buffers.d, &bytes);
    EXPECT_TRUE(bytes == expected);
  }
}

// Beside each other, as rows of one product, and in slices.
TEST_F(CudaKeptTest, BatchesAndSlicesLeaveResultsToo) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Start(seed);
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<Operands>> operands;
    std::vector<HostPiece> pinned;
    const auto rows_work = [&](std::int64_t m, const std::shared_ptr<const ResidentOperand>& b,
                               const Operands& weights) {
      Problem problem = MakeProblem(m, 61, 40, DataType::kF32, DataType::kF32);
      problem.epilogue.has_bias = true;
      operands.push_back(std::make_unique<Operands>(problem, Distribution::kNormal, random()));
      operands.back()->b = weights.b;
      operands.back()->bias = weights.bias;
      DeviceWork work = MakeWork(problem, *operands.back());
      pinned.push_back(*device_->AllocateOperand(operands.back()->a.size()));
      std::memcpy(pinned.back().data, operands.back()->a.data(), operands.back()->a.size());
      work.buffers[WorkPlane::kA] = pinned.back().data;
      work.buffers[WorkPlane::kB] = nullptr;
      work.resident[WorkPlane::kB] = b;
      work.weights_id = 7;
      return work;
    };
    Problem shape = MakeProblem(16, 61, 40, DataType::kF32, DataType::kF32);
    shape.epilogue.has_bias = true;
    const Operands weights(shape, Distribution::kNormal, seed);
    const auto b = device_->Store(shape, WorkPlane::kB, weights.b.data());
    const auto bias = device_->Store(shape, WorkPlane::kBias, weights.bias.data());
    ASSERT_TRUE(b.ok() && bias.ok());
    std::vector<DeviceWork> works;
    std::vector<std::string> expected;
    for (int i = 0; i < 6; ++i) {
      works.push_back(rows_work(1 + static_cast<std::int64_t>(random() % 9), *b, weights));
      DeviceWork& work = works.back();
      expected.push_back(Reference(work.problem, *operands.back()));
      work.buffers[WorkPlane::kBias] = nullptr;
      work.resident[WorkPlane::kBias] = *bias;
      if (i % 3 != 1) KeepResult(&work);
      EXPECT_EQ(device_->FormOf(work), BatchForm::kRows);
    }
    const auto check = [&] {
      for (std::size_t i = 0; i < works.size(); ++i) {
        std::string bytes;
        CopyPieces(works[i].buffers.d, &bytes);
        if (works[i].resident.d != nullptr) {
          bytes = Fetched(*works[i].resident.d, works[i].problem.d);
        }
        EXPECT_TRUE(bytes == expected[i]) << ToString(works[i].problem);
      }
    };
    Plan plan = *Select(registry_, device_->Landed(JoinedRows(works)), device_->traits());
    const DeviceResult rows = Launch(DeviceLaunch::Rows(works, plan));
    ASSERT_TRUE(rows.status.ok()) << rows.status;
    std::uint64_t leaving = 0;
    for (const DeviceWork& work : works) {
      if (work.resident.d == nullptr) leaving += work.problem.d.size_bytes();
    }
    EXPECT_EQ(rows.copied.out, leaving);
    check();
    for (DeviceWork& work : works) {
      if (work.resident.d != nullptr) KeepResult(&work);
    }
    ASSERT_TRUE(Launch(DeviceLaunch::Group(works)).status.ok());
    check();

    Problem tall = MakeProblem(1100, 30, 40, DataType::kF32, DataType::kF32);
    tall.epilogue.beta = 2;
    Operands more(tall, Distribution::kNormal, seed);
    const std::string whole = Reference(tall, more);
    DeviceWork work = MakeWork(tall, more);
    if (seed % 2 == 0) StoreAll(&work);
    KeepResult(&work);
    auto sliced = device_->Cut(work, 0.01);
    ASSERT_NE(sliced, nullptr);
    for (int i = 0; i < sliced->slices(); ++i) {
      const DeviceResult slice = Launch(DeviceLaunch::Slice(sliced, i));
      ASSERT_TRUE(slice.status.ok()) << slice.status;
      EXPECT_EQ(slice.copied.out, 0u);
    }
    EXPECT_TRUE(Fetched(*work.resident.d, tall.d) == whole);
    sliced = nullptr;
    work = {};
    works.clear();
  }
}

// Though nothing of it is copied: others would wait for its end.
TEST_F(CudaKeptTest, ALargeProductSharesNoLaunch) {
  Start(7);
  const auto form = [this](std::int64_t size) {
    const Problem problem = MakeProblem(size, size, 16, DataType::kF32, DataType::kF32);
    const Operands operands(problem, Distribution::kNormal, 1);
    DeviceWork work = MakeWork(problem, operands);
    StoreAll(&work);
    KeepResult(&work);
    return device_->FormOf(work);
  };
  EXPECT_EQ(form(200), BatchForm::kGroup);
  EXPECT_EQ(form(300), BatchForm::kAlone);
}

TEST_F(CudaKeptTest, AResultTakesExactlyWhatIsCounted) {
  Start(8, kMiB);
  // Lines are padded from 100 elements to 128 bytes' multiple where that costs little.
  const MatrixLayout d{DataType::kF32, 100, 300, Order::kRowMajor, 300};
  std::vector<std::shared_ptr<ResidentResult>> kept;
  while (true) {
    auto result = device_->AllocateKept(d);
    if (!result.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
      break;
    }
    EXPECT_EQ((*result)->layout().leading_dimension, 320);
    EXPECT_EQ((*result)->size_bytes(), 128000u);
    kept.push_back(*std::move(result));
  }
  EXPECT_EQ(kept.size(), kMiB / 128000);
  EXPECT_EQ(device_->memory().usage().resident_bytes, kept.size() * 128000);
  kept.clear();
  EXPECT_TRUE(AllIsFree());
  // The smallest takes a block.
  const auto one = device_->AllocateKept({DataType::kF32, 1, 1, Order::kRowMajor, 1});
  EXPECT_EQ(device_->memory().usage().resident_bytes, 256u);
}

// A fault in any call gives a status, holds no memory, and leaves a device that goes on.
TEST_F(CudaKeptTest, AFaultFailsWhatItHitsAlone) {
  const Problem problem = MakeProblem(200, 60, 300, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 1);
  for (const char* method : {"Allocate", "Record", "Copy", "Wait", "Launch", "Free"}) {
    for (int skip = 0; skip < 3; ++skip) {
      SCOPED_TRACE(std::string(method) + " " + std::to_string(skip));
      Start(9);
      const std::string expected = Reference(problem, operands);
      const auto run = [&] {
        DeviceWork work = MakeWork(problem, operands);
        work.buffers.d.clear();
        auto b = device_->Store(problem, WorkPlane::kB, operands.b.data());
        if (!b.ok()) return b.status();
        auto kept = device_->AllocateKept(problem.d);
        if (!kept.ok()) return kept.status();
        work.buffers[WorkPlane::kB] = nullptr;
        work.resident[WorkPlane::kB] = *std::move(b);
        work.resident.d = *std::move(kept);
        if (absl::Status s = Submit(work).get().status; !s.ok()) return s;
        std::string bytes(problem.d.size_bytes(), '?');
        if (absl::Status s = device_->Fetch(*work.resident.d, bytes.data()); !s.ok()) return s;
        EXPECT_TRUE(bytes == expected);
        return absl::OkStatus();
      };
      cuda_->FailCall(method, absl::InternalError("a fault"), skip);
      const absl::Status status = run();
      EXPECT_TRUE(status.ok() || status.message() == "a fault") << status;
      cuda_->FailCall(method, absl::OkStatus(), 1 << 30);
      EXPECT_TRUE(run().ok());
      EXPECT_TRUE(lost_.empty());
      // A block whose release failed is gone for good, and that is all.
      if (std::string(method) != "Free") {
        EXPECT_TRUE(AllIsFree());
      }
      EXPECT_EQ(device_->memory().usage().resident_bytes, 0u);
    }
  }
}

TEST_F(CudaKeptTest, ALostDeviceEndsAllOfIt) {
  const Problem problem = MakeProblem(200, 60, 300, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 1);
  for (const char* method : {"Allocate", "Record", "Copy", "IsDone", "Launch", "Wait"}) {
    SCOPED_TRACE(method);
    lost_.clear();
    Start(10);
    DeviceWork work = MakeWork(problem, operands);
    StoreAll(&work);
    KeepResult(&work);
    cuda_->FailCall(method, absl::UnavailableError("cudaErrorIllegalAddress"));
    std::vector<absl::Status> statuses;
    statuses.push_back(device_->AllocateKept(problem.d).status());
    statuses.push_back(Submit(work).get().status);
    statuses.push_back(device_->Store(problem, WorkPlane::kB, operands.b.data()).status());
    std::string bytes(problem.b.size_bytes(), '?');
    statuses.push_back(device_->Fetch(*work.resident[WorkPlane::kB], bytes.data()));
    int unavailable = 0;
    for (const absl::Status& status : statuses) {
      if (status.ok()) continue;
      ++unavailable;
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    }
    EXPECT_GT(unavailable, 0);
    EXPECT_EQ(lost_.size(), 1u);
    EXPECT_TRUE(absl::IsUnavailable(device_->AllocateKept(problem.d).status()));
    work = {};
    EXPECT_EQ(device_->memory().usage().resident_bytes, 0u);
  }
}

// Operands that stay land beside large works, and not behind them: the feeder never sees them.
TEST_F(CudaKeptTest, LandingWaitsForNoLargeWork) {
  Start(11);
  const Problem problem = MakeProblem(3000, 4, 200, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 1);
  // A work that cannot get its block holds the feeder until others end, and there are none.
  auto filler = *device_->memory().ReserveResident(device_->memory().usage().free_bytes() - kMiB);
  std::vector<std::future<DeviceResult>> results;
  for (int i = 0; i < 4; ++i) results.push_back(Submit(MakeWork(problem, operands)));
  const Problem small = MakeProblem(3, 40, 50, DataType::kF32, DataType::kF32);
  const Operands weights(small, Distribution::kNormal, 2);
  const auto b = device_->Store(small, WorkPlane::kB, weights.b.data());
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_TRUE(Fetched(**b, small.b) == std::string(weights.b.begin(), weights.b.end()));
  for (auto& result : results) EXPECT_TRUE(result.get().status.ok());
}

// Many at once, from many threads.
TEST_F(CudaKeptTest, ManyThreadsStoreKeepAndFetch) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    Start(seed);
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(seed * 4 + thread);
        for (int i = 0; i < 8; ++i) {
          const std::int64_t size = 1 + static_cast<std::int64_t>(random() % 150);
          const Problem problem = MakeProblem(size, 50, 60, DataType::kF32, DataType::kF32);
          const Operands operands(problem, Distribution::kNormal, random());
          DeviceWork work = MakeWork(problem, operands);
          if (random() % 2 == 0) StoreAll(&work);
          KeepResult(&work);
          const absl::Status status = Submit(work).get().status;
          ASSERT_TRUE(status.ok()) << status;
          Operands compared = operands;
          const std::string bytes = Fetched(*work.resident.d, problem.d);
          std::memcpy(compared.d.data(), bytes.data(), bytes.size());
          EXPECT_EQ(CompareWithReference(problem, compared), "");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(AllIsFree());
  }
}

}  // namespace
}  // namespace gemmd
