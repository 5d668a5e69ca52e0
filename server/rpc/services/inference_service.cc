#include "server/rpc/services/inference_service.h"

#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "base/version.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/calls/peer.h"
#include "server/rpc/oip/infer_model.h"
#include "server/rpc/reactors/model_infer_reactor.h"
#include "server/rpc/reactors/model_stream_infer_reactor.h"
#include "server/rpc/services/unary.h"
#include "server/scheduling/draining.h"

namespace gemmd {
namespace {

// The precision of the deadlines of requests whose payload is not there.
constexpr std::chrono::milliseconds kLatePeriod(10);

// The protocol has no pages: an index has so many operands at most, in some 300 bytes each.
constexpr std::size_t kMostListed = 16384;
// Indices that are made at a time.
constexpr int kListings = 4;

// gRPC's name of who calls.
using Peer = const std::string&;

absl::Status CheckRepository(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("repository_name is ", Quoted(name),
                                          "; this server has one, which has no name"));
}

// The model that a request to load or unload names, in either contract (grpc_service.proto).
template <typename Request>
absl::StatusOr<std::string> NamedModel(const Request& request) {
  if (request.model_name().empty()) return request.repository_name();
  if (absl::Status s = CheckRepository(request.repository_name()); !s.ok()) return s;
  return request.model_name();
}

template <typename Parameters>
absl::Status CheckParameters(const Parameters& parameters, const std::set<std::string>& known) {
  for (const auto& [name, value] : parameters) {
    if (known.count(name) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected parameter ", Quoted(name),
                     "; models are operands as their files have them, without configuration"));
  }
  return absl::OkStatus();
}

// Loads one model, which takes as long as reading its file.
class LoadReactor final : public RequestReactor {
 public:
  LoadReactor(const InferenceService::Parts& parts, CallWatch* watch, Tenant tenant,
              grpc::CallbackServerContext* context)
      : RequestReactor(watch, context), parts_(parts), tenant_(std::move(tenant)) {}

 private:
  ~LoadReactor() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override {
    inference::RepositoryModelLoadRequest request;
    if (absl::Status s = ParseMessage(message, &request); !s.ok()) return Fail(s);
    absl::Status status = CheckParameters(request.parameters(), {});
    if (status.ok() && parts_.admission->IsDraining()) status = DrainingError();
    const absl::StatusOr<std::string> model = NamedModel(request);
    status.Update(model.status());
    if (!status.ok()) return Fail(status);
    const absl::StatusOr<std::string> operand = OperandOf(*model);
    if (!operand.ok()) return Fail(operand.status());
    parts_.repository->Load(tenant_, *operand, [this, model = *model](const absl::Status& loaded) {
      if (!loaded.ok()) return Fail(loaded);
      inference::RepositoryModelLoadResponse response;
      response.set_model_name(model);
      response.set_isloaded(true);
      const grpc::Slice slice(response.SerializeAsString());
      grpc::ByteBuffer answer(&slice, 1);
      Answer(&answer);
    });
  }

  const InferenceService::Parts parts_;
  const Tenant tenant_;
};

}  // namespace

InferenceService::InferenceService(const Parts& parts, const Door& door,
                                   const RequestLimits& limits,
                                   const MatmulSession::Options& session_options)
    : RawService(door),
      parts_(parts),
      watch_(door.watch),
      authorizer_(door.authorizer),
      regions_(parts.regions),
      decoder_({parts.store, &regions_, &totals_, parts.clock}, limits),
      listings_(kListings, parts.clock),
      session_options_(session_options),
      sessions_(parts.clock, kLatePeriod) {
  ServeServer();
  ServeModels();
  ServeProducts();
  ServeRepository();
  ServeSharedMemory();
}

void InferenceService::SetSessionOptions(const MatmulSession::Options& options) {
  const MutexLock lock(mutex_);
  session_options_ = options;
}

MatmulSession::Options InferenceService::ReadSessionOptions() {
  const MutexLock lock(mutex_);
  return session_options_;
}

