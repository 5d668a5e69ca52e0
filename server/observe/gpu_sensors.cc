#include "server/observe/gpu_sensors.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// Values of nvml.h, which not every toolkit has.
constexpr int kClockOfMultiprocessors = 1;  // NVML_CLOCK_SM
constexpr int kClockOfMemory = 2;           // NVML_CLOCK_MEM
constexpr int kSensorOfGpu = 0;             // NVML_TEMPERATURE_GPU
constexpr int kCorrected = 0;               // NVML_MEMORY_ERROR_TYPE_CORRECTED
constexpr int kUncorrected = 1;
constexpr int kSinceLoaded = 0;  // NVML_VOLATILE_ECC
// nvmlClocksThrottleReason...: SwPowerCap, HwPowerBrakeSlowdown; SwThermalSlowdown,
// HwThermalSlowdown. HwSlowdown alone does not say which.
constexpr unsigned long long kByPower = 0x4 | 0x80;
constexpr unsigned long long kByHeat = 0x20 | 0x40;

template <typename F>
void Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
}

// Each unit is some of another, which metrics have.
std::optional<double> Scaled(NvmlFunctions::ByDevice read, void* handle, double unit) {
  unsigned int value = 0;
  if (read == nullptr || read(handle, &value) != 0) return std::nullopt;
  return value * unit;
}

std::optional<double> Scaled(NvmlFunctions::ByKind read, void* handle, int kind, double unit) {
  unsigned int value = 0;
  if (read == nullptr || read(handle, kind, &value) != 0) return std::nullopt;
  return value * unit;
}

}  // namespace

absl::StatusOr<NvmlFunctions> OpenNvml(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW);  // never closed
  if (opened == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no NVML: ", dlerror()));
  }
  NvmlFunctions nvml;
  Find(opened, "nvmlInit_v2", &nvml.initialize);
  Find(opened, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.device_by_bus_id);
  if (nvml.initialize == nullptr || nvml.device_by_bus_id == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(library, " is no NVML of version 2"));
  }
  Find(opened, "nvmlDeviceGetClockInfo", &nvml.clock_mhz);
  Find(opened, "nvmlDeviceGetPowerUsage", &nvml.power_milliwatts);
  Find(opened, "nvmlDeviceGetEnforcedPowerLimit", &nvml.power_limit_milliwatts);
  Find(opened, "nvmlDeviceGetTotalEnergyConsumption", &nvml.energy_millijoules);
  Find(opened, "nvmlDeviceGetTemperature", &nvml.temperature_celsius);
  Find(opened, "nvmlDeviceGetUtilizationRates", &nvml.utilization);
  Find(opened, "nvmlDeviceGetTotalEccErrors", &nvml.ecc_errors);
  Find(opened, "nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.slowdown_reasons);
  return nvml;
}

GpuSensors::GpuSensors(const NvmlFunctions& nvml, const std::vector<GpuAddress>& gpus,
                       std::chrono::milliseconds period, const Clock* clock)
    : nvml_(nvml), clock_(clock) {
  if (nvml_.initialize() == 0) {
    for (const GpuAddress& gpu : gpus) {
      void* handle = nullptr;
      if (nvml_.device_by_bus_id(gpu.pci_bus_id.c_str(), &handle) != 0) continue;
      gpus_.push_back({gpu.device, handle, gpu.energy});
    }
  }
  if (period.count() > 0 && !gpus_.empty()) {
    thread_ = std::thread([this, period] { Run(period); });
  }
}

GpuSensors::~GpuSensors() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuSensors::Run(std::chrono::milliseconds period) {
  bool is_over = false;
  while (!is_over) {
    ReadNow();
    RelockableMutexLock lock(mutex_);
    is_over = stop_.wait_for(mutex_, period, stopping_);
  }
}

void GpuSensors::ReadNow() {
  std::vector<std::pair<std::string, GpuReading>> readings;
  readings.reserve(gpus_.size());
  for (const Gpu& gpu : gpus_) {
    const GpuReading& reading = readings.emplace_back(gpu.device, Read(gpu.handle)).second;
    if (gpu.energy != nullptr && reading.energy_joules.has_value()) {
      gpu.energy->AddReading(clock_->Now(), *reading.energy_joules);
    }
  }
  const MutexLock lock(mutex_);
  readings_ = std::move(readings);
}

GpuReading GpuSensors::Read(void* handle) const {
  constexpr double kMega = 1e6;
  constexpr double kMilli = 1e-3;
  constexpr double kPercent = 1e-2;
  GpuReading reading;
  reading.sm_hertz = Scaled(nvml_.clock_mhz, handle, kClockOfMultiprocessors, kMega);
  reading.memory_hertz = Scaled(nvml_.clock_mhz, handle, kClockOfMemory, kMega);
  reading.power_watts = Scaled(nvml_.power_milliwatts, handle, kMilli);
  reading.power_limit_watts = Scaled(nvml_.power_limit_milliwatts, handle, kMilli);
  reading.temperature_celsius = Scaled(nvml_.temperature_celsius, handle, kSensorOfGpu, 1);
  unsigned long long wide = 0;
  if (nvml_.energy_millijoules != nullptr && nvml_.energy_millijoules(handle, &wide) == 0) {
    reading.energy_joules = static_cast<double>(wide) * kMilli;
  }
  NvmlFunctions::Utilization utilization;
  if (nvml_.utilization != nullptr && nvml_.utilization(handle, &utilization) == 0) {
    reading.utilization = utilization.gpu * kPercent;
  }
  if (nvml_.ecc_errors != nullptr) {
    if (nvml_.ecc_errors(handle, kCorrected, kSinceLoaded, &wide) == 0) {
      reading.corrected_errors = wide;
    }
    if (nvml_.ecc_errors(handle, kUncorrected, kSinceLoaded, &wide) == 0) {
      reading.uncorrected_errors = wide;
    }
  }
  if (nvml_.slowdown_reasons != nullptr && nvml_.slowdown_reasons(handle, &wide) == 0) {
    reading.slowed_by_heat = (wide & kByHeat) != 0;
    reading.slowed_by_power = (wide & kByPower) != 0;
  }
  return reading;
}

std::vector<std::pair<std::string, GpuReading>> GpuSensors::readings() const {
  const MutexLock lock(mutex_);
  return readings_;
}

}  // namespace gemmd
