#include "tests/server/device/gpu/activity.h"

#include <cupti_activity.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace gemmd::testing {
namespace {

// The functions that are called, in the library opened at run time.
struct Cupti {
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
};

Cupti cupti;
std::mutex mutex;
DeviceActivity activity;  // guarded by mutex

void Count(const CUpti_Activity& record) {
  const std::lock_guard<std::mutex> lock(mutex);
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      const auto ns = static_cast<std::int64_t>(copy.end - copy.start);
      (copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? activity.to_device_ns
                                                        : activity.from_device_ns) += ns;
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      activity.kernels_ns += static_cast<std::int64_t>(set.end - set.start);
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      activity.kernels_ns += static_cast<std::int64_t>(kernel.end - kernel.start);
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI GiveBuffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  constexpr std::size_t kBytes = 1 << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBytes));
  *size = kBytes;
  *max_records = 0;
}

void CUPTIAPI TakeBuffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                         std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cupti.next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) Count(*record);
  std::free(buffer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ActivityRecorder>> ActivityRecorder::Start() {
  void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError(dlerror());
  const auto find = [library](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    return *function != nullptr;
  };
  if (!find(&cupti.enable, "cuptiActivityEnable") ||
      !find(&cupti.register_callbacks, "cuptiActivityRegisterCallbacks") ||
      !find(&cupti.flush_all, "cuptiActivityFlushAll") ||
      !find(&cupti.next_record, "cuptiActivityGetNextRecord")) {
    return absl::UnavailableError("libcupti.so.13 lacks a function");
  }
  CUptiResult result = cupti.register_callbacks(GiveBuffer, TakeBuffer);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL}) {
    if (result == CUPTI_SUCCESS) result = cupti.enable(kind);
  }
  if (result != CUPTI_SUCCESS) {
    return absl::UnavailableError(absl::StrCat("CUPTI error ", static_cast<int>(result)));
  }
  return std::unique_ptr<ActivityRecorder>(new ActivityRecorder);
}

DeviceActivity ActivityRecorder::Take() {
  cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard<std::mutex> lock(mutex);
  DeviceActivity taken = activity;
  activity = {};
  return taken;
}

}  // namespace gemmd::testing
