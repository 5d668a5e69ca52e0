#include "server/auth/method_roles.h"

#include <algorithm>

namespace gemmd {
namespace {

constexpr Roles kOpen;
constexpr Roles kAnyRole = Roles::All();
constexpr Roles kUsers = {Role::kUser};
constexpr Roles kWatchers = {Role::kObserver, Role::kOperator};
constexpr Roles kOperators = {Role::kOperator};

constexpr MethodRoles kTable[] = {
    {"/gemmd.v1.Gemm/Matmul", kUsers},
    {"/gemmd.v1.Gemm/MatmulStream", kUsers},
    {"/gemmd.v1.Gemm/Estimate", kUsers},

    {"/gemmd.v1.Operands/FindMissing", kUsers},
    {"/gemmd.v1.Operands/Upload", kUsers},
    {"/gemmd.v1.Operands/Get", kUsers},
    {"/gemmd.v1.Operands/Download", kUsers},
    {"/gemmd.v1.Operands/List", kUsers},
    {"/gemmd.v1.Operands/ListAll", kOperators, true},
    {"/gemmd.v1.Operands/SetName", kUsers},
    {"/gemmd.v1.Operands/Renew", kUsers},
    {"/gemmd.v1.Operands/Release", kUsers},

    {"/gemmd.v1.Regions/Register", kUsers},
    {"/gemmd.v1.Regions/Unregister", kUsers},
    {"/gemmd.v1.Regions/Renew", kUsers},
    {"/gemmd.v1.Regions/Status", kUsers},

    // Users see their own models and their own statistics. Load balancers ask whether it is ready.
    {"/inference.GRPCInferenceService/ServerLive", kOpen},
    {"/inference.GRPCInferenceService/ServerReady", kOpen},
    {"/inference.GRPCInferenceService/ServerMetadata", kAnyRole},
    {"/inference.GRPCInferenceService/ModelReady", kUsers},
    {"/inference.GRPCInferenceService/ModelMetadata", kUsers},
    {"/inference.GRPCInferenceService/ModelConfig", kUsers},
    {"/inference.GRPCInferenceService/ModelInfer", kUsers},
    {"/inference.GRPCInferenceService/ModelStreamInfer", kUsers},
    {"/inference.GRPCInferenceService/ModelStatistics", kUsers},
    {"/inference.GRPCInferenceService/RepositoryIndex", kUsers},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", kUsers},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", kUsers},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", kUsers},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister", kUsers},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister", kUsers},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", kUsers},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", kUsers},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister", kUsers},
    {"/inference.GRPCInferenceService/TraceSetting", kAnyRole},
    {"/inference.GRPCInferenceService/LogSettings", kAnyRole},

    // Any caller may see what the server can do, but not what it does for others.
    {"/gemmd.v1.Admin/ServerInfo", kAnyRole},
    {"/gemmd.v1.Admin/ListKernels", kAnyRole},
    {"/gemmd.v1.Admin/Statistics", kWatchers, true},
    {"/gemmd.v1.Admin/Tune", kOperators, true},
    {"/gemmd.v1.Admin/Drain", kOperators, true},
    // Users see their own requests (server/rpc/services/timelines.h).
    {"/gemmd.v1.Admin/Traces", kAnyRole},

    // Load balancers and container runtimes have no token.
    {"/grpc.health.v1.Health/Check", kOpen},
    {"/grpc.health.v1.Health/Watch", kOpen},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kAnyRole},

    // Everybody's addresses, and how much they call.
    {"/grpc.channelz.v1.Channelz/GetTopChannels", kOperators, true},
    {"/grpc.channelz.v1.Channelz/GetServers", kOperators, true},
    {"/grpc.channelz.v1.Channelz/GetServer", kOperators, true},
    {"/grpc.channelz.v1.Channelz/GetServerSockets", kOperators, true},
    {"/grpc.channelz.v1.Channelz/GetChannel", kOperators, true},
    {"/grpc.channelz.v1.Channelz/GetSubchannel", kOperators, true},
    {"/grpc.channelz.v1.Channelz/GetSocket", kOperators, true},
};

}  // namespace

absl::Span<const MethodRoles> AllMethodRoles() { return kTable; }

const MethodRoles* RolesOf(absl::string_view method) {
  const auto* const found =
      std::find_if(std::begin(kTable), std::end(kTable),
                   [&](const MethodRoles& each) { return method == each.method; });
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace gemmd
