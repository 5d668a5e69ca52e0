#include "server/auth/jwt.h"

#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "server/auth/policy.h"
#include "tests/testing/jwt_issuer.h"

namespace gemmd {
namespace {

using testing::Base64Url;
using testing::Claims;
using testing::JwtKey;
using testing::KeySet;

constexpr long kEnd = 1'800'000'000;
const absl::Time kNow = absl::FromUnixSeconds(kEnd - 60);

const JwtKey& Rsa() {
  static const JwtKey& key = *new JwtKey(JwtKey::Kind::kRsa2048, "rsa");
  return key;
}
const JwtKey& Ec() {
  static const JwtKey& key = *new JwtKey(JwtKey::Kind::kP256, "ec");
  return key;
}
std::string BothKeys() {
  return KeySet(absl::StrCat(Rsa().PublicJson(), ",", Ec().PublicJson("\"use\":\"sig\"")));
}

// Empty: the token is good.
std::string ErrorOf(const std::string& token, absl::Time now = kNow,
                    const std::string& keys = BothKeys()) {
  const absl::StatusOr<JsonWebKeys> parsed_keys = JsonWebKeys::Parse(keys);
  EXPECT_TRUE(parsed_keys.ok()) << parsed_keys.status();
  const absl::StatusOr<JsonWebToken> parsed = JsonWebToken::Parse(token);
  const absl::Status status =
      parsed.ok() ? parsed->Verify(*parsed_keys, "gemmd", now).status() : parsed.status();
  EXPECT_TRUE(status.ok() || absl::IsUnauthenticated(status)) << status;
  return std::string(status.message());
}

std::string GoodClaims(const std::string& more = "") {
  return Claims("me", "gemmd", "alice", kEnd, more);
}

TEST(JsonWebToken, ByEitherAlgorithmSaysWhoItsCallerIs) {
  for (const JwtKey* key : {&Rsa(), &Ec()}) {
    const absl::StatusOr<JsonWebToken> token = JsonWebToken::Parse(key->Sign(GoodClaims()));
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->issuer(), "me");
    const absl::StatusOr<JwtClaims> claims =
        token->Verify(*JsonWebKeys::Parse(BothKeys()), "gemmd", kNow);
    ASSERT_TRUE(claims.ok()) << claims.status();
    EXPECT_EQ(claims->subject, "alice");
    EXPECT_EQ(claims->expires, absl::FromUnixSeconds(kEnd) + JsonWebToken::kLeeway);
  }
}

TEST(JsonWebToken, MayLackAKeysName) {
  const JwtKey nameless(JwtKey::Kind::kP256, "");
  EXPECT_EQ(ErrorOf(nameless.Sign(GoodClaims()), kNow,
                    KeySet(absl::StrCat(Ec().PublicJson(), ",", nameless.PublicJson()))),
            "");
}

TEST(JsonWebToken, HasATimeToLiveWithSomeLeeway) {
  const std::string token = Ec().Sign(GoodClaims(absl::StrCat("\"nbf\":", kEnd - 100)));
  const auto at = [](long seconds) { return absl::FromUnixSeconds(seconds); };
  EXPECT_EQ(ErrorOf(token, at(kEnd + 29)), "");
  EXPECT_TRUE(absl::StrContains(ErrorOf(token, at(kEnd + 30)), "ended at 2027-01-15T08:00:00"));
  EXPECT_EQ(ErrorOf(token, at(kEnd - 130)), "");
  EXPECT_TRUE(absl::StrContains(ErrorOf(token, at(kEnd - 131)), "begins at"));
  EXPECT_TRUE(
      absl::StrContains(ErrorOf(Ec().Sign(R"({"iss":"me","aud":"gemmd","sub":"a"})")), "no exp"));
  EXPECT_TRUE(absl::StrContains(
      ErrorOf(Ec().Sign(R"({"iss":"me","aud":"gemmd","sub":"a","exp":"soon"})")), "no exp"));
  EXPECT_TRUE(absl::StrContains(ErrorOf(Ec().Sign(GoodClaims("\"nbf\":\"now\""))), "nbf"));
}

TEST(JsonWebToken, IsForItsAudience) {
  EXPECT_TRUE(absl::StrContains(ErrorOf(Ec().Sign(Claims("me", "other", "alice", kEnd))), "aud"));
  const auto with = [](const std::string& audience) {
    return ErrorOf(Ec().Sign(
        absl::StrCat(R"({"iss":"me","sub":"a","exp":)", kEnd, ",\"aud\":", audience, "}")));
  };
  EXPECT_EQ(with(R"(["other","gemmd"])"), "");
  for (const char* wrong : {"[]", R"(["other"])", "1", "{}", "null", R"([["gemmd"]])"}) {
    EXPECT_TRUE(absl::StrContains(with(wrong), "aud")) << wrong;
  }
}

TEST(JsonWebToken, HasASubject) {
  EXPECT_TRUE(absl::StrContains(ErrorOf(Ec().Sign(Claims("me", "gemmd", "", kEnd))), "sub"));
  const std::string longest(256, 'x');
  EXPECT_EQ(ErrorOf(Ec().Sign(Claims("me", "gemmd", longest, kEnd))), "");
  EXPECT_TRUE(
      absl::StrContains(ErrorOf(Ec().Sign(Claims("me", "gemmd", longest + "x", kEnd))), "sub"));
}

TEST(JsonWebToken, OfAnotherKeyIsRefused) {
  const JwtKey other(JwtKey::Kind::kP256, "ec");
  EXPECT_TRUE(absl::StrContains(ErrorOf(other.Sign(GoodClaims())), "signature"));
  const JwtKey unknown(JwtKey::Kind::kP256, "new");
  EXPECT_TRUE(absl::StrContains(ErrorOf(unknown.Sign(GoodClaims())), "kid"));
}

// The ways in which libraries have been fooled.
TEST(JsonWebToken, ChoosesNoAlgorithmByItself) {
  for (const char* header :
       {R"({"alg":"none"})", R"({"alg":"HS256","kid":"rsa"})", R"({"alg":"RS512","kid":"rsa"})",
        R"({"alg":"PS256","kid":"rsa"})", R"({"alg":"rs256","kid":"rsa"})", R"({"kid":"rsa"})",
        R"({"alg":["RS256"],"kid":"rsa"})", R"({"alg":"ES256","kid":"rsa"})"}) {
    EXPECT_NE(ErrorOf(Rsa().Sign(header, GoodClaims())), "") << header;
  }
  const std::string good = Rsa().Sign(GoodClaims());
  EXPECT_NE(ErrorOf(good.substr(0, good.rfind('.') + 1)), "") << "without a signature";
  EXPECT_NE(ErrorOf(Base64Url(R"({"alg":"none"})") + "." + Base64Url(GoodClaims()) + "."), "");
  EXPECT_TRUE(absl::StrContains(
      ErrorOf(
          Rsa().Sign(R"({"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false})", GoodClaims())),
      "crit"));
  const JwtKey larger(JwtKey::Kind::kP384, "ec");
  EXPECT_TRUE(absl::StrContains(ErrorOf(larger.Sign(GoodClaims())), "alg is \"ES384\""));
}

// RFC 7515 has base64url without padding, blanks or another alphabet, and all of it is read.
TEST(JsonWebToken, IsInBase64UrlAndNothingElse) {
  const std::string good = Ec().Sign(GoodClaims());
  for (const char* text :
       {"", ".", "..", "...", "A=.A=.A=", "A.A.A", "====.====.====", "A=A.AAAA=.=", " . . ",
        "+/.+/.+/", "\xff\xff.\xff.\xff", "AAAA.AAAA.AAAA"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
  }
  for (const std::string& text : {good + "=", good + "==", good + " ", " " + good, good + "A",
                                  good + ".", good + std::string(1, '\0')}) {
    EXPECT_NE(ErrorOf(text), "") << text;
  }
}

TEST(JsonWebToken, ThatWasChangedIsRefused) {
  std::mt19937 random(1);
  for (const JwtKey* key : {&Rsa(), &Ec()}) {
    const std::string good = key->Sign(GoodClaims());
    ASSERT_EQ(ErrorOf(good), "");
    for (int i = 0; i < 300; ++i) {
      std::string changed = good;
      // A last character may have bits that say nothing.
      const std::size_t at = random() % (changed.size() - 1);
      const bool is_last = changed[at + 1] == '.';
      changed[at] = changed[at] == 'A' ? 'Q' : 'A';
      if (changed == good || is_last) continue;
      ASSERT_NE(ErrorOf(changed), "") << at;
    }
    for (std::size_t size = 0; size < good.size(); size += 7) {
      ASSERT_NE(ErrorOf(good.substr(0, size)), "");
    }
    ASSERT_NE(ErrorOf(absl::StrCat(good, ".", good)), "");
  }
  EXPECT_TRUE(absl::StrContains(ErrorOf(std::string(8193, 'x')), "the limit is 8192"));
}

std::string KeysError(const std::string& text) {
  const absl::StatusOr<JsonWebKeys> keys = JsonWebKeys::Parse(text);
  EXPECT_FALSE(keys.ok()) << text;
  return std::string(keys.status().message());
}

TEST(JsonWebKeys, AreThoseThatCanBeUsed) {
  const JwtKey larger(JwtKey::Kind::kP384, "p384");
  const std::string text = KeySet(absl::StrCat(
      Rsa().PublicJson(), ",", larger.PublicJson(), ",", Ec().PublicJson("\"use\":\"enc\""), ",",
      Rsa().PublicJson("\"alg\":\"RS512\""), R"(,{"kty":"oct","k":"c2VjcmV0"},{"kty":"new"})"));
  const absl::StatusOr<JsonWebKeys> keys = JsonWebKeys::Parse(text);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->size(), 1U);
}

TEST(JsonWebKeys, SayWhatIsWrongWithThem) {
  for (const char* text : {"", "[]", "{}", R"({"keys":{}})", "{\"keys\":[", "\xff"}) {
    EXPECT_TRUE(absl::StrContains(KeysError(text), "no JSON Web Key Set")) << text;
  }
  EXPECT_TRUE(absl::StrContains(KeysError(KeySet("")), "no key for RS256"));
  EXPECT_TRUE(absl::StrContains(KeysError(KeySet("1")), "keys[0] is no object"));
  EXPECT_TRUE(absl::StrContains(KeysError(KeySet(Rsa().PublicJson("\"d\":\"AQAB\""))),
                                "keys[0] is a private key"));
  const JwtKey small(JwtKey::Kind::kRsa1024, "small");
  EXPECT_TRUE(absl::StrContains(KeysError(KeySet(small.PublicJson())), "has 1024 bits"));
  for (const char* broken :
       {R"({"kty":"RSA"})", R"({"kty":"RSA","n":1,"e":2})", R"({"kty":"RSA","n":"!","e":"AQAB"})",
        R"({"kty":"EC","crv":"P-256"})", R"({"kty":"RSA","n":"A=","e":"A="})",
        R"({"kty":"EC","crv":"P-256","x":"AA","y":"AA"})"}) {
    EXPECT_TRUE(absl::StrContains(KeysError(KeySet(broken)), "keys[0] is a broken key")) << broken;
  }
  const std::string off_the_curve =
      absl::StrCat(R"({"kty":"EC","crv":"P-256","x":")", Base64Url(std::string(32, 'x')),
                   R"(","y":")", Base64Url(std::string(32, 'y')), R"("})");
  EXPECT_TRUE(absl::StrContains(KeysError(KeySet(off_the_curve)), "keys[0] is a broken key"));
  const std::string modulus = Base64Url("\x81" + std::string(254, 'm') + "\x01");
  for (const char* exponent : {"AQ", "Ag", "AQAAAAAAAAAB"}) {
    EXPECT_TRUE(absl::StrContains(KeysError(KeySet(absl::StrCat(R"({"kty":"RSA","n":")", modulus,
                                                                R"(","e":")", exponent, R"("})"))),
                                  "keys[0] is a broken key"))
        << exponent;
  }
  std::string many = Ec().PublicJson();
  for (int i = 0; i < 64; ++i) absl::StrAppend(&many, ",", Ec().PublicJson());
  EXPECT_TRUE(absl::StrContains(KeysError(KeySet(many)), "the limit is 64"));
}

