// The linker replaces malloc, calloc and realloc by these (linkopts in BUILD.bazel), which end the
// process where memory ends: some libraries abort there without a word, and others use the null
// pointer. Memory for matrices comes from std::aligned_alloc, which may fail: then the request is
// refused.
//
// It also has jemalloc's options.
#include <cstddef>

#include "server/process.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the linker asks for these names.
extern "C" {

// A thread gives pages back to the host that nobody used for ten seconds. Otherwise only requests
// do so, and a server without any keeps what the last ones took.
extern const char* const malloc_conf;
const char* const malloc_conf = "background_thread:true";

void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* memory, std::size_t bytes);
void* __wrap_malloc(std::size_t bytes);
void* __wrap_calloc(std::size_t count, std::size_t bytes);
void* __wrap_realloc(void* memory, std::size_t bytes);

void* __wrap_malloc(std::size_t bytes) {
  void* const memory = __real_malloc(bytes);
  if (memory == nullptr) gemmd::EndWithoutMemory();
  return memory;
}

void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  void* const memory = __real_calloc(count, bytes);
  if (memory == nullptr) gemmd::EndWithoutMemory();
  return memory;
}

void* __wrap_realloc(void* memory, std::size_t bytes) {
  void* const moved = __real_realloc(memory, bytes);
  if (moved == nullptr && bytes != 0) gemmd::EndWithoutMemory();
  return moved;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
