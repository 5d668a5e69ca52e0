#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/server/device/gpu/activity.h"
#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/pinned_operands.h"

namespace gemmd::testing {
namespace {

std::int64_t Sum(const std::vector<StageSpan>& spans, Stage stage) {
  std::int64_t sum = 0;
  for (const StageSpan& span : spans) sum += span.stage == stage ? span.end - span.start : 0;
  return sum;
}

// The share of the time from the first stage's start to the last one's end in no stage.
double Unattributed(const std::vector<StageSpan>& spans) {
  Receipt receipt;
  receipt.spans = spans;
  receipt.arrival = receipt.finish = spans.front().start;
  for (const StageSpan& span : spans) {
    receipt.arrival = std::min(receipt.arrival, span.start);
    receipt.finish = std::max(receipt.finish, span.end);
  }
  const Attribution attribution = Attribute(receipt);
  return static_cast<double>(attribution.unattributed) / static_cast<double>(attribution.total);
}

constexpr std::int64_t kShapes[][3] = {{4096, 4096, 4096},
                                       {2048, 2048, 2048},
                                       {8192, 1024, 4096},
                                       {8192, 8192, 4096},
                                       {8192, 8192, 8192}};
constexpr Stage kStages[] = {Stage::kCopyIn, Stage::kCompute, Stage::kCopyOut};
constexpr int kWarmUps = 3;
constexpr int kRepeats = 9;

// Medians over the repeats, in nanoseconds, by stage.
struct StageTimes {
  double ns[3] = {};
  double unattributed = 0;
};

// Returns the stage times of one shape by its receipts, or, with a recorder, by the recorder.
StageTimes Measure(ServedGpu* gpu, const DeviceWork& work, ActivityRecorder* recorder) {
  std::vector<double> samples[3];
  StageTimes times;
  for (int repeat = 0; repeat < kWarmUps + kRepeats; ++repeat) {
    if (recorder != nullptr) recorder->Take();
    Ends ends;
    gpu->device->Submit(work, ends.Expect());
    ends.WaitFor(0);
    Require(ends.status(), "work");
    if (repeat < kWarmUps) continue;
    const std::vector<StageSpan> spans = ends.last_spans();
    const DeviceActivity activity = recorder != nullptr ? recorder->Take() : DeviceActivity();
    const std::int64_t recorded[] = {activity.to_device_ns, activity.kernels_ns,
                                     activity.from_device_ns};
    for (int i = 0; i < 3; ++i) {
      samples[i].push_back(
          static_cast<double>(recorder != nullptr ? recorded[i] : Sum(spans, kStages[i])));
    }
    times.unattributed = std::max(times.unattributed, Unattributed(spans));
  }
  for (int i = 0; i < 3; ++i) times.ns[i] = Median(samples[i]);
  return times;
}

}  // namespace

void CheckReceipts(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  constexpr std::uint64_t kMostBytes = std::uint64_t{8192} * 8192 * 2;
  const PinnedOperand a(&gpu, kMostBytes, 1);
  const PinnedOperand b(&gpu, kMostBytes, 2);
  std::vector<DeviceWork> works;
  std::vector<StageTimes> told;
  for (const auto& [m, n, k] : kShapes) {
    DeviceWork work;
    work.problem = MakeProblem(m, n, k, DataType::kBf16, DataType::kBf16);
    work.problem.determinism = Determinism::kFast;
    work.plan = Require(
        Select(BuiltinRegistry(), gpu.device->Landed(work.problem), gpu.device->traits()), "plan");
    work.buffers[WorkPlane::kA] = a.data();
    work.buffers[WorkPlane::kB] = b.data();
    work.buffers.d = Require(gpu.device->AllocateResult(work.problem.d), "result");
    told.push_back(Measure(&gpu, work, nullptr));
    works.push_back(std::move(work));
  }
  // Recording slows the calls down but not what it records, so receipts come first.
  absl::StatusOr<std::unique_ptr<ActivityRecorder>> recorder = ActivityRecorder::Start();
  if (!recorder.ok()) {
    report->Add("CUPTI", recorder.status().ToString());
    return;
  }
  for (std::size_t shape = 0; shape < works.size(); ++shape) {
    const Problem& problem = works[shape].problem;
    const StageTimes truth = Measure(&gpu, works[shape], recorder->get());
    const std::string name = absl::StrCat(problem.m, "x", problem.n, "x", problem.k);
    for (int i = 0; i < 3; ++i) {
      const double off = std::abs(told[shape].ns[i] / truth.ns[i] - 1);
      report->Add(absl::StrCat(name, " ", Name(kStages[i]), ": ", told[shape].ns[i] / 1e3,
                               " us, by CUPTI ", truth.ns[i] / 1e3),
                  100 * off, "% off", off <= 0.05, "5 %");
    }
    report->Add(name + " device time in no stage", 100 * told[shape].unattributed, "%",
                told[shape].unattributed <= 0.05, "5 %");
  }
}

}  // namespace gemmd::testing
