#include "kernels/workshop/bench/gpu/management_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace gemmd::bench {
namespace {

// These are from NVML's interface, whose header not every toolkit has.
constexpr int kClockOfMultiprocessors = 1;
constexpr unsigned int kVersionBytes = 80;

}  // namespace

template <typename F>
F ManagementLibrary::Find(const char* name) {
  const auto function = reinterpret_cast<F>(dlsym(library_, name));
  if (function == nullptr && status_.empty()) {
    status_ = absl::StrCat("no clocks or power: NVML has no ", name);
  }
  return function;
}

ManagementLibrary::ManagementLibrary(const std::string& pci_bus_id) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library_ == nullptr) {
    status_ = absl::StrCat("no clocks or power: ", dlerror());
    return;
  }
  const auto initialize = Find<int (*)()>("nvmlInit_v2");
  const auto handle = Find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  const auto limit = Find<ReadPower>("nvmlDeviceGetEnforcedPowerLimit");
  const auto highest = Find<ReadClock>("nvmlDeviceGetMaxClockInfo");
  const auto version = Find<int (*)(char*, unsigned int)>("nvmlSystemGetDriverVersion");
  clock_ = Find<ReadClock>("nvmlDeviceGetClockInfo");
  power_ = Find<ReadPower>("nvmlDeviceGetPowerUsage");
  if (!status_.empty()) return;
  int result = initialize();
  if (result == 0) result = handle(pci_bus_id.c_str(), &device_);
  if (result != 0) {
    status_ = absl::StrCat("no clocks or power: NVML error ", result);
    return;
  }
  works_ = true;
  status_ = "clocks and power by NVML";
  unsigned int value = 0;
  if (limit(device_, &value) == 0) power_limit_watts_ = value / 1e3;
  if (highest(device_, kClockOfMultiprocessors, &value) == 0) highest_sm_mhz_ = value;
  char text[kVersionBytes];
  if (version(text, sizeof text) == 0) driver_version_ = text;
}

std::optional<Telemetry> ManagementLibrary::Read() const {
  if (!works_) return std::nullopt;
  unsigned int mhz = 0;
  unsigned int milliwatts = 0;
  if (clock_(device_, kClockOfMultiprocessors, &mhz) != 0 || power_(device_, &milliwatts) != 0) {
    return std::nullopt;
  }
  return Telemetry{static_cast<double>(mhz), milliwatts / 1e3};
}

}  // namespace gemmd::bench
