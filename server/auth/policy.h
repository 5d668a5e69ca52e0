// Who may do what: the policy file as a value.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "digest/sha256.h"
#include "server/auth/identity.h"
#include "server/tenants/quota.h"

namespace gemmd {

// Immutable, so that many threads may ask.
class Policy {
 public:
  // Everybody has every role. A client with a certificate is its own tenant.
  static Policy Open();
  // Of a text as policy.proto has it. INVALID_ARGUMENT names the line, or the entry, its field, its
  // value and what is accepted; never a digest.
  static absl::StatusOr<Policy> Parse(const std::string& text);

  // Who they are.
  // UNAUTHENTICATED: a token that is not, or no longer, in the policy; or nothing where something
  // must be shown. PERMISSION_DENIED: a tenant that is not theirs. INVALID_ARGUMENT: a tenant's
  // name that is none.
  absl::StatusOr<Identity> Identify(const CallerCredentials& credentials, absl::Time now) const;

  // A tenant by the name that a token or a certificate gives, with its quota. Empty: callers who
  // prove nothing, without one where none may call. REQUIRES: !is_open().
  Tenant TenantOf(const std::string& name) const;

  // Whether it gives every role to everybody.
  bool is_open() const { return is_open_; }

 private:
  struct Grant {
    std::string tenant;
    Roles roles;
  };
  struct Token {
    std::string name;
    Grant grant;
    absl::Time expires = absl::InfiniteFuture();
  };
  enum class Subject { kSpiffeId, kCommonName, kAlternativeName };
  struct Rule {
    Subject subject = Subject::kSpiffeId;
    std::string pattern;  // without its "*"
    bool is_prefix = false;
    Grant grant;
  };

  absl::StatusOr<Identity> IdentifyToken(const CallerCredentials& credentials,
                                         absl::Time now) const;
  // The tenant of a caller who is known, with its quota.
  Tenant WithQuota(const Tenant& tenant) const;
  static std::optional<std::string> Match(const Rule& rule, const CallerCredentials& credentials);

  bool is_open_ = false;
  std::optional<Roles> anonymous_;
  // A digest tells nothing of a token that has its first bits, so how long a search takes is no
  // secret.
  std::map<Sha256Digest, Token> tokens_;
  std::vector<Rule> rules_;
  // By Tenant::key(), each with its account; an open policy has none.
  std::map<std::string, std::shared_ptr<const Quota>> quotas_;
  Quota other_quota_;  // of tenants that are not there, each with an account of its own
  std::shared_ptr<const Quota> anonymous_quota_;
};

}  // namespace gemmd
