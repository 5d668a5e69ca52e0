#include "kernels/workshop/sm120_mxfp8/mx_registry.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/scaled_gemm_entry.h"
#include "kernels/workshop/sm120_mxfp8/mx_entries.h"
#include "kernels/workshop/sm120_mxfp8/mx_params.h"

namespace gemmd {
namespace {

mma::HalfGemmTraits Describe() {
  mma::HalfGemmTraits traits;
  traits.name = sm120_mxfp8::Mx::kName;
  traits.idea = sm120_mxfp8::Mx::kIdea;
  traits.tile_m = sm120_mxfp8::kTileM;
  traits.tile_n = sm120_mxfp8::kTileN;
  traits.tile_k = sm120_mxfp8::Mx::kTileK;
  traits.stages = sm120_mxfp8::Mx::kStages;
  traits.warps = sm120_mxfp8::MxLayout::kWarps;
  traits.raster_group = sm120_mxfp8::Mx::kRasterGroup;
  traits.blocks_per_multiprocessor = sm120_mxfp8::Mx::kBlocksPerMultiprocessor;
  traits.only_by_name = true;  // no card has run it
  traits.is_reduced = true;    // for all that is known
  // It was not timed. A block-scaled product is twice as deep as one of tma_r_64, of 16 bits, so
  // this is that step's published share of its device's rate (ladder_b_registry.cc), doubled.
  traits.speeds[0] = traits.speeds[1] = {120, 2 * 32.05 / 25, 0};
  return traits;
}

class MxEntry final : public mma::ScaledGemmEntry {
 public:
  MxEntry()
      : ScaledGemmEntry(Describe(), "sm_120a", mma::Mxfp8Form("mma-mx-k32"), sm120_mxfp8::CudaMx(),
                        sm120_mxfp8::EmulatedMx()) {}

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
