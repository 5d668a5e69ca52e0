// Suppresses leaks that LeakSanitizer finds in Debian's libraries. Every program of --config=asan
// links this file.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  // c-ares, which gRPC resolves names with, forgets a word of the machine's configuration.
  return "leak:ares_strdup\n";
}
