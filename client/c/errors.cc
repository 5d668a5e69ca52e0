#include "client/c/errors.h"

#include <cctype>
#include <memory>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/details.h"
#include "client/retry_after.h"
#include "gemmd/v1/status.pb.h"

namespace gemmd::client::c {
namespace {

// "a.rows" of "a.rows is -1: ...": the first word, where the message goes on as refusals do. The
// Python client (errors.py) finds it by the same rule.
absl::string_view FieldOf(absl::string_view message) {
  const std::size_t end = message.find(' ');
  if (end == absl::string_view::npos || end == 0) return {};
  const absl::string_view word = message.substr(0, end);
  bool is_start = true;  // of a part, which a letter or '_' begins
  for (const char c : word) {
    const bool is_letter = (c >= 'a' && c <= 'z') || c == '_';
    const bool is_digit = c >= '0' && c <= '9';
    if (is_start ? !is_letter : !is_letter && !is_digit && c != '.') return {};
    is_start = c == '.';
  }
  if (is_start) return {};
  for (const absl::string_view verb : {" is ", " has ", " are ", " in "}) {
    if (message.substr(end, verb.size()) == verb) return word;
  }
  return {};
}

// The digits behind `words`; -1 where the message lacks them.
std::int64_t NumberBehind(absl::string_view message, absl::string_view words) {
  std::size_t begin = message.find(words);
  if (begin == absl::string_view::npos) return -1;
  begin += words.size();
  std::size_t end = begin;
  while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
  std::int64_t number = -1;
  return absl::SimpleAtoi(message.substr(begin, end - begin), &number) ? number : -1;
}

std::int64_t LimitOf(absl::string_view message) {
  const std::size_t range = message.find("must be ");
  if (range != absl::string_view::npos) {
    const std::int64_t limit = NumberBehind(message.substr(range), " to ");
    if (limit >= 0) return limit;
  }
  for (const absl::string_view words : {"at most ", "at least ", "limit is ", "limit of "}) {
    const std::int64_t limit = NumberBehind(message, words);
    if (limit >= 0) return limit;
  }
  return -1;
}

std::string DetailsOf(const absl::Status& status) {
  v1::StatusDetails details;
  status.ForEachPayload([&details](absl::string_view url, const absl::Cord& payload) {
    google::protobuf::Any* const detail = details.add_details();
    detail->set_type_url(std::string(url));
    detail->set_value(std::string(payload));
  });
  return details.SerializeAsString();
}

}  // namespace

gemmd_code Report(const absl::Status& status, gemmd_error** error) noexcept {
  const auto code = static_cast<gemmd_code>(status.code());
  if (status.ok() || error == nullptr) return code;
  try {
    auto told = std::make_unique<gemmd_error>();
    told->code = code;
    told->message = std::string(status.message());
    const std::string server = ServerOf(status);
    if (!server.empty()) told->message = absl::StrCat(server, ": ", told->message);
    told->field = std::string(FieldOf(status.message()));
    told->limit = LimitOf(status.message());
    if (const auto delay = RetryAfterOf(status)) {
      told->retry_after_ms = absl::ToInt64Milliseconds(*delay);
    }
    told->details = DetailsOf(status);
    *error = told.release();
  } catch (const std::exception&) {
    *error = nullptr;
  }
  return code;
}

}  // namespace gemmd::client::c

extern "C" {

const char* gemmd_code_name(gemmd_code code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  return code >= GEMMD_OK && code <= GEMMD_UNAUTHENTICATED ? kNames[code] : "UNKNOWN";
}

gemmd_code gemmd_error_code(const gemmd_error* error) {
  return error == nullptr ? GEMMD_OK : error->code;
}

const char* gemmd_error_message(const gemmd_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}

const char* gemmd_error_field(const gemmd_error* error) {
  return error == nullptr ? "" : error->field.c_str();
}

int64_t gemmd_error_limit(const gemmd_error* error) { return error == nullptr ? -1 : error->limit; }

int64_t gemmd_error_retry_after_ms(const gemmd_error* error) {
  return error == nullptr ? -1 : error->retry_after_ms;
}

const void* gemmd_error_details(const gemmd_error* error, uint64_t* bytes) {
  if (bytes != nullptr) *bytes = error == nullptr ? 0 : error->details.size();
  return error == nullptr ? nullptr : error->details.data();
}

void gemmd_error_free(gemmd_error* error) { delete error; }

}  // extern "C"
