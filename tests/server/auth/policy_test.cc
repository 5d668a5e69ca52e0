#include "server/auth/policy.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string Digest(const std::string& token) {
  Sha256 hash;
  hash.Update(token);
  const Sha256Digest digest = hash.Finish();
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string TokenEntry(const std::string& token, const std::string& rest) {
  return absl::StrCat("token { name: \"", token, "\" sha256: \"", Digest(token), "\" ", rest,
                      " }\n");
}

Policy Parsed(const std::string& text) {
  absl::StatusOr<Policy> policy = Policy::Parse(text);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? *std::move(policy) : Policy::Open();
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Policy> policy = Policy::Parse(text);
  EXPECT_FALSE(policy.ok()) << text;
  return std::string(policy.status().message());
}

CallerCredentials Bearer(const std::string& token, const std::string& tenant = "") {
  CallerCredentials credentials;
  credentials.token = token;
  credentials.tenant = tenant;
  return credentials;
}

CallerCredentials Certified(const std::string& common_name, const std::string& spiffe_id = "",
                            std::vector<std::string> names = {}) {
  CallerCredentials credentials;
  credentials.has_certificate = true;
  credentials.common_name = common_name;
  credentials.spiffe_id = spiffe_id;
  credentials.alternative_names = std::move(names);
  return credentials;
}

absl::StatusCode CodeOf(const Policy& policy, const CallerCredentials& credentials) {
  return policy.Identify(credentials, kNow).status().code();
}

TEST(Policy, WithoutOneEverybodyHasEveryRoleUnderTheNameHeSays) {
  CallerCredentials claim;
  claim.tenant = "alice";
  const absl::StatusOr<Identity> identity = Policy::Open().Identify(claim, kNow);
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->roles, Roles::All());
  EXPECT_EQ(identity->tenant, *Tenant::Named("alice"));
  claim.tenant = "a b";
  EXPECT_EQ(CodeOf(Policy::Open(), claim), absl::StatusCode::kInvalidArgument);
}

TEST(Policy, WithoutOneACertificateIsATenant) {
  const absl::StatusOr<Identity> identity = Policy::Open().Identify(Certified("alice"), kNow);
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->tenant, Tenant::Authenticated("alice"));
  EXPECT_NE(identity->tenant, *Tenant::Named("alice"));
  EXPECT_EQ(CodeOf(Policy::Open(), Certified("")), absl::StatusCode::kUnauthenticated);
  CallerCredentials liar = Certified("alice");
  liar.tenant = "bob";
  EXPECT_EQ(CodeOf(Policy::Open(), liar), absl::StatusCode::kPermissionDenied);
}

TEST(Policy, ATokenSaysWhoItsCallerIs) {
  const Policy policy = Parsed(TokenEntry("one", "tenant: \"alice\" role: USER role: OBSERVER"));
  const absl::StatusOr<Identity> identity = policy.Identify(Bearer("one"), kNow);
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->tenant, Tenant::Authenticated("alice"));
  EXPECT_EQ(identity->name, "token one");
  EXPECT_EQ(identity->roles, (Roles{Role::kUser, Role::kObserver}));
  EXPECT_TRUE(policy.Identify(Bearer("one", "alice"), kNow).ok());
  EXPECT_EQ(CodeOf(policy, Bearer("one", "bob")), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(policy, Bearer("onf")), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(policy, Bearer(Digest("one"))), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(policy, {}), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(policy, Certified("alice")), absl::StatusCode::kUnauthenticated);
}

TEST(Policy, ATokenEnds) {
  const Policy policy =
      Parsed(TokenEntry("one", "tenant: \"a\" role: USER expires: \"2027-01-15T08:00:00Z\""));
  EXPECT_TRUE(policy.Identify(Bearer("one"), kNow - absl::Seconds(1)).ok());
  const absl::Status ended = policy.Identify(Bearer("one"), kNow).status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(absl::StrContains(ended.message(), "2027-01-15T08:00:00")) << ended;
}

