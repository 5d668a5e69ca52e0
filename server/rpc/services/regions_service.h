// gemmd.v1.Regions: thin over server/regions.
#pragma once

#include "gemmd/v1/regions.grpc.pb.h"
#include "server/regions/region_table.h"
#include "server/rpc/reactors/request_reactor.h"
#include "server/rpc/services/raw_service.h"

namespace gemmd {

class RegionsService final : public RawService<v1::Regions> {
 public:
  // The arguments outlive the service.
  RegionsService(RegionTable* table, const Door& door);

 private:
  RequestReactor* AnswerRegister(Context* context, const Tenant& tenant);
  RequestReactor* AnswerUnregister(Context* context, const Tenant& tenant);
  RequestReactor* AnswerRenew(Context* context, const Tenant& tenant);
  RequestReactor* AnswerStatus(Context* context, const Tenant& tenant);

  RegionTable* const table_;
  CallWatch* const watch_;
};

}  // namespace gemmd
