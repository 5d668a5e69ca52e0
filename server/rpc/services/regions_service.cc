#include "server/rpc/services/regions_service.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/time/units.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/calls/peer.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/services/unary.h"

namespace gemmd {
namespace {

absl::StatusOr<std::optional<TimeNs>> DecodeLease(bool is_set,
                                                  const google::protobuf::Duration& wire) {
  if (!is_set) return std::optional<TimeNs>();
  const absl::StatusOr<TimeNs> lease = DecodeDuration("lease", wire);
  if (!lease.ok()) return lease.status();
  return std::optional<TimeNs>(*lease);
}

void EncodeLease(TimeNs lease, google::protobuf::Duration* wire) {
  wire->set_seconds(lease / kSecond);
  wire->set_nanos(static_cast<std::int32_t>(lease % kSecond));
}

absl::StatusOr<RegionTable::Registered> Register(const v1::RegisterRegionRequest& request,
                                                 const Tenant& tenant, RegionTable* table) {
  const absl::StatusOr<std::optional<TimeNs>> lease =
      DecodeLease(request.has_lease(), request.lease());
  if (!lease.ok()) return lease.status();
  if (request.has_posix()) {
    const v1::PosixMemory& posix = request.posix();
    return table->Register(PosixRegion{posix.name(), posix.offset_bytes(), posix.size_bytes()},
                           *lease, tenant);
  }
  if (request.has_cuda()) {
    const v1::CudaMemory& cuda = request.cuda();
    return table->Register(
        CudaRegion{cuda.ipc_handle(), cuda.device(), cuda.offset_bytes(), cuda.size_bytes()},
        *lease, tenant);
  }
  return absl::InvalidArgumentError("memory is missing: one of posix and cuda must be set");
}

}  // namespace

RegionsService::RegionsService(RegionTable* table, const Door& door)
    : RawService(door), table_(table), watch_(door.watch) {
  Serve("Register", [this](Context* context, const Login& login) {
    return AnswerRegister(context, login.identity.tenant);
  });
  Serve("Unregister", [this](Context* context, const Login& login) {
    return AnswerUnregister(context, login.identity.tenant);
  });
  Serve("Renew", [this](Context* context, const Login& login) {
    return AnswerRenew(context, login.identity.tenant);
  });
  Serve("Status", [this](Context* context, const Login& login) {
    return AnswerStatus(context, login.identity.tenant);
  });
}

RequestReactor* RegionsService::AnswerRegister(Context* context, const Tenant& tenant) {
  using Response = absl::StatusOr<v1::RegisterRegionResponse>;
  return HandleUnary<v1::RegisterRegionRequest>(
      watch_, context,
      [this, context, tenant](const v1::RegisterRegionRequest& message) -> Response {
        if (absl::Status s = CheckSharesMemory(PeerOf(*context)); !s.ok()) return s;
        const absl::StatusOr<RegionTable::Registered> registered =
            gemmd::Register(message, tenant, table_);
        if (!registered.ok()) return registered.status();
        v1::RegisterRegionResponse answer;
        answer.set_region(registered->id);
        EncodeLease(registered->lease, answer.mutable_lease());
        return answer;
      });
}

RequestReactor* RegionsService::AnswerUnregister(Context* context, const Tenant& tenant) {
  using Response = absl::StatusOr<v1::UnregisterRegionResponse>;
  return HandleUnary<v1::UnregisterRegionRequest>(
      watch_, context,
      [this, context, tenant](const v1::UnregisterRegionRequest& message) -> Response {
        if (absl::Status s = CheckSharesMemory(PeerOf(*context)); !s.ok()) return s;
        if (absl::Status s = table_->Unregister(message.region(), tenant); !s.ok()) return s;
        return v1::UnregisterRegionResponse();
      });
}

RequestReactor* RegionsService::AnswerRenew(Context* context, const Tenant& tenant) {
  using Response = absl::StatusOr<v1::RenewRegionResponse>;
  return HandleUnary<v1::RenewRegionRequest>(
      watch_, context, [this, context, tenant](const v1::RenewRegionRequest& message) -> Response {
        if (absl::Status s = CheckSharesMemory(PeerOf(*context)); !s.ok()) return s;
        const absl::StatusOr<std::optional<TimeNs>> asked =
            DecodeLease(message.has_lease(), message.lease());
        if (!asked.ok()) return asked.status();
        const absl::StatusOr<TimeNs> lease = table_->Renew(message.region(), *asked, tenant);
        if (!lease.ok()) return lease.status();
        v1::RenewRegionResponse answer;
        EncodeLease(*lease, answer.mutable_lease());
        return answer;
      });
}

RequestReactor* RegionsService::AnswerStatus(Context* context, const Tenant& tenant) {
  using Response = absl::StatusOr<v1::RegionStatusResponse>;
  return HandleUnary<v1::RegionStatusRequest>(
      watch_, context, [this, context, tenant](const v1::RegionStatusRequest& message) -> Response {
        if (absl::Status s = CheckSharesMemory(PeerOf(*context)); !s.ok()) return s;
        if (message.region().empty()) {
          return absl::InvalidArgumentError(
              "region is empty; it must be an id that Register gave: nobody is told of the regions "
              "of others");
        }
        const absl::StatusOr<RegionInfo> info = table_->Get(message.region(), tenant);
        if (!info.ok()) return info.status();
        v1::RegionStatusResponse answer;
        v1::RegionStatus* wire = answer.add_regions();
        wire->set_name(info->name);
        wire->set_offset_bytes(info->offset);
        wire->set_size_bytes(info->bytes);
        EncodeLease(info->lease_remaining, wire->mutable_lease_remaining());
        wire->set_in_place(info->in_place);
        wire->set_in_use(info->in_use);
        return answer;
      });
}

}  // namespace gemmd
