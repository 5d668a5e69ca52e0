// The sets of sm_90a, compiled for the device and for the emulator.
#pragma once

#include "tests/kernels/conformance/common_sets_list.h"
#include "tests/kernels/conformance/wgmma_byte_vectors.h"
#include "tests/kernels/conformance/wgmma_tf32_vectors.h"
#include "tests/kernels/conformance/wgmma_vectors.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kWgmmaBlocks = 6400;  // at least 10^5 instructions

inline namespace GEMMD_BACKEND {

template <Form kForm, int kColumns, bool kARegisters>
void AppendWgmma(std::vector<VectorSet>* sets) {
  const auto number = static_cast<std::uint32_t>(1000 + 2000 * static_cast<int>(kForm) +
                                                 (kARegisters ? 1000 : 0) + kColumns);
  sets->push_back(
      {absl::StrCat("wgmma_m64n", kColumns, "k16_", FormName(kForm),
                    kARegisters ? "_a_registers" : ""),
       number, kWgmmaBlocks, kWgmmaThreads, kWgmmaInstructions, WgmmaWords(kColumns),
       RunVectors<WgmmaVectors<kForm, kColumns, kARegisters>, WgmmaSharedBytes(kColumns)>});
}

template <Form kForm>
void AppendWgmmas(std::vector<VectorSet>* sets) {
  AppendWgmma<kForm, 16, false>(sets);
  AppendWgmma<kForm, 32, false>(sets);
  AppendWgmma<kForm, 48, false>(sets);
  AppendWgmma<kForm, 64, false>(sets);
  AppendWgmma<kForm, 80, false>(sets);
  AppendWgmma<kForm, 96, false>(sets);
  AppendWgmma<kForm, 112, false>(sets);
  AppendWgmma<kForm, 128, false>(sets);
  AppendWgmma<kForm, 144, false>(sets);
  AppendWgmma<kForm, 160, false>(sets);
  AppendWgmma<kForm, 176, false>(sets);
  AppendWgmma<kForm, 192, false>(sets);
  AppendWgmma<kForm, 208, false>(sets);
  AppendWgmma<kForm, 224, false>(sets);
  AppendWgmma<kForm, 240, false>(sets);
  AppendWgmma<kForm, 256, false>(sets);
  AppendWgmma<kForm, 64, true>(sets);
  AppendWgmma<kForm, 256, true>(sets);
  AppendWgmma<kForm, 8, false>(sets);
  AppendWgmma<kForm, 24, false>(sets);
  AppendWgmma<kForm, 184, false>(sets);
}

template <int kColumns>
void AppendWgmmaTf32(std::vector<VectorSet>* sets) {
  sets->push_back({absl::StrCat("wgmma_m64n", kColumns, "k8_tf32"), 7000 + kColumns, kWgmmaBlocks,
                   kWgmmaThreads, kWgmmaInstructions, WgmmaWords(kColumns),
                   RunVectors<WgmmaTf32Vectors<kColumns>, WgmmaSharedBytes(kColumns)>});
}

inline const char* TypeName(ptx::ByteType type) {
  constexpr const char* kNames[] = {"e4m3", "e5m2", "s8", "u8"};
  return kNames[static_cast<int>(type)];
}

template <ptx::ByteType kA, ptx::ByteType kB, int kColumns>
void AppendWgmmaBytes(std::vector<VectorSet>* sets) {
  const auto pair = static_cast<std::uint32_t>(4 * static_cast<int>(kA) + static_cast<int>(kB));
  sets->push_back({absl::StrCat("wgmma_m64n", kColumns, "k32_", TypeName(kA), "_", TypeName(kB)),
                   8000 + 300 * pair + kColumns, kWgmmaBlocks, kWgmmaThreads, kWgmmaInstructions,
                   WgmmaWords(kColumns),
                   RunVectors<WgmmaByteVectors<kA, kB, kColumns>, WgmmaSharedBytes(kColumns)>});
}

// The widths that kernels have, and the least.
template <ptx::ByteType kA, ptx::ByteType kB>
void AppendWgmmaByteWidths(std::vector<VectorSet>* sets) {
  AppendWgmmaBytes<kA, kB, 8>(sets);
  AppendWgmmaBytes<kA, kB, 64>(sets);
  AppendWgmmaBytes<kA, kB, 128>(sets);
  AppendWgmmaBytes<kA, kB, 256>(sets);
}

inline void AppendAllWgmmaBytes(std::vector<VectorSet>* sets) {
  constexpr ptx::ByteType kE4m3 = ptx::ByteType::kE4m3;
  constexpr ptx::ByteType kE5m2 = ptx::ByteType::kE5m2;
  constexpr ptx::ByteType kS8 = ptx::ByteType::kS8;
  constexpr ptx::ByteType kU8 = ptx::ByteType::kU8;
  AppendWgmmaByteWidths<kE4m3, kE4m3>(sets);
  AppendWgmmaByteWidths<kE4m3, kE5m2>(sets);
  AppendWgmmaByteWidths<kE5m2, kE4m3>(sets);
  AppendWgmmaByteWidths<kE5m2, kE5m2>(sets);
  AppendWgmmaByteWidths<kS8, kS8>(sets);
  AppendWgmmaBytes<kS8, kU8, 64>(sets);
  AppendWgmmaBytes<kU8, kS8, 64>(sets);
  AppendWgmmaBytes<kU8, kU8, 64>(sets);
}

inline std::vector<VectorSet> MakeSm90Sets() {
  std::vector<VectorSet> sets;
  AppendCommonSets(&sets);
  AppendWgmmas<Form::kF16ToF32>(&sets);
  AppendWgmmas<Form::kBf16ToF32>(&sets);
  AppendWgmmaTf32<8>(&sets);
  AppendWgmmaTf32<64>(&sets);
  AppendWgmmaTf32<128>(&sets);
  AppendWgmmaTf32<192>(&sets);
  AppendWgmmaTf32<256>(&sets);
  AppendAllWgmmaBytes(&sets);
  AppendTensorCopies(&sets);
  return sets;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
