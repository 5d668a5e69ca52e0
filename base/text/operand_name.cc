#include "base/text/operand_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"

namespace gemmd {
namespace {

constexpr std::size_t kInstanceDigits = 8;
constexpr std::size_t kDigestDigits = 64;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isxdigit(c); });
}

bool IsDecimal(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return absl::ascii_isdigit(c); });
}

}  // namespace

bool HasHandleForm(absl::string_view text) {
  return text.size() > kInstanceDigits && text[kInstanceDigits] == '-' &&
         IsHex(text.substr(0, kInstanceDigits)) && IsDecimal(text.substr(kInstanceDigits + 1));
}

bool HasDigestForm(absl::string_view text) { return text.size() == kDigestDigits && IsHex(text); }

absl::Status CheckOperandName(absl::string_view field, absl::string_view name) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", Quoted(name), "; ", why));
  };
  if (name.empty() || name.size() > kMaxOperandNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has ", name.size(), " bytes; a name has 1 to ", kMaxOperandNameBytes));
  }
  const bool has_control =
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); });
  if (has_control || !IsUtf8(name)) return refuse("a name is UTF-8 without control characters");
  if (HasHandleForm(name)) return refuse("a name has not the form of a handle");
  if (HasDigestForm(name)) return refuse("a name has not the form of a digest");
  return absl::OkStatus();
}

}  // namespace gemmd
