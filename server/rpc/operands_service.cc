#include "server/rpc/operands_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/download_reactor.h"
#include "server/rpc/operands_codec.h"
#include "server/rpc/tenant.h"
#include "server/rpc/unary.h"
#include "server/rpc/upload_reactor.h"

namespace gemmd {
namespace {

constexpr int kMaxDigests = 1000;
constexpr std::uint32_t kMaxPage = 1000;
constexpr std::uint32_t kDefaultPage = 100;

// Answers with handler(tenant, request).
template <typename Request, typename Handler>
grpc::ServerUnaryReactor* Handle(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* bytes, grpc::ByteBuffer* answer,
                                 const Handler& handler) {
  using Response = decltype(handler(Tenant(), Request()));
  return HandleUnary<Request>(context, bytes, answer, [&](const Request& request) -> Response {
    const absl::StatusOr<Tenant> tenant = TenantOf(*context);
    if (!tenant.ok()) return tenant.status();
    return handler(*tenant, request);
  });
}

absl::StatusOr<v1::FindMissingResponse> FindMissingOf(OperandStore* store, const Tenant& tenant,
                                                      const v1::FindMissingRequest& request) {
  if (request.digests_size() < 1 || request.digests_size() > kMaxDigests) {
    return absl::InvalidArgumentError(absl::StrCat("digests has ", request.digests_size(),
                                                   " entries; it must have 1 to ", kMaxDigests));
  }
  v1::FindMissingResponse response;
  for (int i = 0; i < request.digests_size(); ++i) {
    const std::string& digest = request.digests(i);
    const absl::StatusOr<Sha256Digest> checked =
        DecodeDigest(absl::StrCat("digests[", i, "]"), digest);
    if (!checked.ok()) return checked.status();
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

absl::StatusOr<v1::ListResponse> ListOf(OperandStore* store, const Tenant& tenant,
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
  for (const StoredInfo& info : infos) *response.add_residents() = EncodeInfo(info);
  response.set_next_page_token(EncodePageToken(next));
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

}  // namespace

grpc::ServerUnaryReactor* OperandsService::FindMissing(Context* context, const Bytes* request,
                                                       Bytes* response) {
  return Handle<v1::FindMissingRequest>(
      context, request, response,
      [this](const Tenant& tenant, const v1::FindMissingRequest& message) {
        return FindMissingOf(store_, tenant, message);
      });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* OperandsService::Upload(Context* context,
                                                                   Bytes* response) {
  return new UploadReactor(store_, router_, limits_, context, response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* OperandsService::Download(Context* context,
                                                                      const Bytes* request) {
  return new DownloadReactor(store_, chunk_bytes_, context, request);
}

grpc::ServerUnaryReactor* OperandsService::Get(Context* context, const Bytes* request,
                                               Bytes* response) {
  return Handle<v1::GetRequest>(
      context, request, response,
      [this](const Tenant& tenant,
             const v1::GetRequest& message) -> absl::StatusOr<v1::GetResponse> {
        const absl::StatusOr<OperandKey> key = DecodeKey(message);
        if (!key.ok()) return key.status();
        const absl::StatusOr<StoredInfo> info = store_->Get(tenant, *key);
        if (!info.ok()) return info.status();
        v1::GetResponse found;
        *found.mutable_resident() = EncodeInfo(*info);
        return found;
      });
}

grpc::ServerUnaryReactor* OperandsService::List(Context* context, const Bytes* request,
                                                Bytes* response) {
  return Handle<v1::ListRequest>(context, request, response,
                                 [this](const Tenant& tenant, const v1::ListRequest& message) {
                                   return ListOf(store_, tenant, message);
                                 });
}

grpc::ServerUnaryReactor* OperandsService::Release(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Handle<v1::ReleaseRequest>(
      context, request, response,
      [this](const Tenant& tenant,
             const v1::ReleaseRequest& message) -> absl::StatusOr<v1::ReleaseResponse> {
        const absl::StatusOr<OperandKey> key = DecodeKey(message);
        if (!key.ok()) return key.status();
        if (absl::Status status = store_->Release(tenant, *key); !status.ok()) return status;
        return v1::ReleaseResponse();
      });
}

grpc::ServerUnaryReactor* OperandsService::Renew(Context* context, const Bytes* request,
                                                 Bytes* response) {
  return Handle<v1::RenewRequest>(context, request, response,
                                  [this](const Tenant& tenant, const v1::RenewRequest& message) {
                                    return RenewOf(store_, tenant, message);
                                  });
}

}  // namespace gemmd
