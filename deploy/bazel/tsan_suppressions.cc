// Suppresses false reports of ThreadSanitizer: Debian's Abseil is not instrumented, so atomics in
// its archive are invisible to it. Every program of --config=tsan links this file.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  // Whoever drops the last reference to a status frees it; the archive counts the references.
  return "race:absl::*::Status::Unref\n"
         "race:absl::*::status_internal::StatusRep\n";
}
