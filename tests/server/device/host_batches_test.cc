// Batches and slices on the devices that compute in host memory: the bits of each work are
// those it has alone.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "gtest/gtest.h"
#include "server/device/cpu_device.h"
#include "server/device/emulated_device.h"
#include "server/device/host_launches.h"
#include "server/device/slices.h"
#include "tests/server/device/batches.h"
#include "tests/testing/products/quantized_work.h"

namespace gemmd {
namespace {

using testing::RunLaunch;
using testing::TestWork;

constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

class HostBatchesTest : public ::testing::TestWithParam<const char*> {
 protected:
  HostBatchesTest() {
    if (GetParam() == std::string("cpu")) {
      CpuDevice::Options options;
      options.threads = 2;
      options.memory_bytes = kMemory;
      device_ = std::make_unique<CpuDevice>(options, &clock_);
    } else {
      device_ = std::make_unique<EmulatedDevice>(kMemory, &clock_);
    }
  }
  bool is_cpu() const { return device_->traits().kind == DeviceKind::kCpu; }

  // Shapes that the device has kernels for.
  std::vector<Problem> Shapes() const {
    std::vector<Problem> shapes;
    const auto add = [&](std::int64_t n, std::int64_t k, DataType type, DataType output,
                         bool transpose_b) {
      shapes.push_back(MakeProblem(1, n, k, type, output, false, transpose_b));
    };
    if (!is_cpu()) {
      add(40, 32, DataType::kF16, DataType::kF16, true);
      add(24, 40, DataType::kBf16, DataType::kBf16, false);
      return shapes;
    }
    add(777, 300, DataType::kF32, DataType::kF32, false);
    add(64, 256, DataType::kF64, DataType::kF64, true);
    add(100, 130, DataType::kBf16, DataType::kBf16, true);
    add(33, 70, DataType::kInt8, DataType::kInt32, false);
    add(65, 50, DataType::kFp8E4M3, DataType::kBf16, false);
    shapes.back().a_scaling = Scaling::kVector;
    shapes.back().b_scaling = Scaling::kVector;
    shapes[0].epilogue.has_bias = true;
    shapes[0].epilogue.activation = Activation::kRelu;
    shapes[2].epilogue.alpha = 0.5;
    return shapes;
  }

  void ExpectAllFree() {
    const MemoryUsage usage = device_->memory().usage();
    EXPECT_EQ(usage.free_bytes(), usage.limit_bytes);
  }

  // Joins works of random rows over one B, after each ran alone.
  void CheckRows(const Problem& shape, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto weights =
        std::make_shared<const testing::Operands>(shape, testing::Distribution::kNormal, seed);
    std::vector<TestWork> works;
    const std::uint32_t count = 2 + random() % 6;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::int64_t rows = random() % 2 == 0 ? 1 : 1 + random() % (is_cpu() ? 40 : 9);
      works.emplace_back(*device_, testing::WithOtherRows(shape, rows, &random), 100 * seed + i,
                         weights);
      ASSERT_TRUE(RunLaunch(device_.get(), works.back().Fresh()).status.ok());
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::shuffle(works.begin(), works.end(), random);
      std::vector<DeviceWork> batch;
      for (TestWork& work : works) batch.push_back(work.Fresh());
      for (const DeviceWork& work : batch) EXPECT_EQ(device_->FormOf(work), BatchForm::kRows);
      Plan plan = testing::PlanFor(*device_, JoinedRows(batch));
      EXPECT_EQ(plan.numerics_id, batch.front().plan.numerics_id);
      const DeviceResult result =
          RunLaunch(device_.get(), DeviceLaunch::Rows(std::move(batch), std::move(plan)));
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_FALSE(result.spans.empty());
      for (const TestWork& work : works) EXPECT_TRUE(work.ResultsAreEqual()) << ToString(shape);
    }
    ExpectAllFree();
  }

  // Runs all slices, and returns the number of launches.
  std::int64_t RunSlices(const std::shared_ptr<SlicedWork>& sliced) {
    std::int64_t launches = 0;
    for (int done = 0; done < sliced->slices(); ++launches) {
      const DeviceResult result = RunLaunch(device_.get(), DeviceLaunch::Slice(sliced, done));
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_GE(result.slices, 1);
      done += result.slices;
      EXPECT_LE(done, sliced->slices());
    }
    return launches;
  }

