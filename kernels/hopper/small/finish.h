// From a lane's sums to D.
#pragma once

#include <type_traits>

#include "kernels/hopper/small/numbers.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

// A lane's elements of a block of 16 x 16: two rows of four neighbours.
template <class T>
struct TwoFours {
  T value[2][4];
};

GEMMD_DEVICE bool IsFinite(float value) {
  return (ptx::BitsOfFloat(value) & 0x7f800000) != 0x7f800000;
}

// Makes those f32 sums anew, in f64 from the operands themselves, that are not finite: an element
// is not, or has no parts (kernels/hopper/f32/parts.h), or the sum is too large.
GEMMD_DEVICE void SumAgain(const BatchParams& params, const ProductPlanes& planes, std::int32_t row,
                           std::int32_t column, TwoFours<float>& sums) {
  float not_finite = 0;  // NaN if one of them is not
  GEMMD_UNROLL
  for (int at = 0; at < 8; ++at) not_finite += sums.value[at / 4][at % 4] * 0.0F;
  if (IsFinite(not_finite)) return;
  const auto element = [&](const void* plane, const OperandLines& lines, std::int32_t line,
                           std::int32_t k) -> double {
    const std::int32_t inside = line < lines.lines ? line : lines.lines - 1;
    return ptx::LoadGlobal(static_cast<const float*>(plane) + inside * lines.line_stride +
                           k * lines.k_stride);
  };
  TwoFours<double> exact = {};
  GEMMD_NO_UNROLL
  for (std::int32_t k = 0; k < params.k; ++k) {
    double b[4];
    GEMMD_UNROLL
    for (int e = 0; e < 4; ++e) b[e] = element(planes.b, params.b, column + e, k);
    GEMMD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const double a = element(planes.a, params.a, row + i, k);
      GEMMD_UNROLL
      for (int e = 0; e < 4; ++e) exact.value[i][e] += a * b[e];
    }
  }
  GEMMD_UNROLL
  for (int at = 0; at < 8; ++at) {
    float& sum = sums.value[at / 4][at % 4];
    if (!IsFinite(sum)) sum = static_cast<float>(exact.value[at / 4][at % 4]);
  }
}

// Compiled without contraction, so that the device, the emulator and kernels/epilogue round the
// same operations.
template <class Out, class T>
GEMMD_DEVICE T FinishElement(const BatchParams& params, const ProductPlanes& planes, T value,
                             std::int32_t row, std::int32_t column) {
  using Storage = typename Out::Storage;
  if (!params.has_epilogue) return value;
  value = static_cast<T>(params.alpha) * value;
  if (planes.c != nullptr) {
    const Storage* const c = static_cast<const Storage*>(planes.c) + row * params.c_row_stride +
                             column * params.c_column_stride;
    value += static_cast<T>(params.beta) * Out::Widen(ptx::LoadGlobal(c));
  }
  if (planes.bias != nullptr) {
    value += Out::Widen(ptx::LoadGlobal(static_cast<const Storage*>(planes.bias) + column));
  }
  return epilogue::Activate(params.activation, value);
}

template <class Out, class T>
GEMMD_DEVICE void StoreFinished(const BatchParams& params, const ProductPlanes& planes,
                                const TwoFours<T>& sums, std::int32_t row, std::int32_t column) {
  auto* const d = static_cast<typename Out::Storage*>(planes.d);
  GEMMD_UNROLL
  for (int at = 0; at < 8; ++at) {
    const std::int32_t to_row = row + at / 4;
    const std::int32_t to_column = column + at % 4;
    if (to_row >= params.a.lines || to_column >= params.b.lines) continue;
    ptx::StoreGlobal(d + to_row * params.d_row_stride + to_column * params.d_column_stride,
                     Out::Narrow(FinishElement<Out>(params, planes, sums.value[at / 4][at % 4],
                                                    to_row, to_column)));
  }
}

// Returns what lane ^ 1 has.
GEMMD_DEVICE double OfNeighbour(double x) {
  std::uint32_t words[2];
  memcpy(words, &x, sizeof x);
  const std::uint32_t other = ptx::LaneIndex() ^ 1;
  for (std::uint32_t& word : words) word = ptx::Shuffle(word, other);
  memcpy(&x, words, sizeof x);
  return x;
}

