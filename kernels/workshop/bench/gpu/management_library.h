// NVIDIA's management library, opened at run time: clocks and power of a GPU while it works.
#pragma once

#include <optional>
#include <string>

#include "kernels/workshop/bench/protocol.h"

namespace gemmd::bench {

class ManagementLibrary {
 public:
  // Never fails: status() says what is missing, and nothing is told then.
  explicit ManagementLibrary(const std::string& pci_bus_id);

  // "clocks and power by NVML", or why there are none.
  const std::string& status() const { return status_; }
  double power_limit_watts() const { return power_limit_watts_; }
  double highest_sm_mhz() const { return highest_sm_mhz_; }
  const std::string& driver_version() const { return driver_version_; }

  std::optional<Telemetry> Read() const;

 private:
  // NVML's functions return 0 where they succeed; devices are addresses.
  using ReadClock = int (*)(void* device, int clock, unsigned int* mhz);
  using ReadPower = int (*)(void* device, unsigned int* milliwatts);

  template <typename F>
  F Find(const char* name);

  void* library_ = nullptr;  // never closed
  void* device_ = nullptr;
  ReadClock clock_ = nullptr;
  ReadPower power_ = nullptr;
  bool works_ = false;
  std::string status_;
  std::string driver_version_ = "unknown";
  double power_limit_watts_ = 0;
  double highest_sm_mhz_ = 0;
};

}  // namespace gemmd::bench