  const SteadyClock clock_;
  std::unique_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(Devices, HostBatchesTest, ::testing::Values("cpu", "emulated"));

TEST_P(HostBatchesTest, JoinedRowsHaveTheBitsTheyHaveAlone) {
  const std::uint32_t seeds = is_cpu() ? 12 : 2;
  for (const Problem& shape : Shapes()) {
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) CheckRows(shape, seed);
  }
}

TEST_P(HostBatchesTest, WithoutRoomTheWorksRunOneByOne) {
  const auto filler = device_->memory().Reserve(kMemory, 0);
  ASSERT_TRUE(filler.ok());
  const Problem shape = Shapes().front();
  const auto weights =
      std::make_shared<const testing::Operands>(shape, testing::Distribution::kNormal, 1);
  std::vector<TestWork> works;
  std::vector<DeviceWork> batch;
  std::mt19937 random(1);
  for (std::uint32_t i = 0; i < 3; ++i) {
    works.emplace_back(*device_, testing::WithOtherRows(shape, 1 + i, &random), i, weights);
    ASSERT_TRUE(RunLaunch(device_.get(), works.back().Fresh()).status.ok());
  }
  for (TestWork& work : works) batch.push_back(work.Fresh());
  Plan plan = testing::PlanFor(*device_, JoinedRows(batch));
  const DeviceResult result =
      RunLaunch(device_.get(), DeviceLaunch::Rows(std::move(batch), std::move(plan)));
  EXPECT_TRUE(result.status.ok()) << result.status;
  const auto computed = std::count_if(result.spans.begin(), result.spans.end(),
                                      [](auto& span) { return span.stage == Stage::kCompute; });
  EXPECT_EQ(computed, 3);
  for (const TestWork& work : works) EXPECT_TRUE(work.ResultsAreEqual());
}

TEST_P(HostBatchesTest, GroupsOfMixedShapesHaveTheBitsTheyHaveAlone) {
  std::mt19937 random(5);
  std::vector<TestWork> works;
  for (const Problem& shape : Shapes()) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      Problem problem = testing::WithOtherRows(shape, 1 + random() % 20, &random);
      if (problem.d.type != DataType::kInt32) problem.epilogue.beta = i;
      works.emplace_back(*device_, problem, random());
      ASSERT_TRUE(RunLaunch(device_.get(), works.back().Fresh()).status.ok());
    }
  }
  std::shuffle(works.begin(), works.end(), random);
  std::vector<DeviceWork> group;
  for (TestWork& work : works) group.push_back(work.Fresh());
  for (const DeviceWork& work : group) EXPECT_NE(device_->FormOf(work), BatchForm::kRows);
  const DeviceResult result = RunLaunch(device_.get(), DeviceLaunch::Group(std::move(group)));
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (const TestWork& work : works) EXPECT_TRUE(work.ResultsAreEqual());
  ExpectAllFree();
}

TEST_P(HostBatchesTest, SlicesHaveTheBitsOfTheWhole) {
  std::vector<Problem> problems;
  if (is_cpu()) {
    for (Problem shape : Shapes()) {
      std::mt19937 random(9);
      shape.n += 1100;
      shape.b =
          MakeProblem(1, shape.n, shape.k, shape.b.type, shape.d.type, false, shape.transpose_b).b;
      problems.push_back(testing::WithOtherRows(shape, 150, &random));
    }
    problems[1].epilogue.beta = 2;
    problems[1].d.order = problems[1].c.order = Order::kColumnMajor;
    problems[1].d.leading_dimension = problems[1].c.leading_dimension = 155;
  } else {
    problems.push_back(MakeProblem(300, 270, 32, DataType::kF16, DataType::kF16));
  }
  for (const Problem& problem : problems) {
    TestWork work(*device_, problem, 3);
    ASSERT_TRUE(RunLaunch(device_.get(), work.Fresh()).status.ok());
    DeviceWork whole = work.Fresh();
    EXPECT_EQ(device_->Cut(whole, whole.plan.predicted_us), nullptr);
    const std::shared_ptr<SlicedWork> sliced = device_->Cut(whole, 0);
    ASSERT_NE(sliced, nullptr) << ToString(problem);
    // Units of a CPU's kernel have at most 512 columns, and a launch has one for each thread.
    EXPECT_GE(RunSlices(sliced), is_cpu() ? 2 : 4);
    EXPECT_TRUE(work.ResultsAreEqual()) << ToString(problem);
  }
  ExpectAllFree();
}

