#include "base/text/traceparent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr std::size_t kLength = 55;  // of version 00
constexpr std::size_t kIdAt = 3;
constexpr std::size_t kParentAt = 36;
constexpr std::size_t kFlagsAt = 53;

// Upper case is no hex digit here.
int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ReadHex(absl::string_view text, std::uint8_t* bytes, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

template <std::size_t kSize>
bool IsZero(const std::array<std::uint8_t, kSize>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

absl::Status Wrong(absl::string_view field, absl::string_view text, absl::string_view why) {
  constexpr std::size_t kShown = 80;
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", Quoted(text.substr(0, kShown)), ": ", why));
}

bool IsKey(absl::string_view key) {
  constexpr std::size_t kMost = 256;
  if (key.empty() || key.size() > kMost) return false;
  if (!absl::ascii_islower(key[0]) && !absl::ascii_isdigit(key[0])) return false;
  if (std::count(key.begin(), key.end(), '@') > 1) return false;
  return std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) ||
           absl::string_view("_-*/@").find(c) != absl::string_view::npos;
  });
}

bool IsValue(absl::string_view value) {
  constexpr std::size_t kMost = 256;
  if (value.empty() || value.size() > kMost || value.back() == ' ') return false;
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

}  // namespace

absl::StatusOr<TraceContext> ParseTraceparent(absl::string_view field, absl::string_view text) {
  if (text.size() < kLength) {
    return Wrong(field, text,
                 absl::StrCat("it has ", text.size(),
                              " characters; VERSION-TRACE-PARENT-FLAGS has ", kLength));
  }
  std::uint8_t version = 0;
  TraceContext context;
  if (text[2] != '-' || text[kParentAt - 1] != '-' || text[kFlagsAt - 1] != '-' ||
      !ReadHex(text, &version, 1) ||
      !ReadHex(text.substr(kIdAt), context.trace_id.data(), context.trace_id.size()) ||
      !ReadHex(text.substr(kParentAt), context.parent_id.data(), context.parent_id.size()) ||
      !ReadHex(text.substr(kFlagsAt), &context.flags, 1)) {
    return Wrong(
        field, text,
        "it is not VERSION-TRACE-PARENT-FLAGS of 2, 32, 16 and 2 hex digits in lower case");
  }
  constexpr std::uint8_t kNoVersion = 0xff;
  if (version == kNoVersion) return Wrong(field, text, "there is no version ff");
  if (version == 0 && text.size() != kLength) {
    return Wrong(field, text, absl::StrCat("version 00 has ", kLength, " characters"));
  }
  if (text.size() > kLength && text[kLength] != '-') {
    return Wrong(field, text, "its flags have more than 2 digits");
  }
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return Wrong(field, text, "it has characters that no header of this kind has");
  }
  if (IsZero(context.trace_id)) return Wrong(field, text, "its trace is zero");
  if (IsZero(context.parent_id)) return Wrong(field, text, "its parent is zero");
  // Later versions may give the other flags a meaning.
  if (version != 0) context.flags &= TraceContext::kSampled;
  return context;
}

std::string ToTraceparent(const TraceContext& context) {
  return absl::StrCat("00-", ToHex(context.trace_id.data(), context.trace_id.size()), "-",
                      ToHex(context.parent_id.data(), context.parent_id.size()), "-",
                      ToHex(&context.flags, 1));
}

absl::Status CheckTracestate(absl::string_view field, absl::string_view text) {
  constexpr std::size_t kMostCharacters = 512;
  constexpr std::size_t kMostMembers = 32;
  if (text.size() > kMostCharacters) {
    return Wrong(
        field, text,
        absl::StrCat("it has ", text.size(), " characters, and may have ", kMostCharacters));
  }
  std::vector<absl::string_view> keys;
  for (absl::string_view member : absl::StrSplit(text, ',')) {
    // Tabs may stand here too, but no header of gRPC's has one.
    while (absl::ConsumePrefix(&member, " ")) continue;
    while (absl::ConsumeSuffix(&member, " ")) continue;
    if (member.empty()) continue;
    const std::size_t equals = member.find('=');
    if (equals == absl::string_view::npos || !IsKey(member.substr(0, equals)) ||
        !IsValue(member.substr(equals + 1))) {
      return Wrong(field, text, absl::StrCat("its member ", Quoted(member), " is no KEY=VALUE"));
    }
    keys.push_back(member.substr(0, equals));
  }
  if (keys.size() > kMostMembers) {
    return Wrong(field, text,
                 absl::StrCat("it has ", keys.size(), " members, and may have ", kMostMembers));
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) {
    return Wrong(field, text, absl::StrCat("its key ", *twice, " is there twice"));
  }
  return absl::OkStatus();
}

TraceOrigin ReadTraceOrigin(absl::string_view traceparent, absl::string_view tracestate) {
  TraceOrigin origin;
  if (traceparent.empty()) return origin;
  const absl::StatusOr<TraceContext> context = ParseTraceparent("traceparent", traceparent);
  if (!context.ok()) return origin;
  origin.context = *context;
  if (CheckTracestate("tracestate", tracestate).ok()) origin.state = std::string(tracestate);
  return origin;
}

std::string ToHex(const std::uint8_t* bytes, std::size_t size) {
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4U];
    text += kDigits[bytes[i] & 0xfU];
  }
  return text;
}

}  // namespace gemmd
