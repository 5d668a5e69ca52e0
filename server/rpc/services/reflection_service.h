// grpc.reflection.v1alpha.ServerReflection. gRPC brings one along, but that keeps a thread for each
// stream that is open; this one is watched as every service is.
#pragma once

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/services/raw_service.h"

namespace gemmd {

// Tells of the types that are linked into the process. Thread-safe.
class ReflectionService final : public RawService<grpc::reflection::v1alpha::ServerReflection> {
 public:
  // `services`: full names.
  ReflectionService(std::vector<std::string> services, const Door& door);

 private:
  class Reflector;

  const std::vector<std::string> services_;
};

}  // namespace gemmd