// A launch packs B for all units, those of the launches after it too.
TEST_P(HostBatchesTest, SlicesOfInt8ShareWhatWasPacked) {
  if (!is_cpu()) return;
  TestWork work(*device_, MakeProblem(700, 1500, 100, DataType::kInt8, DataType::kInt32), 3);
  ASSERT_TRUE(RunLaunch(device_.get(), work.Fresh()).status.ok());
  EXPECT_GE(RunSlices(device_->Cut(work.Fresh(), 0)), 4);
  EXPECT_TRUE(work.ResultsAreEqual());
}

TEST_P(HostBatchesTest, ALaunchGoesOnWithSlicesUntilItsTurnIsOver) {
  if (!is_cpu()) return;
  TestWork work(*device_, MakeProblem(2000, 1000, 16, DataType::kF32, DataType::kF32), 3);
  const DeviceWork whole = work.Fresh();
  ASSERT_TRUE(RunLaunch(device_.get(), whole).status.ok());
  for (const bool is_over : {false, true}) {
    const std::shared_ptr<SlicedWork> sliced =
        device_->Cut(work.Fresh(), whole.plan.predicted_us / 4);
    ASSERT_EQ(sliced->slices(), 16);  // of 16 units, and each launch has one for each thread
    DeviceLaunch launch = DeviceLaunch::Slice(sliced, 0);
    launch.goes_on_to = 12;
    launch.turn_is_over = std::make_shared<std::atomic<bool>>(is_over);
    const DeviceResult result = RunLaunch(device_.get(), std::move(launch));
    EXPECT_EQ(result.slices, is_over ? 2 : 12);
    EXPECT_EQ(result.spans.size(), 1u);
    for (int done = result.slices; done < 16;) {
      const DeviceResult next = RunLaunch(device_.get(), DeviceLaunch::Slice(sliced, done));
      EXPECT_EQ(next.slices, 2);
      done += next.slices;
    }
    EXPECT_TRUE(work.ResultsAreEqual());
  }
  ExpectAllFree();
}

TEST_P(HostBatchesTest, OnlyRowsThatCanBeJoinedSaySo) {
  const Problem shape = Shapes().front();
  const auto weights =
      std::make_shared<const testing::Operands>(shape, testing::Distribution::kNormal, 1);
  const DeviceWork good = TestWork(*device_, shape, 1, weights).Fresh();
  EXPECT_TRUE(HasJoinableRows(good));
  const auto joins_with = [&good](const auto& change) {
    DeviceWork work = good;
    change(&work);
    return HasJoinableRows(work);
  };
  EXPECT_FALSE(joins_with([](DeviceWork* work) { work->weights_id = 0; }));
  EXPECT_FALSE(joins_with([](DeviceWork* work) { work->problem.transpose_a = true; }));
  EXPECT_FALSE(joins_with([](DeviceWork* work) { work->problem.d.order = Order::kColumnMajor; }));
  EXPECT_FALSE(joins_with([](DeviceWork* work) { work->problem.epilogue.beta = 1; }));
  EXPECT_FALSE(joins_with([](DeviceWork* work) { work->problem.a_scaling = Scaling::kTensor; }));
  EXPECT_FALSE(
      joins_with([](DeviceWork* work) { work->buffers.access[WorkPlane::kA] = Access::kDirect; }));
  EXPECT_FALSE(joins_with([](DeviceWork* work) { work->buffers.d_access = Access::kDevice; }));
}

// A quantized work over its own operands.
class QuantizedWork {
 public:
  QuantizedWork(const Device& device, testing::QuantizedProduct product)
      : product_(std::make_unique<testing::QuantizedProduct>(std::move(product))) {
    work_ = testing::WorkOf(product_.get(), testing::PlanFor(device, product_->problem));
  }

