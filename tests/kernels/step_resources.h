// The resources that ptxas gives the kernels of a ladder, by its steps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/resources.h"

namespace gemmd::testing {

inline constexpr const char* kWithoutToolkit =
    "this build has no CUDA toolkit, or does not use it: ptxas was not asked";

struct StepResources {
  int kernels = 0;
  int most_registers = 0;
  int most_stack_bytes = 0;
};

// By architecture and what the pattern finds of an entry's name.
using ByStep = std::map<std::pair<std::string, std::string>, StepResources>;

inline ByStep Gather(const std::vector<KernelResources>& kernels, const std::regex& pattern) {
  ByStep steps;
  for (const KernelResources& kernel : kernels) {
    EXPECT_EQ(kernel.spilled_bytes, 0) << kernel.entry;
    EXPECT_EQ(kernel.static_shared_bytes, 0) << kernel.entry;
    std::smatch match;
    if (!std::regex_search(kernel.entry, match, pattern)) continue;
    StepResources& step = steps[{kernel.architecture, match[1]}];
    ++step.kernels;
    step.most_registers = std::max(step.most_registers, kernel.registers);
    step.most_stack_bytes = std::max(step.most_stack_bytes, kernel.stack_bytes);
  }
  for (const auto& [name, step] : steps) {
    std::printf("%s %s: %d registers and %d bytes of stack at most\n", name.first.c_str(),
                name.second.c_str(), step.most_registers, step.most_stack_bytes);
  }
  return steps;
}

}  // namespace gemmd::testing
