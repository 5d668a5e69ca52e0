// Products that are larger than the device's memory: how they are cut, and that the parts have the
// bits of the whole, over a fake runtime whose memory is as small as a device's is large.
#include "server/device/cuda/launches/out_of_core.h"

#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/planes/landing.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::kMiB;
using testing::Operands;

constexpr std::uint64_t kPanelBytes = 64 << 10;

// A plane that a test only asks for its layout.
class SomewhereElse final : public ResidentOperand {
 public:
  explicit SomewhereElse(const MatrixLayout& layout) : layout_(layout) {}
  const void* data() const override { return nullptr; }
  const MatrixLayout& layout() const override { return layout_; }
  std::uint64_t size_bytes() const override { return 0; }

 private:
  const MatrixLayout layout_;
};

class OutOfCoreTest : public testing::CudaDeviceTest {
 protected:
  OutOfCoreTest() { Start(1); }

  DeviceWork Planned(const Problem& problem) const {
    DeviceWork work;
    work.problem = problem;
    work.plan = *Select(registry_, LandedProblem(problem), device_->traits());
    return work;
  }

  // A work whose D holds the same bytes each time: those between its lines stay.
  DeviceWork MakeFilledWork(const Problem& problem, const Operands& operands) {
    DeviceWork work = MakeWork(problem, operands);
    for (const HostPiece& piece : work.buffers.d) std::memset(piece.data, 'x', piece.size_bytes);
    return work;
  }

  static std::string Bytes(const HostBuffer& pieces) {
    std::string bytes;
    for (const HostPiece& piece : pieces) bytes.append(piece.data, piece.size_bytes);
    return bytes;
  }

  // Problems whose planes take some MiB, of every kind that can be cut.
  static std::vector<Problem> Problems() {
    std::vector<Problem> problems;
    for (const auto& [type, output_type] : {std::pair{DataType::kF32, DataType::kF32},
                                            {DataType::kF64, DataType::kF64},
                                            {DataType::kBf16, DataType::kBf16},
                                            {DataType::kInt8, DataType::kF32}}) {
      for (const bool transposed : {false, true}) {
        Problem problem = MakeProblem(601, 800, 24, type, output_type, transposed, !transposed);
        problem.epilogue.beta = transposed ? 0 : 2;
        problem.epilogue.has_bias = true;
        if (type == DataType::kInt8) problem.a_scaling = problem.b_scaling = Scaling::kVector;
        problems.push_back(problem);
      }
    }
    Problem by_columns = MakeProblem(900, 700, 17, DataType::kF32, DataType::kF32);
    by_columns.a.order = by_columns.d.order = by_columns.c.order = Order::kColumnMajor;
    by_columns.a.leading_dimension = 903;
    by_columns.d.leading_dimension = by_columns.c.leading_dimension = 911;
    problems.push_back(by_columns);
    problems.push_back(MakeProblem(2000, 9, 200, DataType::kF32, DataType::kF32));
    problems.push_back(MakeProblem(9, 2000, 200, DataType::kF32, DataType::kF32));
    return problems;
  }
};

TEST_F(OutOfCoreTest, PartsCoverTheProductAndFit) {
  std::mt19937_64 random(1);
  int cut = 0;
  for (int i = 0; i < 400; ++i) {
    const auto size = [&] { return std::int64_t{1} << (random() % 16); };
    const auto off = [&] { return static_cast<std::int64_t>(random() % 300); };
    const Problem problem =
        MakeProblem(size() + off(), size() + off(), 1 + size() / 8, DataType::kF32, DataType::kF32,
                    random() % 2 == 0, random() % 2 == 0);
    const DeviceWork work = Planned(problem);
    const std::uint64_t memory = (std::uint64_t{1} << (20 + random() % 14)) + random() % 1000;
    const PartCutter cutter(memory, kPanelBytes);
    const PartCut parts = cutter.Cut(work);
    if (!cutter.MayCut(Prepare(work, kPanelBytes))) {
      EXPECT_TRUE(parts.panels.empty());
      continue;
    }
    if (parts.panels.empty()) continue;  // the smallest parts do not fit, which K decides
    ++cut;
    const Footprint footprint = cutter.FootprintOf(work, {}, parts);
    EXPECT_LE(footprint.in_flight_bytes + footprint.workspace_bytes, memory / 4 * 3);
    // Strip by strip, without gaps and overlaps.
    ASSERT_TRUE(parts.shared.has_value());
    const bool by_rows = *parts.shared == WorkPlane::kA;
    std::int64_t column = 0;
    std::int64_t row = 0;
    for (const Panel& part : parts.panels) {
      EXPECT_EQ(part.m_begin, row);
      EXPECT_EQ(part.n_begin, column);
      EXPECT_EQ(part.m_begin % 256, 0);
      EXPECT_EQ(part.n_begin % 256, 0);
      ASSERT_GT(part.rows(), 0);
      ASSERT_GT(part.columns(), 0);
      const SharedStrip strip = StripOf(work, *parts.shared, part);
      const DeviceWork own =
          PartOf(work, part, parts.shared, std::make_shared<SomewhereElse>(strip.landed));
      const std::uint64_t block_bytes =
          PreparePart(work, own, part, parts.shared, kPanelBytes).block.total_bytes;
      EXPECT_LE(strip.total_bytes + kPartsAtOnce * block_bytes,
                footprint.in_flight_bytes + footprint.workspace_bytes);
      std::int64_t& along = by_rows ? column : row;
      std::int64_t& across = by_rows ? row : column;
      along = by_rows ? part.n_end : part.m_end;
      if (along == (by_rows ? problem.n : problem.m)) {
        along = 0;
        across = by_rows ? part.m_end : part.n_end;
      }
    }
    EXPECT_EQ(by_rows ? column : row, 0);
    EXPECT_EQ(by_rows ? row : column, by_rows ? problem.m : problem.n);
  }
  EXPECT_GT(cut, 50);
}