TEST(Policy, ATokenThatOthersMayHaveReadIsNotTaken) {
  const Policy policy = Parsed(TokenEntry("one", "tenant: \"a\" role: USER"));
  CallerCredentials credentials = Bearer("one");
  credentials.token_may_be_read = true;
  EXPECT_EQ(CodeOf(policy, credentials), absl::StatusCode::kUnauthenticated);
}

TEST(Policy, AGatewayNamesTheTenantsItSpeaksFor) {
  const Policy policy = Parsed(TokenEntry("one", "tenant: \"*\" role: USER"));
  EXPECT_EQ(policy.Identify(Bearer("one", "alice"), kNow)->tenant, Tenant::Authenticated("alice"));
  EXPECT_EQ(CodeOf(policy, Bearer("one", "a b")), absl::StatusCode::kInvalidArgument);
}

TEST(Policy, AnonymousCallersAreNeverATokensTenant) {
  const Policy policy =
      Parsed("anonymous { role: USER }\n" + TokenEntry("one", "tenant: \"alice\" role: OPERATOR"));
  CallerCredentials claim;
  claim.tenant = "alice";
  const absl::StatusOr<Identity> identity = policy.Identify(claim, kNow);
  ASSERT_TRUE(identity.ok());
  EXPECT_NE(identity->tenant, policy.Identify(Bearer("one"), kNow)->tenant);
  EXPECT_EQ(identity->roles, Roles{Role::kUser});
  EXPECT_EQ(CodeOf(policy, Bearer("two")), absl::StatusCode::kUnauthenticated)
      << "a wrong token is no anonymous caller";
}

TEST(Policy, TheFirstRuleThatFitsACertificateCounts) {
  const Policy policy = Parsed(R"(
      certificate { spiffe_id: "spiffe://x.org/ns/ml/*" tenant: "ml" role: USER }
      certificate { common_name: "root" tenant: "ops" role: OPERATOR }
      certificate { alternative_name: "*" tenant: "$name" role: OBSERVER })");
  const auto tenant = [&](const CallerCredentials& credentials) {
    const absl::StatusOr<Identity> identity = policy.Identify(credentials, kNow);
    return identity.ok() ? identity->tenant.key() : std::string(identity.status().message());
  };
  EXPECT_EQ(tenant(Certified("root", "spiffe://x.org/ns/ml/sa/a")), "auth:ml");
  EXPECT_EQ(tenant(Certified("root", "spiffe://x.org/ns/mm")), "auth:ops");
  EXPECT_EQ(tenant(Certified("x", "", {"a.x.org", "b.x.org"})), "auth:a.x.org");
  EXPECT_EQ(CodeOf(policy, Certified("roo")), absl::StatusCode::kUnauthenticated);
  CallerCredentials unverified = Certified("root");
  unverified.has_certificate = false;
  EXPECT_EQ(CodeOf(policy, unverified), absl::StatusCode::kUnauthenticated);
}

