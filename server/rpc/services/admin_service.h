// gemmd.v1.Admin: what the server is and has done.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/admission/tuner.h"
#include "server/holdings/overview.h"
#include "server/holdings/quotas.h"
#include "server/observe/statistics.h"
#include "server/regions/region_table.h"
#include "server/rpc/calls/costly_calls.h"
#include "server/rpc/services/raw_service.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"
#include "server/trace/tracer.h"
#include "server/verification/verifier.h"

namespace gemmd {

class AdminService final : public RawService<v1::Admin> {
 public:
  // The sources of the answers; all pointers outlive the service.
  struct Sources {
    const Registry* registry = nullptr;
    const Router* router = nullptr;
    const Admission* admission = nullptr;
    const PlanCache* plans = nullptr;
    Tuner* tuner = nullptr;
    const OperandStore* store = nullptr;
    const RegionTable* regions = nullptr;
    const Verifier* verifier = nullptr;
    const gemmd::Statistics* statistics = nullptr;
    const Tracer* tracer = nullptr;
    const Quotas* quotas = nullptr;
    const HoldingsOverview* holdings = nullptr;
    std::function<void()> drain;  // has the server end; does not block
    const Clock* clock = nullptr;
    std::uint64_t message_bytes = 0;
    std::uint64_t max_queued_jobs = 0;
    std::uint64_t calls_per_connection = 0;
  };

  AdminService(const Sources& sources, const Door& door);

 private:
  v1::ServerInfoResponse Info() const;
  absl::StatusOr<v1::ListKernelsResponse> Kernels(const v1::ListKernelsRequest& request) const;
  v1::StatisticsResponse Counts() const;
  // The one that explanations are for: a node's devices are alike.
  const Device& first_device() const { return *sources_.router->devices().front().device; }
  void SetUptime(google::protobuf::Duration* uptime) const;

  const Sources sources_;
  const TimeNs start_;
  CostlyCalls traces_;
};

}  // namespace gemmd
