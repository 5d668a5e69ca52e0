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

}  // namespace

void CheckReceipts(GpuReport* report) {
  absl::StatusOr<std::unique_ptr<ActivityRecorder>> recorder = ActivityRecorder::Start();
  if (!recorder.ok()) {
    report->Add("CUPTI", recorder.status().ToString());
    return;
  }
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  constexpr std::int64_t kShapes[][3] = {
      {4096, 4096, 4096}, {2048, 2048, 2048}, {8192, 1024, 4096}, {128, 4096, 8192}};
  constexpr std::uint64_t kMostBytes = 8192 * 4096 * 2;
  const PinnedOperand a(&gpu, kMostBytes, 1);
  const PinnedOperand b(&gpu, kMostBytes, 2);
  for (const auto& [m, n, k] : kShapes) {
    const Problem problem = MakeProblem(m, n, k, DataType::kBf16, DataType::kBf16);
    DeviceWork work;
    work.problem = problem;
    work.problem.determinism = Determinism::kFast;
    work.plan = Require(
        Select(BuiltinRegistry(), gpu.device->Landed(work.problem), gpu.device->traits()), "plan");
    work.buffers.a = a.data();
    work.buffers.b = b.data();
    work.buffers.d = Require(gpu.device->AllocateResult(problem.d), "result");
    double worst[3] = {};
    double unattributed = 0;
    for (int repeat = 0; repeat < 5; ++repeat) {
      (*recorder)->Take();
      Ends ends;
      gpu.device->Submit(work, ends.Expect());
      ends.WaitFor(0);
      Require(ends.status(), "work");
      const DeviceActivity activity = (*recorder)->Take();
      const std::vector<StageSpan> spans = ends.last_spans();
      const std::pair<Stage, std::int64_t> stages[] = {{Stage::kCopyIn, activity.to_device_ns},
                                                       {Stage::kCompute, activity.kernels_ns},
                                                       {Stage::kCopyOut, activity.from_device_ns}};
      for (int i = 0; i < 3; ++i) {
        const auto truth = static_cast<double>(stages[i].second);
        const auto told = static_cast<double>(Sum(spans, stages[i].first));
        worst[i] = std::max(worst[i], std::abs(told / truth - 1));
      }
      unattributed = std::max(unattributed, Unattributed(spans));
    }
    const std::string shape = ToString(problem);
    const char* const names[] = {"copy_in", "compute", "copy_out"};
    for (int i = 0; i < 3; ++i) {
      report->Add(absl::StrCat(names[i], " against CUPTI, ", shape), 100 * worst[i], "% off",
                  worst[i] <= 0.05, "5 %");
    }
    report->Add("device time in no stage, " + shape, 100 * unattributed, "%", unattributed <= 0.05,
                "5 %");
  }
}

}  // namespace gemmd::testing
