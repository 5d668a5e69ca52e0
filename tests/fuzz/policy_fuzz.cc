// A policy lets in nobody whom its text does not name, whatever the text is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "server/auth/policy.h"
#include "tests/testing/jwt_issuer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const std::string& keys = *new std::string(gemmd::testing::KeySet(
      gemmd::testing::JwtKey(gemmd::testing::JwtKey::Kind::kP256, "k").PublicJson()));
  const auto read = [](const std::string&) -> absl::StatusOr<std::string> { return keys; };
  const absl::StatusOr<gemmd::Policy> policy = gemmd::Policy::Parse(text, read);
  if (!policy.ok()) return 0;
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  gemmd::CallerCredentials caller;
  caller.token = "a token whose digest no text has";
  if (policy->Identify(caller, now).ok()) std::abort();
  caller.token = "eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl";  // of nobody's key
  if (policy->Identify(caller, now).ok()) std::abort();
  caller.token.clear();
  if (policy->Identify(caller, now).ok() && !absl::StrContains(text, "anonymous")) std::abort();
  caller.has_certificate = true;
  caller.common_name = "somebody";
  caller.spiffe_id = "spiffe://example.org/ns/ml/sa/a";
  caller.alternative_names = {"a.example.org"};
  const absl::StatusOr<gemmd::Identity> known = policy->Identify(caller, now);
  if (known.ok() && known->roles.empty()) std::abort();
  return 0;
}
