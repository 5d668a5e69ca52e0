// JSON web tokens (RFC 7519): signed by an issuer, whose public keys a file has.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd {

// An issuer's public keys. Immutable, and cheap to copy.
class JsonWebKeys {
 public:
  // Reads a JSON Web Key Set (RFC 7517). Keys that no algorithm of JsonWebToken's uses are left
  // out. INVALID_ARGUMENT: it is none, has no key to use, or one that is broken, private or RSA's
  // of less than 2048 bits.
  static absl::StatusOr<JsonWebKeys> Parse(const std::string& text);

  std::size_t size() const { return keys_.size(); }

 private:
  friend class JsonWebToken;
  struct Key;

  std::vector<std::shared_ptr<const Key>> keys_;
};

// The claims of a token whose signature was verified.
struct JwtClaims {
  std::string subject;
  absl::Time expires;  // kLeeway included
};

class JsonWebToken {
 public:
  // Clocks differ: a token is good for so long before and after what it says.
  static constexpr absl::Duration kLeeway = absl::Seconds(30);

  // Returns whether a text has the form of a token: three parts between dots.
  static bool IsLike(absl::string_view text);

  // UNAUTHENTICATED: it is none, or larger than any is.
  static absl::StatusOr<JsonWebToken> Parse(const std::string& text);
  JsonWebToken(JsonWebToken&& other) noexcept;
  JsonWebToken& operator=(JsonWebToken&& other) noexcept;
  ~JsonWebToken();

  // The issuer that the token names, which is not proved before Verify().
  const std::string& issuer() const;

  // UNAUTHENTICATED, and why: it is signed by none of the keys, or by another algorithm than RS256
  // and ES256; has another audience; has ended, has not begun, or never ends; has no subject; or
  // asks for what is not understood (crit). Thread-safe for the keys.
  absl::StatusOr<JwtClaims> Verify(const JsonWebKeys& keys, const std::string& audience,
                                   absl::Time now) const;

 private:
  struct Parsed;
  explicit JsonWebToken(std::unique_ptr<Parsed> parsed);

  absl::Status CheckSignature(const JsonWebKeys& keys) const;

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace gemmd