template <typename Request, typename Response, typename Handler>
void InferenceService::ServeUnary(const char* method, Handler handler) {
  Serve(method, [this, handler](Context* context, const Login& login) {
    return HandleUnary<Request>(watch_, context,
                                [handler, context, tenant = login.identity.tenant](
                                    const Request& request) -> absl::StatusOr<Response> {
                                  return handler(tenant, PeerOf(*context), request);
                                });
  });
}

void InferenceService::ServeServer() {
  ServeUnary<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      "ServerLive", [](const Tenant&, Peer, const auto&) {
        inference::ServerLiveResponse response;
        response.set_live(true);
        return response;
      });
  ServeUnary<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      "ServerReady", [this](const Tenant&, Peer, const auto&) {
        inference::ServerReadyResponse response;
        response.set_ready(!parts_.admission->IsDraining());
        return response;
      });
  ServeUnary<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "ServerMetadata", [this](const Tenant&, Peer, const auto&) {
        inference::ServerMetadataResponse response;
        response.set_name("gemmd");
        response.set_version(kVersion);
        for (const char* each : {"model_configuration", "model_repository", "parameters",
                                 "schedule_policy", "statistics"}) {
          response.add_extensions(each);
        }
        const RegionOptions& shared = parts_.regions->options();
        const bool is_shared = !shared.name_prefixes.empty();
        if (is_shared) response.add_extensions("system_shared_memory");
        if (is_shared && shared.cuda_ipc) response.add_extensions("cuda_shared_memory");
        return response;
      });
  // Settings that gemmd has elsewhere.
  ServeUnary<inference::TraceSettingRequest, inference::TraceSettingResponse>(
      "TraceSetting",
      [](const Tenant&, Peer, const auto&) -> absl::StatusOr<inference::TraceSettingResponse> {
        return absl::UnimplementedError(
            "TraceSetting is not built: gemmd remembers the last requests by itself "
            "(observe.trace_bytes), and `gemm trace` shows them");
      });
  ServeUnary<inference::LogSettingsRequest, inference::LogSettingsResponse>(
      "LogSettings",
      [](const Tenant&, Peer, const auto&) -> absl::StatusOr<inference::LogSettingsResponse> {
        return absl::UnimplementedError(
            "LogSettings is not built: the options log.level and log.slow_ms reload on SIGHUP");
      });
}

void InferenceService::ServeModels() {
  OperandStore* const store = parts_.store;
  ServeUnary<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      "ModelReady",
      [this, store](const Tenant& tenant, Peer,
                    const auto& request) -> absl::StatusOr<inference::ModelReadyResponse> {
        const absl::Status found =
            FindModel(store, tenant, request.name(), request.version()).status();
        if (absl::IsNotFound(found)) return found;
        inference::ModelReadyResponse response;
        response.set_ready(found.ok() && !parts_.admission->IsDraining());
        return response;
      });
  ServeUnary<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      "ModelMetadata",
      [store](const Tenant& tenant, Peer,
              const auto& request) -> absl::StatusOr<inference::ModelMetadataResponse> {
        const absl::StatusOr<InferModel> model =
            FindModel(store, tenant, request.name(), request.version());
        if (!model.ok()) return model.status();
        return MetadataOf(*model);
      });
  ServeUnary<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      "ModelConfig",
      [store](const Tenant& tenant, Peer,
              const auto& request) -> absl::StatusOr<inference::ModelConfigResponse> {
        const absl::StatusOr<InferModel> model =
            FindModel(store, tenant, request.name(), request.version());
        if (!model.ok()) return model.status();
        inference::ModelConfigResponse response;
        *response.mutable_config() = ConfigOf(*model);
        return response;
      });
  ServeUnary<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      "ModelStatistics",
      [this, store](const Tenant& tenant, Peer,
                    const auto& request) -> absl::StatusOr<inference::ModelStatisticsResponse> {
        inference::ModelStatisticsResponse response;
        if (!request.name().empty()) {
          const absl::StatusOr<InferModel> model =
              FindModel(store, tenant, request.name(), request.version());
          if (!model.ok()) return model.status();
          *response.add_model_stats() =
              EncodeStatistics(model->name, totals_.Read(tenant.key(), model->name));
          return response;
        }
        auto rows = totals_.ReadAll(tenant.key());
        for (const InferModel& each : BuiltInModels()) rows.try_emplace(each.name);
        for (const auto& [model, row] : rows) {
          *response.add_model_stats() = EncodeStatistics(model, row);
        }
        return response;
      });
}

