// One admitted request as it travels through the server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "server/cost/cost_model.h"
#include "server/device/device.h"
#include "server/observe/receipt.h"

namespace gemmd {

// The first goes before the second, and so on.
enum class Priority : std::uint8_t { kHigh, kNormal, kLow };
inline constexpr int kPriorityCount = 3;

struct Job {
  // Called exactly once, on any thread, without any lock held. OK: d holds the result
  // and the receipt is complete up to the device's stages. It must not block.
  using Callback = absl::AnyInvocable<void(absl::Status, Receipt) &&>;

  std::uint64_t id = 0;  // unique in the process
  DeviceWork work;       // its buffers stay valid until `done` is called
  MemoryReservation reservation;
  std::string tenant;            // who shares the device; "" is a tenant like any other
  std::optional<double> weight;  // the tenant's, from now on; absent: the queue's policy has it
  std::uint64_t connection = 0;  // its answer goes over; answers of one are given one by one
  TimeNs deadline = kNoDeadline;
  TimeNs start_by = kNoDeadline;  // it ends where it has not begun by then
  Priority priority = Priority::kNormal;
  bool is_measurement = false;  // of the server's own, which no client asked for
  // The thread that submits it has nothing else to do until it ends.
  bool submitter_is_free = false;
  Cost cost;                     // predicted, of a launch of the work alone
  std::uint64_t host_bytes = 0;  // that it holds for payload and result while it waits
  Receipt receipt;
  Callback done;
};

}  // namespace gemmd
