// UTF-8 in texts of others (RFC 3629, section 4).
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace gemmd {

// Returns the length of the character at the text's start; 0: there is none. REQUIRES: the text is
// not empty.
std::size_t Utf8CharacterBytes(absl::string_view text);

bool IsUtf8(absl::string_view text);

}  // namespace gemmd
