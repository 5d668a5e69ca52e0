#include "kernels/sm90/wgmma_gemm_cuda.h"

namespace gemmd::sm90 {

template absl::Status CudaWgmmaGemm<9>(const Problem&, const Config&, absl::Span<const Arguments>,
                                       const LaunchTarget&);

}  // namespace gemmd::sm90
