// The values of the kernel that serves sm_80 and what comes after it.
#pragma once

namespace gemmd::copy_async {

// The last step of ladder A, a06: workshop/ampere_mma/README.md says what each value brings.
struct ServedStep {
  static constexpr const char* kName = "sm80/a06";
  static constexpr const char* kIdea =
      "a05 with blocks half as high, two a multiprocessor: one's barrier is the other's time";
  static constexpr bool kLoadsByMatrix = true;
  static constexpr bool kSwizzle = true;
  static constexpr int kStages = 3;
  static constexpr int kBarriers = 1;
  static constexpr bool kPipelineFragments = true;
  static constexpr int kRasterGroup = 8;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;
  static constexpr int kWarpsM = 2;
  static constexpr int kWarpsN = 2;
  static constexpr int kBlocksPerMultiprocessor = 2;
};

}  // namespace gemmd::copy_async
