// Host code: one Launch() for the device and for the emulator. Launch code of a kernel is
// a header compiled twice, as the kernel is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "kernels/ptx/platform.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "kernels/emulator/launch.h"
#include "kernels/emulator/session.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// Global memory that a launch touches; the emulator allows no other.
struct DeviceBuffer {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  const char* name = "";
  bool read_only = true;
  // No launch ahead in the stream writes it, so that a launch which overlaps them may read
  // it before WaitForPrecedingGrid(): weights, for example.
  bool settled = false;
};

struct LaunchShape {
  const char* kernel = "";  // name, for errors
  std::uint32_t blocks_x = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 32;
  std::uint32_t cluster_size = 1;  // blocks along x that form a cluster (sm_90)
  std::uint32_t shared_bytes = 0;
  // The launch may start before the one ahead of it in the stream ends; the kernel must
  // then call WaitForPrecedingGrid() (sm_90).
  bool overlaps_preceding = false;
};

// Multiprocessors of the calling thread's current device. The emulator's has few, so that
// persistent kernels walk over several tiles.
inline std::uint32_t Multiprocessors() {
#ifdef __CUDACC__
  int device = 0;
  int count = 1;
  if (cudaGetDevice(&device) == cudaSuccess) {
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  }
  return static_cast<std::uint32_t>(count);
#else
  return 4;
#endif
}

// Queues kernel(params) on target.stream, or runs it to its end in *target.emulator.
// INVALID_ARGUMENT: the target lacks the member of this backend.
// INTERNAL: the launch failed, with CUDA's or the emulator's message.
template <typename Params>
absl::Status Launch(void (*kernel)(Params), const LaunchShape& shape, const Params& params,
                    const std::vector<DeviceBuffer>& buffers, const LaunchTarget& target) {
#ifdef __CUDACC__
  static_cast<void>(buffers);
  cudaError_t error = cudaSuccess;
  constexpr std::uint32_t kSharedWithoutAsking = 48 * 1024;
  if (shape.shared_bytes > kSharedWithoutAsking) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes));
  }
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(shape.blocks_x, shape.blocks_y);
    config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = target.stream;
    cudaLaunchAttribute attributes[2];
    config.attrs = attributes;
    if (shape.cluster_size > 1) {
      attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[config.numAttrs].val.clusterDim.x = shape.cluster_size;
      attributes[config.numAttrs].val.clusterDim.y = 1;
      attributes[config.numAttrs++].val.clusterDim.z = 1;
    }
    if (shape.overlaps_preceding) {
      attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    error = cudaLaunchKernelEx(&config, kernel, params);
  }
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("launch of ", shape.kernel, ": ", cudaGetErrorString(error)));
#else
  if (target.emulator == nullptr) {
    return absl::InvalidArgumentError("an emulated launch needs an emulator session");
  }
  emulator::LaunchRequest request;
  request.kernel = shape.kernel;
  request.grid = {shape.blocks_x, shape.blocks_y};
  request.threads = shape.threads;
  request.cluster_size = shape.cluster_size;
  request.shared_bytes = shape.shared_bytes;
  request.overlaps_preceding = shape.overlaps_preceding;
  for (const DeviceBuffer& buffer : buffers) {
    request.buffers.push_back(
        {buffer.data, buffer.bytes, buffer.name, buffer.read_only, buffer.settled});
  }
  target.emulator->report =
      emulator::Launch(request, target.emulator->options, [&] { kernel(params); });
  if (target.emulator->report.ok()) return absl::OkStatus();
  return absl::InternalError(target.emulator->report.message);
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
