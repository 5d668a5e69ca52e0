#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

double ResidentMebibytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// Jobs of many shapes and types, each with its bytes reserved as admission does.
void RunJobs(ServedGpu* gpu, int jobs, std::uint32_t seed, std::atomic<int>* failed) {
  constexpr DataType kTypes[] = {DataType::kF32, DataType::kBf16, DataType::kF16, DataType::kInt8};
  constexpr int kOutstanding = 16;
  std::mt19937 random(seed);
  const std::vector<char> data(8 << 20, 1);
  Ends ends;
  for (int i = 0; i < jobs; ++i) {
    const DataType type = kTypes[random() % 4];
    const auto size = [&random] { return static_cast<std::int64_t>(1 + random() % 512); };
    const std::int64_t m = i % 500 == 0 ? 4096 : size();  // some go in panels
    const Problem problem = MakeProblem(m, size(), size(), type, DefaultOutputType(type));
    auto job = std::make_unique<Job>();
    job->id = (static_cast<std::uint64_t>(seed) << 32) + static_cast<std::uint64_t>(i);
    job->work.problem = problem;
    job->work.plan = Require(
        Select(BuiltinRegistry(), gpu->device->Landed(problem), gpu->device->traits()), "plan");
    const Footprint footprint = gpu->device->FootprintOf(problem, job->work.plan, {});
    job->reservation =
        Require(gpu->device->memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes),
                "reservation");
    job->work.buffers[WorkPlane::kA] = data.data();
    job->work.buffers[WorkPlane::kB] = data.data();
    job->work.buffers.d = Require(gpu->device->AllocateResult(problem.d), "result");
    job->done = [failed, done = ends.Expect()](absl::Status status, Receipt) mutable {
      if (!status.ok()) ++*failed;
      std::move(done)(DeviceResult());
    };
    if (!gpu->scheduler->Submit(std::move(job)).ok()) ++*failed;
    ends.WaitFor(kOutstanding);
  }
  ends.WaitFor(0);
}

}  // namespace

void CheckAccounting(int jobs, GpuReport* report) {
  constexpr int kThreads = 4;
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  std::atomic<int> failed{0};
  const auto run = [&](int count, std::uint32_t seed) {
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back(
          [&, thread] { RunJobs(&gpu, count / kThreads, seed + thread, &failed); });
    }
    for (std::thread& thread : threads) thread.join();
    gpu.scheduler->WaitUntilIdle(10000);
  };
  run(jobs / 10, 1);
  const double early = ResidentMebibytes();
  const TimeNs start = clock.Now();
  run(jobs - jobs / 10, 100);
  const double seconds = static_cast<double>(clock.Now() - start) / 1e9;
  const double late = ResidentMebibytes();
  const MemoryUsage device = gpu.device->memory().usage();
  const MemoryUsage pinned = gpu.device->host_memory_usage();
  report->Add("mixed jobs that failed", failed.load(), absl::StrCat("of ", jobs), failed == 0, "0");
  report->Add("device bytes held afterwards",
              static_cast<double>(device.limit_bytes - device.free_bytes()), "bytes",
              device.free_bytes() == device.limit_bytes, "0");
  report->Add("pinned bytes held afterwards", static_cast<double>(pinned.in_flight_bytes), "bytes",
              pinned.in_flight_bytes == 0, "0");
  report->Add("host memory from 10 % of the jobs to the end", late - early, "MiB",
              late - early < 64, "64 MiB");
  report->Note("mixed jobs a second", absl::StrCat(0.9 * jobs / seconds));
}

}  // namespace gemmd::testing
