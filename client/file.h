// Whole files, read and written so that nobody ever sees half of one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/bytes.h"

namespace gemmd::client {

// An open regular file, whose size is known before any of it is read. Errors of
// every function here begin with the path.
class InputFile {
 public:
  // Anything but a regular file is INVALID_ARGUMENT: the size of a pipe is not known.
  static absl::StatusOr<InputFile> Open(const std::string& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  // REQUIRES: offset + bytes <= size_bytes(). DATA_LOSS where the file has
  // shrunk since it was opened.
  absl::StatusOr<std::string> Read(std::uint64_t offset, std::uint64_t bytes) const;
  // The same for large parts, by several threads.
  absl::StatusOr<Bytes> ReadLarge(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  absl::Status ReadInto(std::uint64_t offset, std::uint64_t bytes, char* to) const;

  InputFile(std::string path, int descriptor, std::uint64_t size_bytes);

  std::string path_;
  int descriptor_;
  std::uint64_t size_bytes_;
};

// Returns OK if WriteFile can be expected to succeed. Call it before an expensive result is
// computed, which might have nowhere to go.
absl::Status CheckWritable(const std::string& path);

// Writes the parts one after another. A regular file appears under its name whole or
// not at all (a temporary file beside it is renamed over it); a device or pipe is
// written in place. Not synchronised to disk: it guards against a process that dies,
// not a machine.
absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> parts);

// Writes the parts to standard output; errors begin with "standard output".
absl::Status WriteStandardOutput(absl::Span<const absl::string_view> parts);

}  // namespace gemmd::client
