// SHA-256 of bytes in one piece or in several, by OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gemmd {

inline constexpr std::size_t kSha256Bytes = 32;
using Sha256Digest = std::array<std::uint8_t, kSha256Bytes>;

// The digest of what Update() was given, one call after another.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);
  // REQUIRES: called once, last.
  Sha256Digest Finish();

 private:
  void* const context_;
};

Sha256Digest Sha256Of(absl::string_view bytes);

// Returns the 32 bytes that the wire carries.
std::string ToBytes(const Sha256Digest& digest);

}  // namespace gemmd
