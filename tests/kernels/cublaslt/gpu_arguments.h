// The planes of a landed problem in the memory of this machine's GPU.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "tests/kernels/cublaslt/landed.h"
#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {

class GpuProblem {
 public:
  GpuProblem(const HostProblem& landed, std::uint64_t workspace_bytes) {
    arguments_.a = Put(landed.a);
    arguments_.b = Put(landed.b);
    arguments_.c = Put(landed.c);
    arguments_.bias = Put(landed.bias);
    arguments_.d = Put(landed.d);
    arguments_.a_scales = static_cast<const float*>(Put(landed.a_scales));
    arguments_.b_scales = static_cast<const float*>(Put(landed.b_scales));
    if (workspace_bytes != 0) {
      arguments_.workspace = Put(PlaneBytes(workspace_bytes, static_cast<char>(0xA5)));
    }
  }

  const Arguments& arguments() const { return arguments_; }

  void GetResult(HostProblem* landed) const {
    CheckCuda(cudaMemcpy(landed->d.data(), arguments_.d, landed->d.size(), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
  }

 private:
  // Null where there is nothing.
  void* Put(const PlaneBytes& plane) {
    if (plane.empty()) return nullptr;
    planes_.push_back(std::make_unique<GpuMatrix>(plane.size()));
    planes_.back()->Put(plane.data());
    return planes_.back()->data();
  }

  std::vector<std::unique_ptr<GpuMatrix>> planes_;
  Arguments arguments_;
};

}  // namespace gemmd::testing
