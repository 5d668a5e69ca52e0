// The ring of stages that loads run ahead in: who is where, and where a stage and its mbarriers
// lie in shared memory.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::mma {

inline namespace GEMMD_BACKEND {

// Returns the number of stages that fit into `shared_bytes`, each with two mbarriers; at most
// `most`.
constexpr int FittingStages(int shared_bytes, int stage_bytes, int most) {
  const int fitting = shared_bytes / (stage_bytes + 2 * static_cast<int>(ptx::kMbarrierBytes));
  return fitting < most ? fitting : most;
}

// A position in the ring, and the parity of the phase that fills or empties it this time.
template <int kStages>
struct RingPosition {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  // Moves to the next stage; returns whether the ring starts again.
  GEMMD_DEVICE bool Next() {
    if (++stage != kStages) return false;
    stage = 0;
    parity ^= 1;
    return true;
  }
  GEMMD_DEVICE void Skip(std::uint32_t count) {
    const std::uint32_t to = stage + count;
    parity ^= to / kStages & 1;
    stage = to % kStages;
  }
};

// The stages of a block. Layout has kStages, kStageBytes and the offsets kFull and kEmpty of the
// mbarriers: one says that a stage is loaded, the other that it is read.
template <class Layout>
struct Ring {
  ptx::SharedAddress shared = ptx::SharedBase();

  GEMMD_DEVICE ptx::SharedAddress Stage(std::uint32_t stage) const {
    return shared + stage * Layout::kStageBytes;
  }
  GEMMD_DEVICE ptx::SharedAddress Full(std::uint32_t stage) const {
    return shared + Layout::kFull + stage * ptx::kMbarrierBytes;
  }
  GEMMD_DEVICE ptx::SharedAddress Empty(std::uint32_t stage) const {
    return shared + Layout::kEmpty + stage * ptx::kMbarrierBytes;
  }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
