#include "server/rpc/tenant.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/peer.h"
#include "text/quoted.h"

namespace gemmd {
namespace {

constexpr char kTenantKey[] = "gemmd-tenant";

absl::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<Tenant> TenantOf(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range(kTenantKey);
  absl::string_view name;
  for (auto each = begin; each != end; ++each) {
    if (each != begin && View(each->second) != name) {
      return absl::InvalidArgumentError("gemmd-tenant is given twice, with different names");
    }
    name = View(each->second);
  }
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth != nullptr && auth->IsPeerAuthenticated()) {
    const std::vector<grpc::string_ref> identity = auth->GetPeerIdentity();
    const absl::string_view peer = identity.empty() ? absl::string_view() : View(identity.front());
    if (!name.empty() && name != peer) {
      return absl::PermissionDeniedError(absl::StrCat("gemmd-tenant is ", Quoted(name),
                                                      "; the client's certificate says otherwise"));
    }
    return Tenant::Authenticated(peer);
  }
  return Tenant::Named(name);
}

Caller CallerOf(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  return {std::hash<std::string>()(peer), AddressOf(peer)};
}

}  // namespace gemmd
