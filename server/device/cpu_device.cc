#include "server/device/cpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gemmd {
namespace {

constexpr std::size_t kWorkspaceAlignment = 256;

struct Free {
  void operator()(void* pointer) const { std::free(pointer); }
};
using Buffer = std::unique_ptr<void, Free>;

// Null if there is no memory.
Buffer Allocate(std::uint64_t bytes) {
  const std::uint64_t rounded =
      (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  return Buffer(std::aligned_alloc(kWorkspaceAlignment, std::max(rounded, kWorkspaceAlignment)));
}

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
    : clock_(clock), memory_(options.memory_bytes), executor_(options.threads) {
  traits_.kind = DeviceKind::kCpu;
  traits_.name = "cpu";
  traits_.model = ModelName();
  traits_.compute_units = options.threads;

  // The first launch pays for OpenBLAS's start; the best of the others is the roofline.
  constexpr std::int64_t kSize = 512;
  const Problem problem = MakeProblem(kSize, kSize, kSize, DataType::kF32, DataType::kF32);
  const Buffer a = Allocate(problem.a.size_bytes());
  const Buffer d = Allocate(problem.d.size_bytes());
  std::fill_n(static_cast<float*>(a.get()), kSize * kSize, 1.0f);
  DeviceWork work;
  work.problem = problem;
  work.plan = *Select(BuiltinRegistry(), problem, traits_);
  work.buffers.a = a.get();
  work.buffers.b = a.get();
  work.buffers.d = d.get();
  for (int repeat = 0; repeat < 4; ++repeat) {
    const DeviceResult result = Launch(work);
    const StageSpan& compute = result.spans.front();
    const double nanoseconds = std::max<double>(1, compute.end - compute.start);
    traits_.f32_gflops = std::max(traits_.f32_gflops, problem.flops() / nanoseconds);
  }
  // Streaming rate of one core is a lower bound of what all reach together, which is
  // the safe side for a prediction that may refuse a deadline.
  const TimeNs start = clock_->Now();
  constexpr int kCopies = 8;
  for (int i = 0; i < kCopies; ++i)
    std::copy_n(static_cast<const char*>(a.get()), problem.d.size_bytes(),
                static_cast<char*>(d.get()));
  const double nanoseconds = std::max<double>(1, clock_->Now() - start);
  traits_.memory_gbps = 2.0 * kCopies * problem.d.size_bytes() / nanoseconds;

  thread_ = std::thread([this] { Loop(); });
}

CpuDevice::~CpuDevice() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CpuDevice::Submit(DeviceWork work, Callback done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back({std::move(work), std::move(done)});
  }
  changed_.notify_one();
}

void CpuDevice::Loop() {
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    DeviceResult result = Launch(item.work);
    std::move(item.done)(std::move(result));
  }
}

DeviceResult CpuDevice::Launch(const DeviceWork& work) {
  DeviceResult result;
  const TimeNs start = clock_->Now();
  const Buffer workspace = Allocate(work.plan.workspace_bytes);
  if (workspace == nullptr) {
    result.status = absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", work.plan.workspace_bytes, " bytes for workspace"));
    return result;
  }
  const Arguments arguments{work.buffers.a,    work.buffers.b, work.buffers.c,
                            work.buffers.bias, work.buffers.d, workspace.get()};
  LaunchTarget target;
  target.executor = &executor_;
  result.status = work.plan.kernel->Launch(work.problem, work.plan.config, arguments, target);
  result.spans.push_back({Stage::kCompute, start, clock_->Now()});
  return result;
}

}  // namespace gemmd
