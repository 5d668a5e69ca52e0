#include "kernels/sm100/ladder_d_registry.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/half_gemm_entry.h"
#include "kernels/sm100/ladder_d_entries.h"
#include "kernels/sm100/ladder_d_params.h"
#include "kernels/sm100/ladder_d_steps.h"

namespace gemmd {
namespace {

// DeviceTraits::half_gflops of a B200 with 148 multiprocessors at 1.965 GHz, in TFLOP/s.
constexpr double kB200 = 1787;
constexpr Scaling kScaling = {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4};
constexpr std::int64_t kStrideElements = 16;  // 16 bytes of A and of B
// Indices of rows and columns, and numbers of tiles, are 32 bits wide, with room for a tile.
constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 512;

// Returns what ladder_d_steps.h says about a step, as values. `published` is in TFLOP/s on a B200
// at 8192 cubed.
template <class Step>
constexpr mma::HalfGemmTraits Describe(double published) {
  constexpr bool kTensorStores = Step::kStores == sm100::StoreWay::kTensor;
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = Step::kTileM;
  traits.tile_n = Step::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = sm100::LadderDLayout<Step, kTensorStores>::kStages;
  traits.warps = sm100::kLadderDThreads / 32;
  traits.raster_group = 1;
  // A tile is a pair's: as many at once as multiprocessors have half of one each.
  traits.blocks_per_multiprocessor = 1;
  traits.only_by_name = true;  // no card has run them
  traits.speeds[0] = traits.speeds[1] = {100, published / kB200, 0};
  return traits;
}

constexpr mma::HalfGemmTraits kSteps[] = {
    Describe<sm100::D0>(1171.5),  Describe<sm100::D1>(1900.7),  Describe<sm100::D2>(1955.6),
    Describe<sm100::D3>(2126.2),  Describe<sm100::D4>(2134.3),  Describe<sm100::D5>(2370.3),
    Describe<sm100::D6>(2502.7),  Describe<sm100::D7>(2537.5),  Describe<sm100::D8>(2526.1),
    Describe<sm100::D9>(2550.3),  Describe<sm100::D10>(2599.1), Describe<sm100::D11>(2550.3),
    Describe<sm100::D12>(2599.1),
};
static_assert(std::size(kSteps) == sm100::kLadderDVariants);

std::string OperandRejection(const char* name, const MatrixLayout& layout, const Scaling& scaling,
                             bool is_k_major) {
  if (layout.type != DataType::kFp8E4M3 && layout.type != DataType::kFp8E5M2) {
    return absl::StrCat("takes fp8_e4m3 or fp8_e5m2 as ", name, ", not ", Name(layout.type));
  }
  if (scaling != kScaling) {
    return absl::StrCat("takes scales of ", name, " as ", Name(kScaling), ", not ", Name(scaling));
  }
  if (!is_k_major) return absl::StrCat("takes a K-major ", name);
  if (layout.leading_dimension % kStrideElements != 0) {
    return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ",
                        kStrideElements, ", not ", layout.leading_dimension);
  }
  // Strides of a tensor map have 40 bits.
  constexpr std::int64_t kLongest = (std::int64_t{1} << 40) - kStrideElements;
  if (layout.leading_dimension <= kLongest) return "";
  return absl::StrCat("takes leading dimensions up to ", kLongest, ", not ",
                      layout.leading_dimension);
}

std::string OutputRejection(const Problem& problem) {
  if (problem.d.type != DataType::kF32) {
    return absl::StrCat("writes f32, not ", Name(problem.d.type));
  }
  if (problem.accumulate != DataType::kF32) {
    return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
  }
  if (problem.d.order != Order::kRowMajor) return "takes a row-major D";
  constexpr std::int64_t kLongest = (std::int64_t{1} << 40) / 4 - 4;
  if (problem.d.leading_dimension > kLongest) {
    return absl::StrCat("takes leading dimensions of D up to ", kLongest, ", not ",
                        problem.d.leading_dimension);
  }
  const Epilogue& epilogue = problem.epilogue;
  if (epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
      epilogue.activation != Activation::kNone) {
    return "has no epilogue: alpha 1, beta 0, no bias, no activation";
  }
  if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
    return absl::StrCat("takes dimensions up to ", kLimit);
  }
  // Tiles of 256 x 128, the smallest.
  const std::int64_t tiles = ((problem.m + 255) / 256) * ((problem.n + 127) / 128);
  return tiles <= kLimit ? "" : absl::StrCat("takes up to ", kLimit, " tiles");
}

class LadderDEntry final : public mma::HalfGemmEntry {
 public:
  explicit LadderDEntry(int step)
      : HalfGemmEntry(kSteps[step], "sm_100a", /*accumulates_f16=*/false, sm100::CudaLadderD(step),
                      sm100::EmulatedLadderD(step)) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability == 100) return "";
    return absl::StrCat("needs sm_100, this is sm_", compute_capability);
  }

  std::string Rejection(const Problem& problem) const override {
    for (const std::string& rejection :
         {OperandRejection("A", problem.a, problem.a_scaling, problem.a_is_k_major()),
          OperandRejection("B", problem.b, problem.b_scaling, problem.b_is_k_major()),
          OutputRejection(problem)}) {
      if (!rejection.empty()) return rejection;
    }
    return "";
  }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat("tcgen05-mx-k32:", Name(problem.a.type), ",", Name(problem.b.type));
  }
};

}  // namespace

void AppendLadderD(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < sm100::kLadderDVariants; ++step) {
    kernels->push_back(std::make_unique<LadderDEntry>(step));
  }
}

}  // namespace gemmd
