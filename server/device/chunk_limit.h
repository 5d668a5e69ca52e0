// Limits how many chunks a payload may come in.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"

namespace gemmd {

// A chunk takes memory and time however small it is, and empty ones could come for ever. So those
// beyond the first thousand must be paid for with bytes. Thread-safe.
class ChunkLimit {
 public:
  static constexpr std::uint64_t kFreeChunks = 1024;
  static constexpr std::uint64_t kBytesPerChunk = 4096;

  // `what` has the chunks, in errors.
  explicit ChunkLimit(absl::string_view what) : what_(what) {}

  // Counts a chunk. INVALID_ARGUMENT, with nothing counted: there are too many for their bytes.
  absl::Status Add(std::uint64_t bytes);

 private:
  const std::string what_;
  Mutex mutex_;
  std::uint64_t chunks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all of them
};

}  // namespace gemmd