  const DeviceWork& work() const { return work_; }
  // The work over that B, with a result of its own.
  DeviceWork Over(const DeviceWork& weights) {
    DeviceWork fresh = Fresh();
    fresh.weights_id = 7;
    for (const WorkPlane plane : kPlanesOfB) fresh.buffers[plane] = weights.buffers[plane];
    return fresh;
  }
  DeviceWork Fresh() {
    results_.push_back(testing::PoisonedPlane(work_.problem.d));
    DeviceWork fresh = work_;
    fresh.buffers.d = {{results_.back().data(), results_.back().size(), nullptr}};
    return fresh;
  }
  bool ResultsAreEqual() const {
    return std::all_of(results_.begin(), results_.end(),
                       [this](const auto& result) { return result == results_.front(); });
  }

 private:
  std::unique_ptr<testing::QuantizedProduct> product_;
  DeviceWork work_;
  std::vector<testing::PlaneBytes> results_;
};

// Every format cuts its scales and zero points with its rows and columns, however they lie. Cut
// into few, the tall one's blocks would begin within a block of 128 lines, were they only whole
// tiles.
TEST_P(HostBatchesTest, BlocksOfQuantizedOperandsHaveTheBitsOfTheWhole) {
  if (!is_cpu()) return;
  struct Cut {
    std::int64_t columns;
    double share;  // of the whole's time, that a slice may take
  };
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kSize = 70;
  testing::Draws draws(11);
  const QuantFormat other = *FindQuantFormat("int4-g32-f16-zp");
  for (const NamedFormat& named : QuantFormats()) {
    for (const Cut& cut : {Cut{1100, 0}, Cut{60, 0.9}}) {
      for (const bool is_a : {true, false}) {
        const QuantFormat& a = is_a ? named.format : other;
        const QuantFormat& b = is_a ? other : named.format;
        QuantizedWork work(*device_,
                           testing::MakeQuantizedProduct(draws.Lines(a, kRows, kSize, true),
                                                         draws.Lines(b, cut.columns, kSize, false),
                                                         kRows, cut.columns, kSize,
                                                         testing::UsualSum(a, b), DataType::kF32));
        ASSERT_TRUE(RunLaunch(device_.get(), work.Fresh()).status.ok());
        const DeviceWork cut_work = work.Fresh();
        const Plan& plan = cut_work.plan;
        const std::shared_ptr<SlicedHostWork> blocks =
            SlicedHostWork::Make(cut_work, cut_work.problem,
                                 CutIntoSlices(cut_work.problem, plan, device_->traits(), {64, 64},
                                               cut.share * plan.predicted_us));
        ASSERT_NE(blocks, nullptr) << named.name;
        EXPECT_GT(blocks->slices(), cut.share == 0 ? 2 : 1);
        for (int i = 0; i < blocks->slices(); ++i) {
          ASSERT_TRUE(RunLaunch(device_.get(), blocks->Slice(i)).status.ok());
        }
        ASSERT_GE(RunSlices(device_->Cut(work.Fresh(), 0)), 1);
        EXPECT_TRUE(work.ResultsAreEqual()) << named.name << " " << ToString(work.work().problem);
      }
    }
  }
}

