// Groups of rows that share one A and one D on the device, in launches of many.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "server/device/cuda/launches/large_issuer.h"
#include "server/device/cuda/launches/out_of_core.h"
#include "server/device/cuda/launches/sliced_work.h"
#include "server/device/device.h"

namespace gemmd {

// Groups [begin, end) each, of which the first and the last have rows.
struct GroupCut {
  struct Part {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<Part> parts;
  std::uint64_t all_bytes = 0;   // of one launch of all
  std::uint64_t most_bytes = 0;  // of a part's launch
};

// Cuts groups into parts of about `slice_us` that take at most `most_bytes` of the device's memory
// each, where one group does not take more. Nothing: each has to be laid out by itself.
// `resident`: the planes that stay on the device; the work need not have them yet.
std::optional<GroupCut> CutGroups(const DeviceWork& grouped, const Residency& resident,
                                  const PartCutter& cutter, std::uint64_t panel_bytes,
                                  std::uint64_t most_bytes,
                                  double slice_us = std::numeric_limits<double>::infinity());

// A part each.
class GroupsInParts final : public SlicedCudaWork {
 public:
  GroupsInParts(const LargeIssuer* issuer, DeviceWork grouped, GroupCut cut,
                std::uint64_t panel_bytes)
      : issuer_(issuer),
        grouped_(std::move(grouped)),
        cut_(std::move(cut)),
        panel_bytes_(panel_bytes) {}

  int slices() const override { return static_cast<int>(cut_.parts.size()); }

 private:
  IssuedWork IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) override;

  const LargeIssuer* const issuer_;
  const DeviceWork grouped_;
  const GroupCut cut_;
  const std::uint64_t panel_bytes_;
};

}  // namespace gemmd
