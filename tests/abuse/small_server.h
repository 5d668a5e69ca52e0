// A server that may have one gibibyte of address space, of which it takes half for memory.
#pragma once

#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/testing/server_process.h"

namespace gemmd::testing {

// The address space that a process begun meanwhile may have.
class AddressSpaceOfChildren {
 public:
  explicit AddressSpaceOfChildren(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceOfChildren() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceOfChildren(const AddressSpaceOfChildren&) = delete;
  AddressSpaceOfChildren& operator=(const AddressSpaceOfChildren&) = delete;

 private:
  rlimit before_{};
};

inline std::unique_ptr<ServerProcess> StartSmallServer() {
  const AddressSpaceOfChildren limit(1 << 30);
  return std::make_unique<ServerProcess>(std::vector<std::string>{
      "--cpu.threads=1", "--cpu.memory-bytes=67108864", "--limits.stall-timeout-ms=2000"});
}

}  // namespace gemmd::testing
