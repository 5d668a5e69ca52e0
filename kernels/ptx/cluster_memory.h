// Loads and stores of another block's shared memory (sm_90). Addresses are those of
// MapShared() (cluster.h); a cluster barrier stands before the first of them and after the
// last, and whoever reads what was stored needs one between, or an mbarrier.
//
// st.async, which completes on an mbarrier, has no wrapper: no kernel here needs it.
#pragma once

#include <cstring>

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/shared_memory.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// PTX ISA, "Data Movement and Conversion Instructions: ld", state space .shared::cluster. T
// has 4 or 16 bytes, and `address` is a multiple of them.
template <typename T>
GEMMD_DEVICE T LoadSharedRemote(SharedAddress address GEMMD_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
  T value;
#ifdef __CUDACC__
  std::uint32_t word[sizeof(T) / 4];
  if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(word[0]) : "r"(address) : "memory");
  } else {
    asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(address)
                 : "memory");
  }
  memcpy(&value, word, sizeof value);
#else
  emulator::LoadSharedRemote(&value, address, sizeof value, site);
#endif
  return value;
}

// PTX ISA, "Data Movement and Conversion Instructions: st", state space .shared::cluster.
template <typename T>
GEMMD_DEVICE void StoreSharedRemote(SharedAddress address, const T& value GEMMD_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
#ifdef __CUDACC__
  std::uint32_t word[sizeof(T) / 4];
  memcpy(word, &value, sizeof value);
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(address), "r"(word[0]) : "memory");
  } else {
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
  }
#else
  emulator::StoreSharedRemote(address, &value, sizeof value, site);
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
