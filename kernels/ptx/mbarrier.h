// mbarrier: barriers in shared memory that threads and bulk copies arrive at (sm_90).
// PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
//
// An object takes 8 bytes, aligned to 8. A phase completes when `count` arrivals have come
// and no expected bytes are outstanding; the next begins at once. Waits name a phase by
// its parity: the first phase has parity 0. Before the first phase completes, a wait for
// parity 1 returns at once, as if a phase before it had completed.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/mbarrier.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

inline constexpr std::uint32_t kMbarrierBytes = 8;

// mbarrier.init.shared::cta.b64. Others may use the object after a barrier; bulk copies
// and other blocks of the cluster after FenceMbarrierInit() and a barrier.
GEMMD_DEVICE void MbarrierInit(SharedAddress mbarrier, std::uint32_t count GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(count)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::MbarrierInit(mbarrier, count, site);)
}

// mbarrier.arrive.release.cta.shared::cta.b64: one arrival at an object of this block.
GEMMD_DEVICE void MbarrierArrive(SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::MbarrierArrive(mbarrier, site);)
}

// mbarrier.arrive.release.cta.shared::cluster.b64: one arrival at an object of any block of
// the cluster, an address of MapShared() (cluster.h). It gives a buffer back: this thread's
// finished reads (loads whose values it has, wgmma it has waited for) come before what follows
// the phase. Its scope is this block, so that what this thread stored, or saw stored, may not be
// read in another block on its word (PTX ISA, "Memory Consistency Model: Scope"). That takes
// MbarrierArriveCluster() and a fence's time, which a ring of stages has no use for.
GEMMD_DEVICE void MbarrierArriveRemote(SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mbarrier)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::MbarrierArriveRemote(mbarrier, site);)
}

// mbarrier.arrive.release.cluster.shared::cluster.b64: as above, and what this thread stored
// or saw stored is there for threads of that block after MbarrierWaitCluster().
GEMMD_DEVICE void MbarrierArriveCluster(SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mbarrier)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::MbarrierArriveCluster(mbarrier, site);)
}

// mbarrier.arrive.expect_tx.shared::cta.b64: the phase also waits for `bytes` more bytes
// of bulk copies; then one arrival. At most 2^20 - 1 bytes may be outstanding.
GEMMD_DEVICE void MbarrierArriveExpect(SharedAddress mbarrier, std::uint32_t bytes GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier),
                   "r"(bytes)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::MbarrierArriveExpect(mbarrier, bytes, site);)
}

// mbarrier.arrive.expect_tx.release.cta.shared::cluster.b64: the same at an object of any block of
// the cluster, as MbarrierArriveRemote().
GEMMD_DEVICE void MbarrierArriveExpectRemote(SharedAddress mbarrier,
                                             std::uint32_t bytes GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(mbarrier),
                   "r"(bytes)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::MbarrierArriveExpectRemote(mbarrier, bytes, site);)
}

// mbarrier.try_wait.parity.shared::cta.b64: whether the phase has completed; may wait a
// while before it says no.
GEMMD_DEVICE bool MbarrierTryWait(SharedAddress mbarrier, std::uint32_t parity GEMMD_SITE) {
  GEMMD_ON_DEVICE(std::uint32_t done;
                  asm volatile("{\n"
                               ".reg .pred p;\n"
                               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                               "selp.b32 %0, 1, 0, p;\n"
                               "}"
                               : "=r"(done)
                               : "r"(mbarrier), "r"(parity)
                               : "memory");
                  return done != 0;)
  GEMMD_IN_EMULATOR(return emulator::MbarrierTryWait(mbarrier, parity, site);)
}

// Waits until the phase of this parity has completed, and sees what was done before the
// block's arrivals and what the copies wrote. A blocking wait and no loop of the kernel's, so
// that the emulator can say who waits for what.
GEMMD_DEVICE void MbarrierWait(SharedAddress mbarrier, std::uint32_t parity GEMMD_SITE) {
  GEMMD_ON_DEVICE(while (!MbarrierTryWait(mbarrier, parity)){})
  GEMMD_IN_EMULATOR(emulator::MbarrierWait(mbarrier, parity, site);)
}

// mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64, until the phase has completed: as
// above, and sees what was done before other blocks' MbarrierArriveCluster().
GEMMD_DEVICE void MbarrierWaitCluster(SharedAddress mbarrier, std::uint32_t parity GEMMD_SITE) {
  GEMMD_ON_DEVICE(std::uint32_t done = 0; while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(mbarrier), "r"(parity)
        : "memory");
  })
  GEMMD_IN_EMULATOR(emulator::MbarrierWaitCluster(mbarrier, parity, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
