#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/quantized_gemm.h"
#include "kernels/cublaslt/cublaslt_registry.h"
#include "kernels/dequantize/dequantized_gemm.h"
#include "kernels/fault/fault_kernels.h"
#include "kernels/hopper/bytes/bytes_registry.h"
#include "kernels/hopper/f16x3/f16x3_registry.h"
#include "kernels/hopper/f32/f32_registry.h"
#include "kernels/hopper/f64/f64_registry.h"
#include "kernels/hopper/half/tf32_registry.h"
#include "kernels/hopper/half/wgmma_gemm_registry.h"
#include "kernels/hopper/quant/quant_registry.h"
#include "kernels/hopper/ragged/ragged_registry.h"
#include "kernels/mma/copy_async/registry.h"
#include "kernels/mma/tensor_copy/registry.h"
#include "kernels/registry.h"
#include "kernels/workshop/ampere_mma/ladder_a_registry.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_registry.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_registry.h"
#include "kernels/workshop/sm120_mxfp8/mx_registry.h"
#include "kernels/workshop/sm120_tma/ladder_b_registry.h"

namespace gemmd {

const Registry& BuiltinRegistry() {
  static const Registry* const registry = [] {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    AppendCpuKernels(&kernels);
    AppendQuantizedCpuKernels(&kernels);
    // Kernels that serve come before the ladders: selection takes the first of equal predictions.
    AppendHopperGemm(&kernels);
    AppendHopperRaggedGemm(&kernels);
    AppendHopperTf32(&kernels);
    AppendHopperF32(&kernels);
    AppendHopperF16x3(&kernels);
    AppendHopperF64(&kernels);
    AppendHopperQuant(&kernels);
    AppendHopperBytes(&kernels);
    AppendCopyAsyncGemm(&kernels);
    AppendTensorCopyGemm(&kernels);
    AppendLadderA(&kernels);
    AppendLadderB(&kernels);
    AppendLadderC(&kernels);
    AppendLadderD(&kernels);
    AppendSm120Mx(&kernels);
    AppendCublasLt(&cublaslt::CublasLtEngine(), &kernels);
    AppendDequantizedGemm(&kernels);
#if GEMMD_FAULTS
    AppendFaultKernels(&kernels);
#endif
    return new Registry(std::move(kernels));
  }();
  return *registry;
}

std::string PlanVersion() {
  return absl::StrCat(kVersion, " ", cublaslt::CublasLtEngine().version());
}

}  // namespace gemmd
