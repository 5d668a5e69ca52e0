// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and the
// registers of a warp. All 32 lanes execute them together.
//
// PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store ... stmatrix".
// Lane l gives the address of row l % 8 of matrix l / 8, 16 bytes, aligned to 16. In
// registers, matrix j is registers[j]: its low and high half in lane l are elements
// (l / 4, 2 * (l % 4)) and the next of the row; with Transposed, (2 * (l % 4), l / 4) and
// the next of the column. Addresses of lanes beyond 8 * matrices are not used.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/shared_memory.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// ldmatrix.sync.aligned.m8n8.x4.shared.b16
GEMMD_DEVICE void LoadMatrix4(std::uint32_t (&registers)[4], SharedAddress address GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                   : "r"(address)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::LoadMatrix(registers, address, false, site);)
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
GEMMD_DEVICE void LoadMatrix4Transposed(std::uint32_t (&registers)[4],
                                        SharedAddress address GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                   : "r"(address)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::LoadMatrix(registers, address, true, site);)
}

// stmatrix.sync.aligned.m8n8.x4.shared.b16 (sm_90)
GEMMD_DEVICE void StoreMatrix4(SharedAddress address,
                               const std::uint32_t (&registers)[4] GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
          "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
          : "memory");)
  GEMMD_IN_EMULATOR(emulator::StoreMatrix(address, registers, 4, site);)
}

// stmatrix.sync.aligned.m8n8.x2.shared.b16 (sm_90)
GEMMD_DEVICE void StoreMatrix2(SharedAddress address,
                               const std::uint32_t (&registers)[2] GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address),
                   "r"(registers[0]), "r"(registers[1])
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::StoreMatrix(address, registers, 2, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
