#include <array>
#include <utility>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

// Much arithmetic, little to copy.
constexpr std::int64_t kSize = 2048;
constexpr std::int64_t kDepth = 32768;
constexpr int kJobs = 1500;

struct Resident {
  std::shared_ptr<const ResidentOperand> a;
  std::shared_ptr<const ResidentOperand> b;
};

// Jobs a second over the devices, each job on the one that the router prefers.
double JobsASecond(std::vector<ServedGpu>* gpus, std::size_t count, const Problem& problem,
                   const std::vector<Resident>& residents, const Clock& clock) {
  std::vector<ServedDevice> served;
  for (std::size_t i = 0; i < count; ++i) {
    served.push_back({(*gpus)[i].device.get(), (*gpus)[i].scheduler.get()});
  }
  const Router router(std::move(served));
  Ends ends;
  const auto submit = [&](int jobs) {
    for (int i = 0; i < jobs; ++i) {
      const ServedDevice to = router.ByPreference().front();
      const std::size_t index = to.device == (*gpus)[0].device.get() ? 0 : 1;
      auto job = std::make_unique<Job>();
      job->work.problem = problem;
      job->work.plan = Require(
          Select(BuiltinRegistry(), to.device->Landed(problem), to.device->traits()), "plan");
      job->work.resident[WorkPlane::kA] = residents[index].a;
      job->work.resident[WorkPlane::kB] = residents[index].b;
      job->work.buffers.d = Require(to.device->AllocateResult(problem.d), "result");
      job->done = [done = ends.Expect()](absl::Status status, Receipt) mutable {
        DeviceResult result;
        result.status = std::move(status);
        std::move(done)(std::move(result));
      };
      Require(to.scheduler->Submit(std::move(job)), "submit");
      ends.WaitFor(static_cast<int>(16 * count));
    }
    ends.WaitFor(0);
  };
  submit(100);
  const TimeNs start = clock.Now();
  submit(kJobs * static_cast<int>(count));
  const double seconds = static_cast<double>(clock.Now() - start) / 1e9;
  Require(ends.status(), "jobs");
  return kJobs * static_cast<double>(count) / seconds;
}

}  // namespace

void MeasureTwoGpus(GpuReport* report) {
  const SteadyClock clock;
  if (CountGpus() < 2) {
    report->Add("two GPUs", "this machine has one");
    return;
  }
  Problem problem = MakeProblem(kSize, kSize, kDepth, DataType::kBf16, DataType::kBf16);
  problem.determinism = Determinism::kFast;
  const Operands operands(problem, Distribution::kNormal, 1);
  std::vector<ServedGpu> gpus;
  std::vector<Resident> residents;
  for (int ordinal = 0; ordinal < 2; ++ordinal) {
    gpus.push_back(ServeGpu(ordinal, &clock));
    residents.push_back(
        {Require(gpus.back().device->Store(problem, WorkPlane::kA, operands.a.data()), "A"),
         Require(gpus.back().device->Store(problem, WorkPlane::kB, operands.b.data()), "B")});
  }
  const double one = JobsASecond(&gpus, 1, problem, residents, clock);
  const double two = JobsASecond(&gpus, 2, problem, residents, clock);
  const double again = JobsASecond(&gpus, 1, problem, residents, clock);
  report->Note("jobs a second on one GPU, before and after", absl::StrCat(one, ", ", again));
  report->Note("on two", absl::StrCat(two));
  const double ratio = two / ((one + again) / 2);
  report->Add("two GPUs against one", ratio, "times", ratio >= 1.9, "1.9");
}

}  // namespace gemmd::testing
