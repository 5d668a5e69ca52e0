// Loads and stores of shared memory.
#pragma once

#include <cstring>

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/shared_memory.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

#ifdef __CUDACC__
extern __shared__ __align__(1024) unsigned char dynamic_shared[];
#endif

// Where this block's dynamic shared memory starts, aligned to 1024 bytes.
GEMMD_DEVICE SharedAddress SharedBase() {
  GEMMD_ON_DEVICE(return static_cast<SharedAddress>(__cvta_generic_to_shared(dynamic_shared));)
  GEMMD_IN_EMULATOR(return emulator::SharedBase();)
}

// PTX ISA, "Data Movement and Conversion Instructions: ld", state space .shared. T has
// 2, 4, 8 or 16 bytes, and `address` is a multiple of them.
template <typename T>
GEMMD_DEVICE T LoadShared(SharedAddress address GEMMD_SITE) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  T value;
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 2) {
    unsigned short bits;
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
    memcpy(&value, &bits, sizeof value);
  } else {
    std::uint32_t word[sizeof(T) / 4];
    if constexpr (sizeof(T) == 4) {
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word[0]) : "r"(address) : "memory");
    } else if constexpr (sizeof(T) == 8) {
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                   : "=r"(word[0]), "=r"(word[1])
                   : "r"(address)
                   : "memory");
    } else {
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                   : "r"(address)
                   : "memory");
    }
    memcpy(&value, word, sizeof value);
  }
#else
  emulator::LoadShared(&value, address, sizeof value, site);
#endif
  return value;
}

// PTX ISA, "Data Movement and Conversion Instructions: st", state space .shared. T has
// 4, 8 or 16 bytes (the emulator's shadow has cells of 4), and `address` is a multiple.
template <typename T>
GEMMD_DEVICE void StoreShared(SharedAddress address, const T& value GEMMD_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
#ifdef __CUDACC__
  std::uint32_t word[sizeof(T) / 4];
  memcpy(word, &value, sizeof value);
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word[0]) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(word[0]), "r"(word[1])
                 : "memory");
  } else {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
  }
#else
  emulator::StoreShared(address, &value, sizeof value, site);
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
