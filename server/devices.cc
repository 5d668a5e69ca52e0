#include "server/devices.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/process/cpu_share.h"
#include "base/process/memory_share.h"
#include "server/device/cpu_device.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/warm_up.h"
#include "server/device/emulated_device.h"
#include "server/host_limits.h"
#include "server/observe/log.h"
#include "server/settings/scheduling_options.h"

namespace gemmd {
namespace {

struct DeviceHere {
  std::unique_ptr<Device> device;
  std::string pci_bus_id;  // of a GPU; empty: NVML does not know it
};
using DeviceList = std::vector<DeviceHere>;

// The option's bytes, or half of what the process may have.
std::uint64_t BytesOrHalf(std::int64_t option) {
  return option != 0 ? static_cast<std::uint64_t>(option) : UsableMemoryBytes() / 2;
}

CpuDevice::Options CpuOptions(const config::Cpu& config) {
  CpuDevice::Options options;
  options.threads = config.threads() != 0 ? static_cast<int>(config.threads()) : UsableCpus();
  options.memory_bytes = BytesOrHalf(config.memory_bytes());
  return options;
}

// Pinned memory is taken at the start, of each device its own.
absl::Status CheckCudaMemory(const config::Cuda& config, std::size_t devices) {
  const MemoryShare share = ThisMemoryShare();
  const auto count = static_cast<std::int64_t>(devices);
  absl::Status s =
      CheckMemoryOption(absl::StrCat("--cuda.pinned-bytes, times ", count, " devices,"),
                        config.pinned_bytes() * count, share);
  if (!s.ok()) return s;
  return CheckMemoryOption("--cuda.unpinned-bytes", config.unpinned_bytes(), share);
}

absl::StatusOr<DeviceList> MakeCudaDevices(
    const config::Cuda& config, const Clock* clock,
    const std::function<void(const absl::Status&)>& on_lost) {
  absl::StatusOr<std::vector<std::shared_ptr<CudaBackend>>> backends = OpenCudaDevices();
  if (!backends.ok()) return backends.status();
  if (absl::Status s = CheckCudaMemory(config, backends->size()); !s.ok()) return s;
  DeviceList devices;
  for (std::shared_ptr<CudaBackend>& backend : *backends) {
    const CudaProperties& properties = backend->properties();
    const std::string bus_id = properties.pci_bus_id;
    CudaDevice::Options options;
    options.memory_bytes =
        properties.free_memory_bytes / 100 * static_cast<std::uint64_t>(config.memory_percent());
    options.pinned_bytes = static_cast<std::uint64_t>(config.pinned_bytes());
    options.unpinned_bytes = BytesOrHalf(config.unpinned_bytes());
    options.staging_threads = static_cast<int>(config.staging_threads());
    options.stall_timeout_ms = config.stall_timeout_ms();
    options.on_lost = on_lost;
    absl::StatusOr<std::unique_ptr<CudaDevice>> device =
        CudaDevice::Create(std::move(backend), options, clock);
    if (!device.ok()) return device.status();
    if (absl::Status s = WarmUp(BuiltinRegistry(), device->get()); !s.ok()) return s;
    devices.push_back({*std::move(device), bus_id});
  }
  return devices;
}

absl::StatusOr<DeviceList> MakeList(const config::ServerConfig& config, const Clock* clock,
                                    const std::function<void(const absl::Status&)>& on_lost) {
  if (config.device() == "cuda" || config.device() == "auto") {
    absl::StatusOr<DeviceList> cuda = MakeCudaDevices(config.cuda(), clock, on_lost);
    // Only a machine without CUDA is served by its CPU unasked: a broken GPU is an error.
    if (config.device() == "cuda" || !absl::IsFailedPrecondition(cuda.status())) return cuda;
    Log(Severity::kInfo, "no_cuda_device", {{"reason", cuda.status().message()}});
  }
  absl::Status enough =
      CheckMemoryOption("--cpu.memory-bytes", config.cpu().memory_bytes(), ThisMemoryShare());
  if (!enough.ok()) return enough;
  const CpuDevice::Options cpu = CpuOptions(config.cpu());
  DeviceList devices;
  if (config.device() == "emulated") {
    Log(Severity::kWarning, "emulated_device",
        {{"note",
          "GPU kernels run on the CPU with every access checked: thousands of times "
          "slower than a GPU, for tests and for writing kernels"}});
    devices.push_back({std::make_unique<EmulatedDevice>(cpu.memory_bytes, clock), ""});
  } else {
    devices.push_back({std::make_unique<CpuDevice>(cpu, clock), ""});
  }
  return devices;
}

std::unique_ptr<GpuSensors> SensorsOf(const std::vector<GpuAddress>& gpus, const Clock* clock) {
  if (gpus.empty()) return nullptr;
  const absl::StatusOr<NvmlFunctions> nvml = OpenNvml();
  if (!nvml.ok()) {
    Log(Severity::kWarning, "no_gpu_sensors", {{"why", nvml.status().message()}});
    return nullptr;
  }
  constexpr std::chrono::seconds kPeriod(1);
  return std::make_unique<GpuSensors>(*nvml, gpus, kPeriod, clock);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Devices>> Devices::Make(
    const config::ServerConfig& config, const Clock* clock, const PlanCache* plans,
    const std::function<void(const absl::Status&)>& on_lost) {
  absl::StatusOr<SchedulerOptions> options = SchedulingOptions(config.scheduling());
  if (!options.ok()) return options.status();
  std::unique_ptr<Devices> made(new Devices);
  absl::StatusOr<DeviceList> list = MakeList(config, clock, on_lost);
  if (!list.ok()) return list.status();
  // Answers of batches are built beside what receives requests. On 16 cores calls are 5 % fewer
  // with twice as many, and streams carry 28 % less with half (docs/benchmarks/decode.md).
  made->workers_ = std::make_unique<KeyedPool>(std::clamp(UsableCpus() / 4, 1, 8));
  std::vector<ServedDevice> served;
  std::vector<GpuAddress> gpus;
  for (DeviceHere& here : *list) {
    Unit unit;
    unit.device = std::move(here.device);
    if (!here.pci_bus_id.empty()) {
      unit.energy = std::make_unique<EnergyMeter>();
      gpus.push_back({unit.device->traits().name, here.pci_bus_id, unit.energy.get()});
    }
    unit.alarm = std::make_unique<ThreadAlarm>();
    unit.planner = std::make_unique<RowsPlanner>(&BuiltinRegistry(), unit.device.get(), plans);
    unit.scheduler =
        std::make_unique<Scheduler>(unit.device.get(), clock, unit.alarm.get(), *options,
                                    unit.planner.get(), made->workers_.get(), unit.energy.get());
    served.push_back({unit.device.get(), unit.scheduler.get()});
    made->units_.push_back(std::move(unit));
  }
  made->router_ = std::make_unique<Router>(std::move(served));
  made->sensors_ = SensorsOf(gpus, clock);
  return made;
}

std::uint64_t Devices::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const Unit& unit : units_) {
    bytes = std::max(bytes, unit.device->memory().usage().limit_bytes);
  }
  return bytes;
}

std::uint64_t Devices::request_bytes() const {
  const bool has_own_memory = std::any_of(units_.begin(), units_.end(), [](const Unit& unit) {
    return !unit.device->uses_host_memory();
  });
  return has_own_memory ? std::max(memory_bytes(), UsableMemoryBytes()) : memory_bytes();
}

}  // namespace gemmd
