// The products by B of QUANT_FORMAT: compiled once for each format that the library has.
#include <utility>

#include "tests/kernels/hopper/quant/gpu/quant_products.h"

namespace gemmd::hopper::quant {
namespace {

constexpr CodeFormat kFormat = CodeFormat::QUANT_FORMAT;

template <int... kFew, int... kWide>
Launch* OneOf(int kernel, int tiling, std::integer_sequence<int, kFew...>,
              std::integer_sequence<int, kWide...>) {
  static Launch* const kFewOnes[] = {LaunchFew<kFew, kFormat>...};
  static Launch* const kWideOnes[] = {LaunchWide<kWide, kFormat>...};
  const int count = static_cast<int>(kernel == 0 ? sizeof...(kFew) : sizeof...(kWide));
  if (tiling >= count) return nullptr;
  return kernel == 0 ? kFewOnes[tiling] : kWideOnes[tiling];
}

}  // namespace

template <>
Launch* ProductOf<kFormat>(int kernel, int tiling) {
  return OneOf(kernel, tiling, std::make_integer_sequence<int, FewTilingCount(kFormat)>(),
               std::make_integer_sequence<int, WideTilingCount(kFormat)>());
}

}  // namespace gemmd::hopper::quant
