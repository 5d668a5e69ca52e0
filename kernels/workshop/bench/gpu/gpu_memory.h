// Memory of the current CUDA device, and its errors as statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace gemmd::bench {

inline absl::Status ToStatus(cudaError_t error, const char* function) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(function, ": ", cudaGetErrorString(error)));
}

struct FreeDeviceMemory {
  void operator()(void* data) const { cudaFree(data); }
};
using DeviceMemory = std::unique_ptr<void, FreeDeviceMemory>;

// RESOURCE_EXHAUSTED: less than `bytes` is free.
inline absl::StatusOr<DeviceMemory> Allocate(std::uint64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaSuccess) return DeviceMemory(data);
  if (error != cudaErrorMemoryAllocation) return ToStatus(error, "cudaMalloc");
  static_cast<void>(cudaGetLastError());
  return absl::ResourceExhaustedError(absl::StrCat("the GPU has no ", bytes, " bytes left"));
}

}  // namespace gemmd::bench
