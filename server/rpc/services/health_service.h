// grpc.health.v1.Health. gRPC brings one along, but that holds half a message for as long as its
// client likes; this one is watched as every service is.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/sync/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/reactors/request_reactor.h"
#include "server/rpc/services/raw_service.h"

namespace gemmd {

// Thread-safe. All services have one status, that of the server.
class HealthService final : public RawService<grpc::health::v1::Health> {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // Serving.
  HealthService(std::vector<std::string> services, const Door& door);

  void SetServing(bool serving);

 private:
  class Watcher;

  bool Has(const std::string& service) const;

  const std::vector<std::string> services_;
  CallWatch* const watch_;
  Mutex mutex_;
  bool is_serving_ ABSL_GUARDED_BY(mutex_) = true;
  std::set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
