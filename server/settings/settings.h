// The layers' options, made from the configuration. Values that an option leaves to the server are
// decided here, by the process's memory and the machine's processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/admission/admission.h"
#include "server/admission/waiting_room.h"
#include "server/device/device.h"
#include "server/holdings/quotas.h"
#include "server/net/connection_table.h"
#include "server/observability.h"
#include "server/observe/slow_log.h"
#include "server/options/config.pb.h"
#include "server/regions/region_table.h"
#include "server/rpc/calls/authorizer.h"
#include "server/rpc/calls/call_watch.h"
#include "server/rpc/grpc_server.h"
#include "server/store/operand_store.h"
#include "server/transfer/matmul_session.h"
#include "server/verification/verifier.h"

namespace gemmd {

// The connections that would be taken if there were file descriptors for all.
std::size_t WantedConnections(const config::Limits& limits);
// `descriptors`: as many as the process may have.
GrpcServerOptions RpcOptions(const config::ServerConfig& config, std::size_t descriptors);
ProgressLimit ProgressLimitOf(const config::Limits& limits);
CallWatch::Limits CallLimits(const config::Limits& limits);
// `admission`: whose requests hold memory, outlives the watch; null: none do.
CallWatch::Options WatchOptions(const config::Limits& limits, const GrpcServerOptions& rpc,
                                const Admission* admission = nullptr);
Authorizer::Options AuthorizerOptions(const config::ServerConfig& config,
                                      ConnectionTable* connections);
MatmulSession::Options SessionOptions(const config::Limits& limits);

WaitingRoom::Bounds WaitingBounds(const config::ServerConfig& config, const GrpcServerOptions& rpc);
ClientPolicy ClientPolicyOf(const config::ServerConfig& config, WaitingRoom* room, Quotas* quotas);
// `device_bytes`: the memory of the device that has the most.
StoreOptions OperandOptions(const config::ServerConfig& config, std::uint64_t device_bytes,
                            const std::vector<Device*>& devices, Quotas* quotas);
RegionOptions SharedMemoryOptions(const config::SharedMemory& config, Quotas* quotas);
// Each time with another seed.
VerifierOptions VerificationOptionsOf(const config::Verification& config);

SlowLog::Options SlowLogOptions(const config::Log& config);
Observability::Options ObserveOptions(const config::ServerConfig& config);

}  // namespace gemmd
