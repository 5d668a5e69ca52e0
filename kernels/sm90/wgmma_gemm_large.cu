#include "kernels/sm90/wgmma_gemm_cuda.h"

namespace gemmd::sm90 {

template absl::Status CudaWgmmaGemm<3>(const Problem&, const Config&, absl::Span<const Arguments>,
                                       const LaunchTarget&);
template absl::Status CudaWgmmaGemm<4>(const Problem&, const Config&, absl::Span<const Arguments>,
                                       const LaunchTarget&);

}  // namespace gemmd::sm90
