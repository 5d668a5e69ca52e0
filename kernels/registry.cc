#include "kernels/registry.h"

#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

namespace gemmd {

Registry::Registry(std::vector<std::unique_ptr<const Kernel>> kernels)
    : kernels_(std::move(kernels)) {
  std::set<absl::string_view> names;
  for (const auto& kernel : kernels_) {
    if (!names.insert(kernel->traits().name).second) {
      std::fprintf(stderr, "two kernels are called %s\n", kernel->traits().name.c_str());
      std::abort();
    }
  }
}

const Kernel* Registry::Find(absl::string_view name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->traits().name == name) return kernel.get();
  }
  return nullptr;
}

}  // namespace gemmd