TEST_F(OutOfCoreTest, WhatIsSentIsCutRatherThanWhatLiesOnTheDevice) {
  const Problem problem = MakeProblem(4000, 4000, 100, DataType::kF32, DataType::kF32);
  const DeviceWork work = Planned(problem);
  const PartCutter cutter(32 * kMiB, kPanelBytes);
  ASSERT_FALSE(cutter.Cut(work).panels.empty());
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB}) {
    Residency resident;
    resident[plane] = true;
    const PartCut parts = cutter.Cut(work, resident);
    EXPECT_FALSE(parts.shared.has_value());
    ASSERT_FALSE(parts.panels.empty());
    for (const Panel& part : parts.panels) {
      EXPECT_EQ(plane == WorkPlane::kA ? part.rows() : part.columns(), 4000);
    }
  }
  Residency both;
  both[WorkPlane::kA] = both[WorkPlane::kB] = true;
  const PartCut rows = cutter.Cut(work, both);
  EXPECT_FALSE(rows.shared.has_value());
  ASSERT_FALSE(rows.panels.empty());
  for (const Panel& part : rows.panels) EXPECT_EQ(part.columns(), 4000);
  // Where 256 rows are too many bytes, columns are cut.
  const DeviceWork wide = Planned(MakeProblem(300, 60000, 4, DataType::kF32, DataType::kF32));
  const PartCut columns = cutter.Cut(wide, both);
  ASSERT_FALSE(columns.panels.empty());
  for (const Panel& part : columns.panels) EXPECT_EQ(part.rows(), 300);
  Residency kept;
  kept.d = true;
  EXPECT_TRUE(cutter.Cut(work, kept).panels.empty());
}

// The cut decides how often each operand is sent: as seldom as the memory allows.
TEST_F(OutOfCoreTest, TheLargerOperandIsSentOnce) {
  const PartCutter cutter(32 * kMiB, kPanelBytes);
  const DeviceWork tall = Planned(MakeProblem(20000, 600, 400, DataType::kF32, DataType::kF32));
  EXPECT_EQ(cutter.Cut(tall).shared, WorkPlane::kB);
  for (const Panel& part : cutter.Cut(tall).panels) EXPECT_EQ(part.columns(), 600);
  const DeviceWork wide = Planned(MakeProblem(600, 20000, 400, DataType::kF32, DataType::kF32));
  EXPECT_EQ(cutter.Cut(wide).shared, WorkPlane::kA);
  for (const Panel& part : cutter.Cut(wide).panels) EXPECT_EQ(part.rows(), 600);
}

