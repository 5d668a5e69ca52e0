// Rows through the scheduler and the CPU device have the bits that they have alone, whatever
// shares their launch; and a kernel of which that is not true is caught.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/device/cpu_device.h"
#include "server/device/keyed_pool.h"
#include "server/scheduling/alarm.h"
#include "server/scheduling/rows_planner.h"
#include "server/scheduling/scheduler.h"
#include "tests/server/device/batches.h"

namespace gemmd {
namespace {

using testing::TestWork;

// A kernel that does what another does.
class Wrapper : public Kernel {
 public:
  Wrapper(std::string name, const Kernel* inner)
      : Kernel({std::move(name), inner->traits().architecture, "wraps another",
                inner->traits().determinism}),
        inner_(inner) {}
  std::string UnavailableReason(const DeviceTraits& device) const override {
    return inner_->UnavailableReason(device);
  }
  std::string Rejection(const Problem& problem) const override {
    return inner_->Rejection(problem);
  }
  Config Configure(const Problem& problem, const DeviceTraits& device) const override {
    return inner_->Configure(problem, device);
  }
  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    return inner_->PredictedUs(problem, config, device);
  }
  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    return inner_->WorkspaceBytes(problem, config);
  }
  std::string NumericsId(const Problem& problem) const override {
    return inner_->NumericsId(problem);
  }
  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    return inner_->Launch(problem, config, arguments, target);
  }

 private:
  const Kernel* const inner_;
};

// Its launches wait until the gate opens: jobs that come meanwhile find the device busy.
class Gate final : public Wrapper {
 public:
  explicit Gate(const Kernel* inner) : Wrapper("test/gate", inner) {}
  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
    return Wrapper::Launch(problem, config, arguments, target);
  }
  void Open(bool is_open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = is_open;
    opened_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  bool is_open_ = false;
};

// The last row's first element depends on how many rows there are.
class DependsOnM final : public Wrapper {
 public:
  explicit DependsOnM(const Kernel* inner) : Wrapper("test/depends_on_m", inner) {}
  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    absl::Status status = Wrapper::Launch(problem, config, arguments, target);
    const std::int64_t last = (problem.m - 1) * problem.d.row_stride();
    if (problem.m > 8) {
      static_cast<unsigned char*>(arguments.d)[last * SizeBits(problem.d.type) / 8] ^= 1;
    }
    return status;
  }
};

struct Outcome {
  int requests = 0;
  int shared = 0;   // launches with others
  int changed = 0;  // requests with other bits than alone
};

class BatchBits {
 public:
  // `planted` null: the kernel that selection takes.
  Outcome Run(DataType type, DataType output, std::int64_t n, std::int64_t k, const Kernel* planted,
              int rows_in_all, std::uint32_t seed) {
    const Problem like = MakeProblem(1, n, k, type, output);
    const Kernel* const chosen = testing::PlanFor(device_, like).kernel;
    RowsPlanner planner(&BuiltinRegistry(), &device_, nullptr);
    PlantedPlanner planted_planner(planted, &planner);
    ThreadAlarm alarm;
    KeyedPool workers(2);
    SchedulerOptions options;
    // The time of launches here must not decide who shares one.
    options.queue.max_us = options.slice_us = 1e12;
    options.limit.min_us = options.limit.max_us = options.bounds.us = 1e12;
    Scheduler scheduler(&device_, &clock_, &alarm, options, &planted_planner, &workers);
    Gate gate(chosen);
    const auto weights =
        std::make_shared<testing::Operands>(like, testing::Distribution::kNormal, seed);
    std::mt19937 random(seed);
    Outcome outcome;
    while (rows_in_all > 0) {
      // One round: the gate, then as many jobs as it happens.
      gate.Open(false);
      std::vector<std::unique_ptr<TestWork>> works;
      int jobs = 1 + static_cast<int>(random() % 40);
      Submit(&scheduler, MakeGated(like, &gate), &outcome, false);
      for (; jobs > 0 && rows_in_all > 0; --jobs) {
        const auto rows = static_cast<std::int64_t>(1 + random() % (random() % 4 == 0 ? 50 : 3));
        rows_in_all -= static_cast<int>(rows);
        Problem problem = like;
        problem.m = problem.a.rows = problem.d.rows = rows;
        works.push_back(std::make_unique<TestWork>(device_, problem,
                                                   static_cast<std::uint32_t>(random()), weights));
        DeviceWork alone = works.back()->Fresh();
        DeviceWork batched = works.back()->Fresh();
        if (planted != nullptr) alone.plan.kernel = batched.plan.kernel = planted;
        EXPECT_TRUE(testing::RunLaunch(&alone_, std::move(alone)).status.ok());
        Submit(&scheduler, std::move(batched), &outcome, true);
      }
      gate.Open(true);
      while (!scheduler.WaitUntilIdle(1000)) {
      }
      for (const auto& work : works) {
        ++outcome.requests;
        if (!work->ResultsAreEqual()) ++outcome.changed;
      }
      gates_.clear();
    }
    EXPECT_EQ(device_.memory().usage().free_bytes(), device_.memory().usage().limit_bytes);
    return outcome;
  }

