#include "kernels/sm120/mx_registry.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/scaled_gemm_entry.h"
#include "kernels/sm120/mx_entries.h"
#include "kernels/sm120/mx_params.h"

namespace gemmd {
namespace {

mma::HalfGemmTraits Describe() {
  mma::HalfGemmTraits traits;
  traits.name = sm120::Mx::kName;
  traits.idea = sm120::Mx::kIdea;
  traits.tile_m = sm120::kTileM;
  traits.tile_n = sm120::kTileN;
  traits.tile_k = sm120::Mx::kTileK;
  traits.stages = sm120::Mx::kStages;
  traits.warps = sm120::MxLayout::kWarps;
  traits.raster_group = sm120::Mx::kRasterGroup;
  traits.blocks_per_multiprocessor = sm120::Mx::kBlocksPerMultiprocessor;
  traits.only_by_name = true;  // no card has run it
  // It was not timed. A block-scaled product is twice as deep as one of tma_r_64, of 16 bits, so
  // this is that step's published share of its device's rate (ladder_b_registry.cc), doubled.
  traits.speeds[0] = traits.speeds[1] = {120, 2 * 32.05 / 25, 0};
  return traits;
}

class MxEntry final : public mma::ScaledGemmEntry {
 public:
  MxEntry()
      : ScaledGemmEntry(Describe(), "sm_120a", mma::Mxfp8Form("mma-mx-k32"), sm120::CudaMx(),
                        sm120::EmulatedMx()) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability == 120) return "";
    return absl::StrCat("needs sm_120, this is sm_", compute_capability);
  }
};

}  // namespace

void AppendSm120Mx(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<MxEntry>());
}

}  // namespace gemmd
