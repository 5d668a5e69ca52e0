// Reads what ptxas printed of kernels (//deploy/bazel:ptxas_report.bzl).
#pragma once

#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace gemmd::testing {

struct KernelResources {
  std::string architecture;
  std::string entry;  // mangled
  int registers = 0;
  int stack_bytes = 0;
  int spilled_bytes = 0;
  int static_shared_bytes = 0;
};

inline int NumberBefore(const std::string& line, const std::string& words) {
  std::smatch match;
  const std::regex pattern("(\\d+) " + words);
  return std::regex_search(line, match, pattern) ? std::stoi(match[1]) : 0;
}

// Nothing where the build has no device code.
inline std::optional<std::vector<KernelResources>> ReadResources(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().find("no device code in this build") == 0) return std::nullopt;
  std::vector<KernelResources> kernels;
  const std::regex entry("Compiling entry function '(\\w+)' for '(\\w+)'");
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) kernels.push_back({match[2], match[1]});
    if (kernels.empty()) continue;
    KernelResources& kernel = kernels.back();
    kernel.registers += NumberBefore(line, "registers");
    kernel.stack_bytes += NumberBefore(line, "bytes stack frame");
    kernel.spilled_bytes +=
        NumberBefore(line, "bytes spill stores") + NumberBefore(line, "bytes spill loads");
    kernel.static_shared_bytes += NumberBefore(line, "bytes smem");
  }
  return kernels;
}

}  // namespace gemmd::testing
