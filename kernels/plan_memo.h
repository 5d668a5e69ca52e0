// Selection that remembers: the same problem on the same device costs a look-up, not a walk over
// the registry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "kernels/selection.h"

namespace gemmd {

// Thread-safe. The registry and the plans outlive it.
class PlanMemo {
 public:
  // At this number of plans all are forgotten, so that problems that never come back cost no more.
  static constexpr std::size_t kMostPlans = 8192;

  // `measured` may be null; what it gains counts from the next call on.
  PlanMemo(const Registry* registry, const PlanCache* measured)
      : registry_(*registry), measured_(measured) {}

  // Returns what Select() would, errors too, which are not remembered. REQUIRES: two devices of one
  // name are alike.
  absl::StatusOr<Plan> Select(const Problem& problem, const DeviceTraits& device,
                              absl::string_view kernel_name = {}, std::int64_t problems = 1);

  // As SelectForGroups(); remembers nothing.
  std::optional<Plan> SelectForGroups(const Problem& problem, const RowGroups& groups,
                                      const DeviceTraits& device, absl::string_view kernel_name,
                                      absl::string_view numerics_id) const {
    return gemmd::SelectForGroups(registry_, problem, groups, device, kernel_name, numerics_id);
  }

  std::size_t size() const;

 private:
  const Registry& registry_;
  const PlanCache* const measured_;
  mutable AdaptiveMutex mutex_;
  std::unordered_map<std::string, Plan> plans_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;  // of measured_, as of plans_
};

}  // namespace gemmd
