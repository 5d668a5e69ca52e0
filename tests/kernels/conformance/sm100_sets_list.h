// The sets of sm_100a, compiled for the device and for the emulator: what it shares with others,
// and tcgen05.mma of each kind.
#pragma once

#include "tests/kernels/conformance/common_sets_list.h"
#include "tests/kernels/conformance/tcgen05_vectors.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kTcgen05Blocks = 6400;  // or pairs: 102400 instructions

inline namespace GEMMD_BACKEND {

inline std::string Tcgen05Name(const Tcgen05Set& set) {
  constexpr const char* kTypes[] = {"e4m3", "e5m2", "e2m3", "e3m2", "e2m1"};
  std::string kind = set.kind == Tcgen05Kind::kMxf4 ? "mxf4" : "mxf4nvf4_e8m0";
  if (set.has_e4m3_scales) kind = "mxf4nvf4_e4m3";
  if (set.kind == Tcgen05Kind::kF16) {
    kind = set.sums_f16 ? "f16_f16" : set.a_type == 1 ? "bf16_f32" : "f16_f32";
  }
  if (set.kind == Tcgen05Kind::kMxf8f6f4) {
    kind = absl::StrCat("mx_", kTypes[set.a_type], "_", kTypes[set.b_type]);
  }
  return absl::StrCat("tcgen05_mma_", kind, "_n", set.columns, set.is_pair ? "_pair" : "");
}

template <Tcgen05Kind kKind>
void AppendTcgen05(Tcgen05Set set, std::vector<VectorSet>* sets) {
  constexpr std::uint32_t kBytes = Tcgen05Shared::kBytes;
  set.kind = kKind;
  sets->push_back({Tcgen05Name(set), NumberOf(set), kTcgen05Blocks,
                   kTcgen05Threads * (set.is_pair ? 2 : 1), kTcgen05Instructions, Tcgen05Words(set),
                   set.is_pair ? RunVectors<Tcgen05Vectors<2, kKind>, kBytes, 2>
                               : RunVectors<Tcgen05Vectors<1, kKind>, kBytes>});
}

// The set with these N, of one block and of a pair. PTX ISA, "Matrix Shape": a pair's N is a
// multiple of 16; of 32 here, as other kernels have it.
template <Tcgen05Kind kKind>
void AppendTcgen05Widths(Tcgen05Set set, std::initializer_list<std::uint32_t> alone,
                         std::initializer_list<std::uint32_t> paired,
                         std::vector<VectorSet>* sets) {
  for (const std::uint32_t columns : alone) {
    set.columns = columns;
    AppendTcgen05<kKind>(set, sets);
  }
  set.is_pair = true;
  for (const std::uint32_t columns : paired) {
    set.columns = columns;
    AppendTcgen05<kKind>(set, sets);
  }
}

inline void AppendAllTcgen05(std::vector<VectorSet>* sets) {
  Tcgen05Set half;
  for (const bool sums_f16 : {false, true}) {
    for (const std::uint32_t type : {0u, 1u}) {
      if (sums_f16 && type == 1) continue;  // bf16 is summed in f32 alone
      half.a_type = half.b_type = type;
      half.sums_f16 = sums_f16;
      // 8 and 24 go with M of 64 alone.
      AppendTcgen05Widths<Tcgen05Kind::kF16>(half, {8, 16, 24, 64, 144, 256}, {32, 128, 256}, sets);
    }
  }
  Tcgen05Set mx;
  for (std::uint32_t pair = 0; pair < 25; ++pair) {
    mx.a_type = pair / 5;
    mx.b_type = pair % 5;
    AppendTcgen05Widths<Tcgen05Kind::kMxf8f6f4>(mx, {64}, {}, sets);
  }
  mx.a_type = 0;
  mx.b_type = 1;
  AppendTcgen05Widths<Tcgen05Kind::kMxf8f6f4>(mx, {8, 144, 256}, {32, 128, 256}, sets);
  AppendTcgen05Widths<Tcgen05Kind::kMxf4>({}, {8, 64, 256}, {32, 256}, sets);
  Tcgen05Set nv;
  nv.has_e4m3_scales = true;
  AppendTcgen05Widths<Tcgen05Kind::kMxf4nvf4>(nv, {8, 64, 256}, {32, 256}, sets);
  AppendTcgen05Widths<Tcgen05Kind::kMxf4nvf4>({}, {64}, {}, sets);
}

inline std::vector<VectorSet> MakeSm100Sets() {
  std::vector<VectorSet> sets;
  AppendCommonSets(&sets);
  AppendAllTcgen05(&sets);
  AppendTensorCopies(&sets);
  return sets;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