void InferenceService::ServeProducts() {
  Serve("ModelInfer", [this](Context* context, const Login& login) {
    return new ModelInferReactor(
        {parts_.admission, parts_.statistics, parts_.clock, &active_calls_, watch_}, decoder_,
        login.identity.tenant, context);
  });
  Serve("ModelStreamInfer", [this](Context* context, const Login& login) {
    SessionReactor::Services services;
    services.admission = parts_.admission;
    services.statistics = parts_.statistics;
    services.clock = parts_.clock;
    services.sessions = &sessions_;
    services.active_calls = &active_calls_;
    services.watch = watch_;
    services.authorizer = authorizer_;
    services.session_options = ReadSessionOptions();
    return ModelStreamInferReactor::Start(services, decoder_, login, context);
  });
}

void InferenceService::ServeRepository() {
  Serve("RepositoryIndex", [this](Context* context, const Login& login) {
    return HandleUnary<inference::RepositoryIndexRequest>(
        watch_, context,
        [this, tenant = login.identity.tenant, place = std::make_shared<CostlyCalls::Place>()](
            const inference::RepositoryIndexRequest& request)
            -> absl::StatusOr<inference::RepositoryIndexResponse> {
          if (absl::Status s = CheckRepository(request.repository_name()); !s.ok()) return s;
          absl::StatusOr<CostlyCalls::Place> entered = listings_.Enter();
          if (!entered.ok()) return entered.status();
          *place = *std::move(entered);  // until the call's end, when its answer was read
          const TimeNs begin = parts_.clock->Now();
          inference::RepositoryIndexResponse response;
          for (const ModelIndexRow& row :
               ListModels(parts_.store, tenant, parts_.repository->NamesFor(tenant), kMostListed)) {
            if (request.ready() && !row.status.ok()) continue;
            auto* const model = response.add_models();
            model->set_name(row.name);
            model->set_version(std::string(kModelVersion));
            model->set_state(row.status.ok() ? "READY" : "UNAVAILABLE");
            model->set_reason(std::string(row.status.message()));
          }
          listings_.Worked(begin);
          return response;
        });
  });
  Serve("RepositoryModelLoad", [this](Context* context, const Login& login) {
    return new LoadReactor(parts_, watch_, login.identity.tenant, context);
  });
  ServeUnary<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload",
      [this](const Tenant& tenant, const std::string&,
             const auto& request) -> absl::StatusOr<inference::RepositoryModelUnloadResponse> {
        const absl::StatusOr<std::string> model = NamedModel(request);
        if (!model.ok()) return model.status();
        absl::Status status = CheckParameters(request.parameters(), {"unload_dependents"});
        if (!status.ok()) return status;
        const absl::StatusOr<std::string> operand = OperandOf(*model);
        if (!operand.ok()) return operand.status();
        // NOT_FOUND in the words of models; one that is not ready may go too.
        status = FindModel(parts_.store, tenant, *model, "").status();
        if (absl::IsNotFound(status)) return status;
        status = parts_.store->Release(tenant, OperandKey{{}, {}, *operand});
        if (!status.ok()) return status;
        inference::RepositoryModelUnloadResponse response;
        response.set_model_name(*model);
        response.set_isunloaded(true);
        return response;
      });
}

