#include "tests/testing/jwt_issuer.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gemmd::testing {
namespace {

void Require(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "OpenSSL cannot %s\n", what);
  std::abort();
}

// Big-endian, of that many bytes; 0: as few as it takes.
std::string BytesOf(const BIGNUM* number, int size) {
  const int bytes = size != 0 ? size : BN_num_bytes(number);
  std::vector<unsigned char> data(static_cast<std::size_t>(bytes));
  Require(BN_bn2binpad(number, data.data(), bytes) == bytes, "write a number");
  return {data.begin(), data.end()};
}

std::string Member(const EVP_PKEY* key, const char* json_name, const char* name, int size) {
  BIGNUM* number = nullptr;
  Require(EVP_PKEY_get_bn_param(key, name, &number) == 1, "read a key");
  const std::string text =
      absl::StrCat(",\"", json_name, "\":\"", Base64Url(BytesOf(number, size)), "\"");
  BN_free(number);
  return text;
}

}  // namespace

std::string Base64Url(absl::string_view bytes) {
  std::string text;
  absl::WebSafeBase64Escape(bytes, &text);
  return text;
}

JwtKey::JwtKey(Kind kind, std::string id) : kind_(kind), id_(std::move(id)) {
  EVP_PKEY* key = nullptr;
  if (is_rsa()) {
    key = EVP_RSA_gen(kind == Kind::kRsa2048 ? 2048 : 1024);
  } else {
    key = EVP_EC_gen(kind == Kind::kP256 ? "P-256" : "P-384");
  }
  Require(key != nullptr, "make a key");
  key_ = std::shared_ptr<EVP_PKEY>(key, EVP_PKEY_free);
}

std::string JwtKey::algorithm() const {
  return is_rsa() ? "RS256" : kind_ == Kind::kP256 ? "ES256" : "ES384";
}

std::string JwtKey::PublicJson(const std::string& more) const {
  std::string json = absl::StrCat("{\"kty\":\"", is_rsa() ? "RSA" : "EC", "\"");
  if (is_rsa()) {
    json += Member(key_.get(), "n", OSSL_PKEY_PARAM_RSA_N, 0);
    json += Member(key_.get(), "e", OSSL_PKEY_PARAM_RSA_E, 0);
  } else {
    const int size = kind_ == Kind::kP256 ? 32 : 48;
    absl::StrAppend(&json, ",\"crv\":\"", kind_ == Kind::kP256 ? "P-256" : "P-384", "\"");
    json += Member(key_.get(), "x", OSSL_PKEY_PARAM_EC_PUB_X, size);
    json += Member(key_.get(), "y", OSSL_PKEY_PARAM_EC_PUB_Y, size);
  }
  if (!id_.empty()) absl::StrAppend(&json, ",\"kid\":\"", id_, "\"");
  if (!more.empty()) absl::StrAppend(&json, ",", more);
  return json + "}";
}

std::string JwtKey::Sign(const std::string& header, const std::string& claims) const {
  const std::string signed_part = absl::StrCat(Base64Url(header), ".", Base64Url(claims));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(signed_part.data());
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  std::size_t size = 0;
  const EVP_MD* const hash = kind_ == Kind::kP384 ? EVP_sha384() : EVP_sha256();
  Require(EVP_DigestSignInit(context, nullptr, hash, nullptr, key_.get()) == 1 &&
              EVP_DigestSign(context, nullptr, &size, bytes, signed_part.size()) == 1,
          "begin a signature");
  std::vector<unsigned char> signature(size);
  Require(EVP_DigestSign(context, signature.data(), &size, bytes, signed_part.size()) == 1, "sign");
  EVP_MD_CTX_free(context);
  std::string raw(signature.begin(), signature.begin() + static_cast<std::ptrdiff_t>(size));
  if (!is_rsa()) {
    // RFC 7518, 3.4: both numbers at full length, where OpenSSL writes them as DER.
    const unsigned char* next = signature.data();
    ECDSA_SIG* const both = d2i_ECDSA_SIG(nullptr, &next, static_cast<long>(size));
    Require(both != nullptr, "read a signature");
    const int each = kind_ == Kind::kP256 ? 32 : 48;
    raw = BytesOf(ECDSA_SIG_get0_r(both), each) + BytesOf(ECDSA_SIG_get0_s(both), each);
    ECDSA_SIG_free(both);
  }
  return absl::StrCat(signed_part, ".", Base64Url(raw));
}

std::string JwtKey::Sign(const std::string& claims) const {
  const std::string kid = id_.empty() ? "" : absl::StrCat(",\"kid\":\"", id_, "\"");
  return Sign(absl::StrCat("{\"alg\":\"", algorithm(), "\"", kid, "}"), claims);
}

std::string KeySet(const std::string& keys) { return absl::StrCat("{\"keys\":[", keys, "]}"); }

std::string Claims(const std::string& issuer, const std::string& audience,
                   const std::string& subject, long expires, const std::string& more) {
  return absl::StrCat("{\"iss\":\"", issuer, "\",\"aud\":\"", audience, "\",\"sub\":\"", subject,
                      "\",\"exp\":", expires, more.empty() ? "" : ",", more, "}");
}

}  // namespace gemmd::testing
