// cp.async: copies from global to shared memory that run beside the thread (sm_80).
// PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy, non-bulk".
//
// A thread's copies form groups. A copy is complete for the thread that issued it once
// CopyAsyncWait() has waited for its group; others see it after a barrier that follows.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/shared_memory.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// cp.async.cg.shared.global, cp-size 16: fills 16 bytes, the first `bytes` (at most 16)
// from the source and zeros after. With 0 the source is not read, but must still be
// aligned. `.cg` goes past L1. Both addresses are multiples of 16.
GEMMD_DEVICE void CopyAsync16(SharedAddress destination, const void* source,
                              std::uint32_t bytes GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination),
                               "l"(source), "r"(bytes)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::CopyAsync(destination, source, 16, bytes, site);)
}

// cp.async.ca.shared.global, cp-size 8: the same for 8 bytes and multiples of 8, through L1.
GEMMD_DEVICE void CopyAsync8(SharedAddress destination, const void* source,
                             std::uint32_t bytes GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(destination),
                               "l"(source), "r"(bytes)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::CopyAsync(destination, source, 8, bytes, site);)
}

// cp.async.commit_group: the copies since the last one become a group, maybe empty.
GEMMD_DEVICE void CopyAsyncCommit(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.commit_group;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::CopyAsyncCommit(site);)
}

// cp.async.wait_group: until at most kPending of the newest groups are incomplete.
template <int kPending>
GEMMD_DEVICE void CopyAsyncWait(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");)
  GEMMD_IN_EMULATOR(emulator::CopyAsyncWait(kPending, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
