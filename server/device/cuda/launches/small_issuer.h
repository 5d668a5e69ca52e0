// Small works, alone, side by side or as rows of one product: one sequence of commands on the
// slot's own stream, issued on the thread that submits them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/cuda/memory/pinned_pool.h"
#include "server/device/cuda/planes/staging.h"

namespace gemmd {

class SmallIssuer {
 public:
  // All outlive the issuer. `pinned` are the pools whose memory the device reads and writes.
  SmallIssuer(CudaBackend* backend, std::vector<const PinnedPool*> pinned)
      : backend_(backend), pinned_(std::move(pinned)) {}

  // Returns whether little or nothing is copied for the work: beyond this, copying on the caller's
  // thread would cost more than handing over.
  static bool IsSmall(const PreparedWork& prepared);
  // Returns whether, besides, its result is small wherever it lies: others may share a launch with
  // it.
  static bool IsShort(const PreparedWork& prepared);
  // Returns whether the inputs of small works fit the slot together.
  static bool Fit(const std::vector<PreparedWork>& works, const CudaSlot& slot);

  // Inputs travel in one copy; equal products are launched as one batch, others one after
  // another; rows of results leave together.
  // Thread-safe for different slots. RESOURCE_EXHAUSTED with nothing under way: the pool had
  // no room for the block.
  // REQUIRES: Fit(works, *slot).
  IssuedWork IssueTogether(std::vector<PreparedWork> works, CudaSlot* slot) const;

  // Returns whether the work's rows may travel with others': they are few, its B is on the device,
  // and the device reaches A where it lies.
  bool HasRows(const DeviceWork& work) const;

  // The rows of all works as the one product that `joined` is, straight from each one's A and
  // straight into each one's D. `joined.block` has no B. Otherwise as IssueTogether().
  // REQUIRES: HasRows() of each; joined.work->problem is JoinedRows(works); its bias and
  // scales of B fit the slot's staging memory together with all scales of A.
  IssuedWork IssueRows(const std::vector<DeviceWork>& works, const PreparedWork& joined,
                       CudaSlot* slot) const;

 private:
  bool IsPinned(const void* data, std::uint64_t bytes) const;

  CudaBackend* const backend_;
  const std::vector<const PinnedPool*> pinned_;
};

}  // namespace gemmd
