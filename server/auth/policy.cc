#include "server/auth/policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text/quoted.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "server/auth/policy.pb.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr char kClaimed[] = "*";      // the tenant is what the caller says
constexpr char kMatched[] = "$name";  // the tenant is what the rule matched

// The first error of a text. The parser quotes what it does not understand, which may be a digest
// or a token in the wrong place: so only where it is, but for a role, which is a short word.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    text_ = StrCat("line ", line + 1, ", column ", column + 1);
    constexpr std::size_t kMostBytes = 80;
    if (absl::StartsWith(message, "Unknown enumeration value") && message.size() < kMostBytes) {
      absl::StrAppend(&text_, ": ", absl::StripSuffix(message, "."),
                      "; it is one of USER, OBSERVER and OPERATOR");
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::StatusOr<Sha256Digest> DigestOf(const std::string& entry, const std::string& text) {
  Sha256Digest digest{};
  if (text.size() != 2 * digest.size()) {
    return InvalidArgumentError(StrCat(entry, ".sha256 has ", text.size(),
                                       " characters; it must be ", 2 * digest.size(),
                                       " hexadecimal digits"));
  }
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const int high = HexValue(text[2 * i]);
    const int low = HexValue(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return InvalidArgumentError(
          StrCat(entry, ".sha256 has a character that is no hexadecimal digit"));
    }
    digest[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return digest;
}

Role RoleOf(auth::Role role) {
  switch (role) {
    case auth::OBSERVER:
      return Role::kObserver;
    case auth::OPERATOR:
      return Role::kOperator;
    default:
      return Role::kUser;
  }
}

template <typename Entry>
absl::StatusOr<Roles> RolesOfEntry(const std::string& entry, const Entry& message) {
  Roles roles;
  for (const int role : message.role()) roles.Add(RoleOf(static_cast<auth::Role>(role)));
  if (!roles.empty()) return roles;
  return InvalidArgumentError(
      StrCat(entry, " has no role; each entry has one of USER, OBSERVER and OPERATOR, or several"));
}

absl::Status CheckTenant(const std::string& entry, const std::string& tenant, bool may_be_matched) {
  if (tenant == kClaimed || (may_be_matched && tenant == kMatched)) return absl::OkStatus();
  if (!tenant.empty() && Tenant::Named(tenant).ok()) return absl::OkStatus();
  return InvalidArgumentError(StrCat(entry, ".tenant is ", Quoted(tenant),
                                     "; it must be up to 64 of A-Z a-z 0-9 . _ -, or \"*\"",
                                     may_be_matched ? ", or \"$name\"" : ""));
}

// A quota without its account.
absl::StatusOr<Quota> QuotaOf(const std::string& entry, const auth::Quota& wire) {
  Quota quota;
  const auto set = [&quota](Quantity quantity, bool is_given, std::uint64_t limit) {
    if (is_given) quota.limits[static_cast<std::size_t>(quantity)] = limit;
  };
  set(Quantity::kRequests, wire.has_requests(), wire.requests());
  set(Quantity::kRequestBytes, wire.has_request_bytes(), wire.request_bytes());
  set(Quantity::kResidentBytes, wire.has_resident_bytes(), wire.resident_bytes());
  set(Quantity::kRegions, wire.has_regions(), wire.regions());
  set(Quantity::kConnections, wire.has_connections(), wire.connections());
  const auto positive = [&entry](const char* field, double value) {
    // The upper bound keeps times and sums of them finite; so does the lower.
    constexpr double kLeast = 1e-3;
    constexpr double kMost = 1e6;
    if (value >= kLeast && value <= kMost) return absl::OkStatus();
    return InvalidArgumentError(
        StrCat(entry, ".", field, " is ", value, "; it must be from 0.001 to 1000000"));
  };
  if (wire.has_device_ms_per_second()) {
    const double ms = wire.device_ms_per_second();
    if (absl::Status s = positive("device_ms_per_second", ms); !s.ok()) return s;
    quota.device_share = ms / 1e3;
  }
  if (wire.has_weight()) {
    if (absl::Status s = positive("weight", wire.weight()); !s.ok()) return s;
    quota.weight = wire.weight();
  }
  if (wire.has_high_priority()) quota.high_priority = wire.high_priority();
  return quota;
}

// Returns the tenant of a caller that the policy grants one.
absl::StatusOr<Tenant> TenantFor(const std::string& granted, const CallerCredentials& credentials) {
  if (granted == kClaimed) {
    if (absl::Status s = Tenant::Named(credentials.tenant).status(); !s.ok()) return s;
    return Tenant::Authenticated(credentials.tenant);
  }
  if (!credentials.tenant.empty() && credentials.tenant != granted) {
    return absl::PermissionDeniedError(StrCat("gemmd-tenant is ", Quoted(credentials.tenant),
                                              ", and the caller is known as ", Quoted(granted)));
  }
  return Tenant::Authenticated(granted);
}

// The name of a certificate that no rule names: the field that says most of it.
std::string OwnName(const CallerCredentials& credentials) {
  if (!credentials.spiffe_id.empty()) return credentials.spiffe_id;
  if (!credentials.common_name.empty()) return credentials.common_name;
  return credentials.alternative_names.empty() ? "" : credentials.alternative_names.front();
}

}  // namespace

Policy Policy::Open() {
  Policy policy;
  policy.is_open_ = true;
  policy.anonymous_ = Roles::All();
  return policy;
}

absl::StatusOr<Policy> Policy::Parse(const std::string& text, const ReadFile& read) {
  auth::PolicyFile file;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &file)) {
    return InvalidArgumentError(StrCat(
        error.text(), ": the text is no PolicyFile as server/auth/policy.proto describes it"));
  }
  // A file looks so for a moment while an editor writes it anew.
  if (!file.has_anonymous() && file.token().empty() && file.certificate().empty() &&
      file.jwt().empty()) {
    return InvalidArgumentError("it has no entry, so that nobody could call");
  }
  Policy policy;
  if (file.has_anonymous()) {
    const absl::StatusOr<Roles> roles = RolesOfEntry("anonymous", file.anonymous());
    if (!roles.ok()) return roles.status();
    policy.anonymous_ = *roles;
    const auth::Quota& wire = file.anonymous().quota();
    absl::StatusOr<Quota> quota = QuotaOf("anonymous.quota", wire);
    if (!quota.ok()) return quota.status();
    if (wire.has_tenant() || wire.has_weight()) {
      return InvalidArgumentError(
          StrCat("anonymous.quota.", wire.has_tenant() ? "tenant" : "weight",
                 " is set: the quota is that of all callers who prove nothing, whatever they call "
                 "themselves"));
    }
    // No tenant that is known has this key.
    quota->account = "nobody";
    policy.anonymous_quota_ = std::make_shared<const Quota>(*std::move(quota));
  }
  for (int i = 0; i < file.quota_size(); ++i) {
    const auth::Quota& wire = file.quota(i);
    const std::string entry = StrCat("quota[", i, "]");
    if (wire.tenant().empty()) {
      return InvalidArgumentError(
          StrCat(entry, ".tenant is empty; it must be a tenant's name or \"*\""));
    }
    absl::StatusOr<Quota> quota = QuotaOf(entry, wire);
    if (!quota.ok()) return quota.status();
    const std::string key = Tenant::Authenticated(wire.tenant()).key();
    quota->account = key;
    if (wire.tenant() == kClaimed) policy.other_quota_ = *quota;
    if (!policy.quotas_.emplace(key, std::make_shared<const Quota>(*std::move(quota))).second) {
      return InvalidArgumentError(
          StrCat(entry, ".tenant is ", Quoted(wire.tenant()), ", which has a quota above it"));
    }
  }
  std::set<std::string> names;
  for (int i = 0; i < file.token_size(); ++i) {
    const auth::Token& wire = file.token(i);
    const std::string entry = StrCat("token[", i, "]");
    if (wire.name().empty() || !names.insert(wire.name()).second) {
      return InvalidArgumentError(StrCat(entry, ".name is ", Quoted(wire.name()),
                                         "; each token has a name of its own, for the log"));
    }
    const absl::StatusOr<Sha256Digest> digest = DigestOf(entry, wire.sha256());
    if (!digest.ok()) return digest.status();
    if (absl::Status s = CheckTenant(entry, wire.tenant(), false); !s.ok()) return s;
    const absl::StatusOr<Roles> roles = RolesOfEntry(entry, wire);
    if (!roles.ok()) return roles.status();
    Token token{wire.name(), {wire.tenant(), *roles}};
    std::string why;
    if (wire.has_expires() &&
        !absl::ParseTime(absl::RFC3339_full, wire.expires(), &token.expires, &why)) {
      return InvalidArgumentError(StrCat(entry, ".expires is ", Quoted(wire.expires()),
                                         "; it must be a time like 2027-01-01T00:00:00Z"));
    }
    if (!policy.tokens_.emplace(*digest, std::move(token)).second) {
      return InvalidArgumentError(StrCat(entry, ".sha256 is that of another token above it"));
    }
  }
  for (int i = 0; i < file.certificate_size(); ++i) {
    const auth::CertificateRule& wire = file.certificate(i);
    const std::string entry = StrCat("certificate[", i, "]");
    Rule rule;
    std::string pattern;
    switch (wire.subject_case()) {
      case auth::CertificateRule::kSpiffeId:
        rule.subject = Subject::kSpiffeId;
        pattern = wire.spiffe_id();
        break;
      case auth::CertificateRule::kCommonName:
        rule.subject = Subject::kCommonName;
        pattern = wire.common_name();
        break;
      case auth::CertificateRule::kAlternativeName:
        rule.subject = Subject::kAlternativeName;
        pattern = wire.alternative_name();
        break;
      default:
        break;
    }
    if (pattern.empty()) {
      return InvalidArgumentError(
          StrCat(entry, " has no subject: one of spiffe_id, common_name and alternative_name"));
    }
    rule.pattern = Pattern::Of(pattern);
    if (absl::Status s = CheckTenant(entry, wire.tenant(), true); !s.ok()) return s;
    const absl::StatusOr<Roles> roles = RolesOfEntry(entry, wire);
    if (!roles.ok()) return roles.status();
    rule.grant = {wire.tenant(), *roles};
    policy.rules_.push_back(std::move(rule));
  }
  for (int i = 0; i < file.jwt_size(); ++i) {
    absl::Status status = policy.AddIssuer(StrCat("jwt[", i, "]"), file.jwt(i), read);
    if (!status.ok()) return status;
  }
  return policy;
}

