// The authorization policy: the policy file as a value.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/digest/sha256.h"
#include "server/auth/identity.h"
#include "server/auth/jwt.h"
#include "server/tenants/quota.h"

namespace gemmd {

// Immutable, so that many threads may ask.
class Policy {
 public:
  // Everybody has every role. A client with a certificate is its own tenant.
  static Policy Open();
  // The bytes of a file that a policy names, or what is wrong with it.
  using ReadFile = std::function<absl::StatusOr<std::string>(const std::string& path)>;
  // Parses a policy, a text as policy.proto has it. INVALID_ARGUMENT names the line, or the entry,
  // its field, its value and what is accepted; never a digest. If `read` is null, no file is to be
  // had.
  static absl::StatusOr<Policy> Parse(const std::string& text, const ReadFile& read = nullptr);

  // Identifies the caller.
  // UNAUTHENTICATED: a token that is not, or no longer, in the policy; or nothing where something
  // must be shown. PERMISSION_DENIED: a tenant that is not theirs. INVALID_ARGUMENT: a tenant's
  // name that is none.
  absl::StatusOr<Identity> Identify(const CallerCredentials& credentials, absl::Time now) const;

  // A tenant by the name that a token or a certificate gives, with its quota. Empty: callers who
  // prove nothing, without one where none may call. REQUIRES: !is_open().
  Tenant TenantOf(const std::string& name) const;

  // The names of tokens that have ended, which nobody can call by.
  std::vector<std::string> ExpiredTokens(absl::Time now) const;

  // Returns whether it gives every role to everybody.
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
  struct Pattern {
    std::string text;  // without its "*"
    bool is_prefix = false;

    static Pattern Of(absl::string_view text);
    // An empty name fits nothing, not even "*".
    bool Fits(const std::string& name) const;
  };
  enum class Subject { kSpiffeId, kCommonName, kAlternativeName };
  struct Rule {
    Subject subject = Subject::kSpiffeId;
    Pattern pattern;
    Grant grant;
  };
  struct SubjectRule {
    Pattern subject;
    Grant grant;
  };
  struct JwtIssuer {
    std::string audience;
    JsonWebKeys keys;
    std::vector<SubjectRule> rules;
  };

  absl::StatusOr<Identity> IdentifyToken(const CallerCredentials& credentials,
                                         absl::Time now) const;
  absl::StatusOr<Identity> IdentifyJwt(const CallerCredentials& credentials, absl::Time now) const;
  template <typename Entry>
  absl::Status AddIssuer(const std::string& entry, const Entry& wire, const ReadFile& read);
  // The tenant of a caller who is known, with its quota.
  Tenant WithQuota(const Tenant& tenant) const;
  static std::optional<std::string> Match(const Rule& rule, const CallerCredentials& credentials);

  bool is_open_ = false;
  std::optional<Roles> anonymous_;
  // A digest tells nothing of a token that has its first bits, so how long a search takes is no
  // secret.
  std::map<Sha256Digest, Token> tokens_;
  std::map<std::string, JwtIssuer> issuers_;  // by their iss
  std::vector<Rule> rules_;
  // Keyed by Tenant::key(), each with its account; an open policy has none.
  std::map<std::string, std::shared_ptr<const Quota>> quotas_;
  Quota other_quota_;  // of tenants that are not there, each with an account of its own
  std::shared_ptr<const Quota> anonymous_quota_;
};

}  // namespace gemmd
