// A line of a terminal, written over, that says how far an upload of `gemm put` is.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/sync/mutex.h"

namespace gemmd::cli {

// Thread-safe.
class PutProgress {
 public:
  // Writes nothing where `terminal` is null, or where there is little to send.
  PutProgress(std::ostream* terminal, std::string path, std::uint64_t total_bytes);
  // The line goes.
  ~PutProgress();
  PutProgress(const PutProgress&) = delete;
  PutProgress& operator=(const PutProgress&) = delete;

  void Add(std::uint64_t bytes);
  // Clears the line, for others to be written; the next Add() that changes it writes it again.
  void Hide();

 private:
  std::ostream* const terminal_;
  const std::string path_;
  const std::uint64_t total_bytes_;
  Mutex mutex_;
  std::uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t shown_percent_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Standard error, where somebody looks at it; else null.
std::ostream* TerminalForProgress();

}  // namespace gemmd::cli
