#include "base/text/quoted.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gemmd {

std::string Quoted(absl::string_view text) {
  if (text.size() <= kMostQuotedBytes) return absl::StrCat("\"", absl::CHexEscape(text), "\"");
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMostQuotedBytes)), "...\" (",
                      text.size(), " bytes)");
}

}  // namespace gemmd