TEST_F(OutOfCoreTest, PartsHaveTheBitsOfTheWhole) {
  std::uint32_t seed = 0;
  int strips_of_a = 0;
  int strips_of_b = 0;
  for (const Problem& problem : Problems()) {
    SCOPED_TRACE(ToString(problem));
    const Operands operands(problem, Distribution::kNormal, ++seed);
    Start(seed);
    const DeviceWork whole = MakeFilledWork(problem, operands);
    ASSERT_TRUE(Submit(whole).get().status.ok());
    const std::string expected = Bytes(whole.buffers.d);

    const std::uint64_t memory = Prepare(whole, kPanelBytes).block.total_bytes;
    Start(seed, memory);
    const DeviceWork work = MakeFilledWork(problem, operands);
    const Footprint footprint = device_->FootprintOf(problem, work.plan, {});
    EXPECT_LE(footprint.in_flight_bytes + footprint.workspace_bytes, memory / 4 * 3);
    const PartCut parts = PartCutter(memory, kPanelBytes).Cut(work);
    ASSERT_GT(parts.panels.size(), 1u);
    strips_of_a += parts.shared == WorkPlane::kA;
    strips_of_b += parts.shared == WorkPlane::kB;
    const DeviceResult result = Submit(work).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(Bytes(work.buffers.d) == expected);

    const DeviceWork again = MakeFilledWork(problem, operands);
    const std::shared_ptr<SlicedWork> sliced = device_->Cut(again, 1e9);
    ASSERT_NE(sliced, nullptr);
    std::vector<std::future<DeviceResult>> slices;
    for (int i = 0; i < sliced->slices(); ++i) {
      auto promise = std::make_shared<std::promise<DeviceResult>>();
      slices.push_back(promise->get_future());
      device_->Submit(DeviceLaunch::Slice(sliced, i),
                      [promise](DeviceResult done) { promise->set_value(std::move(done)); });
    }
    for (auto& slice : slices) ASSERT_TRUE(slice.get().status.ok());
    EXPECT_TRUE(Bytes(again.buffers.d) == expected);
    EXPECT_TRUE(AllIsFree());
  }
  EXPECT_GT(strips_of_a, 0);
  EXPECT_GT(strips_of_b, 0);
}

TEST_F(OutOfCoreTest, OneOperandMayLieOnTheDevice) {
  Problem problem = MakeProblem(900, 1000, 50, DataType::kF32, DataType::kF32);
  problem.epilogue.has_bias = true;
  Operands operands(problem, Distribution::kNormal, 3);
  constexpr std::uint64_t kMemory = 4 * kMiB;  // D takes 3.4
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB}) {
    Start(3, kMemory);
    DeviceWork work = MakeWork(problem, operands);
    const void* const data = plane == WorkPlane::kA ? operands.a.data() : operands.b.data();
    work.resident[plane] = *device_->Store(problem, plane, data);
    work.resident[WorkPlane::kBias] =
        *device_->Store(problem, WorkPlane::kBias, operands.bias.data());
    work.buffers[plane] = work.buffers[WorkPlane::kBias] = nullptr;
    EXPECT_FALSE(PartCutter(kMemory, kPanelBytes).Cut(work).panels.empty());
    const DeviceResult result = Submit(work).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    CopyOut(work.buffers.d, &operands.d);
    EXPECT_EQ(CompareWithReference(problem, operands), "");
  }
}

// Each part reads rows of A, or columns of B, where they lie among the others.
TEST_F(OutOfCoreTest, BothOperandsMayLieOnTheDevice) {
  std::vector<Problem> problems;
  for (const auto& [type, output_type] : {std::pair{DataType::kF32, DataType::kF32},
                                          {DataType::kBf16, DataType::kBf16},
                                          {DataType::kInt8, DataType::kF32}}) {
    for (const bool transposed : {false, true}) {
      for (const auto& [m, n] : {std::pair{901, 801}, {30, 24000}}) {
        Problem problem = MakeProblem(m, n, 20, type, output_type, transposed, !transposed);
        problem.epilogue.has_bias = true;
        if (type == DataType::kInt8) problem.a_scaling = problem.b_scaling = Scaling::kVector;
        problems.push_back(problem);
      }
    }
  }
  std::uint32_t seed = 40;
  for (const Problem& problem : problems) {
    SCOPED_TRACE(ToString(problem));
    Operands operands(problem, Distribution::kNormal, ++seed);
    const std::uint64_t d_bytes = Prepare(Planned(problem), kPanelBytes).block.d.bytes;
    // The operands leave little more than D takes.
    Residency both;
    both[WorkPlane::kA] = both[WorkPlane::kB] = true;
    const Problem landed = LandedProblem(problem);
    const std::uint64_t operand_bytes = LandedBytes(landed.a) + LandedBytes(landed.b);
    Start(seed, d_bytes + operand_bytes + kMiB / 4);
    DeviceWork work = MakeFilledWork(problem, operands);
    for (const auto& [plane, data] :
         {std::pair{WorkPlane::kA, operands.a.data()}, {WorkPlane::kB, operands.b.data()}}) {
      absl::StatusOr<std::shared_ptr<const ResidentOperand>> stored =
          device_->Store(problem, plane, data);
      ASSERT_TRUE(stored.ok()) << stored.status();
      work.resident[plane] = *std::move(stored);
      work.buffers[plane] = nullptr;
    }
    const Footprint footprint = device_->FootprintOf(problem, work.plan, both);
    EXPECT_LE(footprint.in_flight_bytes + footprint.workspace_bytes,
              device_->memory().usage().free_bytes());
    EXPECT_GT(
        PartCutter(device_->memory().usage().limit_bytes, kPanelBytes).Cut(work).panels.size(), 1U);
    const DeviceResult result = Submit(work).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    CopyOut(work.buffers.d, &operands.d);
    EXPECT_EQ(CompareWithReference(problem, operands), "");
    work = {};
    EXPECT_TRUE(AllIsFree());
  }
}

