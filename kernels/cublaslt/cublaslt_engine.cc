// cuBLASLt as a MatmulEngine: one handle and one cache of plans for each device.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "kernels/cublaslt/bounded_cache.h"
#include "kernels/cublaslt/cublaslt_library.h"
#include "kernels/cublaslt/cublaslt_plan.h"
#include "kernels/cublaslt/matmul_engine.h"

namespace gemmd::cublaslt {
namespace {

constexpr std::size_t kPlansPerDevice = 4096;

absl::Status ToStatus(cudaError_t error, const char* function) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(function, ": ", cudaGetErrorString(error)));
}

// Makes a device the calling thread's current one while it lives.
class CurrentDeviceGuard {
 public:
  explicit CurrentDeviceGuard(int device) {
    status_ = ToStatus(cudaGetDevice(&previous_), "cudaGetDevice");
    if (status_.ok() && previous_ != device) {
      status_ = ToStatus(cudaSetDevice(device), "cudaSetDevice");
      is_changed_ = status_.ok();
    }
  }
  CurrentDeviceGuard(const CurrentDeviceGuard&) = delete;
  CurrentDeviceGuard& operator=(const CurrentDeviceGuard&) = delete;
  ~CurrentDeviceGuard() {
    if (is_changed_) cudaSetDevice(previous_);
  }
  const absl::Status& status() const { return status_; }

 private:
  int previous_ = 0;
  bool is_changed_ = false;
  absl::Status status_;
};

struct Key {
  CublasLtCall call;
  std::uint64_t alignment_bytes = 0;
  std::uint64_t workspace_limit_bytes = 0;
};

bool operator==(const Key& x, const Key& y) {
  return x.alignment_bytes == y.alignment_bytes &&
         x.workspace_limit_bytes == y.workspace_limit_bytes && x.call == y.call;
}

template <typename H>
H AbslHashValue(H h, const Key& key) {
  return H::combine(std::move(h), key.call, key.alignment_bytes, key.workspace_limit_bytes);
}

struct DeviceState {
  cublasLtHandle_t handle = nullptr;
  BoundedCache<Key, std::shared_ptr<const MatmulPlan>> plans{kPlansPerDevice};
};

class Engine final : public MatmulEngine {
 public:
  std::string UnavailableReason() const override { return CublasLtLibrary().failure; }

  std::string version() const override { return absl::StrCat("cublaslt-", cublasLtGetVersion()); }

  absl::StatusOr<int> CurrentDevice() const override {
    int device = 0;
    if (absl::Status s = ToStatus(cudaGetDevice(&device), "cudaGetDevice"); !s.ok()) return s;
    return device;
  }

  absl::StatusOr<std::shared_ptr<const MatmulPlan>> Plan(
      const CublasLtCall& call, int device, std::uint64_t alignment_bytes,
      std::uint64_t workspace_limit_bytes) const override {
    const absl::StatusOr<DeviceState*> state = State(device);
    if (!state.ok()) return state.status();
    const Key key{call, alignment_bytes, workspace_limit_bytes};
    if (auto plan = (*state)->plans.Find(key)) return *std::move(plan);
    const CurrentDeviceGuard current(device);
    if (!current.status().ok()) return current.status();
    const auto made =
        CublasLtPlan::Make((*state)->handle, call, alignment_bytes, workspace_limit_bytes);
    if (!made.ok()) return made.status();
    return (*state)->plans.Insert(key, *made);
  }

 private:
  absl::StatusOr<DeviceState*> State(int device) const {
    const MutexLock lock(mutex_);
    const auto found = states_.find(device);
    if (found != states_.end()) return found->second.get();
    const CurrentDeviceGuard current(device);
    if (!current.status().ok()) return current.status();
    auto state = std::make_unique<DeviceState>();
    const cublasStatus_t status = cublasLtCreate(&state->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
      return absl::InternalError(absl::StrCat("cublasLtCreate: ", cublasLtGetStatusName(status)));
    }
    return states_.emplace(device, std::move(state)).first->second.get();
  }

  mutable Mutex mutex_;
  // An entry stays, with its handle, as long as the process.
  mutable std::map<int, std::unique_ptr<DeviceState>> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

const MatmulEngine& CublasLtEngine() {
  static const Engine* const engine = new Engine();
  return *engine;
}

}  // namespace gemmd::cublaslt
