#include "server/auth/jwt.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/quoted.h"
#include "nlohmann/json.hpp"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using absl::UnauthenticatedError;
using nlohmann::json;

constexpr char kRsa[] = "RS256";
constexpr char kEc[] = "ES256";

// The size that all headers of a call may have together.
constexpr std::size_t kMostBytes = 8192;
constexpr std::size_t kMostKeys = 64;
constexpr int kLeastRsaBits = 2048;
constexpr int kMostRsaBits = 8192;  // each call pays for them
constexpr int kMostExponentBits = 64;
constexpr std::size_t kP256Bytes = 32;
constexpr std::size_t kMostSubjectBytes = 256;

struct Free {
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(OSSL_PARAM* parameters) const { OSSL_PARAM_free(parameters); }
  void operator()(OSSL_PARAM_BLD* builder) const { OSSL_PARAM_BLD_free(builder); }
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

const unsigned char* Bytes(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Decodes base64url without padding, as RFC 7515 has it; Abseil takes more than that.
std::optional<std::string> Decode(absl::string_view text) {
  const bool is_alphabet = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  std::string bytes;
  if (!is_alphabet || text.size() % 4 == 1 || !absl::WebSafeBase64Unescape(text, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

Owned<BIGNUM> NumberOf(const std::string& bytes) {
  return Owned<BIGNUM>(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

// Null: they are no public key of that type.
Owned<EVP_PKEY> KeyOf(const char* type, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder));
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  return Owned<EVP_PKEY>(key);
}

json ParseObject(absl::string_view text) {
  json parsed = json::parse(text.begin(), text.end(), nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

// Returns the text of an object's member; empty where it is not there or no text.
std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The algorithm of a key's that is taken; empty: none is.
std::string AlgorithmOf(const json& key) {
  const std::string type = TextOf(key, "kty");
  const bool is_p256 = TextOf(key, "crv") == "P-256";
  const std::string algorithm = type == "RSA" ? kRsa : type == "EC" && is_p256 ? kEc : "";
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

// A member of a key's, which is bytes; none: it is not there, or no such text.
std::optional<std::string> BytesOf(const json& key, const char* name) {
  const std::optional<std::string> bytes = Decode(TextOf(key, name));
  return bytes.has_value() && !bytes->empty() ? bytes : std::nullopt;
}

absl::Status Broken(const std::string& entry) {
  return InvalidArgumentError(StrCat(entry, " is a broken key"));
}

absl::StatusOr<Owned<EVP_PKEY>> ParseRsaKey(const std::string& entry, const json& key) {
  const std::optional<std::string> modulus_bytes = BytesOf(key, "n");
  const std::optional<std::string> exponent_bytes = BytesOf(key, "e");
  if (!modulus_bytes.has_value() || !exponent_bytes.has_value()) return Broken(entry);
  const Owned<BIGNUM> modulus = NumberOf(*modulus_bytes);
  const Owned<BIGNUM> exponent = NumberOf(*exponent_bytes);
  const int bits = BN_num_bits(modulus.get());
  if (bits < kLeastRsaBits || bits > kMostRsaBits) {
    return InvalidArgumentError(StrCat(entry, " has ", bits, " bits; RSA keys must have ",
                                       kLeastRsaBits, " to ", kMostRsaBits));
  }
  // Anybody could sign with 1 as the exponent.
  if (BN_is_odd(exponent.get()) == 0 || BN_is_one(exponent.get()) != 0 ||
      BN_num_bits(exponent.get()) > kMostExponentBits) {
    return Broken(entry);
  }
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  Owned<EVP_PKEY> made = KeyOf("RSA", builder.get());
  if (made == nullptr) return Broken(entry);
  return made;
}

absl::StatusOr<Owned<EVP_PKEY>> ParseEcKey(const std::string& entry, const json& key) {
  const std::optional<std::string> x = BytesOf(key, "x");
  const std::optional<std::string> y = BytesOf(key, "y");
  if (!x.has_value() || !y.has_value() || x->size() != kP256Bytes || y->size() != kP256Bytes) {
    return Broken(entry);
  }
  // SEC 1, 2.3.3: a point that is not compressed.
  const std::string point = StrCat("\x04", *x, *y);
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  Owned<EVP_PKEY> made = KeyOf("EC", builder.get());
  if (made == nullptr) return Broken(entry);
  return made;
}

// A signature by ES256 as OpenSSL takes it, which has both numbers in DER; empty: it is none.
std::string DerOf(const std::string& signature) {
  if (signature.size() != 2 * kP256Bytes) return "";
  Owned<BIGNUM> r = NumberOf(signature.substr(0, kP256Bytes));
  Owned<BIGNUM> s = NumberOf(signature.substr(kP256Bytes));
  const Owned<ECDSA_SIG> both(ECDSA_SIG_new());
  if (ECDSA_SIG_set0(both.get(), r.release(), s.release()) != 1) return "";
  std::array<unsigned char, 2 * kP256Bytes + 16> der{};
  unsigned char* next = der.data();
  const int size = i2d_ECDSA_SIG(both.get(), &next);
  return size > 0 ? std::string(der.begin(), der.begin() + size) : "";
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

}  // namespace

struct JsonWebKeys::Key {
  Owned<EVP_PKEY> key;
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
    absl::StatusOr<Owned<EVP_PKEY>> key =
        algorithm == kRsa ? ParseRsaKey(entry, each) : ParseEcKey(entry, each);
    if (!key.ok()) return key.status();
    auto kept = std::make_shared<Key>();
    *kept = Key{*std::move(key), std::move(algorithm), TextOf(each, "kid")};
    keys.keys_.push_back(std::move(kept));
  }
  if (keys.keys_.empty()) {
    return InvalidArgumentError("it has no key for RS256 (RSA) or ES256 (EC, P-256)");
  }
  return keys;
}

struct JsonWebToken::Parsed {
  std::string signed_text;
  std::string signature;
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
  if (text.size() > kMostBytes) {
    return UnauthenticatedError(
        StrCat("the token has ", text.size(), " bytes; the limit is ", kMostBytes));
  }
  std::array<std::optional<std::string>, 3> parts;
  if (IsLike(text)) {
    const std::vector<absl::string_view> texts = absl::StrSplit(text, '.');
    std::transform(texts.begin(), texts.end(), parts.begin(), Decode);
  }
  const auto& [header_text, claims_text, signature] = parts;
  if (!header_text.has_value() || !claims_text.has_value() || !signature.has_value()) {
    return UnauthenticatedError("the token is no JSON web token that is signed");
  }
  const json header = ParseObject(*header_text);
  auto parsed = std::make_unique<Parsed>();
  parsed->signed_text = text.substr(0, text.rfind('.'));
  parsed->signature = *signature;
  parsed->algorithm = TextOf(header, "alg");
  parsed->key_id = TextOf(header, "kid");
  parsed->is_critical = header.contains("crit");
  parsed->claims = ParseObject(*claims_text);
  parsed->issuer = TextOf(parsed->claims, "iss");
  return JsonWebToken(std::move(parsed));
}

const std::string& JsonWebToken::issuer() const { return parsed_->issuer; }

absl::Status JsonWebToken::CheckSignature(const JsonWebKeys& keys) const {
  const NoOpenSslErrors no_errors;
  if (parsed_->algorithm != kRsa && parsed_->algorithm != kEc) {
    return UnauthenticatedError(
        StrCat("the token's alg is ", Quoted(parsed_->algorithm), "; RS256 and ES256 are taken"));
  }
  if (parsed_->is_critical) {
    return UnauthenticatedError("the token has a header crit, of which nothing is understood");
  }
  const std::string signature =
      parsed_->algorithm == kEc ? DerOf(parsed_->signature) : parsed_->signature;
  bool has_candidate = false;
  for (const auto& each : keys.keys_) {
    // A key is for one algorithm, whatever the token says: else its sender would choose it.
    if (each->algorithm != parsed_->algorithm) continue;
    if (!parsed_->key_id.empty() && each->id != parsed_->key_id) continue;
    has_candidate = true;
    // PKCS #1 1.5 with RSA, as RS256 has it, is what OpenSSL does unless told otherwise.
    const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
    if (!signature.empty() &&
        EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, each->key.get()) == 1 &&
        EVP_DigestVerify(context.get(), Bytes(signature), signature.size(),
                         Bytes(parsed_->signed_text), parsed_->signed_text.size()) == 1) {
      return absl::OkStatus();
    }
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
