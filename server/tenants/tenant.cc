#include "server/tenants/tenant.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

constexpr std::size_t kMaxName = 64;
// No name that a client may give itself has a colon.
constexpr absl::string_view kProven = "auth:";

bool IsAllowed(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

absl::StatusOr<Tenant> Tenant::Named(absl::string_view name) {
  if (name.size() > kMaxName) {
    return absl::InvalidArgumentError(
        absl::StrCat("gemmd-tenant has ", name.size(), " characters; it may have ", kMaxName));
  }
  if (!std::all_of(name.begin(), name.end(), IsAllowed)) {
    return absl::InvalidArgumentError(
        "gemmd-tenant has a character that is none of A-Z a-z 0-9 . _ -");
  }
  return Tenant(std::string(name));
}

Tenant Tenant::Authenticated(absl::string_view identity) {
  return Tenant(absl::StrCat(kProven, identity));
}

bool Tenant::is_proven() const { return absl::StartsWith(key_, kProven); }

}  // namespace gemmd
