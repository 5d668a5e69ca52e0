#include "kernels/workshop/bench/gpu/gpu_machine.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/cublaslt/matmul_engine.h"
#include "kernels/cuda_traits.h"
#include "kernels/workshop/bench/gpu/gpu_operands.h"
#include "kernels/workshop/bench/gpu/gpu_peaks.h"

namespace gemmd::bench {
namespace {

constexpr std::uint64_t kRivalWorkspaceBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kAlignmentBytes = 256;

int Attribute(cudaDeviceAttr attribute) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, attribute, 0) == cudaSuccess ? value : 0;
}

std::string Version(int number) { return absl::StrCat(number / 1000, ".", number % 1000 / 10); }

absl::StatusOr<MachineInfo> Describe(std::string* pci_bus_id) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) {
    return absl::UnavailableError(cudaGetErrorString(error));
  }
  CudaDeviceNumbers numbers;
  numbers.model = properties.name;
  numbers.compute_capability_major = properties.major;
  numbers.compute_capability_minor = properties.minor;
  numbers.multiprocessors = properties.multiProcessorCount;
  numbers.clock_khz = Attribute(cudaDevAttrClockRate);
  numbers.memory_clock_khz = Attribute(cudaDevAttrMemoryClockRate);
  numbers.memory_bus_bits = Attribute(cudaDevAttrGlobalMemoryBusWidth);
  MachineInfo info;
  info.traits = MakeCudaTraits(0, numbers);
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) info.runtime = Version(runtime);
  char text[32] = "";
  if (cudaDeviceGetPCIBusId(text, sizeof text, 0) == cudaSuccess) *pci_bus_id = text;
  const cublaslt::MatmulEngine& engine = cublaslt::CublasLtEngine();
  info.vendor_library = engine.UnavailableReason();
  if (info.vendor_library.empty()) info.vendor_library = engine.version();
  return info;
}

// Lines that are not padded are what bare callers have, so they are no reason against the rival.
std::string RivalRejection(cublaslt::Arithmetic arithmetic, Problem problem) {
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    const std::int64_t unit = 128 / SizeBits(layout->type);
    layout->leading_dimension = RoundUp(layout->leading_dimension, unit);
  }
  return cublaslt::MatmulRejection(arithmetic, problem);
}

class GpuMachine final : public Machine {
 public:
  GpuMachine(MachineInfo info, const std::string& pci_bus_id)
      : info_(std::move(info)), management_(pci_bus_id) {
    info_.telemetry = management_.status();
    info_.driver = management_.driver_version();
    info_.power_limit_watts = management_.power_limit_watts();
    info_.highest_sm_mhz = management_.highest_sm_mhz();
  }

  absl::Status Start() {
    absl::StatusOr<std::unique_ptr<GpuQueue>> queue = GpuQueue::Make(&management_);
    if (!queue.ok()) return queue.status();
    queue_ = *std::move(queue);
    return absl::OkStatus();
  }

  const MachineInfo& info() const override { return info_; }

  absl::StatusOr<Peaks> MeasurePeaks(bool is_bf16, const Protocol& protocol) override {
    return MeasureGpuPeaks(info_.traits, is_bf16, protocol, queue_.get());
  }

  absl::Status Load(const Problem& problem) override {
    contenders_.clear();
    workspaces_.clear();
    operands_.reset();
    absl::StatusOr<std::unique_ptr<GpuOperands>> operands =
        GpuOperands::Make(problem, queue_.get());
    if (!operands.ok()) return operands.status();
    operands_ = *std::move(operands);
    return absl::OkStatus();
  }

  absl::StatusOr<int> AddRivals(cublaslt::Arithmetic arithmetic, int streams) override {
    const cublaslt::MatmulEngine& engine = cublaslt::CublasLtEngine();
    const Problem& problem = operands_->problem();
    std::string reason = engine.UnavailableReason();
    if (reason.empty()) reason = RivalRejection(arithmetic, problem);
    if (!reason.empty()) return absl::UnavailableError(reason);
    const std::optional<cublaslt::CublasLtCall> call = cublaslt::FusedCall(arithmetic, problem);
    if (!call.has_value()) return 0;
    auto plan = engine.Plan(*call, info_.traits.ordinal, kAlignmentBytes, kRivalWorkspaceBytes);
    if (!plan.ok()) return plan.status();
    std::vector<void*> workspaces;  // one a stream
    for (int i = 0; i < streams; ++i) {
      const absl::StatusOr<void*> workspace = Workspace(kRivalWorkspaceBytes);
      if (!workspace.ok()) return workspace.status();
      workspaces.push_back(*workspace);
    }
    for (int i = 0; i < (*plan)->count(); ++i) {
      AddRival(*plan, i, call->swaps_operands, workspaces);
    }
    return (*plan)->count();
  }

