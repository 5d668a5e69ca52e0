// The sets of sm_120a, compiled for the device and for the emulator: what it shares with others,
// and mma.sync with block scales.
#pragma once

#include "tests/kernels/conformance/common_sets_list.h"
#include "tests/kernels/conformance/mma_mx_vectors.h"

namespace gemmd::conformance {
inline namespace GEMMD_BACKEND {

template <ptx::MmaMxType kA, ptx::MmaMxType kB>
void AppendMmaMx(std::vector<VectorSet>* sets) {
  constexpr const char* kTypes[] = {"e4m3", "e5m2"};
  constexpr int kFirst = static_cast<int>(kA);
  constexpr int kSecond = static_cast<int>(kB);
  sets->push_back({absl::StrCat("mma_m16n8k32_mx_", kTypes[kFirst], "_", kTypes[kSecond]),
                   100 + 2 * kFirst + kSecond, kMmaBlocks, 32, kMmaMxInstructions, 4,
                   RunVectors<MmaMxVectors<kA, kB>, 0>});
}

inline std::vector<VectorSet> MakeSm120Sets() {
  constexpr auto kE4m3 = ptx::MmaMxType::kE4m3;
  constexpr auto kE5m2 = ptx::MmaMxType::kE5m2;
  std::vector<VectorSet> sets;
  AppendCommonSets(&sets);
  AppendMmaMx<kE4m3, kE4m3>(&sets);
  AppendMmaMx<kE4m3, kE5m2>(&sets);
  AppendMmaMx<kE5m2, kE4m3>(&sets);
  AppendMmaMx<kE5m2, kE5m2>(&sets);
  AppendTensorCopies(&sets);
  return sets;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
