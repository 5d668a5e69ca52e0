// Stops a server: it lets in nothing new and finishes what it has.
#pragma once

#include <cstdint>
#include <functional>

#include "base/time/clock.h"
#include "server/net/connection_table.h"
#include "server/observe/statistics.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/services/gemm_service.h"
#include "server/rpc/services/inference_service.h"
#include "server/rpc/services/operands_service.h"
#include "server/scheduling/router.h"

namespace gemmd {

// Work that a drain still waits for.
struct Unfinished {
  std::uint64_t receiving = 0;  // requests whose header was taken and whose payload is not there
  std::uint64_t running = 0;    // requests that wait for a device or have one
  std::uint64_t uploads = 0;
  std::uint64_t calls = 0;  // whose answers are not sent, streams and downloads among them
  std::uint64_t unacknowledged_bytes = 0;
};

// Used by one thread. All that it is made of outlives it.
class Drain {
 public:
  struct Parts {
    GrpcServer* server = nullptr;
    GemmService* gemm = nullptr;
    InferenceService* inference = nullptr;
    OperandsService* operands = nullptr;
    Router* router = nullptr;
    ConnectionTable* connections = nullptr;  // clients', and no collector's
    const Statistics* statistics = nullptr;
    const Clock* clock = nullptr;
  };
  explicit Drain(const Parts& parts) : parts_(parts) {}

  // Nothing new is let in from here on, and health is NOT_SERVING.
  void Start();

  // Waits until every request that was let in has its answer, and every upload its end, payloads
  // under way included. Returns false if the timeout came first or `stops` returned true. `stops`
  // waits for so many milliseconds and tells whether to give up.
  bool AwaitWork(std::int64_t timeout_ms, const std::function<bool(int wait_ms)>& stops);

  // Waits until every answer has reached its client's machine. Returns false if the timeout came
  // first. gRPC's shutdown alone may close a connection over an answer that is still under way.
  bool AwaitSent(std::int64_t timeout_ms);

  Unfinished unfinished() const;

 private:
  TimeNs EndOf(std::int64_t timeout_ms) const;
  // The calls of products and downloads whose answers are not sent.
  int active_calls() const;

  const Parts parts_;
};

}  // namespace gemmd
