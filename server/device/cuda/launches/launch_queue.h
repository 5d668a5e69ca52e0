// Routes each launch to a CUDA device: small works are issued at once, on the thread that submits
// them, alone or as batches (small_issuer.h). Large ones, and what finds no slot or no memory, go
// to the feeder thread, which gathers their operands into pinned memory and issues their panels
// (large_issuer.h). A watcher tells their ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/launches/completion_watcher.h"
#include "server/device/cuda/launches/groups_in_parts.h"
#include "server/device/cuda/launches/large_issuer.h"
#include "server/device/cuda/launches/out_of_core.h"
#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/cuda/launches/sliced_work.h"
#include "server/device/cuda/launches/small_issuer.h"
#include "server/device/cuda/memory/slot_pool.h"
#include "server/device/cuda/planes/staging.h"
#include "server/device/device.h"
#include "server/device/keyed_pool.h"
#include "server/device/memory_budget.h"

namespace gemmd {

// Thread-safe, and without a lock of its own: what threads share is in the slots, the feeder's
// queue and the watcher.
class LaunchQueue {
 public:
  // All outlive the queue. They end in this order: the ring of drains, which gives the watcher
  // launches; the watcher, whose launches hold slots and memory; slots and memory.
  struct Parts {
    std::shared_ptr<CudaBackend> backend;
    const DeviceTraits* traits = nullptr;
    std::vector<const PinnedPool*> pinned;  // whose memory the device reads and writes
    const LargeIssuer* large_issuer = nullptr;
    DrainRing* drains = nullptr;  // the issuer's
    MemoryBudget* memory = nullptr;
    CudaSlotPool* slots = nullptr;
    CompletionWatcher* watcher = nullptr;
    std::uint64_t staging_bytes = 0;  // of each slot
  };

  // `ring` is for the feeder; `panel_bytes` as CutIntoPanels() takes them.
  LaunchQueue(Parts parts, std::unique_ptr<StagingRing> ring, std::uint64_t panel_bytes);
  // Issues what was submitted. The watcher tells its end.
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  // Rows over one resident B where the device reaches A in pinned memory, groups of what is
  // small; large works alone, or cut.
  BatchForm FormOf(const DeviceWork& work) const;
  // Products of a stack that a launch takes, and the bytes of its block at most. `resident`: the
  // planes that stay on the device.
  struct StackLaunch {
    std::int64_t products = 1;
    std::uint64_t bytes = 0;
    bool is_laid_out = false;  // by LayOutStack(); else they go as a group
  };
  StackLaunch StackLaunchOf(const DeviceWork& stacked, const Residency& resident) const;
  // The launches of groups that go together; see CutGroups().
  std::optional<GroupCut> GroupLaunchesOf(const DeviceWork& grouped, const Residency& resident,
                                          double slice_us) const;
  // Null: it cannot be cut, or need not be.
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) const;
  void Submit(DeviceLaunch launch, Device::Callback done);

 private:
  class Item;
  using ItemPtr = std::unique_ptr<Item>;

  // Returns whether a launch takes the whole stack as it lies.
  bool IsOneLaunch(const DeviceWork& stacked) const;
  // Returns whether the works can go as rows, with room for what their plan needs.
  bool ReserveForRows(Item* item) const;
  // Returns how the item's works go alone or side by side. It is worked out once, however often the
  // launch is tried.
  const std::vector<PreparedWork>& PreparedOf(Item* item) const;
  // Empty: the launch is for the feeder. REQUIRES: the item has a slot.
  std::optional<IssuedWork> IssueQuickly(Item* item) const;
  void IssueOnFeeder(ItemPtr item);  // on the feeder thread
  // One of the item's works, whole or in parts, behind what the item has under way.
  void IssueAlone(std::size_t index, Item* item) const;
  // A slice for which there never was memory may have operands under way, which the caller's memory
  // must outlive.
  static void GiveUpIfNothingCame(SlicedCudaWork* sliced, Item* item);
  // Again, while there is no memory for it, when works that are under way have ended. `own`
  // is what the launch itself has under way; may be null.
  std::optional<IssuedWork> IssueInTime(CudaEvent own,
                                        absl::FunctionRef<std::optional<IssuedWork>()> issue) const;

  const Parts parts_;
  const std::uint64_t panel_bytes_;
  const PartCutter cutter_;
  const SmallIssuer small_issuer_;
  const std::unique_ptr<StagingRing> ring_;  // of the feeder thread
  std::unique_ptr<KeyedPool> feeder_;        // one thread. Last: it uses all else
};

}  // namespace gemmd