// Entry is auth::JwtIssuer, which the header does not know.
template <typename Entry>
absl::Status Policy::AddIssuer(const std::string& entry, const Entry& wire, const ReadFile& read) {
  if (wire.issuer().empty() || issuers_.count(wire.issuer()) != 0) {
    return InvalidArgumentError(
        StrCat(entry, ".issuer is ", Quoted(wire.issuer()), "; each entry has one of its own"));
  }
  if (wire.audience().empty()) {
    return InvalidArgumentError(
        StrCat(entry, ".audience is empty: tokens for any server would be taken"));
  }
  if (wire.rule().empty()) return InvalidArgumentError(StrCat(entry, " has no rule"));
  JwtIssuer issuer;
  issuer.audience = wire.audience();
  for (int i = 0; i < wire.rule_size(); ++i) {
    const auth::SubjectRule& rule = wire.rule(i);
    const std::string name = StrCat(entry, ".rule[", i, "]");
    if (rule.subject().empty()) return InvalidArgumentError(StrCat(name, ".subject is empty"));
    if (absl::Status s = CheckTenant(name, rule.tenant(), true); !s.ok()) return s;
    const absl::StatusOr<Roles> roles = RolesOfEntry(name, rule);
    if (!roles.ok()) return roles.status();
    issuer.rules.push_back({Pattern::Of(rule.subject()), {rule.tenant(), *roles}});
  }
  const absl::StatusOr<std::string> text =
      read != nullptr ? read(wire.jwks_file()) : InvalidArgumentError("no files are read here");
  absl::StatusOr<JsonWebKeys> keys = text.ok() ? JsonWebKeys::Parse(*text) : text.status();
  if (!keys.ok()) {
    return InvalidArgumentError(
        StrCat(entry, ".jwks_file is ", Quoted(wire.jwks_file()), ": ", keys.status().message()));
  }
  issuer.keys = *std::move(keys);
  issuers_.emplace(wire.issuer(), std::move(issuer));
  return absl::OkStatus();
}

