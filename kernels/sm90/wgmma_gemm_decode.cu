#include "kernels/sm90/wgmma_gemm_cuda.h"

namespace gemmd::sm90 {

template absl::Status CudaWgmmaGemm<6>(const Problem&, const Config&, absl::Span<const Arguments>,
                                       const LaunchTarget&);
template absl::Status CudaWgmmaGemm<7>(const Problem&, const Config&, absl::Span<const Arguments>,
                                       const LaunchTarget&);
template absl::Status CudaWgmmaGemm<8>(const Problem&, const Config&, absl::Span<const Arguments>,
                                       const LaunchTarget&);

}  // namespace gemmd::sm90