 private:
  // Plans rows for the planted kernel as for the one that it wraps.
  class PlantedPlanner final : public BatchPlanner {
   public:
    PlantedPlanner(const Kernel* planted, BatchPlanner* inner) : planted_(planted), inner_(inner) {}
    std::optional<RowsPlan> PlanRows(const DeviceWork& work, std::int64_t rows) override {
      if (planted_ == nullptr) return inner_->PlanRows(work, rows);
      DeviceWork like = work;
      like.plan.kernel = BuiltinRegistry().Find("cpu/panel_f64");
      std::optional<RowsPlan> plan = inner_->PlanRows(like, rows);
      if (plan.has_value()) plan->plan.kernel = planted_;
      return plan;
    }

   private:
    const Kernel* const planted_;
    BatchPlanner* const inner_;
  };

  DeviceWork MakeGated(const Problem& like, const Kernel* gate) {
    gates_.push_back(std::make_unique<TestWork>(device_, like, 1));
    DeviceWork work = gates_.back()->Fresh();
    work.plan.kernel = gate;
    work.plan.predicted_us = 1e6;  // too long to share a launch
    return work;
  }

  void Submit(Scheduler* scheduler, DeviceWork work, Outcome* outcome, bool counts) {
    auto job = std::make_unique<Job>();
    job->id = next_id_++;
    job->cost = scheduler->cost().Predict(work);
    job->work = std::move(work);
    job->done = [this, outcome, counts](const absl::Status& status, const Receipt& receipt) {
      const std::lock_guard<std::mutex> lock(mutex_);
      EXPECT_TRUE(status.ok()) << status;
      if (counts && receipt.batch_requests > 1) ++outcome->shared;
    };
    ASSERT_TRUE(scheduler->Submit(std::move(job)).ok());
  }

  SteadyClock clock_;
  CpuDevice device_{{2, std::uint64_t{1} << 30}, &clock_};
  CpuDevice alone_{{1, std::uint64_t{1} << 30}, &clock_};
  std::vector<std::unique_ptr<TestWork>> gates_;
  std::uint64_t next_id_ = 1;
  std::mutex mutex_;
};

TEST(BatchBitsTest, RowsHaveTheBitsThatTheyHaveAlone) {
  struct Case {
    DataType type;
    DataType output;
    std::int64_t n;
    std::int64_t k;
    int rows;
  };
  std::uint32_t seed = 1;
  for (const Case& each : {Case{DataType::kF32, DataType::kF32, 300, 777, 1000},
                           Case{DataType::kF64, DataType::kF64, 300, 777, 300},
                           Case{DataType::kInt8, DataType::kInt32, 300, 777, 300},
                           Case{DataType::kBf16, DataType::kBf16, 64, 4096, 300},
                           Case{DataType::kF64, DataType::kF64, 64, 4096, 300},
                           Case{DataType::kF16, DataType::kF32, 96, 100, 300}}) {
    const Outcome outcome =
        BatchBits().Run(each.type, each.output, each.n, each.k, nullptr, each.rows, ++seed);
    EXPECT_EQ(outcome.changed, 0) << Name(each.type) << " " << each.n << " x " << each.k;
    EXPECT_GT(outcome.shared, outcome.requests / 2) << Name(each.type);
  }
}

TEST(BatchBitsTest, AKernelWhoseBitsDependOnMIsCaught) {
  const DependsOnM planted(BuiltinRegistry().Find("cpu/panel_f64"));
  const Outcome outcome =
      BatchBits().Run(DataType::kF64, DataType::kF64, 300, 777, &planted, 200, 7);
  EXPECT_GT(outcome.changed, 0);
}

}  // namespace
}  // namespace gemmd
