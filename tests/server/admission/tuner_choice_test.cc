// Tests which plan tuning chooses, and in which launches it measures them, on a device that takes
// for a plan as many microseconds as its tile has rows.
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/admission/tuner.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

class MicrosecondSlices final : public SlicedWork {
 public:
  explicit MicrosecondSlices(int slices) : slices_(slices) {}
  int slices() const override { return slices_; }

 private:
  const int slices_;
};

class TimedDevice final : public Device {
 public:
  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return 1; }
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double) override {
    return std::make_shared<MicrosecondSlices>(work.plan.config.tile_m);
  }
  void Submit(DeviceLaunch launch, Callback done) override {
    if (on_launch) on_launch();
    const int us = launch.form == BatchForm::kSlice ? 1 : launch.works.front().plan.config.tile_m;
    DeviceResult result;
    result.spans = {{Stage::kCompute, 1, 1 + 1000 * us}};
    std::move(done)(std::move(result));
  }

  std::function<void()> on_launch;

 private:
  DeviceTraits traits_;
  MemoryBudget memory_{1 << 20};
};

// Offers tiles of 5, 3 and 7 rows; that of 3 gives other bits, if so told.
class TiledKernel final : public Kernel {
 public:
  explicit TiledKernel(bool small_tiles_differ)
      : Kernel({"test/tiled", "cpu", "launches nothing", Determinism::kBatchInvariant}),
        small_tiles_differ_(small_tiles_differ) {}

  std::string UnavailableReason(const DeviceTraits&) const override { return ""; }
  std::string Rejection(const Problem&) const override { return ""; }
  Config Configure(const Problem&, const DeviceTraits&) const override { return ConfigOf(5); }
  std::vector<Config> Alternatives(const Problem&, const DeviceTraits&) const override {
    return {ConfigOf(5), ConfigOf(3), ConfigOf(7)};
  }
  double PredictedUs(const Problem&, const Config& config, const DeviceTraits&) const override {
    return config.tile_m;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return "test/tiled/1"; }
  std::string PlannedNumericsId(const Problem&, const Config& config) const override {
    return small_tiles_differ_ && config.tile_m == 3 ? "test/tiled/2" : "test/tiled/1";
  }
  absl::Status Launch(const Problem&, const Config&, const Arguments&,
                      const LaunchTarget&) const override {
    return absl::UnimplementedError("launches nothing");
  }

 private:
  static Config ConfigOf(int rows) {
    Config config;
    config.tile_m = rows;
    return config;
  }

  const bool small_tiles_differ_;
};

class TunerChoice : public ::testing::Test {
 protected:
  explicit TunerChoice(const SchedulerOptions& options = {})
      : scheduler_(&device_, &clock_, &alarm_, options) {}

  void UseKernel(bool small_tiles_differ) {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    kernels.push_back(std::make_unique<TiledKernel>(small_tiles_differ));
    registry_ = std::make_unique<Registry>(std::move(kernels));
    admission_ = std::make_unique<Admission>(RequestLimits{2147483647, 1 << 20, 1 << 20},
                                             registry_.get(), &router_, &clock_);
    tuner_ = std::make_unique<Tuner>(
        Tuner::Sources{registry_.get(), &router_, admission_.get(), &plans_, ""});
  }
  absl::StatusOr<TuningReport> Tune(std::uint64_t id) {
    std::promise<absl::StatusOr<TuningReport>> end;
    const absl::Status started = tuner_->Start(
        id, {{MakeProblem(8, 8, 8, DataType::kF32, DataType::kF32)}, 3, ""},
        [&end](absl::StatusOr<TuningReport> report) { end.set_value(std::move(report)); });
    if (!started.ok()) return started;
    return end.get_future().get();
  }
  // "5 us, 3 us, chosen, 7 us", say.
  std::string Outcome() {
    const absl::StatusOr<TuningReport> report = Tune(1);
    if (!report.ok()) return report.status().ToString();
    std::string outcome;
    for (const TunedCandidate& each : report->problems.front()) {
      absl::StrAppend(&outcome, outcome.empty() ? "" : ", ",
                      each.rejection.empty() ? absl::StrCat(each.measured_us, " us") : "rejected",
                      each.chosen ? ", chosen" : "");
    }
    return outcome;
  }

  testing::FakeClock clock_;
  TimedDevice device_;
  testing::FakeAlarm alarm_;
  Scheduler scheduler_;
  Router router_{{{&device_, &scheduler_}}};
  PlanCache plans_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<Tuner> tuner_;
};

// Every launch is long.
class TunerSlices : public TunerChoice {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions options;
    options.slice_us = 1;
    return options;
  }
  TunerSlices() : TunerChoice(Options()) {}
};

TEST_F(TunerChoice, IsTheQuickest) {
  UseKernel(false);
  EXPECT_EQ(Outcome(), "5 us, 3 us, chosen, 7 us");
}

TEST_F(TunerChoice, KeepsTheBitsOfWhatServesUnmeasured) {
  UseKernel(true);
  EXPECT_EQ(Outcome(), "5 us, chosen, rejected, 7 us");
}

TEST_F(TunerChoice, EndsForWhoAskedForItAlone) {
  UseKernel(false);
  device_.on_launch = [this] { tuner_->Cancel(8); };
  EXPECT_TRUE(Tune(7).ok());
  EXPECT_TRUE(absl::IsCancelled(Tune(8).status()));
  device_.on_launch = nullptr;
  EXPECT_TRUE(Tune(9).ok());
}

// Others wait for a slice of a long launch, and not for all of it.
TEST_F(TunerSlices, AreAllThatALongPlanIsMeasuredIn) {
  UseKernel(false);
  EXPECT_EQ(Outcome(), "5 us, 3 us, chosen, 7 us");
  const SchedulerStatistics statistics = scheduler_.statistics();
  EXPECT_EQ(statistics.of(BatchForm::kAlone).launches, 0u);
  // Each plan has one launch that does not count, and three that do.
  EXPECT_EQ(statistics.of(BatchForm::kSlice).launches, 4u * (5 + 3 + 7));
}

}  // namespace
}  // namespace gemmd
