// Barriers and exchanges between the threads of a warp and of a block.
// PTX ISA, "Parallel Synchronization and Communication Instructions".
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/machine/barriers.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// barrier.sync 0: every thread of the block. Orders their memory accesses.
GEMMD_DEVICE void SyncThreads(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(__syncthreads();)
  GEMMD_IN_EMULATOR(emulator::SyncThreads(site);)
}

// bar.sync id, threads: waits until `threads` threads (a multiple of 32, the same for
// all) have synced or arrived at barrier `id`, 1 to 15.
GEMMD_DEVICE void NamedBarrierSync(std::uint32_t id, std::uint32_t threads GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");)
  GEMMD_IN_EMULATOR(emulator::NamedBarrierSync(id, threads, site);)
}

// bar.arrive id, threads: is counted, and does not wait.
GEMMD_DEVICE void NamedBarrierArrive(std::uint32_t id, std::uint32_t threads GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");)
  GEMMD_IN_EMULATOR(emulator::NamedBarrierArrive(id, threads, site);)
}

// bar.warp.sync with a full mask. A lane that acts for its warp (an mbarrier arrival, a
// bulk store) does so after this: no other warp-wide instruction orders memory.
GEMMD_DEVICE void SyncWarp(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(__syncwarp();)
  GEMMD_IN_EMULATOR(emulator::SyncWarp(site);)
}

// elect.sync with a full mask (sm_90): true in exactly one lane.
GEMMD_DEVICE bool ElectOne(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(std::uint32_t elected; asm volatile("{\n"
                                                      ".reg .pred p;\n"
                                                      "elect.sync _|p, 0xffffffff;\n"
                                                      "selp.b32 %0, 1, 0, p;\n"
                                                      "}"
                                                      : "=r"(elected));
                  return elected != 0;)
  GEMMD_IN_EMULATOR(return emulator::ElectOne(site);)
}

// shfl.sync.idx.b32 with a full mask: `value` of lane `source`.
GEMMD_DEVICE std::uint32_t Shuffle(std::uint32_t value, std::uint32_t source GEMMD_SITE) {
  GEMMD_ON_DEVICE(return __shfl_sync(0xffffffffu, value, source);)
  GEMMD_IN_EMULATOR(return emulator::Shuffle(value, source, site);)
}

// vote.sync.any with a full mask: whether any lane says so.
GEMMD_DEVICE bool AnyInWarp(bool says_so GEMMD_SITE) {
  GEMMD_ON_DEVICE(return __any_sync(0xffffffffu, says_so) != 0;)
  GEMMD_IN_EMULATOR(return emulator::AnyInWarp(says_so, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
