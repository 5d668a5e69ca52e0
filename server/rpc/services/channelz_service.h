// grpc.channelz.v1.Channelz: gRPC's servers, connections and their counts. gRPC brings one along,
// but that serves everybody; this one asks for its methods' role and is watched as every service
// is.
#pragma once

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "server/rpc/services/raw_service.h"

namespace gemmd {

// Stands in for the generated code of a service that the library has but declares in no header.
struct ChannelzWire {
  static constexpr const char* service_full_name() { return "grpc.channelz.v1.Channelz"; }
  class Service : public grpc::Service {
   protected:
    Service();
  };
};

// Thread-safe.
class ChannelzService final : public RawService<ChannelzWire> {
 public:
  explicit ChannelzService(const Door& door);
};

}  // namespace gemmd
