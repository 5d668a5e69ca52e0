#include "server/rpc/calls/authorizer.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/calls/peer.h"

namespace gemmd {
namespace {

absl::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

// A header's value; empty if it is not there.
absl::StatusOr<absl::string_view> HeaderOf(const grpc::ServerContextBase& context,
                                           const char* name) {
  const auto [begin, end] = context.client_metadata().equal_range(name);
  absl::string_view value;
  for (auto each = begin; each != end; ++each) {
    if (each != begin && View(each->second) != value) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is given twice, with different values"));
    }
    value = View(each->second);
  }
  return value;
}

void ReadCertificate(const grpc::AuthContext& auth, CallerCredentials* credentials) {
  const auto first = [&auth](const char* property) {
    const std::vector<grpc::string_ref> values = auth.FindPropertyValues(property);
    return values.empty() ? std::string() : std::string(View(values.front()));
  };
  credentials->has_certificate = true;
  credentials->common_name = first(GRPC_X509_CN_PROPERTY_NAME);
  credentials->spiffe_id = first(GRPC_PEER_SPIFFE_ID_PROPERTY_NAME);
  for (const grpc::string_ref& name : auth.FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME)) {
    credentials->alternative_names.emplace_back(View(name));
  }
}

absl::Status CheckRoles(const Identity& identity, const MethodRoles& method) {
  if (identity.roles.HasAnyOf(method.any_of)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(method.method, " asks for the role ", ToString(method.any_of), "; the caller, ",
                   identity.name, ", has ", ToString(identity.roles)));
}

}  // namespace

absl::StatusOr<CallerCredentials> CredentialsOf(const grpc::ServerContextBase& context) {
  CallerCredentials credentials;
  const absl::StatusOr<absl::string_view> tenant = HeaderOf(context, "gemmd-tenant");
  if (!tenant.ok()) return tenant.status();
  credentials.tenant = std::string(*tenant);
  const absl::StatusOr<absl::string_view> authorization = HeaderOf(context, "authorization");
  if (!authorization.ok()) return authorization.status();
  if (!authorization->empty()) {
    // RFC 6750; the scheme's name has no case (RFC 9110, 11.1).
    constexpr absl::string_view kScheme = "bearer ";
    if (!absl::StartsWithIgnoreCase(*authorization, kScheme) ||
        authorization->size() == kScheme.size()) {
      return absl::InvalidArgumentError("authorization is not of the form \"Bearer TOKEN\"");
    }
    credentials.token = std::string(authorization->substr(kScheme.size()));
  }
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth != nullptr && auth->IsPeerAuthenticated()) ReadCertificate(*auth, &credentials);
  return credentials;
}

absl::StatusOr<Login> Authorizer::Admit(const grpc::ServerContextBase& context,
                                        const MethodRoles& method) const {
  Login login;
  login.method = &method;
  if (method.any_of.empty()) return login;
  login.peer = PeerOf(context);
  const std::string& peer = login.peer;
  absl::StatusOr<CallerCredentials> credentials = CredentialsOf(context);
  if (!credentials.ok()) {
    audit_->Refused({method.method, peer, "", ""}, credentials.status());
    return credentials.status();
  }
  login.credentials = *std::move(credentials);
  login.credentials.token_may_be_read =
      !options_.is_encrypted && !options_.plaintext_tokens && !IsLocalPeer(peer);
  login.policy = policy_->policy();
  absl::StatusOr<Identity> identity = login.policy->Identify(login.credentials, now_());
  if (!identity.ok()) {
    audit_->Refused({method.method, peer, "", login.credentials.tenant}, identity.status());
    return identity.status();
  }
  login.identity = *std::move(identity);
  Tenant& tenant = login.identity.tenant;
  tenant = tenant.At(AddressOf(peer));
  if (tenant.quota() != nullptr) tenant = tenant.From({peer, method.method});
  if (absl::Status s = CheckRoles(login.identity, method); !s.ok()) {
    audit_->Refused({method.method, peer, login.identity.name, login.identity.tenant.key()}, s);
    return s;
  }
  if (options_.count_connection != nullptr) {
    absl::Status s = options_.count_connection(tenant, peer);
    if (!s.ok()) return s;  // which the quotas log
  }
  if (method.is_audited && !login.policy->is_open()) {
    audit_->Served({method.method, peer, login.identity.name, login.identity.tenant.key()});
  }
  return login;
}

absl::Status Authorizer::Check(Login* login) const {
  std::shared_ptr<const Policy> policy = policy_->policy();
  if (policy == login->policy && now_() < login->identity.expires) return absl::OkStatus();
  absl::Status status = AskAgain(login, std::move(policy));
  if (!status.ok()) {
    audit_->Refused(
        {login->method->method, login->peer, login->identity.name, login->identity.tenant.key()},
        status);
  }
  return status;
}

absl::Status Authorizer::AskAgain(Login* login, std::shared_ptr<const Policy> policy) const {
  absl::StatusOr<Identity> identity = policy->Identify(login->credentials, now_());
  if (!identity.ok()) return identity.status();
  if (absl::Status s = CheckRoles(*identity, *login->method); !s.ok()) return s;
  if (identity->tenant != login->identity.tenant) {
    return absl::UnauthenticatedError(
        "the server knows the caller as another tenant by now: begin a new call");
  }
  login->policy = std::move(policy);
  login->identity = *std::move(identity);
  Tenant& tenant = login->identity.tenant;
  tenant = tenant.At(AddressOf(login->peer));
  if (tenant.quota() != nullptr) tenant = tenant.From({login->peer, login->method->method});
  return absl::OkStatus();
}

}  // namespace gemmd
