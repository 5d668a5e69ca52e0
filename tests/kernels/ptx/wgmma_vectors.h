// Inputs of wgmma probes: what wgmma_vectors_test computes and record_vectors measures.
//
// Every halfword of shared memory is random, and leading and stride offsets differ from each
// other and from what a dense tile has: a descriptor read in any other way gives other bits.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "tests/kernels/ptx/wgmma_probe.h"

namespace gemmd::testing {

// Calls f.operator()<form, columns, a, b_major>() for every kernel that is compared.
template <ptx::WgmmaForm kForm, int kColumns, typename F>
void ForEachMajor(const F& f) {
  using ptx::Major;
  using ptx::WgmmaA;
  f.template operator()<kForm, kColumns, WgmmaA::kKMajor, Major::kK>();
  f.template operator()<kForm, kColumns, WgmmaA::kKMajor, Major::kMn>();
  f.template operator()<kForm, kColumns, WgmmaA::kMnMajor, Major::kK>();
  f.template operator()<kForm, kColumns, WgmmaA::kMnMajor, Major::kMn>();
  f.template operator()<kForm, kColumns, WgmmaA::kRegisters, Major::kK>();
  f.template operator()<kForm, kColumns, WgmmaA::kRegisters, Major::kMn>();
}

template <typename F>
void ForEachWgmmaProbe(const F& f) {
  ForEachMajor<ptx::WgmmaForm::kF16ToF32, 64>(f);
  ForEachMajor<ptx::WgmmaForm::kF16ToF32, 24>(f);
  ForEachMajor<ptx::WgmmaForm::kF16ToF32, 256>(f);
  ForEachMajor<ptx::WgmmaForm::kBf16ToF32, 64>(f);
  ForEachMajor<ptx::WgmmaForm::kBf16ToF32, 8>(f);
  ForEachMajor<ptx::WgmmaForm::kBf16ToF32, 184>(f);
}

inline std::size_t WgmmaOutputWords(int columns) {
  return static_cast<std::size_t>(128 * columns / 2);
}

inline constexpr ptx::Swizzle kWgmmaSwizzles[] = {ptx::Swizzle::kNone, ptx::Swizzle::k32B,
                                                  ptx::Swizzle::k64B, ptx::Swizzle::k128B};

inline std::string WgmmaVectorName(ptx::WgmmaForm form, int columns, ptx::WgmmaA a,
                                   ptx::Major b_major, ptx::Swizzle swizzle) {
  static const char* const kForms[] = {"f16_f32", "bf16_f32"};
  static const char* const kA[] = {"k", "mn", "registers"};
  return std::string("wgmma_") + kForms[static_cast<int>(form)] + "_n" + std::to_string(columns) +
         "_a_" + kA[static_cast<int>(a)] + "_b_" + (b_major == ptx::Major::kK ? "k" : "mn") +
         "_swizzle" + std::to_string(static_cast<int>(swizzle));
}

// Where the operands lie: offsets that no dense tile has.
inline ptx::WgmmaProbeParams WgmmaSpecs(bool a_is_mn, bool b_is_mn, ptx::Swizzle swizzle) {
  const auto span = static_cast<std::uint32_t>(swizzle);
  const std::uint32_t unit = swizzle == ptx::Swizzle::kNone ? 16 : 8 * span;
  // Swizzled K-major operands may advance inside the first row, where it has room.
  const std::uint32_t advance = swizzle == ptx::Swizzle::k128B ? 64 : span == 64 ? 32 : 0;
  ptx::WgmmaProbeParams params = {};
  params.a = {a_is_mn ? 0 : advance, 9 * unit, 10 * unit, swizzle};
  params.b = {b_is_mn ? 1024 : 1024 + advance, (b_is_mn ? 21 : 2) * unit,
              (b_is_mn && span == 0 ? 11 : 3) * unit, swizzle};
  return params;
}

inline std::vector<std::uint16_t> WgmmaHalves(ptx::WgmmaForm form, std::size_t count,
                                              std::uint32_t seed) {
  const auto format =
      form == ptx::WgmmaForm::kBf16ToF32 ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> halves(count);
  for (std::uint16_t& half : halves) half = emulator::Narrow(format, normal(generator));
  return halves;
}

}  // namespace gemmd::testing
