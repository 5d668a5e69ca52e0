#include <memory>
#include <vector>

#include "kernels/cpu/panel_gemm.h"
#include "kernels/registry.h"
#include "kernels/sm80/ladder_a_registry.h"
#include "kernels/vendor/cublaslt_registry.h"

namespace gemmd {

const Registry& BuiltinRegistry() {
  static const Registry* const registry = [] {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    AppendCpuKernels(&kernels);
    AppendLadderA(&kernels);
    AppendCublasLt(&vendor::CublasLtEngine(), &kernels);
    return new Registry(std::move(kernels));
  }();
  return *registry;
}

}  // namespace gemmd
