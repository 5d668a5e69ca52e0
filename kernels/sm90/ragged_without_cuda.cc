#include "kernels/sm90/ragged_entries.h"

namespace gemmd::sm90 {

absl::Status CudaRaggedGemm(const Problem&, const Arguments&, const LaunchTarget&) {
  return absl::UnimplementedError("this build has no device code");
}

absl::Status CudaRepack(const Problem&, const Arguments&, const LaunchTarget&) {
  return absl::UnimplementedError("this build has no device code");
}

}  // namespace gemmd::sm90
