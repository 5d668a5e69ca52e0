// A client's memory as a device uses it in place.
#pragma once

#include <cstdint>

namespace gemmd {

// Says who may touch a buffer.
enum class Access : std::uint8_t {
  kHost,    // the CPU and the device
  kDirect,  // host memory of a SharedMapping: the device's copies alone
  kDevice,  // memory of the device's own
};

// The address is for devices alone. A file that its owner has cut short has no pages behind
// the mapping any more: a device's copies still reach those that were locked, but code on the
// CPU that touches it gets SIGBUS, which ends the process.
class SharedMapping {
 public:
  virtual ~SharedMapping() = default;
  // The address of the region's first byte.
  virtual char* data() const = 0;
  virtual Access access() const = 0;  // kDirect, or kDevice
};

}  // namespace gemmd
