#include "kernels/workshop/blackwell_mxfp8/ladder_d_registry.h"

#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/scaled_gemm_entry.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_entries.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_params.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_steps.h"

namespace gemmd {
namespace {

using blackwell_mxfp8::ScaledFormat;

// DeviceTraits::half_gflops of a B200 with 148 multiprocessors at 1.965 GHz, in TFLOP/s.
constexpr double kB200 = 1787;

struct Entry {
  mma::HalfGemmTraits traits;
  ScaledFormat format;
};

// Returns what ladder_d_steps.h says about a step, as values. `expected` is in TFLOP/s on a B200 at
// 8192 cubed: what was published for it or else for the step that it changes; elements of 4 bits
// have d11's rate at twice the depth.
template <class Step>
constexpr Entry Describe(double expected) {
  constexpr bool kTensorStores = Step::kStores == blackwell_mxfp8::StoreWay::kTensor;
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = Step::kTileM;
  traits.tile_n = Step::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = blackwell_mxfp8::LadderDLayout<Step, kTensorStores>::kStages;
  traits.warps = blackwell_mxfp8::kLadderDThreads / 32;
  traits.raster_group = 1;
  // A tile is a pair's: as many at once as multiprocessors have half of one each.
  traits.blocks_per_multiprocessor = 1;
  traits.only_by_name = true;  // no card has run them
  traits.is_reduced = true;    // for all that is known
  traits.speeds[0] = traits.speeds[1] = {100, expected / kB200, 0};
  return {traits, Step::kFormat};
}

constexpr Entry kSteps[] = {
    Describe<blackwell_mxfp8::D0>(1171.5),
    Describe<blackwell_mxfp8::D1>(1900.7),
    Describe<blackwell_mxfp8::D2>(1955.6),
    Describe<blackwell_mxfp8::D3>(2126.2),
    Describe<blackwell_mxfp8::D4>(2134.3),
    Describe<blackwell_mxfp8::D5>(2370.3),
    Describe<blackwell_mxfp8::D6>(2502.7),
    Describe<blackwell_mxfp8::D7>(2537.5),
    Describe<blackwell_mxfp8::D8>(2526.1),
    Describe<blackwell_mxfp8::D9>(2550.3),
    Describe<blackwell_mxfp8::D10>(2599.1),
    Describe<blackwell_mxfp8::D11>(2550.3),
    Describe<blackwell_mxfp8::D12>(2599.1),
    Describe<blackwell_mxfp8::D13>(2599.1),
    Describe<blackwell_mxfp8::D14>(2599.1),
    Describe<blackwell_mxfp8::D15>(2599.1),
    Describe<blackwell_mxfp8::D7EvictFirst>(2537.5),
    Describe<blackwell_mxfp8::D7AnyHilbert>(2537.5),
    Describe<blackwell_mxfp8::D9Boxes>(2550.3),
    Describe<blackwell_mxfp8::D11Mxfp4>(2 * 2550.3),
    Describe<blackwell_mxfp8::D11Nvfp4>(2 * 2550.3),
};
static_assert(std::size(kSteps) == blackwell_mxfp8::kLadderDVariants);

mma::ScaledGemmForm FormOf(ScaledFormat format) {
  switch (format) {
    case ScaledFormat::kMxfp8:
      return mma::Mxfp8Form("tcgen05-mx-k32");
    case ScaledFormat::kMxfp4:
      return mma::Mxfp4Form("tcgen05-mxf4-k64");
    case ScaledFormat::kNvfp4:
      return mma::Nvfp4Form("tcgen05-nvf4-k64");
  }
  return {};
}

class LadderDEntry final : public mma::ScaledGemmEntry {
 public:
  explicit LadderDEntry(int step)
      : ScaledGemmEntry(kSteps[step].traits, "sm_100a", FormOf(kSteps[step].format),
                        blackwell_mxfp8::CudaLadderD(step),
                        blackwell_mxfp8::EmulatedLadderD(step)) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability == 100) return "";
    return absl::StrCat("needs sm_100, this is sm_", compute_capability);
  }
};

}  // namespace

void AppendLadderD(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < blackwell_mxfp8::kLadderDVariants; ++step) {
    kernels->push_back(std::make_unique<LadderDEntry>(step));
  }
}

}  // namespace gemmd