// If rows of scales follow one another, rows are joined with them; elsewhere no work says so.
TEST_P(HostBatchesTest, JoinedRowsOfQuantizedOperandsHaveTheBitsTheyHaveAlone) {
  if (!is_cpu()) return;
  testing::Draws draws(12);
  int joined = 0;
  for (const NamedFormat& named : QuantFormats()) {
    constexpr std::int64_t kColumns = 50;
    constexpr std::int64_t kSize = 72;
    const QuantFormat other = *FindQuantFormat("int8-g32-zp");
    const testing::QuantizedOperand weights = draws.Lines(other, kColumns, kSize, false);
    std::vector<QuantizedWork> works;
    for (int i = 0; i < 6; ++i) {
      const std::int64_t rows = 1 + draws.Below(9);
      works.emplace_back(*device_,
                         testing::MakeQuantizedProduct(
                             draws.Lines(named.format, rows, kSize, true), weights, rows, kColumns,
                             kSize, testing::UsualSum(named.format, other), DataType::kF32));
      ASSERT_TRUE(RunLaunch(device_.get(), works.back().Fresh()).status.ok());
    }
    const DeviceWork first = works.front().Fresh();
    std::vector<DeviceWork> batch;
    for (QuantizedWork& work : works) {
      DeviceWork fresh = work.Over(first);
      const Scaling& scaling = fresh.problem.a_scaling;
      const bool may_join =
          fresh.problem.a_is_k_major() && scaling.block_lines == 1 &&
          scaling.order == ScaleOrder::kAlongK && !scaling.has_tensor_scale &&
          fresh.problem.a.leading_dimension * SizeBits(fresh.problem.a.type) % 8 == 0;
      EXPECT_EQ(HasJoinableRows(fresh), may_join) << named.name;
      if (!may_join) {
        // Its poisoned result is none.
        ASSERT_TRUE(RunLaunch(device_.get(), fresh).status.ok());
        continue;
      }
      batch.push_back(std::move(fresh));
    }
    joined += static_cast<int>(batch.size());
    ASSERT_TRUE(RunLaunch(device_.get(), first).status.ok());
    if (batch.empty()) continue;
    Plan plan = testing::PlanFor(*device_, JoinedRows(batch));
    ASSERT_TRUE(RunLaunch(device_.get(), DeviceLaunch::Rows(std::move(batch), std::move(plan)))
                    .status.ok());
    for (const QuantizedWork& work : works) EXPECT_TRUE(work.ResultsAreEqual()) << named.name;
  }
  EXPECT_GT(joined, 30);
  ExpectAllFree();
}

// Each block within the limit, all of D covered once, and no cut where bits would differ.
TEST(Slices, KeepTheLimitAndCoverD) {
  DeviceTraits traits;
  traits.compute_units = 4;
  traits.f32_gflops = 100;
  traits.memory_gbps = 10;
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const auto size = [&random](std::int64_t most) {
      return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most));
    };
    const Problem problem =
        MakeProblem(size(3000), size(6000), size(3000), DataType::kF32, DataType::kF32);
    const Plan plan = *Select(BuiltinRegistry(), problem, traits);
    const SliceSteps steps{64, 512};
    const auto predicted = [&](const Panel& block) {
      const Problem part =
          MakeProblem(block.rows(), block.columns(), problem.k, DataType::kF32, DataType::kF32);
      return plan.kernel->PredictedUs(part, plan.config, traits);
    };
    const double least = predicted(
        {0, std::min<std::int64_t>(64, problem.m), 0, std::min<std::int64_t>(512, problem.n)});
    const double limit = least * (1 + static_cast<double>(random() % 100));
    const std::vector<Panel> blocks = CutIntoSlices(problem, plan, traits, steps, limit);
    if (plan.predicted_us <= limit) {
      EXPECT_TRUE(blocks.empty());
      continue;
    }
    ASSERT_GE(blocks.size(), 2u) << ToString(problem);
    std::int64_t elements = 0;
    for (const Panel& block : blocks) {
      EXPECT_LE(predicted(block), limit * 1.001) << ToString(problem);
      EXPECT_EQ(block.m_begin % 64, 0);
      EXPECT_EQ(block.n_begin % 512, 0);
      EXPECT_GT(block.rows(), 0);
      EXPECT_GT(block.columns(), 0);
      elements += block.rows() * block.columns();
    }
    EXPECT_EQ(elements, problem.m * problem.n);
    // A measured plan scales the predictions.
    Plan slower = plan;
    slower.predicted_us *= 2;
    EXPECT_GE(CutIntoSlices(problem, slower, traits, steps, limit).size(), blocks.size());
  }
}

// If even a unit is predicted above the limit, blocks still have one for each thread: smaller ones
// would take as long.
TEST(Slices, AreNoSmallerThanKeepsEveryThreadBusy) {
  DeviceTraits traits;
  traits.compute_units = 4;
  traits.f32_gflops = 100;
  traits.memory_gbps = 1000;
  const Problem problem = MakeProblem(2048, 2048, 2048, DataType::kF32, DataType::kF32);
  const Plan plan = *Select(BuiltinRegistry(), problem, traits);
  const std::vector<Panel> blocks =
      CutIntoSlices(problem, plan, traits, {64, 512}, plan.predicted_us / 1e4);
  EXPECT_EQ(blocks.size(), 128u);
  for (const Panel& block : blocks) EXPECT_EQ(block.rows() * block.columns(), 4 * 64 * 128);
}

}  // namespace
}  // namespace gemmd
