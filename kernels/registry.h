// The set of kernels a server was built with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/kernel.h"

namespace gemmd {

// Immutable after construction.
class Registry {
 public:
  // REQUIRES: names are unique (checked: a duplicate ends the process).
  explicit Registry(std::vector<std::unique_ptr<const Kernel>> kernels);

  // Null where there is no kernel of that name.
  const Kernel* Find(absl::string_view name) const;

  // In order of registration.
  const std::vector<std::unique_ptr<const Kernel>>& kernels() const { return kernels_; }

 private:
  const std::vector<std::unique_ptr<const Kernel>> kernels_;
};

// Every kernel of this build.
const Registry& BuiltinRegistry();

// Returns the versions that measured plans hold for: this project's and that of its vendor library.
std::string PlanVersion();

}  // namespace gemmd
