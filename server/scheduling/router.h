// Chooses the device that serves a request, where there are several.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/device/device.h"
#include "server/scheduling/scheduler.h"

namespace gemmd {

// A device and its own queue.
struct ServedDevice {
  Device* device = nullptr;
  Scheduler* scheduler = nullptr;
};

// One that may serve a request, with what was known of it when it was asked for.
struct RoutedDevice : ServedDevice {
  // As Scheduler tells them; 0 where there is no choice.
  double expected_backlog_us = 0;
  double submitted_backlog_us = 0;
  bool is_holder = false;  // of the request's operands
};

// Thread-safe. Its devices and their schedulers outlive it.
class Router {
 public:
  // REQUIRES: not empty.
  explicit Router(std::vector<ServedDevice> devices) : devices_(std::move(devices)) {}

  const std::vector<ServedDevice>& devices() const { return devices_; }

  // The backlog that a second holder of a request's operands must save. Rows of one B share a
  // launch where they meet, and two devices that take half each launch as often as one does
  // (docs/benchmarks/kept-results.md).
  static constexpr double kHeadStartUs = 200;

  // The devices in the order in which a new request should try them: holders of its operands first;
  // both holders and others by expected backlog, then by number. The first holder has a head start
  // on the other holders. Takes no lock.
  std::vector<RoutedDevice> ByPreference(absl::Span<const Device* const> holders = {}) const;

  // From here on nothing new is to be let in. Work that was let in goes on, though most of it may
  // still be on its way: a request is let in by its header, an upload by its begin. A caller that
  // lets something in counts it first and then asks, so that a thread that waits for the counts
  // misses nothing.
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }

  // The following are over all devices; see Scheduler.
  void Cancel(std::uint64_t id) const;
  bool WaitUntilIdle(int timeout_ms) const;
  std::size_t unfinished_jobs() const;
  QueueUse queued() const;
  std::uint64_t requests() const;  // of clients, that the queues took since the start

 private:
  const std::vector<ServedDevice> devices_;
  std::atomic<bool> draining_ = false;
};

}  // namespace gemmd
