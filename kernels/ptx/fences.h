// Fences between the ways of reaching memory (sm_90).
// PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence" and
// "Memory Consistency Model: Proxies".
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/global_memory.h"
#include "kernels/emulator/memory/mbarrier.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// fence.proxy.async.shared::cta: stores that precede it, by this thread or ordered before
// it, are seen by bulk copies and wgmma that follow it.
GEMMD_DEVICE void FenceProxyAsync(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::FenceProxyAsync(site);)
}

// fence.proxy.async.global: the same for global memory, between stores and the bulk copies
// that read or write the same bytes.
GEMMD_DEVICE void FenceProxyAsyncGlobal(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("fence.proxy.async.global;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::FenceProxyAsyncGlobal(site);)
}

// fence.mbarrier_init.release.cluster: the same for mbarrier.init alone, and for other
// blocks of the cluster once a cluster barrier follows.
GEMMD_DEVICE void FenceMbarrierInit(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::FenceMbarrierInit(site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
