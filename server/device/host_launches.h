// Batches and slices on devices that compute in host memory, one launch at a time.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "server/device/device.h"
#include "server/device/panel.h"

namespace gemmd {

// Runs one work to its end.
using RunWork = std::function<DeviceResult(const DeviceWork&)>;

// All of them, until one fails; the spans of all.
DeviceResult RunOneByOne(const std::vector<DeviceWork>& works, const RunWork& run);

// The works' rows gathered, run as one product, and brought back. The room for them is
// reserved from the budget; where there is none, the works run one by one: the same bits.
// REQUIRES: launch.form is kRows.
DeviceResult RunRows(const DeviceLaunch& launch, MemoryBudget* memory, const Clock* clock,
                     const RunWork& run);

// Blocks of a work, each of them a work over the same buffers.
class SlicedHostWork final : public SlicedWork {
 public:
  // Null where there are no blocks, or where one of them needs more workspace than the work's
  // plan. `landed` is the problem as the plan's kernel sees it.
  static std::shared_ptr<SlicedHostWork> Make(const DeviceWork& work, const Problem& landed,
                                              std::vector<Panel> blocks);

  int slices() const override { return static_cast<int>(blocks_.size()); }
  DeviceWork Slice(int index) const;

 private:
  SlicedHostWork(DeviceWork work, const Problem& landed, std::vector<Panel> blocks)
      : work_(std::move(work)), landed_(landed), blocks_(std::move(blocks)) {}

  const DeviceWork work_;
  const Problem landed_;
  const std::vector<Panel> blocks_;
};

}  // namespace gemmd
