#include "server/auth/jwt.h"

#include <cjose/cjose.h>
#include <openssl/err.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "text/quoted.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using absl::UnauthenticatedError;
using nlohmann::json;

// As large as all headers of a call may be together.
constexpr std::size_t kMostBytes = 8192;
constexpr std::size_t kMostKeys = 64;
constexpr std::size_t kLeastRsaBits = 2048;
constexpr std::size_t kMostSubjectBytes = 256;

struct Free {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
  void operator()(cjose_jws_t* token) const { cjose_jws_release(token); }
  void operator()(char* text) const { std::free(text); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// A failure must not stay in the thread's queue of errors, where gRPC would take it for one of a
// TLS connection.
class NoOpenSslErrors {
 public:
  NoOpenSslErrors() = default;
  ~NoOpenSslErrors() { ERR_clear_error(); }
  NoOpenSslErrors(const NoOpenSslErrors&) = delete;
  NoOpenSslErrors& operator=(const NoOpenSslErrors&) = delete;
};

json ParseObject(absl::string_view text) {
  json parsed = json::parse(text.begin(), text.end(), nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

// Of an object's member; empty where it is not there or no text.
std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The algorithm of a key's that is taken; empty: none is.
std::string AlgorithmOf(const json& key) {
  const std::string type = TextOf(key, "kty");
  const bool is_p256 = TextOf(key, "crv") == "P-256";
  const std::string algorithm = type == "RSA"             ? CJOSE_HDR_ALG_RS256
                                : type == "EC" && is_p256 ? CJOSE_HDR_ALG_ES256
                                                          : "";
  const std::string use = TextOf(key, "use");
  if (!use.empty() && use != "sig") return "";
  const std::string own = TextOf(key, "alg");
  return own.empty() || own == algorithm ? algorithm : "";
}

// A time as RFC 7519 has it, in seconds since 1970; none: it is no number.
std::optional<absl::Time> TimeOf(const json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) return std::nullopt;
  const auto seconds = found->get<double>();
  if (!std::isfinite(seconds)) return std::nullopt;
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

bool HasAudience(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (!found->is_array()) return *found == audience;
  return std::find(found->begin(), found->end(), audience) != found->end();
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

}  // namespace

struct JsonWebKeys::Key {
  Owned<cjose_jwk_t> key;
  std::string algorithm;
  std::string id;  // empty: it has none
};

absl::StatusOr<JsonWebKeys> JsonWebKeys::Parse(const std::string& text) {
  const NoOpenSslErrors no_errors;
  const json set = ParseObject(text);
  const auto list = set.find("keys");
  if (list == set.end() || !list->is_array()) {
    return InvalidArgumentError(
        "the text is no JSON Web Key Set: an object with an array \"keys\"");
  }
  if (list->size() > kMostKeys) {
    return InvalidArgumentError(StrCat("it has ", list->size(), " keys; the limit is ", kMostKeys));
  }
  JsonWebKeys keys;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& each = (*list)[i];
    const std::string entry = StrCat("keys[", i, "]");
    if (!each.is_object()) return InvalidArgumentError(StrCat(entry, " is no object"));
    if (each.contains("d")) {
      return InvalidArgumentError(
          StrCat(entry, " is a private key, which no server but its issuer's should have"));
    }
    std::string algorithm = AlgorithmOf(each);
    if (algorithm.empty()) continue;
    const std::string own = each.dump(-1, ' ', false, json::error_handler_t::replace);
    cjose_err error;
    Owned<cjose_jwk_t> key(cjose_jwk_import(own.data(), own.size(), &error));
    if (key == nullptr) return InvalidArgumentError(StrCat(entry, " is a broken key"));
    const std::size_t bits = cjose_jwk_get_keysize(key.get(), &error);
    if (algorithm == CJOSE_HDR_ALG_RS256 && bits < kLeastRsaBits) {
      return InvalidArgumentError(
          StrCat(entry, " has ", bits, " bits; RSA keys must have ", kLeastRsaBits));
    }
    auto kept = std::make_shared<Key>();
    *kept = Key{std::move(key), std::move(algorithm), TextOf(each, "kid")};
    keys.keys_.push_back(std::move(kept));
  }
  if (keys.keys_.empty()) {
    return InvalidArgumentError("it has no key for RS256 (RSA) or ES256 (EC, P-256)");
  }
  return keys;
}

struct JsonWebToken::Parsed {
  Owned<cjose_jws_t> token;
  json claims;
  std::string issuer;
  std::string algorithm;
  std::string key_id;  // empty: it names none
  bool is_critical = false;
};

JsonWebToken::JsonWebToken(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
JsonWebToken::JsonWebToken(JsonWebToken&& other) noexcept = default;
JsonWebToken& JsonWebToken::operator=(JsonWebToken&& other) noexcept = default;
JsonWebToken::~JsonWebToken() = default;

bool JsonWebToken::IsLike(absl::string_view text) {
  return std::count(text.begin(), text.end(), '.') == 2;
}

absl::StatusOr<JsonWebToken> JsonWebToken::Parse(const std::string& text) {
  const NoOpenSslErrors no_errors;
  if (text.size() > kMostBytes) {
    return UnauthenticatedError(
        StrCat("the token has ", text.size(), " bytes; the limit is ", kMostBytes));
  }
  cjose_err error;
  auto parsed = std::make_unique<Parsed>();
  parsed->token.reset(cjose_jws_import(text.data(), text.size(), &error));
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  if (parsed->token == nullptr ||
      !cjose_jws_get_plaintext(parsed->token.get(), &bytes, &size, &error)) {
    return UnauthenticatedError("the token is no JSON web token that is signed");
  }
  cjose_header_t* const header = cjose_jws_get_protected(parsed->token.get());
  const auto text_of = [header, &error](const char* name) {
    const char* const value = cjose_header_get(header, name, &error);
    return value == nullptr ? std::string() : std::string(value);
  };
  parsed->algorithm = text_of(CJOSE_HDR_ALG);
  parsed->key_id = text_of(CJOSE_HDR_KID);
  parsed->is_critical = Owned<char>(cjose_header_get_raw(header, "crit", &error)) != nullptr;
  parsed->claims = ParseObject({reinterpret_cast<const char*>(bytes), size});
  parsed->issuer = TextOf(parsed->claims, "iss");
  return JsonWebToken(std::move(parsed));
}

const std::string& JsonWebToken::issuer() const { return parsed_->issuer; }

absl::Status JsonWebToken::CheckSignature(const JsonWebKeys& keys) const {
  const NoOpenSslErrors no_errors;
  if (parsed_->algorithm != CJOSE_HDR_ALG_RS256 && parsed_->algorithm != CJOSE_HDR_ALG_ES256) {
    return UnauthenticatedError(
        StrCat("the token's alg is ", Quoted(parsed_->algorithm), "; RS256 and ES256 are taken"));
  }
  if (parsed_->is_critical) {
    return UnauthenticatedError("the token has a header crit, of which nothing is understood");
  }
  bool has_candidate = false;
  for (const auto& each : keys.keys_) {
    // A key is for one algorithm, whatever the token says: else its sender would choose it.
    if (each->algorithm != parsed_->algorithm) continue;
    if (!parsed_->key_id.empty() && each->id != parsed_->key_id) continue;
    has_candidate = true;
    cjose_err error;
    if (cjose_jws_verify(parsed_->token.get(), each->key.get(), &error)) return absl::OkStatus();
  }
  if (!has_candidate) {
    return UnauthenticatedError(StrCat("the token's kid is ", Quoted(parsed_->key_id),
                                       ", and its issuer has no ", parsed_->algorithm,
                                       " key of that name"));
  }
  return UnauthenticatedError("the token's signature is by none of its issuer's keys");
}

absl::StatusOr<JwtClaims> JsonWebToken::Verify(const JsonWebKeys& keys, const std::string& audience,
                                               absl::Time now) const {
  if (absl::Status s = CheckSignature(keys); !s.ok()) return s;
  const json& claims = parsed_->claims;
  if (!HasAudience(claims, audience)) {
    return UnauthenticatedError(
        StrCat("the token's aud does not have ", Quoted(audience), ": it is for another server"));
  }
  const std::optional<absl::Time> end = TimeOf(claims, "exp");
  if (!end.has_value()) return UnauthenticatedError("the token has no exp: it would never end");
  if (now >= *end + kLeeway) {
    return UnauthenticatedError(StrCat("the token ended at ", TimeText(*end)));
  }
  if (claims.contains("nbf")) {
    const std::optional<absl::Time> begin = TimeOf(claims, "nbf");
    if (!begin.has_value()) return UnauthenticatedError("the token's nbf is no time");
    if (now < *begin - kLeeway) {
      return UnauthenticatedError(StrCat("the token begins at ", TimeText(*begin)));
    }
  }
  std::string subject = TextOf(claims, "sub");
  if (subject.empty() || subject.size() > kMostSubjectBytes) {
    return UnauthenticatedError(StrCat("the token's sub has ", subject.size(),
                                       " bytes; it must have 1 to ", kMostSubjectBytes));
  }
  return JwtClaims{std::move(subject), *end + kLeeway};
}

}  // namespace gemmd
