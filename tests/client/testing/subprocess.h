// Runs a program and keeps everything it says.
#pragma once

#include <string>
#include <vector>

namespace gemmd::testing {

struct ProcessResult {
  int exit_code = -1;  // -1 where a signal ended it
  std::string output;
  std::string error;
};

// `arguments[0]` is the program, looked up in PATH unless it holds a slash. The
// environment is this process's own, with `environment` ("NAME=VALUE") put before it.
ProcessResult RunProcess(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {});

}  // namespace gemmd::testing
