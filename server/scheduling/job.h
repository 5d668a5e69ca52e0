// One admitted request as it travels through the server.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "server/device/device.h"
#include "server/observe/receipt.h"

namespace gemmd {

enum class Priority : std::uint8_t { kHigh, kNormal, kLow };

struct Job {
  // Called exactly once, on any thread, without any lock held. OK: d holds the result
  // and the receipt is complete up to the device's stages. It must not block.
  using Callback = absl::AnyInvocable<void(absl::Status, Receipt) &&>;

  std::uint64_t id = 0;  // unique in the process
  DeviceWork work;       // its buffers stay valid until `done` is called
  MemoryReservation reservation;
  TimeNs deadline = kNoDeadline;
  Priority priority = Priority::kNormal;
  Receipt receipt;
  Callback done;
};

}  // namespace gemmd
