#include "absl/status/status.h"
#include "kernels/workshop/bench/gpu/gpu_machine.h"

namespace gemmd::bench {

absl::StatusOr<std::unique_ptr<Machine>> OpenGpu() {
  return absl::UnavailableError("this build has no device code");
}

}  // namespace gemmd::bench
