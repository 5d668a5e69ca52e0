#include "client/blas/settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gemmd::blas {
namespace {

// Returns null for one that is empty: a script clears a variable so.
const char* Given(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// Returns false where it is none of the three.
bool ParseMode(const char* text, Mode& mode) {
  if (std::strcmp(text, "auto") == 0) {
    mode = Mode::kAuto;
  } else if (std::strcmp(text, "always") == 0) {
    mode = Mode::kAlways;
  } else if (std::strcmp(text, "never") == 0) {
    mode = Mode::kNever;
  } else {
    return false;
  }
  return true;
}

bool ParseLimit(const char* text, std::int64_t& limit_ms) {
  constexpr long long kDayMs = 24LL * 3600 * 1000;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (errno != 0 || *end != '\0' || value < 1 || value > kDayMs) return false;
  limit_ms = value;
  return true;
}

bool ParseSwitch(const char* text, bool& on) {
  on = std::strcmp(text, "1") == 0;
  return on || std::strcmp(text, "0") == 0;
}

// -1 where it cannot be written.
int OpenLog(const char* path) {
  return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

void WriteAll(int descriptor, const char* text, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, text, size);
    if (written <= 0) return;  // nobody is left to tell
    text += written;
    size -= static_cast<std::size_t>(written);
  }
}

}  // namespace

Settings ReadSettings() {
  Settings settings;
  settings.server = Given("GEMMD_SERVER");
  settings.library = Given("GEMMD_LIBRARY");
  settings.kernel = Given("GEMMD_BLAS_KERNEL");
  const auto refuse = [&settings](const char* name, const char* value, const char* rule) {
    Say("%s is \"%s\": it must be %s; all is computed here", name, value, rule);
    settings.mode = Mode::kNever;
  };
  settings.tls_root_certs = Given("GEMMD_BLAS_TLS_ROOT_CERTS");
  settings.tls_client_cert = Given("GEMMD_BLAS_TLS_CLIENT_CERT");
  settings.tls_client_key = Given("GEMMD_BLAS_TLS_CLIENT_KEY");
  settings.token_file = Given("GEMMD_BLAS_TOKEN_FILE");
  const char* const mode = Given("GEMMD_BLAS_MODE");
  const char* const limit = Given("GEMMD_BLAS_LIMIT_MS");
  const char* const report = Given("GEMMD_BLAS_REPORT");
  const char* const tls = Given("GEMMD_BLAS_TLS");
  // One that is none is enough to be told of.
  if (mode != nullptr && !ParseMode(mode, settings.mode)) {
    refuse("GEMMD_BLAS_MODE", mode, "auto, always or never");
  } else if (limit != nullptr && !ParseLimit(limit, settings.limit_ms)) {
    refuse("GEMMD_BLAS_LIMIT_MS", limit, "1 to 86400000");
  } else if (report != nullptr && !ParseSwitch(report, settings.report)) {
    refuse("GEMMD_BLAS_REPORT", report, "0 or 1");
  } else if (tls != nullptr && !ParseSwitch(tls, settings.tls)) {
    refuse("GEMMD_BLAS_TLS", tls, "0 or 1");
  }
  if (const char* log = Given("GEMMD_BLAS_LOG"); log != nullptr) {
    const bool is_file = std::strcmp(log, "-") != 0;
    const int descriptor = is_file ? OpenLog(log) : STDERR_FILENO;
    if (descriptor >= 0) {
      settings.log = log;
    } else {
      // Products do not depend on it.
      Say("GEMMD_BLAS_LOG is \"%s\": %s", log, std::strerror(errno));
    }
    if (is_file && descriptor >= 0) close(descriptor);
  }
  return settings;
}

void Append(const char* path, const char* text, std::size_t size) {
  if (std::strcmp(path, "-") == 0) return WriteAll(STDERR_FILENO, text, size);
  const int descriptor = OpenLog(path);
  if (descriptor < 0) return;  // it could be opened at the start
  WriteAll(descriptor, text, size);
  close(descriptor);
}

void Say(const char* format, ...) {
  char line[1024];
  constexpr char kName[] = "gemmd_blas: ";
  constexpr int kBegin = sizeof(kName) - 1;
  constexpr int kMost = static_cast<int>(sizeof(line)) - kBegin - 1;  // and a newline
  std::memcpy(line, kName, kBegin);
  va_list arguments;
  va_start(arguments, format);
  int length = std::vsnprintf(line + kBegin, kMost, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length >= kMost) length = kMost - 1;
  line[kBegin + length] = '\n';
  WriteAll(STDERR_FILENO, line, std::size_t{kBegin} + static_cast<std::size_t>(length) + 1);
}

}  // namespace gemmd::blas
