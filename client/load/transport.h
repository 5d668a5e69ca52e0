// A transport carries requests, behind an interface: gRPC, a bare echo, or a test's script.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "client/load/sample.h"

namespace gemmd::load {

struct Request {
  std::uint64_t index = 0;  // of all that this run sends, from 0 on
  std::uint16_t entry = 0;  // of the workload
  // Requests of one lane go over one connection, and so mostly stay on one thread: a closed
  // loop's next request follows the one whose answer starts it.
  std::uint64_t lane = 0;
};

struct Reply {
  absl::StatusCode code = absl::StatusCode::kOk;
  StageTimes stage_us{};
  std::uint32_t batch_requests = 0;
};

// Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  // Does not wait for the answer. `done` runs exactly once, on any thread, but never
  // within Send; it may call Send.
  using Done = std::function<void(const Reply&)>;
  virtual void Send(const Request& request, Done done) = 0;

  // Returns once every `done` has returned. REQUIRES: no Send meanwhile, but from within
  // a `done`; not called from one.
  virtual void Drain() = 0;
};

}  // namespace gemmd::load
