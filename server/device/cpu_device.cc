#include "server/device/cpu_device.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/device/host_memory.h"

namespace gemmd {
namespace {

std::string ModelName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view view = line;
    if (absl::ConsumePrefix(&view, "model name")) {
      return std::string(absl::StripPrefix(absl::StripLeadingAsciiWhitespace(view), ": "));
    }
  }
  return "unknown";
}

}  // namespace

CpuDevice::CpuDevice(const Options& options, const Clock* clock)
    : clock_(clock),
      memory_(HostMemoryPool::Create(options.memory_bytes)),
      executor_(options.threads),
      thread_([this](const DeviceLaunch& launch) { return Launch(launch.works.front()); }) {
  traits_.kind = DeviceKind::kCpu;
  traits_.name = "cpu";
  traits_.model = ModelName();
  traits_.compute_units = options.threads;
  MeasureRoofline();
}

void CpuDevice::MeasureRoofline() {
  // The first launch pays for OpenBLAS's start; the best of the others is the roofline.
  constexpr std::int64_t kSize = 512;
  const Problem problem = MakeProblem(kSize, kSize, kSize, DataType::kF32, DataType::kF32);
  const HostMemory a = AllocateHostMemory(problem.a.size_bytes());
  const HostBuffer d = AllocateHostBuffer(problem.d.size_bytes());
  std::fill_n(static_cast<float*>(a.get()), kSize * kSize, 1.0f);
  DeviceWork work;
  work.problem = problem;
  work.plan = *Select(BuiltinRegistry(), problem, traits_);
  work.buffers.a = a.get();
  work.buffers.b = a.get();
  work.buffers.d = d;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const DeviceResult result = Launch(work);
    const StageSpan& compute = result.spans.front();
    const double nanoseconds =
        static_cast<double>(std::max<TimeNs>(1, compute.end - compute.start));
    traits_.f32_gflops = std::max(traits_.f32_gflops, problem.flops() / nanoseconds);
  }
  // Streaming rate of one core is a lower bound of what all reach together, which is
  // the safe side for a prediction that may refuse a deadline.
  const TimeNs start = clock_->Now();
  constexpr int kCopies = 8;
  for (int i = 0; i < kCopies; ++i) {
    std::copy_n(static_cast<const char*>(a.get()), problem.d.size_bytes(), d.front().data);
  }
  const double nanoseconds = static_cast<double>(std::max<TimeNs>(1, clock_->Now() - start));
  traits_.memory_gbps = 2.0 * kCopies * static_cast<double>(problem.d.size_bytes()) / nanoseconds;
}

absl::StatusOr<HostPiece> CpuDevice::AllocateOperand(std::uint64_t bytes) {
  return memory_->Allocate(bytes);
}

absl::StatusOr<HostBuffer> CpuDevice::AllocateResult(const MatrixLayout& d) {
  absl::StatusOr<HostPiece> piece = memory_->Allocate(d.size_bytes());
  if (!piece.ok()) return piece.status();
  return HostBuffer{*std::move(piece)};
}

DeviceResult CpuDevice::Launch(const DeviceWork& work) {
  DeviceResult result;
  const TimeNs start = clock_->Now();
  const HostMemory workspace = AllocateHostMemory(work.plan.workspace_bytes);
  if (workspace == nullptr) {
    result.status = absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", work.plan.workspace_bytes, " bytes for workspace"));
    return result;
  }
  const HostBuffers& buffers = work.buffers;
  const Arguments arguments{
      buffers.a,       buffers.b,        buffers.c,       buffers.bias, buffers.d.front().data,
      workspace.get(), buffers.a_scales, buffers.b_scales};
  LaunchTarget target;
  target.executor = &executor_;
  result.status = work.plan.kernel->Launch(work.problem, work.plan.config, arguments, target);
  result.spans.push_back({Stage::kCompute, start, clock_->Now()});
  return result;
}

}  // namespace gemmd
