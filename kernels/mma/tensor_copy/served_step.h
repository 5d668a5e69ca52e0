// The values of the kernel that serves sm_120.
#pragma once

namespace gemmd::tensor_copy {

// tma_r_32 of ladder B, the quickest that was published for a card of sm_120:
// workshop/sm120_tma/README.md says what each value brings.
struct ServedStep {
  static constexpr const char* kName = "sm120/tma_r_32";
  static constexpr const char* kIdea =
      "tma_loads with fragments loaded one step ahead, across tiles too";
  static constexpr int kTileK = 32;
  static constexpr int kStages = 3;
  static constexpr int kWarpN = 32;
  static constexpr bool kTensorLoads = true;
  static constexpr bool kFragmentsAhead = true;
  static constexpr int kBoxWarps = 0;
  static constexpr bool kReleaseByWarps = false;
  static constexpr int kBlocksPerMultiprocessor = 2;
  static constexpr int kRasterGroup = 8;
};

}  // namespace gemmd::tensor_copy
