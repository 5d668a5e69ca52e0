// Matrices on the GPU of this machine, for programs that compare and time kernels there.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace gemmd::testing {

inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

class GpuMatrix {
 public:
  explicit GpuMatrix(std::uint64_t bytes) : bytes_(bytes) {
    CheckCuda(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  GpuMatrix(const GpuMatrix&) = delete;
  GpuMatrix& operator=(const GpuMatrix&) = delete;
  ~GpuMatrix() { cudaFree(data_); }

  void* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  void Put(const void* from) {
    CheckCuda(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  void Get(void* to) const {
    CheckCuda(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

 private:
  std::uint64_t bytes_;
  void* data_ = nullptr;
};

// Milliseconds of what is queued between Start() and Stop().
class GpuTimer {
 public:
  GpuTimer() {
    CheckCuda(cudaEventCreate(&start_), "cudaEventCreate");
    CheckCuda(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;
  ~GpuTimer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  void Start() { CheckCuda(cudaEventRecord(start_), "cudaEventRecord"); }
  double Stop() {
    CheckCuda(cudaEventRecord(stop_), "cudaEventRecord");
    CheckCuda(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t start_;
  cudaEvent_t stop_;
};

}  // namespace gemmd::testing
