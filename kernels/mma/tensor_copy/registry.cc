#include "kernels/mma/tensor_copy/registry.h"

#include "kernels/mma/tensor_copy/entry.h"
#include "kernels/mma/tensor_copy/gemm_entries.h"
#include "kernels/mma/tensor_copy/served_step.h"

namespace gemmd {

void AppendTensorCopyGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  static constexpr tensor_copy::StepTraits kStep =
      tensor_copy::Describe<tensor_copy::ServedStep>({483.2, 34.31});
  kernels->push_back(std::make_unique<tensor_copy::Entry>(kStep, tensor_copy::CudaGemm(0),
                                                          tensor_copy::EmulatedGemm(0)));
}

}  // namespace gemmd
