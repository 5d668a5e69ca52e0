#include "server/observe/log.h"

#include <atomic>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace gemmd {
namespace {

std::atomic<Severity> threshold{Severity::kInfo};

const char* Name(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "DEBUG";
    case Severity::kInfo:
      return "INFO";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kError:
      return "ERROR";
  }
  return "?";
}

}  // namespace

void SetLogThreshold(Severity severity) { threshold = severity; }

std::string FormatLogLine(std::int64_t unix_microseconds, Severity severity,
                          absl::string_view event, std::initializer_list<LogField> fields) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", absl::FromUnixMicros(unix_microseconds),
                                  absl::UTCTimeZone());
  line["severity"] = Name(severity);
  line["event"] = std::string(event);
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[field.key()] = value; }, field.value());
  }
  // Bytes that are not UTF-8 (a client chose them) are replaced, never thrown on.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void Log(Severity severity, absl::string_view event, std::initializer_list<LogField> fields) {
  if (severity < threshold.load(std::memory_order_relaxed)) return;
  const std::string line =
      absl::StrCat(FormatLogLine(absl::ToUnixMicros(absl::Now()), severity, event, fields), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);  // stdio locks: lines do not mix
}

}  // namespace gemmd
