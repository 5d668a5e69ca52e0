// Large works, in panels (panels.h), over three streams that all works share, so that copies
// in, kernels and copies out of neighbouring works, and within a work, overlap.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "server/device/cuda/launches/drain_ring.h"
#include "server/device/cuda/launches/out_of_core.h"
#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/cuda/memory/pinned_pool.h"
#include "server/device/cuda/planes/plane.h"
#include "server/device/cuda/planes/stack_block.h"
#include "server/device/cuda/planes/staging.h"

namespace gemmd {

struct CudaStreams {
  CudaStream copy_in = nullptr;
  CudaStream compute = nullptr;
  CudaStream copy_out = nullptr;
};

// The address of an operand's bytes, and who may touch them.
struct SentPlane {
  const void* data = nullptr;
  Access access = Access::kHost;
};

// Pieces of the operand that panels do not cut, in which it may come ahead of them.
struct PiecesAhead {
  int count = 0;
  int issued = 0;
};
// About a millisecond of copying each, if a panel of `panel_bytes` is a good one. None where the
// operand is smaller than that or lies on the device, or the panels cut both.
PiecesAhead CutIntoPieces(const PreparedWork& prepared, std::uint64_t panel_bytes);

// Immutable: used by one thread at a time for each ring.
class LargeIssuer {
 public:
  // All outlive the issuer. `pinned` are the pools whose memory needs neither staging nor, for
  // results, the drain ring.
  LargeIssuer(CudaBackend* backend, std::vector<const PinnedPool*> pinned,
              const CudaStreams& streams, DrainRing* drains)
      : backend_(backend), pinned_(std::move(pinned)), streams_(streams), drains_(drains) {}

  // RESOURCE_EXHAUSTED with nothing under way: the pool had no room for the block.
  IssuedWork Issue(const PreparedWork& prepared, CudaSlot* slot, StagingRing* ring) const;

  // All products of a stack in one launch of the kernel, or groups as their plans take them. As
  // Issue(). REQUIRES: LayOutStack() gave the layout.
  IssuedWork IssueStack(const DeviceWork& stacked, const StackBlock& layout, CudaSlot* slot,
                        StagingRing* ring) const;

  // Brings what a strip of parts shares (out_of_core.h) to a block that it takes. As Issue().
  IssuedWork IssueStrip(const DeviceWork& whole, WorkPlane shared, const SharedStrip& strip,
                        char** block, CudaSlot* slot, StagingRing* ring) const;
  // Frees the strip behind all that was issued. The work that is returned ends with that.
  IssuedWork Discard(char** block, CudaSlot* slot) const;

  // Panels [first, end) of the work, whose calls follow one another. The first takes the
  // block, unless IssueAhead() has, and brings the pieces that did not come ahead. The last, or
  // one that fails, frees the block.
  IssuedWork IssuePanels(const PreparedWork& prepared, std::size_t first, std::size_t end,
                         const PiecesAhead& ahead, char** block, CudaSlot* slot,
                         StagingRing* ring) const;

  // The next piece of `ahead`, before any panel. The first takes the block, and one that fails
  // frees it.
  IssuedWork IssueAhead(const PreparedWork& prepared, const PiecesAhead& ahead, char** block,
                        CudaSlot* slot, StagingRing* ring) const;

  // Brings one operand to where it stays, through `scratch` where it is transposed (else
  // they are the same). `ring` is the caller's own, as are the stream's next commands.
  void Land(const MatrixLayout& sent, const MatrixLayout& landed, const SentPlane& from,
            char* scratch, char* to, CudaStream stream, StagingRing* ring,
            CudaCommands* commands) const;
  // One operand's rectangle, from where it is to its input part of the block.
  void CopyIn(const MatrixLayout& sent, const MatrixLayout& landed, const SentPlane& from,
              const PlaneRect& rect, void* to, CudaStream stream, StagingRing* ring,
              CudaCommands* commands) const;

  const CudaStreams& streams() const { return streams_; }

 private:
  // Takes the block, and clears it where operands are padded. False: there is no room.
  bool TakeBlock(const PreparedWork& prepared, char** block, CudaCommands* commands) const;
  // Has the last stream wait for all that was issued.
  void AwaitAll(CudaCommands* commands) const;
  // Ends the issued work with the stream's last command; after an error with all streams', and
  // frees the block then, and if `is_last`.
  IssuedWork Close(IssuedWork issued, bool is_last, char** block, CudaStream stream,
                   CudaCommands* commands) const;
  void CopyInWhole(const PreparedWork& prepared, const PiecesAhead& ahead, char* block,
                   StagingRing* ring, CudaCommands* commands) const;
  CudaEvent IssuePanel(const PreparedWork& prepared, std::size_t index, CudaEvent begin,
                       char* block, StagingRing* ring, CudaCommands* commands,
                       std::vector<TimedStage>* stages) const;
  void CopyInVectors(const PreparedWork& prepared, char* block, StagingRing* ring,
                     CudaCommands* commands) const;
  // Copies of A, B or C what the panel's product takes, unless it lies on the device.
  void CopyInMatrix(const PreparedWork& prepared, WorkPlane plane, const PlaneRect& rect,
                    char* block, StagingRing* ring, CudaCommands* commands) const;
  // Queues copies of results to where the host, or another process, wants them.
  void CopyResultsOut(const DeviceWork& work, const std::vector<CudaRect>& copies,
                      CudaCommands* commands) const;
  bool IsPinned(const void* data, std::uint64_t bytes) const;
  // Returns whether D goes to ordinary memory.
  bool Drains(const DeviceWork& work) const;

  CudaBackend* const backend_;
  const std::vector<const PinnedPool*> pinned_;
  const CudaStreams streams_;
  DrainRing* const drains_;
};

}  // namespace gemmd
