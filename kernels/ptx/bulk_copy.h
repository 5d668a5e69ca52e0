// Bulk copies of plain bytes from global to shared memory (sm_90). One thread issues a copy.
// PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk".
//
// Both addresses and the size are multiples of 16. The bytes are counted on the mbarrier, whose
// phase must expect them (MbarrierArriveExpect()).
#pragma once

#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_copy.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/tensor_copy.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint: to this block's
// own memory, whose addresses are the same in either state space.
GEMMD_DEVICE void BulkLoad(SharedAddress destination, const void* source, std::uint32_t bytes,
                           SharedAddress mbarrier, CachePolicy policy GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                               ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(destination),
                               "l"(source), "r"(bytes), "r"(mbarrier),
                               "l"(static_cast<std::uint64_t>(policy))
                               : "memory");)
  GEMMD_IN_EMULATOR(static_cast<void>(policy);
                    emulator::BulkLoad(destination, source, bytes, mbarrier, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
