#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kSize = 8192;
constexpr int kRepeats = 3000;

// Microseconds from the call to the result in host memory, seen by polling.
class BareCall {
 public:
  BareCall(ServedGpu* gpu, const Problem& landed, const Plan& plan, const void* b)
      : backend_(*gpu->backend), landed_(landed), plan_(plan) {
    stream_ = Require(backend_.CreateStream(StreamPriority::kNormal), "stream");
    done_ = Require(backend_.CreateEvent(), "event");
    host_ = Require(gpu->device->pinned()->Take(1), "pinned");
    auto* const block = static_cast<char*>(
        Require(backend_.Allocate(2 * kRowBytes + plan.workspace_bytes, stream_, BlockLife::kStays),
                "block"));
    arguments_.a = block;
    arguments_.b = b;
    arguments_.d = block + kRowBytes;
    arguments_.workspace = block + 2 * kRowBytes;
  }

  double Run(const void* a, const Clock& clock) {
    const TimeNs start = clock.Now();
    char* const host = host_.front().data;
    std::memcpy(host, a, kRowBytes);
    Require(
        backend_.Copy(CopyDirection::kToDevice,
                      {const_cast<void*>(arguments_.a), kRowBytes, host, kRowBytes, kRowBytes, 1},
                      stream_),
        "copy");
    Require(backend_.Launch(
                [this](const LaunchTarget& target) {
                  return plan_.kernel->Launch(landed_, plan_.config, arguments_, target);
                },
                stream_),
            "launch");
    Require(backend_.Copy(CopyDirection::kFromDevice,
                          {host + kRowBytes, kRowBytes, arguments_.d, kRowBytes, kRowBytes, 1},
                          stream_),
            "copy");
    Require(backend_.Record(done_, stream_), "record");
    while (!Require(backend_.IsDone(done_), "query")) {
    }
    return static_cast<double>(clock.Now() - start) / 1e3;
  }

 private:
  static constexpr std::uint64_t kRowBytes = kSize * 2;
  CudaBackend& backend_;
  const Problem landed_;
  const Plan plan_;
  CudaStream stream_ = nullptr;
  CudaEvent done_ = nullptr;
  HostBuffer host_;
  Arguments arguments_;
};

}  // namespace

void MeasureLatency(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  Problem problem = MakeProblem(1, kSize, kSize, DataType::kBf16, DataType::kBf16, false, true);
  problem.determinism = Determinism::kFast;
  Operands operands(problem, Distribution::kNormal, 1);
  const auto b =
      Require(gpu.device->Store(problem, WorkPlane::kB, operands.b.data()), "resident B");
  const Problem landed = gpu.device->Landed(problem);
  const Plan plan = Require(Select(BuiltinRegistry(), landed, gpu.device->traits()), "plan");

  // All that a server does for an admitted request once its header and bytes are here.
  const auto served = [&] {
    const TimeNs start = clock.Now();
    auto job = std::make_unique<Job>();
    job->work.problem = problem;
    job->work.plan = Require(Select(BuiltinRegistry(), landed, gpu.device->traits()), "plan");
    const Footprint footprint = gpu.device->FootprintOf(problem, job->work.plan, {});
    job->reservation =
        Require(gpu.device->memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes),
                "reservation");
    job->work.buffers[WorkPlane::kA] = operands.a.data();
    job->work.resident[WorkPlane::kB] = b;
    job->work.buffers.d = Require(gpu.device->AllocateResult(problem.d), "result");
    std::atomic<bool> is_done{false};
    absl::Status ended;
    job->done = [&](absl::Status status, Receipt) {
      ended = std::move(status);
      is_done = true;
    };
    Require(gpu.scheduler->Submit(std::move(job)), "submit");
    while (!is_done) {
    }
    Require(ended, "job");
    return static_cast<double>(clock.Now() - start) / 1e3;
  };
  BareCall bare(&gpu, landed, plan, b->data());
  std::vector<double> bare_us;
  std::vector<double> served_us;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    // One after the other, the order changing, so that both see the same clocks.
    if (repeat % 2 == 0) bare_us.push_back(bare.Run(operands.a.data(), clock));
    served_us.push_back(served());
    if (repeat % 2 == 1) bare_us.push_back(bare.Run(operands.a.data(), clock));
  }
  gpu.scheduler->WaitUntilIdle(1000);
  const double overhead_us = Median(served_us) - Median(bare_us);
  report->Note("bare copy, kernel, copy, polled", absl::StrCat(Median(bare_us), " us"));
  report->Note("one-row job on a resident 8192 x 8192 bf16 B",
               absl::StrCat(Median(served_us), " us"));
  report->Add("its overhead, median", overhead_us, "us", overhead_us <= 30, "30 us");
}

}  // namespace gemmd::testing