TEST(Policy, WhatACertificateLacksFitsNothing) {
  const Policy policy = Parsed("certificate { spiffe_id: \"*\" tenant: \"all\" role: USER }");
  EXPECT_EQ(CodeOf(policy, Certified("alice")), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(policy.Identify(Certified("alice", "spiffe://x"), kNow).ok());
  const Policy by_name =
      Parsed("certificate { alternative_name: \"*\" tenant: \"all\" role: USER }");
  EXPECT_EQ(CodeOf(by_name, Certified("alice", "", {""})), absl::StatusCode::kUnauthenticated);
}

TEST(Policy, ErrorsNameTheEntryItsValueAndWhatIsAccepted) {
  const std::string digest = Digest("t");
  EXPECT_EQ(ErrorOf(""), "it has no entry, so that nobody could call");
  EXPECT_EQ(ErrorOf("token { sha256: \"" + digest + "\" }"),
            "token[0].name is \"\"; each token has a name of its own, for the log");
  EXPECT_EQ(ErrorOf("token { name: \"a\" sha256: \"abc\" }"),
            "token[0].sha256 has 3 characters; it must be 64 hexadecimal digits");
  EXPECT_EQ(ErrorOf("token { name: \"a\" sha256: \"g" + digest.substr(1) + "\" }"),
            "token[0].sha256 has a character that is no hexadecimal digit");
  EXPECT_EQ(ErrorOf(TokenEntry("t", "role: USER")),
            "token[0].tenant is \"\"; it must be up to 64 of A-Z a-z 0-9 . _ -, or \"*\"");
  EXPECT_EQ(ErrorOf(TokenEntry("t", "tenant: \"a\"")),
            "token[0] has no role; each entry has one of USER, OBSERVER and OPERATOR, or several");
  EXPECT_EQ(ErrorOf(TokenEntry("t", "tenant: \"a\" role: USER expires: \"soon\"")),
            "token[0].expires is \"soon\"; it must be a time like 2027-01-01T00:00:00Z");
  EXPECT_EQ(ErrorOf(TokenEntry("t", "tenant: \"a\" role: USER") + "token { name: \"u\" sha256: \"" +
                    digest + "\" tenant: \"a\" role: USER }"),
            "token[1].sha256 is that of another token above it");
  EXPECT_EQ(ErrorOf("certificate { tenant: \"a\" role: USER }"),
            "certificate[0] has no subject: one of spiffe_id, common_name and alternative_name");
  EXPECT_EQ(ErrorOf("anonymous {}"),
            "anonymous has no role; each entry has one of USER, OBSERVER and OPERATOR, or several");
}

TEST(Policy, ATenantHasItsOwnQuotaOrThatOfTheOthers) {
  const Policy policy = Parsed(TokenEntry("one", "tenant: \"alice\" role: USER") +
                               TokenEntry("two", "tenant: \"*\" role: USER") +
                               R"(quota { tenant: "*" requests: 7 }
         quota { tenant: "alice" requests: 0 request_bytes: 1 resident_bytes: 2 regions: 3
                 device_ms_per_second: 500 high_priority: true weight: 2 })");
  const Tenant alice = policy.Identify(Bearer("one"), kNow)->tenant;
  ASSERT_NE(alice.quota(), nullptr);
  EXPECT_EQ(alice.quota()->account, alice.key());
  EXPECT_EQ(alice.quota()->limit(Quantity::kRequests), 0U);
  EXPECT_EQ(alice.quota()->limit(Quantity::kRequestBytes), 1U);
  EXPECT_EQ(alice.quota()->limit(Quantity::kResidentBytes), 2U);
  EXPECT_EQ(alice.quota()->limit(Quantity::kRegions), 3U);
  EXPECT_EQ(alice.quota()->device_share, 0.5);
  EXPECT_EQ(alice.quota()->high_priority, true);
  EXPECT_EQ(alice.quota()->weight, 2.0);
  const Tenant bob = policy.Identify(Bearer("two", "bob"), kNow)->tenant;
  const Tenant carol = policy.Identify(Bearer("two", "carol"), kNow)->tenant;
  EXPECT_EQ(bob.quota()->limit(Quantity::kRequests), 7U);
  EXPECT_FALSE(bob.quota()->limit(Quantity::kRegions).has_value());
  EXPECT_NE(bob.quota()->account, carol.quota()->account) << "each has it for itself";
  EXPECT_EQ(policy.TenantOf("alice").quota()->account, alice.key());
  EXPECT_EQ(policy.TenantOf("dave").quota()->limit(Quantity::kRequests), 7U);
  EXPECT_EQ(policy.TenantOf("").quota(), nullptr) << "nobody may call without a token";
}

TEST(Policy, WhoProvesNothingSharesOneQuotaWhateverTheName) {
  const Policy policy = Parsed(R"(anonymous { role: USER quota { requests: 3 } }
                                  quota { tenant: "alice" requests: 5 }
                                  quota { tenant: "*" requests: 6 })");
  CallerCredentials claim;
  claim.tenant = "alice";
  const Tenant alice = policy.Identify(claim, kNow)->tenant;
  claim.tenant = "bob";
  const Tenant bob = policy.Identify(claim, kNow)->tenant;
  EXPECT_NE(alice, bob);
  EXPECT_EQ(alice.quota()->limit(Quantity::kRequests), 3U);
  EXPECT_EQ(alice.quota()->account, bob.quota()->account);
  EXPECT_NE(alice.quota()->account, policy.TenantOf("alice").quota()->account);
  EXPECT_EQ(policy.TenantOf("").quota()->account, bob.quota()->account);
}

TEST(Policy, AnOpenPolicyHasNoQuotas) {
  EXPECT_EQ(Policy::Open().Identify({}, kNow)->tenant.quota(), nullptr);
  EXPECT_EQ(Policy::Open().Identify(Certified("alice"), kNow)->tenant.quota(), nullptr);
}

TEST(Policy, ErrorsOfQuotasNameTheEntryItsValueAndWhatIsAccepted) {
  const std::string anonymous = "anonymous { role: USER }\n";
  EXPECT_EQ(ErrorOf(anonymous + "quota { requests: 1 }"),
            "quota[0].tenant is empty; it must be a tenant's name or \"*\"");
  EXPECT_EQ(ErrorOf(anonymous + "quota { tenant: \"a\" } quota { tenant: \"a\" }"),
            "quota[1].tenant is \"a\", which has a quota above it");
  EXPECT_EQ(ErrorOf(anonymous + "quota { tenant: \"a\" device_ms_per_second: 0 }"),
            "quota[0].device_ms_per_second is 0; it must be from 0.001 to 1000000");
  EXPECT_EQ(ErrorOf(anonymous + "quota { tenant: \"a\" weight: nan }"),
            "quota[0].weight is nan; it must be from 0.001 to 1000000");
  EXPECT_EQ(ErrorOf("anonymous { role: USER quota { weight: 2 } }"),
            "anonymous.quota.weight is set: the quota is that of all callers who prove nothing, "
            "whatever they call themselves");
  EXPECT_EQ(ErrorOf("anonymous { role: USER quota { tenant: \"a\" } }"),
            "anonymous.quota.tenant is set: the quota is that of all callers who prove nothing, "
            "whatever they call themselves");
}

// An editor's slip may put a digest, or a token, where the parser would quote it.
TEST(Policy, ErrorsRepeatNoSecret) {
  EXPECT_EQ(
      ErrorOf("anonymous { role: USER }\ntoken { secret123"),
      "line 2, column 18: the text is no PolicyFile as server/auth/policy.proto describes it");
  EXPECT_EQ(ErrorOf("anonymous { role: " + std::string(64, 'a') + " }").find("aaa"),
            std::string::npos);
}

TEST(Policy, AWrongRoleIsNamed) {
  EXPECT_EQ(
      ErrorOf("anonymous {\n role: ADMIN }"),
      "line 2, column 14: Unknown enumeration value of \"ADMIN\" for field \"role\"; it is "
      "one of USER, OBSERVER and OPERATOR: the text is no PolicyFile as server/auth/policy.proto "
      "describes it");
}

TEST(Policy, KnowsItsExpiredTokens) {
  const Policy policy =
      Parsed(TokenEntry("old", "tenant: \"a\" role: USER expires: \"2027-01-15T08:00:00Z\"") +
             TokenEntry("for good", "tenant: \"a\" role: USER"));
  const absl::Time end = absl::FromUnixSeconds(1800000000);  // 2027-01-15T08:00:00Z
  EXPECT_TRUE(policy.ExpiredTokens(end - absl::Seconds(1)).empty());
  EXPECT_EQ(policy.ExpiredTokens(end), std::vector<std::string>{"old"});
}

TEST(Policy, RandomTextsAreRefusedOrTaken) {
  const std::string whole =
      TokenEntry("one", "tenant: \"a\" role: USER expires: \"2027-01-15T08:00:00Z\"") +
      "certificate { spiffe_id: \"spiffe://x/*\" tenant: \"$name\" role: OPERATOR }"
      "quota { tenant: \"a\" requests: 10 device_ms_per_second: 0.5 weight: 2 }";
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::string text = whole;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<Policy> policy = Policy::Parse(text);
    if (!policy.ok()) {
      EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    EXPECT_EQ(CodeOf(*policy, {}), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(CodeOf(*policy, Bearer("two")), absl::StatusCode::kUnauthenticated);
  }
}

}  // namespace
}  // namespace gemmd
