#include "client/bytes.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace gemmd::client {

Buffer Buffer::Allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
  const bool is_large = bytes >= 2 * kHugePage;
  void* memory = nullptr;
  if (!is_large) {
    memory = std::malloc(bytes == 0 ? 1 : bytes);
  } else if (posix_memalign(&memory, kHugePage, bytes) == 0) {
    // Only advice: without it the memory is as good, and slower to fill.
    static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  } else {
    memory = nullptr;
  }
  if (memory == nullptr) throw std::bad_alloc();
  return {std::shared_ptr<char>(static_cast<char*>(memory), [](char* held) { std::free(held); }),
          bytes};
}

}  // namespace gemmd::client
