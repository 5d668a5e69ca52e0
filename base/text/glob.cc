#include "base/text/glob.h"

#include <cstddef>

namespace gemmd {

bool IsGlob(absl::string_view text) { return text.find_first_of("*?") != absl::string_view::npos; }

bool MatchesGlob(absl::string_view pattern, absl::string_view text) {
  constexpr std::size_t kNone = absl::string_view::npos;
  std::size_t star = kNone;  // the last "*" that was met,
  std::size_t taken = 0;     // and the end of what it stands for
  std::size_t at = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[i])) {
      ++at;
      ++i;
    } else if (star != kNone) {
      at = star + 1;
      i = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == kNone;
}

}  // namespace gemmd
