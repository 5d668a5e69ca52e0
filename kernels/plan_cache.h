// Plans that were measured, so that selection need not trust predictions.
//
// The file is JSON:
//   {
//     "format": 1,
//     "version": "0.2.0 cublaslt-130100",   what measured: PlanVersion() of registry.h
//     "plans": [
//       {"key": "NVIDIA H200: 4096x4096x4096 bf16,bf16->bf16 kk acc=f32 batch_invariant",
//        "kernel": "cublaslt/bf16", "config": {"algorithm": 5}, "measured_us": 172.1}
//     ]
//   }
// Fields of a config that are 0 are left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "kernels/kernel.h"

namespace gemmd {

struct MeasuredPlan {
  std::string kernel;  // as in the registry
  Config config;
  double measured_us = 0;
};

bool operator==(const MeasuredPlan& x, const MeasuredPlan& y);

// Returns the key that problems share which are measured as one: device model, dimensions, types,
// layouts, scaling, class, and which parts the epilogue has (not their values).
std::string PlanKey(const Problem& problem, const DeviceTraits& device);

// A value: copies are independent. Every method is thread-safe; an assignment is so for its source
// alone.
class PlanCache {
 public:
  static constexpr std::size_t kMaxPlans = 65536;

  PlanCache() = default;
  PlanCache(const PlanCache& other);
  PlanCache& operator=(const PlanCache& other);

  // Another cache that Find() looks in where this one has nothing; it outlives this one, and its
  // plans are not written. REQUIRES: nothing else uses this one yet.
  void set_shipped(const PlanCache* shipped) { shipped_ = shipped; }

  // Nothing where the problem was not measured on such a device.
  std::optional<MeasuredPlan> Find(const Problem& problem, const DeviceTraits& device) const;

  // Replaces what was measured before. RESOURCE_EXHAUSTED: kMaxPlans are here.
  absl::Status Insert(const Problem& problem, const DeviceTraits& device, MeasuredPlan plan);

  std::size_t size() const;

  // Returns a number that each change of the plans changes.
  std::uint64_t revision() const { return revision_.load(std::memory_order_acquire); }

  std::string ToJson(absl::string_view version) const;

  // INVALID_ARGUMENT: not this format; the message names line or field, value and limit.
  // FAILED_PRECONDITION: measured by another version, whose algorithms may be others.
  static absl::StatusOr<PlanCache> FromJson(absl::string_view text, absl::string_view version);

  // Replaces the file as base/file/write_file.h does.
  // The errors of ToJson() and FromJson(), and NOT_FOUND, UNAVAILABLE with the system's
  // reason; each names the path.
  absl::Status Save(const std::string& path, absl::string_view version) const;
  static absl::StatusOr<PlanCache> Load(const std::string& path, absl::string_view version);

 private:
  using Plans = std::map<std::string, MeasuredPlan>;

  std::optional<MeasuredPlan> Find(const std::string& key) const;
  Plans plans() const;

  const PlanCache* shipped_ = nullptr;  // null: none
  std::atomic<std::uint64_t> revision_{0};
  mutable Mutex mutex_;
  Plans plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