void InferenceService::ServeSharedMemory() {
  using Kind = NamedRegions::Kind;
  // Each but asks who calls from where, and then does what its name says.
  ServeUnary<inference::SystemSharedMemoryStatusRequest,
             inference::SystemSharedMemoryStatusResponse>(
      "SystemSharedMemoryStatus",
      [this](const Tenant& tenant, const std::string& peer,
             const auto& request) -> absl::StatusOr<inference::SystemSharedMemoryStatusResponse> {
        if (absl::Status s = CheckSharesMemory(peer); !s.ok()) return s;
        inference::SystemSharedMemoryStatusResponse response;
        for (const auto& [name, entry] : regions_.List(tenant, Kind::kPosix, request.name())) {
          auto& region = (*response.mutable_regions())[name];
          region.set_name(name);
          region.set_key(entry.key);
          region.set_offset(entry.offset);
          region.set_byte_size(entry.bytes);
        }
        if (!request.name().empty() && response.regions().empty()) {
          return NamedRegions::UnknownError(request.name());
        }
        return response;
      });
  ServeUnary<inference::SystemSharedMemoryRegisterRequest,
             inference::SystemSharedMemoryRegisterResponse>(
      "SystemSharedMemoryRegister",
      [this](const Tenant& tenant, const std::string& peer,
             const auto& request) -> absl::StatusOr<inference::SystemSharedMemoryRegisterResponse> {
        if (absl::Status s = CheckSharesMemory(peer); !s.ok()) return s;
        if (parts_.admission->IsDraining()) return DrainingError();
        absl::Status status = regions_.Register(tenant, request.name(), request.key(),
                                                request.offset(), request.byte_size());
        if (!status.ok()) return status;
        return inference::SystemSharedMemoryRegisterResponse();
      });
  ServeUnary<inference::SystemSharedMemoryUnregisterRequest,
             inference::SystemSharedMemoryUnregisterResponse>(
      "SystemSharedMemoryUnregister",
      [this](const Tenant& tenant, Peer peer, const auto& request)
          -> absl::StatusOr<inference::SystemSharedMemoryUnregisterResponse> {
        if (absl::Status s = CheckSharesMemory(peer); !s.ok()) return s;
        regions_.Unregister(tenant, Kind::kPosix, request.name());
        return inference::SystemSharedMemoryUnregisterResponse();
      });
  ServeUnary<inference::CudaSharedMemoryStatusRequest, inference::CudaSharedMemoryStatusResponse>(
      "CudaSharedMemoryStatus",
      [this](const Tenant& tenant, const std::string& peer,
             const auto& request) -> absl::StatusOr<inference::CudaSharedMemoryStatusResponse> {
        if (absl::Status s = CheckSharesMemory(peer); !s.ok()) return s;
        inference::CudaSharedMemoryStatusResponse response;
        for (const auto& [name, entry] : regions_.List(tenant, Kind::kCuda, request.name())) {
          auto& region = (*response.mutable_regions())[name];
          region.set_name(name);
          region.set_device_id(entry.device);
          region.set_byte_size(entry.bytes);
        }
        if (!request.name().empty() && response.regions().empty()) {
          return NamedRegions::UnknownError(request.name());
        }
        return response;
      });
  ServeUnary<inference::CudaSharedMemoryRegisterRequest,
             inference::CudaSharedMemoryRegisterResponse>(
      "CudaSharedMemoryRegister",
      [this](const Tenant& tenant, const std::string& peer,
             const auto& request) -> absl::StatusOr<inference::CudaSharedMemoryRegisterResponse> {
        if (absl::Status s = CheckSharesMemory(peer); !s.ok()) return s;
        if (parts_.admission->IsDraining()) return DrainingError();
        absl::Status status = regions_.RegisterCuda(tenant, request.name(), request.raw_handle(),
                                                    static_cast<std::size_t>(request.device_id()),
                                                    request.byte_size());
        if (!status.ok()) return status;
        return inference::CudaSharedMemoryRegisterResponse();
      });
  ServeUnary<inference::CudaSharedMemoryUnregisterRequest,
             inference::CudaSharedMemoryUnregisterResponse>(
      "CudaSharedMemoryUnregister",
      [this](const Tenant& tenant, const std::string& peer,
             const auto& request) -> absl::StatusOr<inference::CudaSharedMemoryUnregisterResponse> {
        if (absl::Status s = CheckSharesMemory(peer); !s.ok()) return s;
        regions_.Unregister(tenant, Kind::kCuda, request.name());
        return inference::CudaSharedMemoryUnregisterResponse();
      });
}

}  // namespace gemmd
