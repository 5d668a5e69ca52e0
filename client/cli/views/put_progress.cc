#include "client/cli/views/put_progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "client/cli/views/message_format.h"

namespace gemmd::cli {
namespace {

// Less takes no second on most networks, and goes without.
constexpr std::uint64_t kLeastBytes = 64 << 20;
constexpr char kWriteOver[] = "\r\x1b[2K";

}  // namespace

PutProgress::PutProgress(std::ostream* terminal, std::string path, std::uint64_t total_bytes)
    : terminal_(total_bytes < kLeastBytes ? nullptr : terminal),
      path_(std::move(path)),
      total_bytes_(total_bytes) {}

PutProgress::~PutProgress() {
  if (terminal_ != nullptr) *terminal_ << kWriteOver << std::flush;
}

void PutProgress::Add(std::uint64_t bytes) {
  if (terminal_ == nullptr) return;
  const MutexLock lock(mutex_);
  bytes_ = std::min(bytes_ + bytes, total_bytes_);
  const std::uint64_t percent = bytes_ * 100 / total_bytes_;
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  *terminal_ << kWriteOver << path_ << "  " << percent << " %  " << HumanBytes(bytes_) << " of "
             << HumanBytes(total_bytes_) << std::flush;
}

void PutProgress::Hide() {
  if (terminal_ == nullptr) return;
  const MutexLock lock(mutex_);
  *terminal_ << kWriteOver << std::flush;
}

std::ostream* TerminalForProgress() { return isatty(STDERR_FILENO) == 1 ? &std::cerr : nullptr; }

}  // namespace gemmd::cli
