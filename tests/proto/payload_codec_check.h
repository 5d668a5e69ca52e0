// The payload codec against the generated parser, for tests and fuzzers.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gemmd::testing {

// The message types that have payload.
inline constexpr int kPayloadMessages = 9;

// Reads the bytes, cut after each of `cuts` (those beyond the end are ignored), both as the
// codec and as the generated parser do. Empty where they agree: both refuse, or both have the
// same message. Otherwise what each of them says.
std::string WhereTheyDiffer(int message, absl::string_view bytes, std::vector<std::size_t> cuts);

}  // namespace gemmd::testing
