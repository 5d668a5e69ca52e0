#include "server/observe/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
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

std::string LineNow(Severity severity, absl::string_view event,
                    std::initializer_list<LogField> fields) {
  return absl::StrCat(FormatLogLine(absl::ToUnixMicros(absl::Now()), severity, event, fields),
                      "\n");
}

// Writes the line if that does not block, and returns whether it was written, whole. A reader that
// does not read, or has gone, is no reason to wait or to end. A pipe that is ready has room for 4
// KiB. A full disk may take a part of the line, which a newline ends before the next one.
bool TryWrite(absl::string_view line) {
  static std::atomic<bool> is_cut{false};
  pollfd file{STDERR_FILENO, POLLOUT, 0};
  if (poll(&file, 1, 0) != 1 || (file.revents & POLLOUT) == 0) return false;
  if (is_cut && write(STDERR_FILENO, "\n", 1) != 1) return false;
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  is_cut = written > 0 && written < static_cast<ssize_t>(line.size());
  return written == static_cast<ssize_t>(line.size());
}

void Write(absl::string_view line) {
  static Mutex mutex;
  // Lines since the last one that was written.
  static std::uint64_t lost ABSL_GUARDED_BY(mutex) = 0;
  const MutexLock lock(mutex);
  if (lost > 0 && TryWrite(LineNow(Severity::kWarning, "log_lines_lost", {{"count", lost}}))) {
    lost = 0;
  }
  if (lost > 0 || !TryWrite(line)) ++lost;
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
  Write(LineNow(severity, event, fields));
}

void LogWithoutMemory(const char* event, const char* error) {
  const absl::Time now = absl::Now();
  const absl::CivilSecond utc = absl::ToCivilSecond(now, absl::UTCTimeZone());
  const std::int64_t us = absl::ToUnixMicros(now) % 1000000;
  char line[512];
  const int bytes =
      std::snprintf(line, sizeof line,
                    "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\",\"severity\":\"ERROR\","
                    "\"event\":\"%s\",\"error\":\"%s\"}\n",
                    static_cast<int>(utc.year()), utc.month(), utc.day(), utc.hour(), utc.minute(),
                    utc.second(), static_cast<int>(us), event, error);
  TryWrite({line, std::min<std::size_t>(bytes, sizeof line - 1)});
}

}  // namespace gemmd
