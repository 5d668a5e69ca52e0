// Issues JSON web tokens, by OpenSSL alone: nothing of it is the server's code, or its library's.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_pkey_st;

namespace gemmd::testing {

// RFC 4648's alphabet for names of files, without padding.
std::string Base64Url(absl::string_view bytes);

// A new key. The process ends where OpenSSL fails.
class JwtKey {
 public:
  enum class Kind { kRsa2048, kRsa1024, kP256, kP384 };
  // `id`: the kid of its tokens and of its public half; empty: none.
  JwtKey(Kind kind, std::string id);

  // "RS256" or "ES256", or the next larger one.
  std::string algorithm() const;

  // The public half as a JSON web key. `more`: members besides, "\"use\":\"enc\"".
  std::string PublicJson(const std::string& more = "") const;

  // Signs header and claims, both JSON, whatever they say.
  std::string Sign(const std::string& header, const std::string& claims) const;
  // Signs the claims under the usual header.
  std::string Sign(const std::string& claims) const;

 private:
  bool is_rsa() const { return kind_ == Kind::kRsa2048 || kind_ == Kind::kRsa1024; }

  Kind kind_;
  std::string id_;
  std::shared_ptr<evp_pkey_st> key_;
};

// A JSON Web Key Set.
std::string KeySet(const std::string& keys);

// "iss", "aud" and "sub" as given, until `expires`, seconds since 1970.
std::string Claims(const std::string& issuer, const std::string& audience,
                   const std::string& subject, long expires, const std::string& more = "");

}  // namespace gemmd::testing
