#include "kernels/fault/stall.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <thread>

namespace gemmd {

absl::Status StallStream(CUstream_st* stream) {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::minutes(1)); };
  const cudaError_t error = cudaLaunchHostFunc(stream, sleep, nullptr);
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(cudaGetErrorString(error));
}

}  // namespace gemmd
