// A file in memory that other code opens by its path, and that is replaced whole.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// A file in memory: a reader that opens the path gets the bytes of one moment. It is this process's
// alone, and never on a disk. The descriptor stays open for good, because whoever was given the
// path may use it at any time.
class MemoryFile {
 public:
  // UNAVAILABLE: no descriptor or no memory is left.
  static absl::StatusOr<MemoryFile> Make(absl::string_view bytes);

  const std::string& path() const { return path_; }

  // The time of modification differs from all before, by whole seconds: a reader of several files
  // sees by it that they changed between. UNAVAILABLE: no descriptor or no memory is left, and the
  // old bytes stay.
  absl::Status Replace(absl::string_view bytes);

 private:
  MemoryFile() = default;

  int descriptor_ = -1;
  std::int64_t version_ = 1;  // 0 would be no time for gRPC
  std::string path_;
};

}  // namespace gemmd
