// Whole files, read and written.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file/write_file.h"
#include "client/bytes.h"

namespace gemmd::client {

using ::gemmd::CheckWritable;
using ::gemmd::WriteFile;

// Gives back the memory of pages that lie whole in these bytes, which are read from the file again
// where they are touched. Does nothing where they are of no mapped file.
void ReleasePages(const Bytes& bytes);

// An open regular file, whose size is known before any of it is read. Errors of
// every function here begin with the path.
class InputFile {
 public:
  // "-" is standard input. The rest of it, as of /dev/stdin and /dev/fd/N, is read to its end
  // first; opened again, it has the same bytes. INVALID_ARGUMENT where the path is anything else
  // but a regular file.
  static absl::StatusOr<InputFile> Open(const std::string& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  // REQUIRES: offset + bytes <= size_bytes(). DATA_LOSS where the file has
  // shrunk since it was opened.
  absl::StatusOr<std::string> Read(std::uint64_t offset, std::uint64_t bytes) const;
  // Reads a large part with several threads; else as Read().
  absl::StatusOr<Bytes> ReadLarge(std::uint64_t offset, std::uint64_t bytes) const;

  // All of it without a copy, for files of which little is read. Danger: where another process
  // cuts the file meanwhile, touching what is gone ends this one by SIGBUS.
  absl::StatusOr<Bytes> Map() const;

 private:
  absl::Status ReadInto(std::uint64_t offset, std::uint64_t bytes, char* to) const;

  InputFile(std::string path, int descriptor, std::uint64_t size_bytes);

  std::string path_;
  int descriptor_;
  std::uint64_t size_bytes_;
};

}  // namespace gemmd::client