// Otherwise it would wait for ever for what its own operand holds.
TEST_F(OutOfCoreTest, AResidentOperandLeavesLessForTheRest) {
  const Problem problem = MakeProblem(900, 3000, 800, DataType::kF32, DataType::kF32);
  const DeviceWork work = Planned(problem);
  Residency resident;
  resident[WorkPlane::kB] = true;
  const std::uint64_t b_bytes = LandedBytes(LandedProblem(problem).b);
  const std::uint64_t rest = Prepare(work, kPanelBytes, resident).block.total_bytes;
  const std::uint64_t memory = b_bytes + rest;  // of which it would be less than three quarters
  ASSERT_LT(rest, memory / 4 * 3);
  const PartCutter cutter(memory, kPanelBytes);
  const PartCut parts = cutter.Cut(work, resident);
  ASSERT_FALSE(parts.panels.empty());
  const Footprint footprint = cutter.FootprintOf(work, resident, parts);
  EXPECT_LE(footprint.in_flight_bytes + footprint.workspace_bytes, rest);
}

// The strip's operand is under way when its first part finds no memory, and nothing that ends would
// give any.
TEST_F(OutOfCoreTest, APartThatFindsNoMemoryEndsBehindItsStrip) {
  const Problem problem = MakeProblem(900, 600, 30, DataType::kF32, DataType::kF32);
  const std::uint64_t memory = Prepare(Planned(problem), kPanelBytes).block.total_bytes;
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    for (const bool is_sliced : {false, true}) {
      SCOPED_TRACE(seed);
      Start(seed, memory);
      auto operands = std::make_unique<Operands>(problem, Distribution::kNormal, seed);
      DeviceWork work = MakeWork(problem, *operands);
      cuda_->FailCall("Allocate", absl::ResourceExhaustedError("fragments"), 1);
      std::promise<DeviceResult> promise;
      std::shared_ptr<SlicedWork> sliced = device_->Cut(work, 1e9);
      ASSERT_NE(sliced, nullptr);
      device_->Submit(is_sliced ? DeviceLaunch::Slice(sliced, 0) : DeviceLaunch(work),
                      [&promise](DeviceResult done) { promise.set_value(std::move(done)); });
      const DeviceResult result = promise.get_future().get();
      EXPECT_EQ(result.status.message(), "fragments");
      // All of it had come.
      EXPECT_GT(result.copied.in, 0u);
      if (is_sliced) {
        std::promise<DeviceResult> next;
        device_->Submit(DeviceLaunch::Slice(sliced, 1),
                        [&next](DeviceResult done) { next.set_value(std::move(done)); });
        EXPECT_EQ(next.get_future().get().status.message(), "an earlier slice of the work failed");
      }
      sliced = nullptr;
      work = {};
      operands = nullptr;
      EXPECT_EQ(Compute(problem, 6), "");
      EXPECT_TRUE(AllIsFree());
    }
  }
}

TEST_F(OutOfCoreTest, AFaultInAPartFailsTheWorkAndGivesAllBack) {
  const Problem problem = MakeProblem(900, 600, 30, DataType::kF32, DataType::kF32);
  const Operands operands(problem, Distribution::kNormal, 5);
  const std::uint64_t memory = Prepare(Planned(problem), kPanelBytes).block.total_bytes;
  for (const char* method : {"Launch", "Copy", "Allocate"}) {
    for (int skip = 0; skip < 3; ++skip) {
      SCOPED_TRACE(std::string(method) + " " + std::to_string(skip));
      Start(5, memory);
      DeviceWork work = MakeWork(problem, operands);
      cuda_->FailCall(method, absl::InternalError("a fault"), skip);
      EXPECT_EQ(Submit(work).get().status.message(), "a fault");
      work = {};
      EXPECT_EQ(Compute(problem, 6), "");
      EXPECT_TRUE(AllIsFree());
    }
  }
}

}  // namespace
}  // namespace gemmd
