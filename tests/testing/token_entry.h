// Entries of a policy file.
#pragma once

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/digest/sha256.h"

namespace gemmd::testing {

// An entry for a token whose name is itself; `rest` follows, "role: USER".
inline std::string TokenEntry(const std::string& token, const std::string& tenant,
                              const std::string& rest) {
  Sha256 hash;
  hash.Update(token);
  const Sha256Digest digest = hash.Finish();
  const absl::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return absl::StrCat("token { name: \"", token, "\" tenant: \"", tenant, "\" sha256: \"",
                      absl::BytesToHexString(bytes), "\" ", rest, " }\n");
}

}  // namespace gemmd::testing
