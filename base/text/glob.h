// Patterns of names.
#pragma once

#include "absl/strings/string_view.h"

namespace gemmd {

// Returns whether a text has one of the two signs that make it a pattern.
bool IsGlob(absl::string_view text);

// Returns whether the whole text is as the pattern says: "*" stands for any characters, "?" for any
// one, and all else for itself. Brackets too: names of matrices have them. In bytes, without
// recursion, in time pattern x text at most.
bool MatchesGlob(absl::string_view pattern, absl::string_view text);

}  // namespace gemmd