std::vector<std::string> Policy::ExpiredTokens(absl::Time now) const {
  std::vector<std::string> names;
  for (const auto& [digest, token] : tokens_) {
    if (token.expires <= now) names.push_back(token.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<Identity> Policy::Identify(const CallerCredentials& credentials,
                                          absl::Time now) const {
  // A token that a policy without tokens is shown is not believed either: its owner counts on it.
  if (!credentials.token.empty()) return IdentifyToken(credentials, now);
  if (credentials.has_certificate) {
    for (const Rule& rule : rules_) {
      const std::optional<std::string> matched = Match(rule, credentials);
      if (!matched.has_value()) continue;
      const absl::StatusOr<Tenant> tenant =
          TenantFor(rule.grant.tenant == kMatched ? *matched : rule.grant.tenant, credentials);
      if (!tenant.ok()) return tenant.status();
      return Identity{WithQuota(*tenant), StrCat("certificate ", *matched), rule.grant.roles};
    }
    if (is_open_) {
      const std::string own = OwnName(credentials);
      if (own.empty()) return absl::UnauthenticatedError("the client's certificate has no name");
      const absl::StatusOr<Tenant> tenant = TenantFor(own, credentials);
      if (!tenant.ok()) return tenant.status();
      return Identity{*tenant, StrCat("certificate ", own), Roles::All()};
    }
  }
  if (!anonymous_.has_value()) {
    return absl::UnauthenticatedError(
        credentials.has_certificate
            ? StrCat("no rule of the server's names the certificate of ",
                     Quoted(OwnName(credentials)), ", and the call has no token")
            : "the call has neither a token (authorization: Bearer TOKEN) nor a client "
              "certificate");
  }
  const absl::StatusOr<Tenant> tenant = Tenant::Named(credentials.tenant);
  if (!tenant.ok()) return tenant.status();
  return Identity{tenant->With(anonymous_quota_), "nobody", *anonymous_};
}

absl::StatusOr<Identity> Policy::IdentifyToken(const CallerCredentials& credentials,
                                               absl::Time now) const {
  if (credentials.token_may_be_read) {
    return absl::UnauthenticatedError(
        "the token came in plain text, so others may have read it: use TLS, and have a new one "
        "made (--auth.plaintext-tokens=on takes such tokens)");
  }
  Sha256 hash;
  hash.Update(credentials.token);
  const auto found = tokens_.find(hash.Finish());
  if (found == tokens_.end()) {
    if (!issuers_.empty() && JsonWebToken::IsLike(credentials.token)) {
      return IdentifyJwt(credentials, now);
    }
    return absl::UnauthenticatedError("the token is none that the server knows");
  }
  const Token& token = found->second;
  if (now >= token.expires) {
    return absl::UnauthenticatedError(
        StrCat("the token ended at ",
               absl::FormatTime(absl::RFC3339_sec, token.expires, absl::UTCTimeZone())));
  }
  const absl::StatusOr<Tenant> tenant = TenantFor(token.grant.tenant, credentials);
  if (!tenant.ok()) return tenant.status();
  return Identity{WithQuota(*tenant), StrCat("token ", token.name), token.grant.roles,
                  token.expires};
}

absl::StatusOr<Identity> Policy::IdentifyJwt(const CallerCredentials& credentials,
                                             absl::Time now) const {
  const absl::StatusOr<JsonWebToken> token = JsonWebToken::Parse(credentials.token);
  if (!token.ok()) return token.status();
  const auto found = issuers_.find(token->issuer());
  if (found == issuers_.end()) {
    return absl::UnauthenticatedError(
        StrCat("the token's iss is ", Quoted(token->issuer()), ", whom the server does not know"));
  }
  const JwtIssuer& issuer = found->second;
  const absl::StatusOr<JwtClaims> claims = token->Verify(issuer.keys, issuer.audience, now);
  if (!claims.ok()) return claims.status();
  const std::string& subject = claims->subject;
  for (const SubjectRule& rule : issuer.rules) {
    if (!rule.subject.Fits(subject)) continue;
    const absl::StatusOr<Tenant> tenant =
        TenantFor(rule.grant.tenant == kMatched ? subject : rule.grant.tenant, credentials);
    if (!tenant.ok()) return tenant.status();
    return Identity{WithQuota(*tenant), StrCat("subject ", subject, " of ", found->first),
                    rule.grant.roles, claims->expires};
  }
  return absl::UnauthenticatedError(
      StrCat("no rule of the server's names the token's sub, ", Quoted(subject)));
}

Tenant Policy::TenantOf(const std::string& name) const {
  return name.empty() ? Tenant().With(anonymous_quota_) : WithQuota(Tenant::Authenticated(name));
}

Tenant Policy::WithQuota(const Tenant& tenant) const {
  if (is_open_) return tenant;
  const auto found = quotas_.find(tenant.key());
  if (found != quotas_.end()) return tenant.With(found->second);
  auto other = std::make_shared<Quota>(other_quota_);
  other->account = tenant.key();
  return tenant.With(std::move(other));
}

Policy::Pattern Policy::Pattern::Of(absl::string_view text) {
  Pattern pattern;
  pattern.is_prefix = absl::ConsumeSuffix(&text, "*");
  pattern.text = std::string(text);
  return pattern;
}

bool Policy::Pattern::Fits(const std::string& name) const {
  if (name.empty()) return false;
  return is_prefix ? absl::StartsWith(name, text) : name == text;
}

std::optional<std::string> Policy::Match(const Rule& rule, const CallerCredentials& credentials) {
  const auto one = [&rule](const std::string& text) -> std::optional<std::string> {
    if (!rule.pattern.Fits(text)) return std::nullopt;
    return text;
  };
  switch (rule.subject) {
    case Subject::kSpiffeId:
      return one(credentials.spiffe_id);
    case Subject::kCommonName:
      return one(credentials.common_name);
    case Subject::kAlternativeName:
      break;
  }
  const auto& names = credentials.alternative_names;
  const auto found = std::find_if(names.begin(), names.end(), [&one](const std::string& name) {
    return one(name).has_value();
  });
  if (found == names.end()) return std::nullopt;
  return *found;
}

}  // namespace gemmd
