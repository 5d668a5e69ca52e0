// A lane's elements of an operand in a step of 16 of K: two neighbouring lines, four of K of each.
#pragma once

#include "kernels/hopper/small/params.h"
#include "kernels/ptx/global_memory.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

inline constexpr int kBlock = 16;  // rows, columns, and K of a step

// The way that an operand is read.
//   kFours  neighbours along K, four at once where a lane has four of them in a row
//   kPairs  neighbours along lines, two at once
//   kOnes   any strides
enum class Reading : std::uint8_t { kFours, kPairs, kOnes };

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Neighbours {
  T value[kCount];
};

// Zeros to begin with.
template <class T>
struct LaneLines {
  using One = T;
  using Two = Neighbours<T, 2>;
  using Four = Neighbours<T, 4>;
  T line[2][4] = {};

  GEMMD_DEVICE void SetFour(int i, const Four& four) {
    GEMMD_UNROLL
    for (int e = 0; e < 4; ++e) line[i][e] = four.value[e];
  }
  GEMMD_DEVICE void SetTwos(const Two (&twos)[4]) {
    GEMMD_UNROLL
    for (int at = 0; at < 8; ++at) line[at % 2][at / 2] = twos[at / 2].value[at % 2];
  }
  GEMMD_DEVICE void SetOne(int i, int e, T one) { line[i][e] = one; }
};

// Numbers of 16 bits stay two in a word, as instructions take them.
template <>
struct LaneLines<std::uint16_t> {
  using One = std::uint16_t;
  using Two = std::uint32_t;
  using Four = Neighbours<std::uint32_t, 2>;
  std::uint32_t pair[2][2] = {};

  GEMMD_DEVICE void SetFour(int i, const Four& four) {
    pair[i][0] = four.value[0];
    pair[i][1] = four.value[1];
  }
  GEMMD_DEVICE void SetTwos(const Two (&twos)[4]) {
    GEMMD_UNROLL
    for (int i = 0; i < 2; ++i) {
      pair[0][i] = (twos[2 * i] & 0xffff) | (twos[2 * i + 1] << 16);
      pair[1][i] = (twos[2 * i] >> 16) | (twos[2 * i + 1] & 0xffff0000);
    }
  }
  GEMMD_DEVICE void SetOne(int i, int e, std::uint16_t one) {
    pair[i][e / 2] |= std::uint32_t{one} << (e % 2 * 16);
  }
};

// Element e of a lane's four is this one of a step: four in a row, or where K's order matters,
// every fourth.
template <bool kIsOrdered>
GEMMD_DEVICE std::int32_t PlaceOfK(std::uint32_t lane, int e) {
  const auto quad = static_cast<std::int32_t>(lane % 4);
  return kIsOrdered ? quad + 4 * e : 4 * quad + e;
}

// Reads from global memory. `line`: the first of the two; `k`: the first of the step.
template <class T, Reading kReading, bool kIsOrdered>
GEMMD_DEVICE LaneLines<T> ReadGlobal(const void* plane, const OperandLines& lines,
                                     std::int32_t all_k, std::int32_t line, std::int32_t k,
                                     std::uint32_t lane) {
  using Two = typename LaneLines<T>::Two;
  using Four = typename LaneLines<T>::Four;
  LaneLines<T> to;
  const auto place = [&](int i, int e) {
    return static_cast<const T*>(plane) + (line + i) * lines.line_stride +
           (k + PlaceOfK<kIsOrdered>(lane, e)) * lines.k_stride;
  };
  const auto is_inside = [&](int i, int e) {
    return line + i < lines.lines && k + PlaceOfK<kIsOrdered>(lane, e) < all_k;
  };
  if constexpr (kReading == Reading::kFours && !kIsOrdered) {
    GEMMD_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (!is_inside(i, 0)) continue;
      to.SetFour(i, ptx::LoadGlobal(reinterpret_cast<const Four*>(place(i, 0))));
    }
  } else if constexpr (kReading == Reading::kPairs) {
    Two twos[4] = {};
    GEMMD_UNROLL
    for (int e = 0; e < 4; ++e) {
      if (is_inside(0, e)) twos[e] = ptx::LoadGlobal(reinterpret_cast<const Two*>(place(0, e)));
    }
    to.SetTwos(twos);
  } else {
    GEMMD_UNROLL
    for (int at = 0; at < 8; ++at) {
      if (is_inside(at / 4, at % 4)) {
        to.SetOne(at / 4, at % 4, ptx::LoadGlobal(place(at / 4, at % 4)));
      }
    }
  }
  return to;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