  absl::StatusOr<int> Add(const Kernel& kernel, const Config& config, Settled settled) override {
    const Problem& problem = operands_->problem();
    const absl::StatusOr<void*> workspace = Workspace(kernel.WorkspaceBytes(problem, config));
    if (!workspace.ok()) return workspace.status();
    return AddContender(
        [this, &kernel, config, settled, to = *workspace](int turn, cudaStream_t stream) {
          Arguments arguments = operands_->arguments(turn);
          arguments.workspace = to;
          // Written once, before anything is timed.
          arguments.a_is_settled = settled == Settled::kBoth;
          arguments.b_is_settled = settled != Settled::kNone;
          LaunchTarget target;
          target.stream = stream;
          return kernel.Launch(operands_->problem(), config, arguments, target);
        });
  }

  absl::StatusOr<Checked> Check(int contender, int reference) override {
    return operands_->Check(Queue(contender), reference < 0 ? nullptr : &Queue(reference));
  }

  absl::StatusOr<double> Time(int contender, int launches) override {
    return queue_->Time(At(contender).sequence.get(), launches);
  }
  absl::StatusOr<double> TimeOneByOne(int contender, int launches) override {
    return queue_->TimeOneByOne(At(contender).sequence.get(), launches);
  }
  void Idle(double milliseconds) override {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
  }
  std::optional<Telemetry> LastTelemetry() const override { return queue_->last_telemetry(); }

 private:
  struct Contender {
    std::unique_ptr<QueueOne> queue;
    std::unique_ptr<Sequence> sequence;
  };

  Contender& At(int contender) { return contenders_[static_cast<std::size_t>(contender)]; }
  const QueueOne& Queue(int contender) { return *At(contender).queue; }

  int AddContender(QueueOne queue, int streams = 1) {
    Contender& added = contenders_.emplace_back();
    added.queue = std::make_unique<QueueOne>(queue);
    added.sequence = std::make_unique<Sequence>(std::move(queue), streams);
    return static_cast<int>(contenders_.size()) - 1;
  }

  void AddRival(const std::shared_ptr<const cublaslt::MatmulPlan>& plan, int index, bool swaps,
                const std::vector<void*>& workspaces) {
    const auto queue = [this, plan, index, swaps, workspaces](int turn, cudaStream_t stream) {
      const Arguments from = operands_->arguments(turn);
      cublaslt::MatmulArguments to;
      to.a = swaps ? from.b : from.a;
      to.b = swaps ? from.a : from.b;
      to.d = from.d;
      to.workspace = workspaces[static_cast<std::size_t>(turn) % workspaces.size()];
      LaunchTarget target;
      target.stream = stream;
      return plan->Launch(index, to, target);
    };
    AddContender(queue, static_cast<int>(workspaces.size()));
  }

  // Returns memory of its own for each call: recorded sequences keep the address.
  absl::StatusOr<void*> Workspace(std::uint64_t bytes) {
    if (bytes == 0) return static_cast<void*>(nullptr);
    absl::StatusOr<DeviceMemory> memory = Allocate(bytes);
    if (!memory.ok()) return memory.status();
    workspaces_.push_back(*std::move(memory));
    return workspaces_.back().get();
  }

  MachineInfo info_;
  const ManagementLibrary management_;
  std::unique_ptr<GpuQueue> queue_;
  std::unique_ptr<GpuOperands> operands_;
  std::vector<DeviceMemory> workspaces_;
  std::vector<Contender> contenders_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Machine>> OpenGpu() {
  std::string pci_bus_id;
  absl::StatusOr<MachineInfo> info = Describe(&pci_bus_id);
  if (!info.ok()) return info.status();
  auto machine = std::make_unique<GpuMachine>(*std::move(info), pci_bus_id);
  if (absl::Status status = machine->Start(); !status.ok()) return status;
  return machine;
}

}  // namespace gemmd::bench
