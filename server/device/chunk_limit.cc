#include "server/device/chunk_limit.h"

#include "absl/strings/str_cat.h"

namespace gemmd {

absl::Status ChunkLimit::Add(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const std::uint64_t all_bytes = bytes_ + bytes;
  if (chunks_ >= kFreeChunks + all_bytes / kBytesPerChunk) {
    return absl::InvalidArgumentError(absl::StrCat(
        what_, " has ", chunks_ + 1, " chunks of ", all_bytes, " bytes together; it may have ",
        kFreeChunks, " of them, and one more for each ", kBytesPerChunk, " bytes"));
  }
  ++chunks_;
  bytes_ = all_bytes;
  return absl::OkStatus();
}

}  // namespace gemmd
