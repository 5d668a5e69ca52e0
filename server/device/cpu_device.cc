#include "server/device/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/math.h"
#include "server/device/host_launches.h"
#include "server/device/host_memory.h"
#include "server/device/partial_executor.h"
#include "server/device/rows.h"

namespace gemmd {
namespace {

// Products up to this long go side by side: sharing one among cores costs about as much as it
// saves.
constexpr double kSmallUs = 200;
// A launch does not end within a slice, and predictions may be half of what slices take. With
// shorter ones whoever comes waits for little but the units under way.
constexpr double kSlicesOfTurn = 4;

// A core of its own.
class CallerExecutor final : public ParallelExecutor {
 public:
  void Run(std::int64_t count,
           absl::FunctionRef<void(int worker, std::int64_t index)> body) override {
    for (std::int64_t index = 0; index < count; ++index) body(0, index);
  }
  int workers() const override { return 1; }
};

// A work in parts of its kernel's units.
class UnitSlices final : public SlicedWork {
 public:
  UnitSlices(DeviceWork sliced, int slices, ParallelExecutor* threads)
      : work(std::move(sliced)), executor(slices, threads), slices_(slices) {}
  int slices() const override { return slices_; }
  bool may_go_on() const override { return true; }

  const DeviceWork work;
  PartialExecutor executor;
  HostPiece workspace;  // from the first launch on, to the last

