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

std::shared_ptr<GroupSlices> GroupSlices::Make(const DeviceWork& grouped, double slice_us,
                                               bool cuts_rows) {
  // Whole tiles of any kernel, and enough rows to pay for what decodes B.
  constexpr std::int64_t kLeastRows = 256;
  std::shared_ptr<GroupSlices> sliced(new GroupSlices(grouped));
  double us = 0;  // of the slice that is being filled
  const auto add = [&](const Rows& rows, double rows_us) {
    sliced->rows_.push_back(rows);
    us += rows_us;
    if (us < slice_us) return;
    sliced->ends_.push_back(sliced->rows_.size());
    us = 0;
  };
  for (std::int64_t product = 0; product < grouped.stack.count; ++product) {
    const std::int64_t rows = grouped.stack.row_end(product) - grouped.stack.row_begin(product);
    if (rows == 0) continue;
    const double all_us = grouped.plans->at(rows).predicted_us;
    std::int64_t parts = 1;
    if (cuts_rows && all_us > slice_us) {
      const auto wanted = static_cast<std::int64_t>(std::min(all_us / slice_us, 1e9)) + 1;
      parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, rows / kLeastRows));
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      add({product, rows * part / parts, rows * (part + 1) / parts},
          all_us / static_cast<double>(parts));
    }
  }
  if (sliced->ends_.empty() || sliced->ends_.back() != sliced->rows_.size()) {
    sliced->ends_.push_back(sliced->rows_.size());
  }
  return sliced->slices() < 2 ? nullptr : sliced;
}

std::vector<DeviceWork> GroupSlices::WorksOf(int slice) const {
  const auto index = static_cast<std::size_t>(slice);
  std::vector<DeviceWork> works;
  for (std::size_t i = index == 0 ? 0 : ends_[index - 1]; i < ends_[index]; ++i) {
    const Rows& rows = rows_[i];
    works.push_back(RowsOf(PartOf(grouped_, rows.product, rows.product + 1), rows.begin, rows.end));
  }
  return works;
}

}  // namespace gemmd