// REQUIRES: params.stores_fours.
template <class Out, class T>
GEMMD_DEVICE void StorePlain(const BatchParams& params, const ProductPlanes& planes,
                             const TwoFours<T>& sums, std::int32_t row, std::int32_t column) {
  using Storage = typename Out::Storage;
  Storage* d = static_cast<Storage*>(planes.d) + row * params.d_row_stride + column;
  GEMMD_UNROLL
  for (int i = 0; i < 2; ++i, d += params.d_row_stride) {
    const bool is_row = row + i < params.a.lines;
    if constexpr (sizeof(Storage) == 8) {
      // Two lanes store a sector of 32 bytes at once, first the even one's, then the other's.
      using Two = Neighbours<Storage, 2>;
      const bool is_odd = ptx::LaneIndex() % 2 != 0;
      const auto& mine = sums.value[i];
      const Two gives = is_odd ? Two{{mine[0], mine[1]}} : Two{{mine[2], mine[3]}};
      const Two gets = {{OfNeighbour(gives.value[0]), OfNeighbour(gives.value[1])}};
      const Two first = is_odd ? gets : Two{{mine[0], mine[1]}};
      const Two second = is_odd ? Two{{mine[2], mine[3]}} : gets;
      const std::int32_t of_even = is_odd ? -4 : 0;
      if (is_row && column + of_even < params.b.lines) {
        ptx::StoreGlobal(reinterpret_cast<Two*>(d + (is_odd ? -2 : 0)), first);
      }
      if (is_row && column + of_even + 4 < params.b.lines) {
        ptx::StoreGlobal(reinterpret_cast<Two*>(d + (is_odd ? 2 : 4)), second);
      }
    } else {
      if (!is_row || column >= params.b.lines) continue;
      Neighbours<Storage, 4> four;
      GEMMD_UNROLL
      for (int e = 0; e < 4; ++e) four.value[e] = Out::Narrow(sums.value[i][e]);
      ptx::StoreGlobal(reinterpret_cast<Neighbours<Storage, 4>*>(d), four);
    }
  }
}

// A lane's elements of the block at (i, j).
template <class T, int kRows, int kColumns>
GEMMD_DEVICE TwoFours<T> FoursOf(const Tile<T, kRows, kColumns>& sums, int i, int j) {
  TwoFours<T> fours;
  GEMMD_UNROLL
  for (int at = 0; at < 8; ++at) {
    fours.value[at / 4][at % 4] =
        sums.sum[i][2 * j + InstructionOf(at % 4)][AccumulatorOf(at / 4, at % 4)];
  }
  return fours;
}

template <class T, int kRows, int kColumns>
GEMMD_DEVICE bool AreFinite(const Tile<T, kRows, kColumns>& sums) {
  if constexpr (!std::is_same_v<T, float>) return true;
  float not_finite = 0;
  sums.ForEach([&](T x) { not_finite += static_cast<float>(x) * 0.0F; });
  return IsFinite(not_finite);
}

// Block by block in a loop that moves all blocks down by one, so that the code for an element,
// which is long, exists eight times and not as often as there are sums.
template <class Numbers, class Out>
GEMMD_DEVICE void FinishTile(const BatchParams& params, const ProductPlanes& planes,
                             std::int32_t row, std::int32_t column, typename Numbers::Sums& sums) {
  constexpr int kColumns = Numbers::kColumns;
  constexpr int kBlocks = Numbers::kRows * kColumns;
  GEMMD_NO_UNROLL
  for (int at = 0; at < kBlocks; ++at) {
    auto fours = FoursOf(sums, 0, 0);
    const std::int32_t first_row = row + at / kColumns * kBlock;
    const std::int32_t first_column = column + at % kColumns * kBlock;
    if constexpr (std::is_same_v<typename Numbers::Storage, float>) {
      SumAgain(params, planes, first_row, first_column, fours);
    }
    StoreFinished<Out>(params, planes, fours, first_row, first_column);
    GEMMD_UNROLL
    for (int to = 0; to + 1 < kBlocks; ++to) {
      GEMMD_UNROLL
      for (int e = 0; e < 8; ++e) {
        sums.sum[to / kColumns][to % kColumns * 2 + e / 4][e % 4] =
            sums.sum[(to + 1) / kColumns][(to + 1) % kColumns * 2 + e / 4][e % 4];
      }
    }
  }
}

// `row`, `column`: the first of the warp's tile.
template <class Numbers>
GEMMD_DEVICE void StoreTile(const BatchParams& params, const ProductPlanes& planes,
                            std::int32_t row, std::int32_t column, typename Numbers::Sums& sums) {
  using Narrow = typename Numbers::Narrow;
  row += static_cast<std::int32_t>(ptx::LaneIndex() / 4 * 2);
  column += static_cast<std::int32_t>(ptx::LaneIndex() % 4 * 4);
  // f32 sums that are not finite are made again; of 16-bit numbers they are right.
  const bool are_right = sizeof(typename Numbers::Storage) == 2 || AreFinite(sums);
  if (params.stores_fours && are_right) {
    GEMMD_UNROLL
    for (int at = 0; at < Numbers::kRows * Numbers::kColumns; ++at) {
      const int i = at / Numbers::kColumns;
      const int j = at % Numbers::kColumns;
      StorePlain<Narrow>(params, planes, FoursOf(sums, i, j), row + i * kBlock,
                         column + j * kBlock);
    }
    return;
  }
  if constexpr (sizeof(typename Numbers::Storage) == 2) {
    if (params.writes_f32) {
      FinishTile<Numbers, epilogue::F32>(params, planes, row, column, sums);
      return;
    }
  }
  FinishTile<Numbers, Narrow>(params, planes, row, column, sums);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
