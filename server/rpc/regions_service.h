// gemmd.v1.Regions: thin over server/regions.
#pragma once

#include "gemmd/v1/regions.grpc.pb.h"
#include "server/regions/region_table.h"

namespace gemmd {

using RawRegionsService = v1::Regions::WithRawCallbackMethod_Register<
    v1::Regions::WithRawCallbackMethod_Unregister<v1::Regions::WithRawCallbackMethod_Renew<
        v1::Regions::WithRawCallbackMethod_Status<v1::Regions::Service>>>>;

class RegionsService final : public RawRegionsService {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  // The table outlives the service.
  explicit RegionsService(RegionTable* table) : table_(table) {}

  grpc::ServerUnaryReactor* Register(Context* context, const Bytes* request,
                                     Bytes* response) override;
  grpc::ServerUnaryReactor* Unregister(Context* context, const Bytes* request,
                                       Bytes* response) override;
  grpc::ServerUnaryReactor* Renew(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* Status(Context* context, const Bytes* request,
                                   Bytes* response) override;

 private:
  RegionTable* const table_;
};

// Whether gRPC's name of a peer is of this host: a loopback address or a Unix socket.
bool IsLocalPeer(absl::string_view peer);

}  // namespace gemmd
