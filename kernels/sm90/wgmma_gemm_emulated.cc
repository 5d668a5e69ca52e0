#include <array>
#include <utility>

#include "kernels/sm90/wgmma_gemm_entries.h"
#include "kernels/sm90/wgmma_gemm_launch.h"

namespace gemmd::sm90 {
namespace {

template <int... kIndices>
std::array<WgmmaGemmLaunch, kTilingCount> Launches(std::integer_sequence<int, kIndices...>) {
  return {LaunchTiling<kIndices>...};
}

}  // namespace

WgmmaGemmLaunch EmulatedWgmmaGemm(int tiling) {
  return Launches(
      std::make_integer_sequence<int, kTilingCount>())[static_cast<std::size_t>(tiling)];
}

}  // namespace gemmd::sm90
