#include "server/device/cuda/backend/errors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// Numbers, because the values are stable and this file is built without a toolkit; the
// names are those of cudaError_t in driver_types.h.
constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation
constexpr int kSticky[] = {
    46,   // cudaErrorDevicesUnavailable
    214,  // cudaErrorECCUncorrectable
    220,  // cudaErrorNvlinkUncorrectable
    226,  // cudaErrorContained
    700,  // cudaErrorIllegalAddress
    702,  // cudaErrorLaunchTimeout
    709,  // cudaErrorContextIsDestroyed
    710,  // cudaErrorAssert
    714,  // cudaErrorHardwareStackError
    715,  // cudaErrorIllegalInstruction
    716,  // cudaErrorMisalignedAddress
    717,  // cudaErrorInvalidAddressSpace
    718,  // cudaErrorInvalidPc
    719,  // cudaErrorLaunchFailure
    721,  // cudaErrorTensorMemoryLeak
    810,  // cudaErrorMpsClientTerminated
    911,  // cudaErrorExternalDevice
    999,  // cudaErrorUnknown
};

}  // namespace

absl::Status CudaStatus(int code, absl::string_view name, absl::string_view text,
                        absl::string_view call) {
  if (code == 0) return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", name, " (", code, "), ", text);
  if (code == kOutOfMemory) return absl::ResourceExhaustedError(message);
  if (std::find(std::begin(kSticky), std::end(kSticky), code) != std::end(kSticky)) {
    return absl::UnavailableError(message);
  }
  return absl::InternalError(message);
}

}  // namespace gemmd