// ---- In a policy.

constexpr char kPolicy[] = R"(
    jwt { issuer: "me" audience: "gemmd" jwks_file: "keys"
          rule { subject: "sa:ml/*" tenant: "ml" role: USER }
          rule { subject: "alice" tenant: "$name" role: OBSERVER }
          rule { subject: "gateway" tenant: "*" role: USER } })";

absl::StatusOr<Policy> ParsePolicy(const std::string& text) {
  return Policy::Parse(text, [](const std::string& path) -> absl::StatusOr<std::string> {
    if (path != "keys") return absl::InvalidArgumentError("it cannot be read");
    return BothKeys();
  });
}

absl::StatusOr<Identity> Identify(const std::string& subject, const std::string& tenant = "") {
  const absl::StatusOr<Policy> policy = ParsePolicy(kPolicy);
  EXPECT_TRUE(policy.ok()) << policy.status();
  CallerCredentials credentials;
  credentials.token = Ec().Sign(Claims("me", "gemmd", subject, kEnd));
  credentials.tenant = tenant;
  return policy->Identify(credentials, kNow);
}

TEST(PolicyWithJwt, GivesWhatTheFirstRuleThatFitsSays) {
  const absl::StatusOr<Identity> service = Identify("sa:ml/train");
  ASSERT_TRUE(service.ok()) << service.status();
  EXPECT_EQ(service->tenant, Tenant::Authenticated("ml"));
  EXPECT_EQ(service->roles, Roles{Role::kUser});
  EXPECT_EQ(service->name, "subject sa:ml/train of me");
  EXPECT_EQ(service->expires, absl::FromUnixSeconds(kEnd) + JsonWebToken::kLeeway);
  EXPECT_EQ(Identify("alice")->tenant, Tenant::Authenticated("alice"));
  EXPECT_EQ(Identify("gateway", "x")->tenant, Tenant::Authenticated("x"));
  EXPECT_TRUE(absl::IsPermissionDenied(Identify("alice", "bob").status()));
  EXPECT_TRUE(absl::IsUnauthenticated(Identify("sa:other").status()));
}

