#include <array>
#include <utility>

#include "kernels/sm90/tilings.h"
#include "kernels/sm90/wgmma_gemm_entries.h"

namespace gemmd::sm90 {
namespace {

template <int... kIndices>
std::array<WgmmaGemmLaunch, kTilingCount> Launches(std::integer_sequence<int, kIndices...>) {
  return {CudaWgmmaGemm<kIndices>...};
}

}  // namespace

WgmmaGemmLaunch CudaWgmmaGemm(int tiling) {
  return Launches(
      std::make_integer_sequence<int, kTilingCount>())[static_cast<std::size_t>(tiling)];
}

}  // namespace gemmd::sm90
