#include "server/observe_http/page_access.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/address.h"
#include "server/auth/policy.h"
#include "server/auth/roles.h"

namespace gemmd {
namespace {

constexpr Roles kWatchers = {Role::kObserver, Role::kOperator};

bool IsOfThisHost(absl::string_view endpoint) {
  return endpoint == "unix" || IsLocalAddress(endpoint);
}

// RFC 6750; the scheme's name has no case (RFC 9110, 11.1).
absl::StatusOr<CallerCredentials> CredentialsOf(const HttpRequest& request) {
  CallerCredentials credentials = request.certificate;
  if (request.authorization.empty()) return credentials;
  const std::string& value = request.authorization.front();
  for (const std::string& each : request.authorization) {
    if (each == value) continue;
    return absl::InvalidArgumentError("Authorization is given twice, with different values");
  }
  constexpr absl::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase(value, kScheme) || value.size() == kScheme.size()) {
    return absl::InvalidArgumentError("Authorization is not of the form \"Bearer TOKEN\"");
  }
  credentials.token = value.substr(kScheme.size());
  return credentials;
}

}  // namespace

absl::Status PageAccess::Check(const HttpRequest& request) const {
  absl::StatusOr<CallerCredentials> credentials = CredentialsOf(request);
  if (!credentials.ok()) {
    audit_->Refused({request.path, request.peer, "", ""}, credentials.status());
    return credentials.status();
  }
  credentials->token_may_be_read =
      !options_.is_encrypted && !options_.plaintext_tokens && !IsOfThisHost(request.peer);
  const absl::StatusOr<Identity> identity = policy_->policy()->Identify(*credentials, now_());
  if (!identity.ok()) {
    audit_->Refused({request.path, request.peer, "", ""}, identity.status());
    return identity.status();
  }
  if (identity->roles.HasAnyOf(kWatchers)) return absl::OkStatus();
  absl::Status refusal = absl::PermissionDeniedError(
      absl::StrCat(request.path, " asks for the role ", ToString(kWatchers), "; the caller, ",
                   identity->name, ", has ", ToString(identity->roles)));
  audit_->Refused({request.path, request.peer, identity->name, identity->tenant.key()}, refusal);
  return refusal;
}

}  // namespace gemmd
