#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "tests/server/device/gpu/batches.h"
#include "tests/server/device/gpu/checks.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kSize = 8192;
constexpr std::size_t kMostWorks = 1000;  // their rows and results are half of the small slabs
constexpr double kGoal = 0.8 * 119000;    // rows a second: 0.8 of a bare unary echo

// Microseconds.
struct Pace {
  double a_launch = 0;
  double submit = 0;   // median
  double latency = 0;  // median, from Submit() to the callback
};

Pace Run(ServedGpu* gpu, const Clock& clock, const std::vector<DeviceWork>& works, const Plan& plan,
         std::size_t rows, int in_flight, int launches) {
  std::atomic<int> outstanding{0};
  std::vector<double> submits;
  std::vector<double> latencies(static_cast<std::size_t>(launches));
  TimeNs start = 0;
  constexpr int kWarmUp = 20;
  for (int i = -kWarmUp; i < launches; ++i) {
    if (i == 0) {
      while (outstanding > 0) {
      }
      start = clock.Now();
    }
    const std::size_t first =
        static_cast<std::size_t>(i + kWarmUp) % static_cast<std::size_t>(in_flight) * rows;
    std::vector<DeviceWork> batch(works.begin() + static_cast<std::ptrdiff_t>(first),
                                  works.begin() + static_cast<std::ptrdiff_t>(first + rows));
    DeviceLaunch launch = DeviceLaunch::Rows(std::move(batch), plan);
    while (outstanding >= in_flight) {
    }
    ++outstanding;
    const TimeNs submitted = clock.Now();
    gpu->device->Submit(std::move(launch), [&, i, submitted](DeviceResult result) {
      Require(result.status, "launch");
      if (i >= 0) {
        latencies[static_cast<std::size_t>(i)] = static_cast<double>(clock.Now() - submitted) / 1e3;
      }
      --outstanding;
    });
    if (i >= 0) submits.push_back(static_cast<double>(clock.Now() - submitted) / 1e3);
  }
  while (outstanding > 0) {
  }
  Pace pace;
  pace.a_launch = static_cast<double>(clock.Now() - start) / 1e3 / launches;
  pace.submit = Median(submits);
  pace.latency = Median(latencies);
  return pace;
}

}  // namespace

void MeasureRows(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  const Problem problem =
      MakeProblem(1, kSize, kSize, DataType::kBf16, DataType::kBf16, false, true);
  const Operands operands(problem, Distribution::kNormal, 1);
  const auto b = StoreB(&gpu, problem, operands);
  std::vector<HostPiece> kept;
  std::vector<DeviceWork> works;
  for (std::size_t i = 0; i < kMostWorks; ++i) {
    works.push_back(RowsWork(&gpu, problem, operands.a.data(), b, &kept));
    if (gpu.device->FormOf(works.back()) != BatchForm::kRows) {
      Require(absl::InternalError("is not for rows"), "work");
    }
  }
  double best = 0;
  std::printf(
      "rows a launch: us a launch (thousand rows a second), in flight 1, 2, 4, 8; one "
      "alone: submit, latency; plan\n");
  for (const std::size_t rows : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
    const Plan plan =
        Require(Select(BuiltinRegistry(),
                       gpu.device->Landed(WithRows(works.front(), static_cast<std::int64_t>(rows))),
                       gpu.device->traits()),
                "plan");
    std::string line = absl::StrCat(rows, ":");
    Pace alone;
    for (const int in_flight : {1, 2, 4, 8}) {
      const int fits = std::min(in_flight, static_cast<int>(kMostWorks / rows));
      const Pace pace = Run(&gpu, clock, works, plan, rows, fits, rows >= 64 ? 300 : 1000);
      if (in_flight == 1) alone = pace;
      const double rate = static_cast<double>(rows) / pace.a_launch * 1e6;
      best = std::max(best, rate);
      char text[64];
      std::snprintf(text, sizeof(text), " %.1f (%.0f)", pace.a_launch, rate / 1e3);
      line += text;
    }
    char text[160];
    std::snprintf(text, sizeof(text), "; %.1f, %.1f; %s %s", alone.submit, alone.latency,
                  plan.kernel->traits().name.c_str(), ToString(plan.config).c_str());
    std::printf("%s%s\n", line.c_str(), text);
    std::fflush(stdout);
  }
  report->Add("decode rows a second, the device alone", best, "rows/s", best >= kGoal, "95,200");
}

}  // namespace gemmd::testing
