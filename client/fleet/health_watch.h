// Follows what a server says of itself by grpc.health.v1.
#pragma once

#include <functional>
#include <memory>

#include "client/fleet/fleet.h"
#include "grpcpp/channel.h"

namespace gemmd::client {

// Connects, and again after each failure. A server whose connection breaks is not serving until it
// says so again. One that has no health service, or does not let this client ask, is unknown.
class HealthWatch {
 public:
  // Called on gRPC's threads, one call after another.
  using Told = std::function<void(Health)>;

  HealthWatch(const std::shared_ptr<grpc::Channel>& channel, Told told);
  // Waits for `told`, and so must not happen in it, nor under a lock that it takes.
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

 private:
  class Stream;
  struct State;
  static void Begin(const std::shared_ptr<State>& state);
  static void OnEnd(const std::shared_ptr<State>& state, const grpc::Status& status);

  const std::shared_ptr<State> state_;  // which a timer may hold for longer
};

}  // namespace gemmd::client
