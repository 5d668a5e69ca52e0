// The server with all of its layers, in the order in which they are built.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/time/clock.h"
#include "kernels/gemm.h"
#include "server/admission/admission.h"
#include "server/admission/tuner.h"
#include "server/admission/waiting_room.h"
#include "server/auth/audit.h"
#include "server/auth/policy_file.h"
#include "server/devices.h"
#include "server/drain.h"
#include "server/holdings/overview.h"
#include "server/holdings/quotas.h"
#include "server/net/connection_table.h"
#include "server/observability.h"
#include "server/observe/slow_log.h"
#include "server/observe/statistics.h"
#include "server/options/config.pb.h"
#include "server/preload/preload_repository.h"
#include "server/regions/region_table.h"
#include "server/rpc/calls/authorizer.h"
#include "server/rpc/calls/call_watch.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/services/admin_service.h"
#include "server/rpc/services/gemm_service.h"
#include "server/rpc/services/inference_service.h"
#include "server/rpc/services/operands_service.h"
#include "server/rpc/services/regions_service.h"
#include "server/store/operand_store.h"
#include "server/trace/tracer.h"
#include "server/verification/verifier.h"

namespace gemmd {

class Server {
 public:
  using OnLost = std::function<void(const absl::Status&)>;
  using OnDrain = std::function<void()>;
  using IsStopped = std::function<bool()>;

  // Builds every layer, warms the devices up, preloads operands, and listens. Null where that
  // cannot be; the log then says why. `on_lost`: as Devices::Make(). `on_drain`: has it end, for an
  // operator. `is_stopped`: as Preload(). The configuration outlives the result.
  static std::unique_ptr<Server> Start(const config::ServerConfig& config, const OnLost& on_lost,
                                       OnDrain on_drain, const IsStopped& is_stopped);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes over the options that reload. Calls and connections go on and matrices stay, even where
  // these allow less. REQUIRES: all other options are those of the start.
  void SetLimits(const config::ServerConfig& config);
  // Reads the policy and the files of TLS anew; the log says what is wrong with them.
  void ReloadFiles();

  // The end of its work.
  Drain NewDrain();
  const Router& router() const { return base_->devices->router(); }
  Statistics::Snapshot totals() const { return base_->statistics.Read(); }
  // Closes all connections.
  void Shutdown();

 private:
  // The parts that are there before any device, and the devices.
  struct Base {
    explicit Base(const config::ServerConfig& config);

    const SteadyClock clock;
    const TimeNs start = clock.Now();
    SlowLog slow;
    // The error: as MakeTracer(); nothing else is used then.
    const absl::StatusOr<std::unique_ptr<Tracer>> tracer;
    Statistics statistics;
    PlanCache plans;
    std::unique_ptr<Devices> devices;
  };

  Server(const config::ServerConfig& config, std::unique_ptr<PolicyFile> policy,
         std::unique_ptr<Base> base, OnDrain on_drain);

  RequestLimits LimitsOfRequests() const;
  AdminService::Sources AdminSources(OnDrain on_drain);
  HoldingsOverview AllHoldings();
  // These return false if that cannot be; the log says why.
  bool PreloadOperands(const IsStopped& is_stopped);
  bool Listen();
  bool Observe();
  void LogStart() const;

  const config::ServerConfig& config_;
  const std::unique_ptr<PolicyFile> policy_;
  const std::unique_ptr<Base> base_;
  const GrpcServerOptions rpc_;

  AuditLog audit_;
  Quotas quotas_;
  OperandStore store_;
  RegionTable regions_;
  Verifier verifier_;
  WaitingRoom room_;
  Admission admission_;
  Tuner tuner_;

  ConnectionTable connections_;
  CallWatch watch_;
  const HoldingsOverview holdings_;
  const Authorizer authorizer_;
  const Door door_;
  GemmService gemm_;
  OperandsService operands_;
  RegionsService regions_service_;
  AdminService admin_;
  PreloadRepository repository_;
  InferenceService inference_;  // served where the option says so
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<Observability> observability_;  // null: not asked for
};

}  // namespace gemmd