 private:
  const int slices_;
};

constexpr std::uint64_t kWorkspaceAlignment = 256;

Config OnOneCore(Config config) {
  config.threads = 1;
  return config;
}

// A worker's, where products go side by side.
std::uint64_t StackWorkspaceBytes(const Problem& problem, const Plan& plan) {
  return RoundUp(plan.kernel->WorkspaceBytes(problem, OnOneCore(plan.config)), kWorkspaceAlignment);
}

// Products side by side, in groups: one by one, who hands them out would take as long as they do.
absl::Status CallStack(const DeviceWork& work, void* workspace, ParallelExecutor* executor) {
  constexpr std::int64_t kMostTogether = 64;
  constexpr std::int64_t kGroupsAWorker = 8;
  const Problem& problem = work.problem;
  const std::int64_t count = work.stack.count;
  const Config config = OnOneCore(work.plan.config);
  const std::uint64_t workspace_bytes = StackWorkspaceBytes(problem, work.plan);
  Planes<std::uint64_t> strides;
  for (const WorkPlane plane : kWorkPlanes) {
    if (HasPlane(problem, plane)) strides[plane] = StrideBytes(problem, work.stack, plane);
  }
  const std::uint64_t d_stride = ResultStrideBytes(problem, work.stack);
  const std::int64_t together =
      std::clamp<std::int64_t>(count / (kGroupsAWorker * executor->workers()), 1, kMostTogether);
  std::vector<absl::Status> statuses(static_cast<std::size_t>(executor->workers()));
  executor->Run(CeilOfRatio(count, together), [&](int worker, std::int64_t group) {
    const std::int64_t first = group * together;
    const auto products = static_cast<std::size_t>(std::min(together, count - first));
    Arguments batch[kMostTogether];
    for (std::size_t i = 0; i < products; ++i) {
      const std::uint64_t place = static_cast<std::uint64_t>(first) + i;
      Planes<const void*> planes = work.buffers;
      for (const WorkPlane plane : kWorkPlanes) {
        if (planes[plane] == nullptr) continue;
        planes[plane] = static_cast<const char*>(planes[plane]) + place * strides[plane];
      }
      batch[i] = ArgumentsOf(planes);
      batch[i].d = work.buffers.d.front().data + place * d_stride;
      batch[i].workspace =
          static_cast<char*>(workspace) + static_cast<std::uint64_t>(worker) * workspace_bytes;
    }
    CallerExecutor caller;
    LaunchTarget target;
    target.executor = &caller;
    statuses[static_cast<std::size_t>(worker)].Update(work.plan.kernel->LaunchBatch(
        problem, config, absl::MakeConstSpan(batch, products), target));
  });
  absl::Status status;
  for (absl::Status& each : statuses) status.Update(std::move(each));
  return status;
}

absl::Status CallKernel(const DeviceWork& work, const Config& config, void* workspace,
                        ParallelExecutor* executor) {
  if (!work.stack.is_one()) return CallStack(work, workspace, executor);
  Arguments arguments = ArgumentsOf(work.buffers);
  arguments.d = work.buffers.d.front().data;
  arguments.workspace = workspace;
  LaunchTarget target;
  target.executor = executor;
  return work.plan.kernel->Launch(work.problem, config, arguments, target);
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
    : clock_(clock),
      memory_(HostMemoryPool::Create(options.memory_bytes)),
      executor_(options.threads),
      thread_([this](const DeviceLaunch& launch) { return Launch(launch); }) {
  traits_.kind = DeviceKind::kCpu;
  traits_.name = "cpu";
  traits_.model = ModelName();
  traits_.compute_units = options.threads;
  MeasureRoofline();
}

void CpuDevice::MeasureRoofline() {
  // The first launch pays for its pages and threads, and others' work on the same cores can make
  // any several times as slow; a queue that believed that would refuse what it could do. So the
  // best is the roofline.
  constexpr int kRepeats = 8;
  constexpr std::int64_t kSize = 512;
  const Problem problem = MakeProblem(kSize, kSize, kSize, DataType::kF32, DataType::kF32);
  const HostMemory a = AllocateHostMemory(problem.a.size_bytes());
  const HostBuffer d = AllocateHostBuffer(problem.d.size_bytes());
  std::fill_n(static_cast<float*>(a.get()), kSize * kSize, 1.0f);
  DeviceWork work;
  work.problem = problem;
  work.plan = *Select(BuiltinRegistry(), problem, traits_);
  work.buffers[WorkPlane::kA] = a.get();
  work.buffers[WorkPlane::kB] = a.get();
  work.buffers.d = d;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const DeviceResult result = Run(work);
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

Footprint CpuDevice::StackFootprintOf(const Problem& problem, const Stack& stack, const Plan& plan,
                                      const Residency& resident) const {
  if (!GoSideBySide(stack)) return FootprintOf(problem, plan, resident);
  return {0, StackWorkspaceBytes(problem, plan) * static_cast<std::uint64_t>(executor_.workers())};
}

Footprint CpuDevice::GroupsFootprintOf(const DeviceWork& grouped, const Residency&) const {
  const auto workers = static_cast<std::uint64_t>(executor_.workers());
  Footprint most;
  for (const DeviceWork& each : ProductsOf(grouped, 0, grouped.stack.count)) {
    // On all cores, or as many on one core each.
    most.workspace_bytes = std::max({most.workspace_bytes, each.plan.workspace_bytes,
                                     workers * StackWorkspaceBytes(each.problem, each.plan)});
  }
  return most;
}

BatchForm CpuDevice::FormOf(const DeviceWork& work) const {
  if (work.problem.m < work.plan.config.tile_m && HasJoinableRows(work)) return BatchForm::kRows;
  return work.plan.predicted_us <= kSmallUs ? BatchForm::kGroup : BatchForm::kAlone;
}

std::shared_ptr<SlicedWork> CpuDevice::Cut(const DeviceWork& work, double slice_us) {
  const double us = work.plan.predicted_us;
  if (work.stack.has_groups()) return GroupSlices::Make(work, slice_us, true);
  if (!work.stack.is_one() && !GoSideBySide(work.stack)) return StackSlices::Make(work, 1);
  if (us <= slice_us) return nullptr;
  const double most = PartialExecutor::kMostParts;
  const double slices =
      slice_us > 0 ? std::min(most, std::ceil(kSlicesOfTurn * us / slice_us)) : most;
  return std::make_shared<UnitSlices>(work, static_cast<int>(slices), &executor_);
}

DeviceResult CpuDevice::Launch(const DeviceLaunch& launch) {
  switch (launch.form) {
    case BatchForm::kRows:
      return RunRows(launch, &memory_->budget(), clock_,
                     [this](const DeviceWork& work) { return Run(work); });
    case BatchForm::kGroup:
      return RunSideBySide(launch.works);
    case BatchForm::kSlice:
      return RunSlices(launch);
    case BatchForm::kAlone:
      break;
  }
  return Run(launch.works.front());
}

DeviceResult CpuDevice::Run(const DeviceWork& work) {
  DeviceResult result;
  const TimeNs start = clock_->Now();
  result.status = RunKernel(work, work.plan.config, &executor_);
  if (absl::IsResourceExhausted(result.status)) return result;
  result.spans.push_back({Stage::kCompute, start, clock_->Now()});
  return result;
}

DeviceResult CpuDevice::RunSlices(const DeviceLaunch& launch) {
  auto& sliced = static_cast<UnitSlices&>(*launch.sliced);
  DeviceResult result;
  if (launch.slice == 0) {
    absl::StatusOr<HostPiece> workspace = AllocateWorkspace(sliced.work, sliced.work.plan.config);
    result.status = workspace.status();
    if (!result.status.ok()) return result;
    sliced.workspace = *std::move(workspace);
  }
  const TimeNs start = clock_->Now();
  sliced.executor.Begin(launch.slice, std::max(launch.goes_on_to, launch.slice + 1),
                        launch.turn_is_over.get());
  result.status =
      CallKernel(sliced.work, sliced.work.plan.config, sliced.workspace.data, &sliced.executor);
  result.spans.push_back({Stage::kCompute, start, clock_->Now()});
  const int done = sliced.executor.parts_done();
  // Here and not where the work ends, which is under the scheduler's lock.
  if (done == sliced.slices()) sliced.workspace = {};
  result.slices = done - launch.slice;
  return result;
}

DeviceResult CpuDevice::RunInTurn(const std::vector<DeviceWork>& works) {
  DeviceResult result;
  const TimeNs start = clock_->Now();
  for (const DeviceWork& work : works) {
    if (!result.status.ok()) break;
    result.status = RunKernel(work, work.plan.config, &executor_);
  }
  result.spans.push_back({Stage::kCompute, start, clock_->Now()});
  return result;
}

DeviceResult CpuDevice::RunSideBySide(const std::vector<DeviceWork>& works) {
  if (works.size() == 1) return Run(works.front());
  const bool are_few = works.size() < static_cast<std::size_t>(executor_.workers());
  const bool are_long = std::any_of(works.begin(), works.end(), [](const DeviceWork& work) {
    return work.plan.predicted_us > kSmallUs;
  });
  if (are_few && are_long) return RunInTurn(works);
  const TimeNs start = clock_->Now();
  std::vector<absl::Status> statuses(works.size());
  executor_.Run(static_cast<std::int64_t>(works.size()), [&](int, std::int64_t index) {
    const DeviceWork& work = works[static_cast<std::size_t>(index)];
    CallerExecutor executor;
    statuses[static_cast<std::size_t>(index)] =
        RunKernel(work, OnOneCore(work.plan.config), &executor);
  });
  DeviceResult result;
  for (absl::Status& status : statuses) result.status.Update(std::move(status));
  result.spans.push_back({Stage::kCompute, start, clock_->Now()});
  return result;
}

absl::Status CpuDevice::RunKernel(const DeviceWork& work, const Config& config,
                                  ParallelExecutor* executor) {
  const absl::StatusOr<HostPiece> workspace = AllocateWorkspace(work, config);
  if (!workspace.ok()) return workspace.status();
  return CallKernel(work, config, workspace->data, executor);
}

absl::StatusOr<HostPiece> CpuDevice::AllocateWorkspace(const DeviceWork& work,
                                                       const Config& config) {
  const std::uint64_t bytes = work.stack.is_one()
                                  ? work.plan.kernel->WorkspaceBytes(work.problem, config)
                                  : StackWorkspaceBytes(work.problem, work.plan) *
                                        static_cast<std::uint64_t>(executor_.workers());
  return bytes == 0 ? HostPiece{} : memory_->AllocateReserved(bytes);
}

}  // namespace gemmd
