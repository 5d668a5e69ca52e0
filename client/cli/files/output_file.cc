#include "client/cli/files/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/file/write_file.h"
#include "client/npy/npy.h"

namespace gemmd::cli {
namespace {

Outcome OutcomeOf(const absl::Status& status) {
  return status.ok() ? std::nullopt : Outcome(FileFailure(status));
}

}  // namespace

bool IsStandardOutput(const std::string& path) {
  if (path == "-") return true;
  struct stat named;
  struct stat standard;
  if (::stat(path.c_str(), &named) != 0 || ::fstat(STDOUT_FILENO, &standard) != 0) return false;
  const bool is_it = named.st_dev == standard.st_dev && named.st_ino == standard.st_ino;
  // Nothing mixes on /dev/null.
  return is_it && (!S_ISCHR(standard.st_mode) || ::isatty(STDOUT_FILENO) == 1);
}

std::string PathToWrite(const std::string& path) { return IsStandardOutput(path) ? "-" : path; }

Outcome CheckOutput(const std::string& path, bool json) {
  if (path.empty()) return std::nullopt;
  if (json && IsStandardOutput(path)) {
    return UsageFailure(
        absl::StrCat("--json and an output of ", path, " both want standard output"));
  }
  return OutcomeOf(CheckWritable(path));
}

Outcome WriteOutput(const std::string& path, const client::MatrixView& matrix) {
  return path.empty() ? std::nullopt : OutcomeOf(client::WriteNpy(PathToWrite(path), matrix));
}

Outcome WriteStack(const std::string& path, const client::Matrix& stack) {
  return path.empty() ? std::nullopt : OutcomeOf(client::WriteNpyStack(PathToWrite(path), stack));
}

Outcome WriteOutput(const std::string& path, absl::string_view text) {
  return path.empty() ? std::nullopt : OutcomeOf(WriteFile(PathToWrite(path), {text}));
}

void PrintBeside(const std::string& text, std::initializer_list<std::string> paths) {
  const bool is_taken = std::any_of(paths.begin(), paths.end(), IsStandardOutput);
  (is_taken ? std::cerr : std::cout) << text;
}

}  // namespace gemmd::cli
