// Stands in for a launch where a build has no device code.
#pragma once

#include "absl/status/status.h"

namespace gemmd {

// Launch: a function's type.
template <class Launch>
struct WithoutCuda;

template <class... Parameters>
struct WithoutCuda<absl::Status(Parameters...)> {
  static absl::Status Launch(Parameters...) {
    return absl::UnimplementedError("this build has no device code");
  }
};

}  // namespace gemmd
