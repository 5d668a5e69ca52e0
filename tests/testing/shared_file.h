// A POSIX shared-memory object of a test's own.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/unique_name.h"

namespace gemmd::testing {

// Removed at the end. Read and written by calls, so that a test may cut it short.
class SharedFile {
 public:
  explicit SharedFile(std::uint64_t bytes, const std::string& prefix = "gemmd-test-")
      : name_(UniqueName(prefix)) {
    file_ = shm_open(("/" + name_).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_GE(file_, 0);
    Resize(bytes);
  }
  ~SharedFile() {
    close(file_);
    shm_unlink(("/" + name_).c_str());
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& name() const { return name_; }

  void Resize(std::uint64_t bytes) { EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0); }
  void Write(std::uint64_t offset, const void* from, std::uint64_t bytes) {
    EXPECT_EQ(pwrite(file_, from, bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
  }
  std::string Read(std::uint64_t offset, std::uint64_t bytes) const {
    std::string read(bytes, '\0');
    EXPECT_EQ(pread(file_, read.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
    return read;
  }

 private:
  const std::string name_;
  int file_ = -1;
};

}  // namespace gemmd::testing
