// A name that nothing else on this machine has.
#pragma once

#include <random>
#include <string>

namespace gemmd::testing {

// The name does not come from getpid(): each sandbox counts its processes from one, and what the
// name is for (shared memory, sockets) may be the whole machine's, or left by a test that was
// killed.
inline std::string UniqueName(const std::string& prefix) {
  std::random_device random;
  return prefix + std::to_string(random()) + "-" + std::to_string(random());
}

}  // namespace gemmd::testing
