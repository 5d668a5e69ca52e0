#include "server/device/launch.h"

#include <algorithm>

#include "base/math.h"

namespace gemmd {

Residency ResidentPlanes::which() const {
  Residency residency;
  for (const WorkPlane plane : kWorkPlanes) residency[plane] = (*this)[plane] != nullptr;
  residency.d = d != nullptr;
  return residency;
}

std::int64_t DeviceWork::ProductsWithin(double us) const {
  if (plan.predicted_us <= us) return stack.count;
  const double part = us / plan.predicted_us;
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(part * static_cast<double>(stack.count)));
}

std::shared_ptr<StackSlices> StackSlices::Make(const DeviceWork& stacked,
                                               std::int64_t products_each) {
  const std::int64_t slices = CeilOfRatio(stacked.stack.count, products_each);
  if (slices < 2) return nullptr;
  return std::shared_ptr<StackSlices>(new StackSlices(stacked, static_cast<int>(slices)));
}

std::vector<DeviceWork> StackSlices::WorksOf(int slice) const {
  const std::int64_t count = stacked_.stack.count;
  return ProductsOf(stacked_, count * slice / slices_, count * (slice + 1) / slices_);
}

}  // namespace gemmd
