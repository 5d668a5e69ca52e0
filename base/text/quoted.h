// Texts of others, as errors repeat them.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gemmd {

// The length up to which a text is repeated whole.
inline constexpr std::size_t kMostQuotedBytes = 128;

// The text in quotes, in printable ASCII: other bytes are escaped as in C. A longer text gives its
// first bytes, an ellipsis and its length, because a status travels in HTTP/2's headers: one of
// more than 8 KiB breaks its call, whose client then tries again.
//   "sm90/imagined"   "caf\xc3\xa9"   "aaaaaaaa..." (200000 bytes)
std::string Quoted(absl::string_view text);

}  // namespace gemmd
