// Bounds on the work that may wait for a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// Totals over the jobs that wait.
struct QueueUse {
  std::size_t jobs = 0;
  std::uint64_t bytes = 0;  // of the host, for payloads and results
  std::int64_t rows = 0;    // of all D
  double us = 0;            // predicted time on the device
};

// Each at least 1.
struct QueueBounds {
  std::size_t jobs = 1024;
  std::uint64_t bytes = std::uint64_t{64} << 30;
  std::int64_t rows = std::int64_t{1} << 24;
  double us = 10e6;
};

// The bounds of one tenant among several, `percent` of the whole, rounded up.
QueueBounds ShareOf(const QueueBounds& bounds, int percent);

// RESOURCE_EXHAUSTED: with a job of these, `use` would be over a bound; says which. A job that
// finds nothing waiting fits always: it would never fit later. `whose` begins the message.
absl::Status CheckRoom(absl::string_view whose, const QueueUse& use, const QueueUse& job,
                       const QueueBounds& bounds);

}  // namespace gemmd
