// The report of a run on a GPU: one line a finding, one closing line.
#pragma once

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd::testing {

class GpuReport {
 public:
  // A measured value beside the limit it must keep.
  void Add(const std::string& what, double value, const std::string& unit, bool holds,
           const std::string& limit) {
    Print(what, absl::StrCat(value, " ", unit), holds, limit);
  }
  // A check; `fault` is empty where it holds.
  void Add(const std::string& what, const std::string& fault) {
    Print(what, fault.empty() ? "as it should be" : fault, fault.empty(), "");
  }
  // A figure without a limit.
  void Note(const std::string& what, const std::string& value) {
    std::printf("        %-62s %s\n", what.c_str(), value.c_str());
    std::fflush(stdout);
  }

  int Close() const {
    std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void Print(const std::string& what, const std::string& value, bool holds,
             const std::string& limit) {
    ++(holds ? passed_ : failed_);
    std::printf("%s  %-62s %s%s%s\n", holds ? "pass  " : "FAILED", what.c_str(), value.c_str(),
                limit.empty() ? "" : "; limit ", limit.c_str());
    std::fflush(stdout);
  }

  int passed_ = 0;
  int failed_ = 0;
};

}  // namespace gemmd::testing
