// Loads and stores of global memory.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/global_memory.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// PTX ISA, "Data Movement and Conversion Instructions: ld" and "st", state space .global:
// T has 1, 2, 4, 8 or 16 bytes, and the address is a multiple of them.
template <typename T>
GEMMD_DEVICE T LoadGlobal(const T* address GEMMD_SITE) {
  GEMMD_IN_EMULATOR(emulator::CheckGlobal(address, sizeof(T), sizeof(T), false, "ld", site);)
  return *address;
}

template <typename T>
GEMMD_DEVICE void StoreGlobal(T* address, const T& value GEMMD_SITE) {
  GEMMD_IN_EMULATOR(emulator::CheckGlobal(address, sizeof(T), sizeof(T), true, "st", site);)
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 16) {
    // In one instruction: the compiler may split what it does not see to be aligned.
    std::uint32_t word[4];
    memcpy(word, &value, sizeof value);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
    return;
  }
#endif
  *address = value;
}

// A hint to the caches about the lines that a store writes. PTX ISA, "Cache Eviction Priority
// Hints".
enum class StoreHint : std::uint8_t {
  kNone,
  kNoAllocate,  // .L1::no_allocate
  kEvictFirst,  // .L2::evict_first
};

// st.global.v8.f32 (sm_100): 32 bytes in one instruction, at a multiple of 32.
template <StoreHint kHint>
GEMMD_DEVICE void StoreGlobal8(float* address, const float (&value)[8] GEMMD_SITE) {
  GEMMD_IN_EMULATOR(emulator::CheckGlobal(address, 32, 32, true, "st.v8", site);)
#ifdef __CUDACC__
#define GEMMD_STORE_8(hint)                                                                       \
  asm volatile("st.global" hint ".v8.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(address), \
               "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3]), "f"(value[4]),         \
               "f"(value[5]), "f"(value[6]), "f"(value[7])                                        \
               : "memory")
  if constexpr (kHint == StoreHint::kNoAllocate) {
    GEMMD_STORE_8(".L1::no_allocate");
  } else if constexpr (kHint == StoreHint::kEvictFirst) {
    GEMMD_STORE_8(".L2::evict_first");
  } else {
    GEMMD_STORE_8("");
  }
#undef GEMMD_STORE_8
#else
  for (int i = 0; i < 8; ++i) address[i] = value[i];
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
