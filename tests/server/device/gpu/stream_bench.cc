#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/pinned_operands.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kSize = 4096;
constexpr std::uint64_t kBytes = kSize * kSize * 2;

DeviceWork MakeStreamWork(ServedGpu* gpu) {
  DeviceWork work;
  work.problem = MakeProblem(kSize, kSize, kSize, DataType::kBf16, DataType::kBf16);
  work.problem.determinism = Determinism::kFast;
  work.plan = Require(
      Select(BuiltinRegistry(), gpu->device->Landed(work.problem), gpu->device->traits()), "plan");
  return work;
}

// Milliseconds a job, with as many in flight as the device asks for.
double Stream(ServedGpu* gpu, const DeviceWork& work, const Clock& clock, int jobs) {
  Ends ends;
  const auto submit = [&] {
    DeviceWork next = work;
    next.buffers.d = Require(gpu->device->AllocateResult(work.problem.d), "result");
    gpu->device->Submit(std::move(next), ends.Expect());
  };
  for (int i = 0; i < 10; ++i) {
    submit();
    ends.WaitFor(gpu->device->max_in_flight() - 1);
  }
  ends.WaitFor(0);
  const TimeNs start = clock.Now();
  for (int i = 0; i < jobs; ++i) {
    submit();
    ends.WaitFor(gpu->device->max_in_flight() - 1);
  }
  ends.WaitFor(0);
  Require(ends.status(), "stream");
  return static_cast<double>(clock.Now() - start) / 1e6 / jobs;
}

// Milliseconds of one command, `repeats` of them queued.
template <typename Command>
double Bare(ServedGpu* gpu, const Command& command, int repeats) {
  CudaBackend& backend = *gpu->backend;
  const CudaStream stream = Require(backend.CreateStream(StreamPriority::kNormal), "stream");
  const CudaEvent begin = Require(backend.CreateEvent(), "event");
  const CudaEvent end = Require(backend.CreateEvent(), "event");
  Require(command(stream), "warm-up");
  Require(backend.Record(begin, stream), "record");
  for (int i = 0; i < repeats; ++i) Require(command(stream), "command");
  Require(backend.Record(end, stream), "record");
  while (!Require(backend.IsDone(end), "query")) {
  }
  return static_cast<double>(Require(backend.ElapsedNs(begin, end), "time")) / 1e6 / repeats;
}

}  // namespace

void MeasureStream(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  const PinnedOperand operands(&gpu, 2 * kBytes, 1);
  DeviceWork work = MakeStreamWork(&gpu);
  work.buffers[WorkPlane::kA] = operands.data();
  work.buffers[WorkPlane::kB] = operands.data() + kBytes;

  CudaBackend& backend = *gpu.backend;
  const CudaStream stream = Require(backend.CreateStream(StreamPriority::kNormal), "stream");
  auto* const block =
      static_cast<char*>(Require(backend.Allocate(3 * kBytes, stream, BlockLife::kStays), "block"));
  auto* const d =
      gpu.device->AllocateResult({DataType::kBf16, 4, 128 * 1024, Order::kRowMajor, 128 * 1024})
          ->front()
          .data;
  const auto copy_in = [&](CudaStream to) {
    return backend.Copy(CopyDirection::kToDevice,
                        {block, 2 * kBytes, operands.data(), 2 * kBytes, 2 * kBytes, 1}, to);
  };
  const auto copy_out = [&](CudaStream to) {
    return backend.Copy(CopyDirection::kFromDevice, {d, 1 << 20, block, 1 << 20, 1 << 20, 1}, to);
  };
  Arguments arguments;
  arguments.a = block;
  arguments.b = block + kBytes;
  arguments.d = block + 2 * kBytes;
  const void* workspace =
      Require(backend.Allocate(std::max<std::uint64_t>(256, work.plan.workspace_bytes), stream,
                               BlockLife::kStays),
              "workspace");
  arguments.workspace = const_cast<void*>(workspace);
  const Problem landed = gpu.device->Landed(work.problem);
  const auto compute = [&](CudaStream to) {
    return backend.Launch(
        [&](const LaunchTarget& target) {
          return work.plan.kernel->Launch(landed, work.plan.config, arguments, target);
        },
        to);
  };
  const double in_ms = Bare(&gpu, copy_in, 50);
  const double out_ms = Bare(&gpu, copy_out, 1000) * (kBytes >> 20);
  const double compute_ms = Bare(&gpu, compute, 200);
  const double ideal_ms = std::max({in_ms, out_ms, compute_ms});
  const double job_ms = Stream(&gpu, work, clock, 400);
  report->Note("copy in, alone", absl::StrCat(in_ms, " ms, ", 2e-6 * kBytes / in_ms, " GB/s"));
  report->Note("copy out, alone, in slabs", absl::StrCat(out_ms, " ms"));
  report->Note("kernel, alone", absl::StrCat(compute_ms, " ms, ", work.plan.kernel->traits().name));
  report->Note("a job of the stream", absl::StrCat(job_ms, " ms"));
  report->Add("stream of 4096^3 bf16 from pinned memory", ideal_ms / job_ms, "of the larger bare",
              ideal_ms / job_ms >= 0.85, "0.85");
}

void MeasureGatheredStream(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  const Problem shape = MakeProblem(kSize, kSize, kSize, DataType::kBf16, DataType::kBf16);
  Operands operands(shape, Distribution::kNormal, 1);
  DeviceWork work = MakeStreamWork(&gpu);
  work.buffers[WorkPlane::kA] = operands.a.data();
  work.buffers[WorkPlane::kB] = operands.b.data();
  const double job_ms = Stream(&gpu, work, clock, 200);
  report->Note("a job of the stream from ordinary memory",
               absl::StrCat(job_ms, " ms, ", 2e-6 * kBytes / job_ms, " GB/s in"));
}

}  // namespace gemmd::testing
