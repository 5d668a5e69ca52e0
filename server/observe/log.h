// Structured logs: one JSON object a line on standard error, with "time" (RFC 3339,
// UTC), "severity", "event", and the event's own fields.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/string_view.h"

namespace gemmd {

enum class Severity : std::uint8_t { kDebug, kInfo, kWarning, kError };

// The least severe that is written; kInfo until set. Thread-safe.
void SetLogThreshold(Severity severity);

class LogField {
 public:
  LogField(absl::string_view key, absl::string_view value)
      : key_(key), value_(std::string(value)) {}
  LogField(absl::string_view key, const char* value) : LogField(key, absl::string_view(value)) {}
  LogField(absl::string_view key, std::int64_t value) : key_(key), value_(value) {}
  LogField(absl::string_view key, std::uint64_t value) : key_(key), value_(value) {}
  LogField(absl::string_view key, int value) : LogField(key, std::int64_t{value}) {}
  LogField(absl::string_view key, double value) : key_(key), value_(value) {}

  const std::string& key() const { return key_; }
  const std::variant<std::string, std::int64_t, std::uint64_t, double>& value() const {
    return value_;
  }

 private:
  std::string key_;
  std::variant<std::string, std::int64_t, std::uint64_t, double> value_;
};

// Writes one line, whole, or nothing if it is below the threshold. If the log cannot be written, or
// only by waiting, the line is lost, and the next one that is written says so. Thread-safe.
void Log(Severity severity, absl::string_view event, std::initializer_list<LogField> fields = {});

// Writes the line of an error, whose text is plain ASCII, when there is no memory to be had.
void LogWithoutMemory(const char* event, const char* error);

// The line Log would write, without its newline, at the given time.
std::string FormatLogLine(std::int64_t unix_microseconds, Severity severity,
                          absl::string_view event, std::initializer_list<LogField> fields);

}  // namespace gemmd
