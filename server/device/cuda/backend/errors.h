// Classifies CUDA errors for the server. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// `code` is a cudaError_t, `name` and `text` what the runtime says of it.
// UNAVAILABLE where the error is sticky: the context is corrupt and every later call fails
// the same way, so that only a new process helps. See "Error Handling" and the comments of
// cudaError in the CUDA Runtime API reference.
absl::Status CudaStatus(int code, absl::string_view name, absl::string_view text,
                        absl::string_view call);

inline bool IsDeviceLost(const absl::Status& status) { return absl::IsUnavailable(status); }

}  // namespace gemmd
