#include "kernels/landing/transpose_entries.h"

namespace gemmd::landing {

absl::Status CudaTranspose(const Transposition&, const LaunchTarget&) {
  return absl::UnimplementedError("this build has no device code");
}

}  // namespace gemmd::landing
