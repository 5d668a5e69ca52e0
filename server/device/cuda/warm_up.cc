#include <future>
#include <utility>
#include <vector>

#include "server/device/cuda/cuda_device.h"

namespace gemmd {
namespace {

constexpr DataType kTypes[] = {DataType::kF64,  DataType::kF32,  DataType::kTf32,   DataType::kF16,
                               DataType::kBf16, DataType::kInt8, DataType::kFp8E4M3};

}  // namespace

// Waits for one work whose operands are zeros.
absl::Status CudaDevice::RunOnZeros(const Problem& problem, const Plan& plan) {
  absl::StatusOr<HostBuffer> d = AllocateResult(problem.d);
  if (!d.ok()) return d.status();
  const std::vector<char> a(problem.a.size_bytes());
  const std::vector<char> b(problem.b.size_bytes());
  DeviceWork work;
  work.problem = problem;
  work.plan = plan;
  work.buffers.a = a.data();
  work.buffers.b = b.data();
  work.buffers.d = *std::move(d);
  std::promise<absl::Status> promise;
  std::future<absl::Status> ended = promise.get_future();
  Submit(std::move(work),
         [&promise](const DeviceResult& result) { promise.set_value(result.status); });
  return ended.get();
}

absl::Status CudaDevice::WarmUp(const Registry& registry) {
  constexpr std::int64_t kSize = 256;
  constexpr std::int64_t kTallSize = 8192;  // its A is cut into panels
  constexpr std::int64_t kWidth = 16;
  for (const DataType type : kTypes) {
    Problem problem = MakeProblem(kSize, kSize, kSize, type, DefaultOutputType(type));
    problem.determinism = Determinism::kFast;
    for (const Candidate& candidate : Explain(registry, Landed(problem), traits_)) {
      if (!candidate.rejection.empty()) continue;
      if (absl::Status s = RunOnZeros(problem, candidate.plan); !s.ok()) return s;
    }
  }
  const Problem tall = MakeProblem(kTallSize, kWidth, kSize, DataType::kF32, DataType::kF32);
  const absl::StatusOr<Plan> plan = Select(registry, Landed(tall), traits_);
  // Without a kernel for f32 there is no request in panels to spare it.
  return plan.ok() ? RunOnZeros(tall, *plan) : absl::OkStatus();
}

}  // namespace gemmd
