#include "server/rpc/services/operands_service.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/operand_name.h"
#include "server/rpc/codec/operands_codec.h"
#include "server/rpc/reactors/download_reactor.h"
#include "server/rpc/reactors/upload_reactor.h"
#include "server/rpc/services/unary.h"

namespace gemmd {
namespace {

constexpr int kMaxDigests = 1000;
constexpr std::uint32_t kMaxPage = 1000;
constexpr std::uint32_t kDefaultPage = 100;
constexpr std::size_t kMaxPageBytes = 1 << 20;  // a page ends with what goes over it

absl::StatusOr<v1::FindMissingResponse> FindMissingOf(OperandStore* store, const Tenant& tenant,
                                                      const v1::FindMissingRequest& request) {
  if (request.digests_size() < 1 || request.digests_size() > kMaxDigests) {
    return absl::InvalidArgumentError(absl::StrCat("digests has ", request.digests_size(),
                                                   " entries; it must have 1 to ", kMaxDigests));
  }
  // A digest that is repeated would have its ranges repeated too.
  std::map<absl::string_view, int> named;
  v1::FindMissingResponse response;
  for (int i = 0; i < request.digests_size(); ++i) {
    const std::string& digest = request.digests(i);
    const absl::StatusOr<Sha256Digest> checked =
        DecodeDigest(absl::StrCat("digests[", i, "]"), digest);
    if (!checked.ok()) return checked.status();
    if (const auto [first, is_new] = named.emplace(digest, i); !is_new) {
      return absl::InvalidArgumentError(absl::StrCat("digests[", i, "] is digests[", first->second,
                                                     "] again; each may be named once"));
    }
    const auto missing = store->FindMissing(tenant, digest);
    if (!missing.has_value()) continue;
    response.add_missing(digest);
    if (missing->empty()) continue;
    v1::PartialUpload* partial = response.add_partial();
    partial->set_digest(digest);
    for (const MissingRange& range : *missing) *partial->add_missing() = EncodeRange(range);
  }
  return response;
}

// The residents of the tenant; of all, with whose each is, without one.
absl::StatusOr<v1::ListResponse> ListOf(OperandStore* store, const std::optional<Tenant>& tenant,
                                        const v1::ListRequest& request) {
  if (request.page_size() > kMaxPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", request.page_size(), "; it must be 0 to ", kMaxPage));
  }
  const absl::StatusOr<std::uint64_t> after = DecodePageToken(request.page_token());
  if (!after.ok()) return after.status();
  const auto [infos, next] =
      store->List(tenant, *after, request.page_size() == 0 ? kDefaultPage : request.page_size());
  v1::ListResponse response;
  std::uint64_t last = next;
  std::size_t bytes = 0;
  for (const StoredInfo& info : infos) {
    v1::ResidentOperand& resident = *response.add_residents();
    resident = EncodeInfo(info);
    if (!tenant.has_value()) resident.set_tenant(info.tenant.key());
    bytes += resident.ByteSizeLong();
    if (bytes <= kMaxPageBytes) continue;
    if (&info != &infos.back()) last = info.number;
    break;
  }
  response.set_next_page_token(EncodePageToken(last));
  return response;
}

absl::StatusOr<v1::ListResponse> ListAllOf(OperandStore* store, const Tenant& /*caller*/,
                                           const v1::ListRequest& request) {
  return ListOf(store, std::nullopt, request);
}

absl::StatusOr<v1::SetNameResponse> SetNameOf(OperandStore* store, const Tenant& tenant,
                                              const v1::SetNameRequest& request) {
  const absl::StatusOr<OperandKey> key = DecodeKey(request);
  if (!key.ok()) return key.status();
  absl::Status status = CheckOperandName("new_name", request.new_name());
  if (!status.ok()) return status;
  const absl::StatusOr<OperandStore::Named> named =
      store->SetName(tenant, *key, request.new_name(), request.replace());
  if (!named.ok()) return named.status();
  v1::SetNameResponse response;
  *response.mutable_resident() = EncodeInfo(named->info);
  response.set_replaced_handle(named->replaced_handle);
  return response;
}

absl::StatusOr<v1::RenewResponse> RenewOf(OperandStore* store, const Tenant& tenant,
                                          const v1::RenewRequest& request) {
  const absl::StatusOr<OperandKey> key = DecodeKey(request);
  if (!key.ok()) return key.status();
  std::optional<TimeNs> lease;
  if (request.has_lease()) {
    const absl::StatusOr<TimeNs> decoded = DecodeDuration("lease", request.lease());
    if (!decoded.ok()) return decoded.status();
    lease = *decoded;
  }
  const absl::StatusOr<TimeNs> remaining = store->Renew(tenant, *key, lease);
  if (!remaining.ok()) return remaining.status();
  v1::RenewResponse response;
  EncodeDuration(*remaining, response.mutable_lease_remaining());
  return response;
}

absl::StatusOr<v1::GetResponse> GetOf(OperandStore* store, const Tenant& tenant,
                                      const v1::GetRequest& request) {
  const absl::StatusOr<OperandKey> key = DecodeKey(request);
  if (!key.ok()) return key.status();
  const absl::StatusOr<StoredInfo> info = store->Get(tenant, *key);
  if (!info.ok()) return info.status();
  v1::GetResponse found;
  *found.mutable_resident() = EncodeInfo(*info);
  return found;
}

absl::StatusOr<v1::ReleaseResponse> ReleaseOf(OperandStore* store, const Tenant& tenant,
                                              const v1::ReleaseRequest& request) {
  const absl::StatusOr<OperandKey> key = DecodeKey(request);
  if (!key.ok()) return key.status();
  if (absl::Status status = store->Release(tenant, *key); !status.ok()) return status;
  return v1::ReleaseResponse();
}

}  // namespace

OperandsService::OperandsService(OperandStore* store, const Router* router, const Door& door,
                                 const RequestLimits& limits, std::uint64_t chunk_bytes)
    : RawService(door),
      store_(store),
      router_(router),
      watch_(door.watch),
      limits_(limits),
      chunk_bytes_(chunk_bytes) {
  ServeUnary<v1::FindMissingRequest>("FindMissing", FindMissingOf);
  ServeUnary<v1::GetRequest>("Get", GetOf);
  ServeUnary<v1::ListRequest>("List", ListOf);
  ServeUnary<v1::ListRequest>("ListAll", ListAllOf);
  ServeUnary<v1::SetNameRequest>("SetName", SetNameOf);
  ServeUnary<v1::ReleaseRequest>("Release", ReleaseOf);
  ServeUnary<v1::RenewRequest>("Renew", RenewOf);
  Serve("Upload", [this](Context* context, const Login& login) {
    return new UploadReactor(store_, router_, watch_, limits_, &active_uploads_,
                             login.identity.tenant, context);
  });
  Serve("Download", [this](Context* context, const Login& login) {
    return new DownloadReactor(store_, watch_, chunk_bytes_, &active_downloads_,
                               login.identity.tenant, context);
  });
}

template <typename Request, typename Function>
void OperandsService::ServeUnary(const char* method, Function function) {
  Serve(method, [this, function](Context* context, const Login& login) {
    return HandleUnary<Request>(
        watch_, context, [this, function, tenant = login.identity.tenant](const Request& request) {
          return function(store_, tenant, request);
        });
  });
}

}  // namespace gemmd
