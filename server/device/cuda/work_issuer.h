// Turns one work into commands on the device's streams.
//
// A small work is one sequence on a stream of its own: its inputs travel in one copy. A
// large one uses three streams that all works share, so that copies in, kernels and copies
// out of neighbouring works overlap, and goes in panels (panels.h), so that they overlap
// within the work too.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/device/cuda/backend.h"
#include "server/device/cuda/commands.h"
#include "server/device/cuda/landing.h"
#include "server/device/cuda/panels.h"
#include "server/device/cuda/pinned_pool.h"
#include "server/device/cuda/plane.h"
#include "server/device/cuda/staging.h"
#include "server/device/device.h"

namespace gemmd {

struct CudaStreams {
  CudaStream copy_in = nullptr;
  CudaStream compute = nullptr;
  CudaStream copy_out = nullptr;
};

// Commands that are under way.
struct IssuedWork {
  // Not OK: what could not be issued; what was before it is under way nevertheless.
  absl::Status status;
  // Null if nothing is under way.
  CudaEvent last = nullptr;
  std::vector<TimedStage> stages;
};

// What both ways need to know of a work.
struct PreparedWork {
  const DeviceWork* work = nullptr;
  Problem landed;
  Residency resident;
  std::vector<Panel> panels;
  BlockLayout block;
};

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes);
// The same for a work that has not got its operands yet.
PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes, const Residency& resident);

// Where an operand's bytes are.
struct OperandSource {
  const void* data = nullptr;
  Access access = Access::kHost;
};

class WorkIssuer {
 public:
  // All outlive the issuer. `pinned` are the pools whose memory needs no staging.
  WorkIssuer(CudaBackend* backend, std::vector<const PinnedPool*> pinned,
             const CudaStreams& streams)
      : backend_(backend), pinned_(std::move(pinned)), streams_(streams) {}

  // Whether the work fits IssueSmall().
  static bool IsSmall(const PreparedWork& prepared, const CudaSlot& slot);

  // Thread-safe for different slots. RESOURCE_EXHAUSTED with nothing under way: the pool had
  // no room for the block.
  IssuedWork IssueSmall(const PreparedWork& prepared, CudaSlot* slot) const;

  // As above, by one thread at a time: that of the ring.
  IssuedWork IssueLarge(const PreparedWork& prepared, CudaSlot* slot, StagingRing* ring) const;

  // Brings one operand to where it stays, through `scratch` where it is transposed (else
  // they are the same), on the copy-in stream.
  void Land(const MatrixLayout& sent, const MatrixLayout& landed, const void* host, char* scratch,
            char* to, StagingRing* ring, CudaCommands* commands) const;

 private:
  // One operand's rectangle, from where it is to its input part of the block.
  void CopyIn(const MatrixLayout& sent, const MatrixLayout& landed, const OperandSource& from,
              const PlaneRect& rect, void* to, StagingRing* ring, CudaCommands* commands) const;
  void CopyInVectors(const PreparedWork& prepared, char* block, StagingRing* ring,
                     CudaCommands* commands) const;
  void CopyInA(const PreparedWork& prepared, const Panel& panel, char* block, StagingRing* ring,
               CudaCommands* commands) const;
  void CopyInB(const PreparedWork& prepared, const Panel& panel, char* block, StagingRing* ring,
               CudaCommands* commands) const;
  // Transposes what this panel brought (`is_first`: what came whole before it, too) and
  // launches the kernel.
  void Compute(const PreparedWork& prepared, const Panel& panel, bool is_first, char* block,
               CudaStream stream, CudaCommands* commands) const;
  void CopyOut(const PreparedWork& prepared, const Panel& panel, const char* block,
               CudaStream stream, CudaCommands* commands) const;
  bool IsPinned(const void* data, std::uint64_t bytes) const;

  CudaBackend* const backend_;
  const std::vector<const PinnedPool*> pinned_;
  const CudaStreams streams_;
};

}  // namespace gemmd
