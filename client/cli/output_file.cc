#include "client/cli/output_file.h"

#include <algorithm>
#include <iostream>

#include "client/file.h"
#include "client/npy/npy.h"

namespace gemmd::cli {

bool IsStandardOutput(const std::string& path) { return path == "-"; }

Outcome CheckOutput(const std::string& path, bool json) {
  if (path.empty()) return std::nullopt;
  if (IsStandardOutput(path)) {
    if (json) return UsageFailure("--json and an output of - both want standard output");
    return std::nullopt;
  }
  const absl::Status writable = client::CheckWritable(path);
  if (!writable.ok()) return FileFailure(writable);
  return std::nullopt;
}

Outcome WriteOutput(const std::string& path, const client::MatrixView& matrix) {
  if (path.empty()) return std::nullopt;
  const absl::Status written = IsStandardOutput(path) ? client::WriteNpyToStandardOutput(matrix)
                                                      : client::WriteNpy(path, matrix);
  if (!written.ok()) return FileFailure(written);
  return std::nullopt;
}

void PrintBeside(const std::string& text, std::initializer_list<std::string> paths) {
  const bool is_taken = std::any_of(paths.begin(), paths.end(), IsStandardOutput);
  (is_taken ? std::cerr : std::cout) << text;
}

}  // namespace gemmd::cli
