// GPUs as NVIDIA's management library, NVML, sees them: clocks, power, temperature, errors of
// memory. It is opened at run time, so that neither building nor serving needs it.
//   https://docs.nvidia.com/deploy/nvml-api/
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/observe/energy_meter.h"

namespace gemmd {

struct GpuAddress {
  std::string device;      // "cuda:0"
  std::string pci_bus_id;  // "0000:1b:00.0"
  // Told of each reading of the GPU's energy; outlives the sensors. Null: nobody is.
  EnergyMeter* energy = nullptr;
};

// Absent: this GPU or this driver does not tell.
struct GpuReading {
  std::optional<double> sm_hertz;
  std::optional<double> memory_hertz;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> energy_joules;  // since the driver was loaded
  std::optional<double> temperature_celsius;
  std::optional<double> utilization;  // of time in the driver's last period with a kernel, 0 to 1
  std::optional<std::uint64_t> corrected_errors;  // of ECC, since the driver was loaded
  std::optional<std::uint64_t> uncorrected_errors;
  std::optional<bool> slowed_by_heat;  // the clock is, now
  std::optional<bool> slowed_by_power;
};

// The functions of NVML that are used. They return 0 where they succeed, and only then write their
// result; a device is an address.
struct NvmlFunctions {
  using ByDevice = int (*)(void* device, unsigned int* value);
  using ByKind = int (*)(void* device, int kind, unsigned int* value);
  using Wide = int (*)(void* device, unsigned long long* value);
  struct Utilization {
    unsigned int gpu = 0;  // percent
    unsigned int memory = 0;
  };

  int (*initialize)() = nullptr;
  int (*device_by_bus_id)(const char* bus_id, void** device) = nullptr;
  // Those below may be null: an older library has not all of them.
  ByKind clock_mhz = nullptr;
  ByDevice power_milliwatts = nullptr;
  ByDevice power_limit_milliwatts = nullptr;
  Wide energy_millijoules = nullptr;
  ByKind temperature_celsius = nullptr;
  int (*utilization)(void* device, Utilization* value) = nullptr;
  int (*ecc_errors)(void* device, int type, int counter, unsigned long long* count) = nullptr;
  Wide slowdown_reasons = nullptr;
};

// FAILED_PRECONDITION: the library is not there, or lacks the first two functions; says which.
absl::StatusOr<NvmlFunctions> OpenNvml(const char* library = "libnvidia-ml.so.1");

// Reads each GPU once a period, on a thread of its own: a driver in trouble may keep whoever asks
// it waiting for long.
class GpuSensors {
 public:
  // Zero period: only when told, for tests. GPUs that NVML does not know are left out. The clock
  // outlives the sensors.
  GpuSensors(const NvmlFunctions& nvml, const std::vector<GpuAddress>& gpus,
             std::chrono::milliseconds period, const Clock* clock);
  ~GpuSensors();
  GpuSensors(const GpuSensors&) = delete;
  GpuSensors& operator=(const GpuSensors&) = delete;

  void ReadNow();
  // By device, as last read.
  std::vector<std::pair<std::string, GpuReading>> readings() const;

 private:
  struct Gpu {
    std::string device;
    void* handle = nullptr;
    EnergyMeter* energy = nullptr;
  };

  GpuReading Read(void* handle) const;
  void Run(std::chrono::milliseconds period);

  const NvmlFunctions nvml_;
  const Clock* const clock_;
  std::vector<Gpu> gpus_;
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<std::string, GpuReading>> readings_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd
