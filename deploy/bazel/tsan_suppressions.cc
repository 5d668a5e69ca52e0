// What ThreadSanitizer reports though it is right, because a library came without its
// instrumentation. Linked into every program of --config=tsan.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  // The last reference to a status frees it; the counts before it are atomics in Abseil's archive.
  return "race:absl::*::Status::Unref\n"
         "race:absl::*::status_internal::StatusRep\n";
}
