// Reads the machine code of kernels, of which ptxas says little: the loops over lanes that it
// makes, and what a thread issues for a stage.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace gemmd::testing {

// The environment has the path of nvdisasm, which the toolkit of the build need not have
// (deploy/check/machine_code.sh fetches it).
inline constexpr const char* kDisassembler = "GEMMD_NVDISASM";
inline constexpr const char* kWithoutDisassembler =
    "GEMMD_NVDISASM is not set: deploy/check/machine_code.sh runs this";

struct KernelCode {
  std::string entry;                      // mangled
  std::vector<std::string> instructions;  // in order, without their addresses
};

// Returns the number of instructions whose text has the pattern.
inline int Count(const KernelCode& kernel, const char* pattern) {
  const std::regex wanted(pattern);
  int count = 0;
  for (const std::string& each : kernel.instructions) count += std::regex_search(each, wanted);
  return count;
}

// The loops that bring an instruction of uniform registers to one lane after another.
inline int LaneLoops(const KernelCode& kernel) { return Count(kernel, "BRA\\.U\\.ANY"); }

// The number of instructions up to the commit behind the last product of tcgen05, from the wait
// ahead of them and from the first copy or product on: those of one stage, whose products are
// unrolled. Zeros where there are none.
struct StageInstructions {
  int from_wait = 0;
  int from_copy = 0;
};

inline StageInstructions CountStage(const KernelCode& kernel) {
  const auto has = [](const std::string& text, const char* name) {
    return text.find(name) != std::string::npos;
  };
  int wait = 0;
  int copy = -1;
  StageInstructions found;
  bool is_open = false;  // behind a product, ahead of its commit
  for (int i = 0; i < static_cast<int>(kernel.instructions.size()); ++i) {
    const std::string& text = kernel.instructions[static_cast<std::size_t>(i)];
    const bool is_product = has(text, "UTC") && has(text, "MMA");
    if (copy < 0 && has(text, "SYNCS.PHASECHK")) wait = i;
    if (copy < 0 && (is_product || has(text, "UTCCP"))) copy = i;
    if (is_product) is_open = true;
    if (!is_open || !has(text, "UTCBAR")) continue;
    found = {i - wait + 1, i - copy + 1};
    is_open = false;
  }
  return found;
}

// Splits what nvdisasm prints into its kernels.
inline std::vector<KernelCode> KernelsOf(const std::string& text) {
  const std::regex section("\\.section\\s+\\.text\\.(\\w+)");
  const std::regex instruction("/\\*[0-9a-f]{4,6}\\*/\\s+(\\S.*);");
  std::vector<KernelCode> kernels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, section)) {
      kernels.push_back({match[1], {}});
    } else if (!kernels.empty() && std::regex_search(line, match, instruction)) {
      kernels.back().instructions.push_back(match[1]);
    }
  }
  return kernels;
}

// Returns the kernels of a file of machine code; nothing where no disassembler is named.
inline std::optional<std::vector<KernelCode>> Disassemble(const std::string& cubin) {
  const char* const program = std::getenv(kDisassembler);
  if (program == nullptr) return std::nullopt;
  const std::string command = "'" + std::string(program) + "' '" + cubin + "'";
  // NOLINTNEXTLINE(bugprone-command-processor): both paths are the build's own.
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::vector<KernelCode>();
  std::string text;
  std::array<char, 65536> part;
  for (std::size_t read; (read = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    text.append(part.data(), read);
  }
  if (pclose(pipe) != 0) return std::vector<KernelCode>();
  return KernelsOf(text);
}

}  // namespace gemmd::testing
