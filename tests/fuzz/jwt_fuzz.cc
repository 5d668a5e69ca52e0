// No text is a token that is believed, or a set of keys with which another's token is, unless its
// key has signed it. The first line is a token, and the rest a JSON Web Key Set.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/time/time.h"
#include "server/auth/jwt.h"
#include "tests/testing/jwt_issuer.h"

namespace {

using gemmd::JsonWebKeys;
using gemmd::JsonWebToken;
using gemmd::testing::JwtKey;

constexpr long kEnd = 1'800'000'000;

bool IsGood(const std::string& text, const JsonWebKeys& keys) {
  const absl::StatusOr<JsonWebToken> token = JsonWebToken::Parse(text);
  return token.ok() && token->Verify(keys, "gemmd", absl::FromUnixSeconds(kEnd - 1)).ok();
}

struct Known {
  JwtKey key{JwtKey::Kind::kP256, "k"};
  std::string token = key.Sign(gemmd::testing::Claims("i", "gemmd", "s", kEnd));
  JsonWebKeys keys = *JsonWebKeys::Parse(gemmd::testing::KeySet(key.PublicJson()));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Known& known = *new Known;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  // Nobody who tries texts has the key, which is another in each process.
  if (IsGood(text.substr(0, end), known.keys)) std::abort();
  const absl::StatusOr<JsonWebKeys> keys = JsonWebKeys::Parse(text.substr(end));
  if (!keys.ok()) return 0;
  if (keys->size() == 0 || IsGood(known.token, *keys)) std::abort();
  static_cast<void>(IsGood(text.substr(0, end), *keys));
  return 0;
}
