// A mark of kernels that multiply the codes of fp8 in tensor cores.
#pragma once

namespace gemmd {

// Implemented beside Kernel. Tensor cores keep 13 fraction bits of such a sum, and each 128 of K
// moves to f32: verify/error_bound.h says what that costs. Kernels of class fast may do so without
// the mark.
class SumsFp8InTensorCores {
 public:
  virtual ~SumsFp8InTensorCores() = default;
};

}  // namespace gemmd
