// The part of ModelInfer and ModelStreamInfer that both have, before and after the product.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "inference/grpc_service.pb.h"
#include "proto/payload_codec.h"
#include "server/admission/validation.h"
#include "server/observe/receipt.h"
#include "server/regions/named_regions.h"
#include "server/rpc/oip/infer_request.h"
#include "server/rpc/oip/model_totals.h"
#include "server/store/operand_store.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// Thread-safe.
class InferDecoder {
 public:
  // They outlive it.
  struct Parts {
    OperandStore* store = nullptr;
    NamedRegions* regions = nullptr;
    ModelTotals* totals = nullptr;
    const Clock* clock = nullptr;
  };
  InferDecoder(const Parts& parts, const RequestLimits& limits) : parts_(parts), limits_(limits) {}

  // The sender of a request, and the time at which its message was there.
  struct Origin {
    const Tenant& tenant;
    std::string peer;  // gRPC's name of it: names of shared memory are for clients of this host
    TimeNs arrival = 0;
  };

  // Sets `*model` once the tenant is known to have the one that the request names. Errors are those
  // of FindModel() and MapRequest(). PERMISSION_DENIED: shared memory, from another host.
  absl::StatusOr<InferProduct> Decode(const inference::ModelInferRequest& request,
                                      const PayloadViews& raw, const Origin& origin,
                                      std::string* model) const;

  // Counts the end of a request, unless its model is "".
  void RecordEnd(const std::string& tenant, const std::string& model, const absl::Status& status,
                 const Receipt& receipt, TimeNs arrival) const;

 private:
  const Parts parts_;
  const RequestLimits limits_;
};

}  // namespace gemmd
