// Memory of other processes, page-locked or on the device.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/shared_mapping.h"

namespace gemmd {

// See Device::MapShared() and Device::MapDeviceMemory(). UNAVAILABLE: the device is lost.
absl::StatusOr<std::shared_ptr<const SharedMapping>> MapLockedFile(
    std::shared_ptr<CudaBackend> backend, int file, std::uint64_t offset, std::uint64_t bytes);
absl::StatusOr<std::shared_ptr<const SharedMapping>> MapIpcMemory(
    std::shared_ptr<CudaBackend> backend, absl::string_view handle, std::uint64_t offset,
    std::uint64_t bytes);

}  // namespace gemmd
