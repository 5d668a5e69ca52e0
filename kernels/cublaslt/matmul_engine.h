// The seam between the registry entries of this folder and a vendor's library, so that
// what the entries decide is tested without either library or GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cublaslt/cublaslt_call.h"

namespace gemmd::cublaslt {

// Addresses and factors of one launch of a CublasLtCall, after its swap.
struct MatmulArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // null where the call has none, as are the next three
  const void* bias = nullptr;
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  void* d = nullptr;
  double alpha = 1;
  double beta = 0;
  void* workspace = nullptr;  // aligned to 256 bytes
};

// The algorithms that the library offers for a call on a device. Immutable, thread-safe.
class MatmulPlan {
 public:
  virtual ~MatmulPlan() = default;
  virtual int count() const = 0;  // 0: the library has none
  // REQUIRES of both: 0 <= index < count().
  virtual std::uint64_t workspace_bytes(int index) const = 0;
  // Queues on target.stream. INTERNAL: the library refused.
  virtual absl::Status Launch(int index, const MatmulArguments& arguments,
                              const LaunchTarget& target) const = 0;
};

// Thread-safe.
class MatmulEngine {
 public:
  virtual ~MatmulEngine() = default;
  // Why the library cannot be used here, in one line; empty if it can.
  virtual std::string UnavailableReason() const = 0;
  // The library's version, on which results' bits depend.
  virtual std::string version() const = 0;
  // The calling thread's current device.
  virtual absl::StatusOr<int> CurrentDevice() const = 0;
  // Up to 16 algorithms, the library's favourite first, that need at most
  // `workspace_limit_bytes` and addresses that are multiples of `alignment_bytes` (a
  // power of two). Kept in a bounded cache for each device: quick from the second time.
  // REQUIRES: UnavailableReason() is empty. INTERNAL: device or library failed.
  virtual absl::StatusOr<std::shared_ptr<const MatmulPlan>> Plan(
      const CublasLtCall& call, int device, std::uint64_t alignment_bytes,
      std::uint64_t workspace_limit_bytes) const = 0;
};

// cuBLASLt. Lives as long as the process.
const MatmulEngine& CublasLtEngine();

}  // namespace gemmd::cublaslt
