// CUPTI's record of what the device did, an account independent of events.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace gemmd::testing {

// Nanoseconds of activity, and how far apart the first and the last were.
struct DeviceActivity {
  std::int64_t to_device_ns = 0;
  std::int64_t kernels_ns = 0;  // memsets included
  std::int64_t from_device_ns = 0;
};

// One in the process.
class ActivityRecorder {
 public:
  // UNAVAILABLE: libcupti.so.13 is not here, or does not work.
  static absl::StatusOr<std::unique_ptr<ActivityRecorder>> Start();
  // Returns the activity since the last call. REQUIRES: the device is idle.
  DeviceActivity Take();

 private:
  ActivityRecorder() = default;
};

}  // namespace gemmd::testing
