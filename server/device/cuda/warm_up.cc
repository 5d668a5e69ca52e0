#include "server/device/cuda/warm_up.h"

#include <future>
#include <utility>
#include <vector>

namespace gemmd {
namespace {

constexpr DataType kTypes[] = {DataType::kF64,  DataType::kF32,  DataType::kTf32,   DataType::kF16,
                               DataType::kBf16, DataType::kInt8, DataType::kFp8E4M3};

// Waits for a launch of that many works, whose operands are zeros.
absl::Status RunOnZeros(const Problem& problem, const Plan& plan, int count, Device* device) {
  const std::vector<char> a(problem.a.size_bytes());
  const std::vector<char> b(problem.b.size_bytes());
  std::vector<DeviceWork> works;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<HostBuffer> d = device->AllocateResult(problem.d);
    if (!d.ok()) return d.status();
    DeviceWork work;
    work.problem = problem;
    work.plan = plan;
    work.buffers[WorkPlane::kA] = a.data();
    work.buffers[WorkPlane::kB] = b.data();
    work.buffers.d = *std::move(d);
    works.push_back(std::move(work));
  }
  std::promise<absl::Status> promise;
  std::future<absl::Status> ended = promise.get_future();
  device->Submit(DeviceLaunch::Group(std::move(works)),
                 [&promise](const DeviceResult& result) { promise.set_value(result.status); });
  return ended.get();
}

}  // namespace

absl::Status WarmUp(const Registry& registry, Device* device) {
  constexpr std::int64_t kSize = 256;
  constexpr std::int64_t kTallSize = 8192;  // its A is cut into panels
  constexpr std::int64_t kWidth = 16;
  for (const DataType type : kTypes) {
    Problem problem = MakeProblem(kSize, kSize, kSize, type, DefaultOutputType(type));
    problem.determinism = Determinism::kFast;
    for (const Candidate& candidate :
         Explain(registry, device->Landed(problem), device->traits())) {
      if (!candidate.rejection.empty()) continue;
      if (absl::Status s = RunOnZeros(problem, candidate.plan, 1, device); !s.ok()) return s;
    }
  }
  // One work in panels, and groups whose results leave as few and as many spans.
  const auto run = [&](std::int64_t m, std::int64_t n, int count) {
    const Problem problem = MakeProblem(m, n, kSize, DataType::kF32, DataType::kF32);
    const absl::StatusOr<Plan> plan = Select(registry, device->Landed(problem), device->traits());
    // Without a kernel for f32 there is no request of its kind to spare it.
    return plan.ok() ? RunOnZeros(problem, *plan, count, device) : absl::OkStatus();
  };
  absl::Status status = run(kTallSize, kWidth, 1);
  if (status.ok()) status = run(kWidth, kWidth, 2);
  if (status.ok()) status = run(kWidth, kWidth - 1, 2);
  return status;
}

}  // namespace gemmd
