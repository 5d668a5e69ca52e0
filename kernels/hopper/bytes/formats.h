// The pairs of element types that the kernels multiply.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/ptx/wgmma_bytes.h"

namespace gemmd::hopper::bytes {
inline namespace GEMMD_BACKEND {

template <ptx::ByteType kRowType, ptx::ByteType kColumnType>
struct Format {
  static constexpr ptx::ByteType kRows = kRowType;
  static constexpr ptx::ByteType kColumns = kColumnType;
  // int32 holds every sum. Floats' sums leave the tensor cores every 128 of K, because these keep
  // 13 bits of them.
  static constexpr bool kIsPromoted = !ptx::IsInteger(kRowType);
  using Sum = std::conditional_t<kIsPromoted, float, std::int32_t>;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::bytes
