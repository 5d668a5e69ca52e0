// Suppresses false reports of ThreadSanitizer. Every program of --config=tsan links this file.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  // A status is freed with its last reference. Debian's Abseil is not instrumented, so the count,
  // an atomic inside the archive, is invisible: ThreadSanitizer sees the free without what orders
  // it.
  return "race:absl::*::Status::Unref\n"
         "race:absl::*::status_internal::StatusRep\n"
         // It asks what a descriptor is now that its owner may have closed, which is no memory.
         "race:gemmd::ConnectionTable::IsOpen\n";
}
