// A directory for one test's files, removed with everything in it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gemmd::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string Path(absl::string_view name) const;

  // Writes a file and returns its path.
  std::string File(absl::string_view name, absl::string_view bytes) const;

  // The names in it, sorted and separated by spaces.
  std::string Names() const;

 private:
  std::string path_;
};

std::string FileBytes(const std::string& path);

}  // namespace gemmd::testing
