#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/kernels/conformance/target_memory.h"

namespace gemmd::conformance {
namespace {

absl::Status ToStatus(cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(cudaGetErrorString(error));
}

void Require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(3);
}

// The default stream throughout: copies wait for launches.
class Memory final : public TargetMemory {
 public:
  Memory() { Require(cudaGetDeviceProperties(&properties_, 0)); }

  std::string machine() const override {
    int driver = 0;
    Require(cudaDriverGetVersion(&driver));
    return absl::StrCat(properties_.name, ", sm_", properties_.major, properties_.minor,
                        ", driver for CUDA ", driver / 1000, ".", driver % 1000 / 10);
  }
  LaunchTarget target() override { return {}; }
  absl::Status Wait() override { return ToStatus(cudaDeviceSynchronize()); }
  void* Allocate(std::uint64_t bytes) override {
    void* data = nullptr;  // the process's end frees it
    Require(cudaMalloc(&data, bytes));
    return data;
  }
  absl::Status Put(void* to, const void* from, std::uint64_t bytes) override {
    return ToStatus(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  absl::Status Get(void* to, const void* from, std::uint64_t bytes) override {
    return ToStatus(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }

 private:
  cudaDeviceProp properties_;
};

}  // namespace

std::unique_ptr<TargetMemory> CudaMemory() { return std::make_unique<Memory>(); }

}  // namespace gemmd::conformance
