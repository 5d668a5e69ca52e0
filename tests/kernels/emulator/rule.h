// Runs the smallest kernel that breaks, or keeps, one rule of the emulator.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::testing {

using emulator::Violation;

struct Launching {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 64;
  std::uint32_t cluster = 1;
  std::vector<emulator::Buffer> buffers;
  emulator::Options options;
  bool overlaps_preceding = false;
};

inline emulator::Report RunRule(const std::function<void()>& kernel,
                                const Launching& launching = {}) {
  emulator::LaunchRequest request;
  request.kernel = "rule";
  request.grid.x = launching.blocks;
  request.threads = launching.threads;
  request.cluster_size = launching.cluster;
  request.shared_bytes = 4096;
  request.buffers = launching.buffers;
  request.overlaps_preceding = launching.overlaps_preceding;
  return emulator::Launch(request, launching.options, kernel);
}

// The kernel raises `violation` on every one of 20 seeds.
inline void ExpectViolation(Violation violation, const std::function<void()>& kernel,
                            Launching launching = {}) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    launching.options.seed = seed;
    const emulator::Report report = RunRule(kernel, launching);
    ASSERT_EQ(report.violation, violation) << report.message;
    EXPECT_NE(report.message.find("kernel rule"), std::string::npos) << report.message;
  }
}

inline void ExpectNothing(const std::function<void()>& kernel, Launching launching = {}) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    launching.options.seed = seed;
    const emulator::Report report = RunRule(kernel, launching);
    ASSERT_TRUE(report.ok()) << report.message;
  }
}

inline std::uint32_t Word(std::uint32_t i) { return ptx::SharedBase() + 4 * i; }

}  // namespace gemmd::testing