TEST(PolicyWithJwt, BelievesNobodyElse) {
  const absl::StatusOr<Policy> policy = ParsePolicy(kPolicy);
  ASSERT_TRUE(policy.ok());
  CallerCredentials credentials;
  credentials.token = Ec().Sign(Claims("you", "gemmd", "alice", kEnd));
  EXPECT_TRUE(
      absl::StrContains(policy->Identify(credentials, kNow).status().message(), "iss is \"you\""));
  credentials.token = "a.b.c";
  EXPECT_TRUE(absl::IsUnauthenticated(policy->Identify(credentials, kNow).status()));
  credentials.token = Ec().Sign(GoodClaims());
  EXPECT_TRUE(policy->Identify(credentials, kNow).ok());
  credentials.token_may_be_read = true;
  EXPECT_TRUE(absl::IsUnauthenticated(policy->Identify(credentials, kNow).status()));
}

TEST(PolicyWithJwt, SaysWhatIsWrong) {
  const auto error = [](const std::string& entry) {
    const absl::StatusOr<Policy> policy = ParsePolicy("jwt { " + entry + " }");
    EXPECT_FALSE(policy.ok()) << entry;
    return std::string(policy.status().message());
  };
  const std::string rule = "rule { subject: \"a\" tenant: \"a\" role: USER }";
  EXPECT_TRUE(absl::StrContains(error(rule), "jwt[0].issuer is \"\""));
  EXPECT_TRUE(absl::StrContains(error("issuer: \"me\" " + rule), "jwt[0].audience is empty"));
  const std::string named = "issuer: \"me\" audience: \"gemmd\" ";
  EXPECT_TRUE(absl::StrContains(error(named), "jwt[0] has no rule"));
  EXPECT_EQ(error(named + rule), "jwt[0].jwks_file is \"\": it cannot be read");
  EXPECT_TRUE(absl::StrContains(error(named + "rule { tenant: \"a\" role: USER }"),
                                "jwt[0].rule[0].subject is empty"));
  EXPECT_TRUE(absl::StrContains(error(named + "rule { subject: \"a\" tenant: \"a\" }"),
                                "jwt[0].rule[0] has no role"));
  EXPECT_TRUE(absl::StrContains(error(named + "rule { subject: \"a\" tenant: \"a b\" role: USER }"),
                                "jwt[0].rule[0].tenant is \"a b\""));
}

}  // namespace
}  // namespace gemmd
