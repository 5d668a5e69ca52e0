#include "kernels/bench/ladder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::bench {
namespace {

Ladder LadderA() {
  return {"A",
          "article on PTX mma.sync HGEMM, A100-SXM4-40GB, f16 with f16 sums, 8192 cubed",
          289,
          "f16_f16,f16,bf16",
          "ladder",
          {{"sm80/a01a", 75},
           {"sm80/a01b", 73},
           {"sm80/a02", 212},
           {"sm80/a03a", 0},  // published with a03b as one step
           {"sm80/a03b", 245},
           {"sm80/a04", 255},
           {"sm80/a05", 256},
           {"sm80/a06", 0}}};
}

Ladder LadderB() {
  return {
      "B",
      "\"HGEMM SM120 - Micro-Sculpture Warfare in 100KB SMEM\" by WingEdge777, RTX 5060 Laptop, "
      "f16 with f32 sums, 4096 cubed",
      32.27,
      "f16,bf16",
      "ladder",
      {{"sm120/bcf_dbf_rw", 34.00},
       {"sm120/k_stages", 33.27},
       {"sm120/tma_loads", 0},  // published within tma_r_64
       {"sm120/tma_r_32", 34.31},
       {"sm120/tma_r_64", 32.05},
       {"sm120/tma_rw", 0},
       {"sm120/pair_boxes", 0},
       {"sm120/warp_release", 0},
       {"sm120/warps_64x64", 0},
       {"sm120/warps_64x64_k64", 0},
       {"sm120/tma_rw_64x64", 0}}};
}

Ladder LadderC() {
  return {
      "C",      "\"Matrix Multiplication on Blackwell: Part 2\" by Modular, B200, bf16, 4096 cubed",
      1758,     "bf16,f16",
      "ladder", {{"sm100/c1", 5}, {"sm100/c2", 155.0}, {"sm100/c3", 288.3}, {"sm100/c4", 293.6}}};
}

}  // namespace

absl::StatusOr<Ladder> FindLadder(absl::string_view name) {
  for (const Ladder& ladder : {LadderA(), LadderB(), LadderC()}) {
    if (name == ladder.name) return ladder;
  }
  return absl::InvalidArgumentError(absl::StrCat("ladder is \"", name, "\"; it must be A, B or C"));
}

std::string PublishedCell(const Ladder& ladder, absl::string_view kernel) {
  for (const LadderStep& step : ladder.steps) {
    if (kernel != step.kernel || step.published_tflops == 0) continue;
    return absl::StrFormat("%.4g (%.2f)", step.published_tflops,
                           step.published_tflops / ladder.published_cublas_tflops);
  }
  return "-";
}

}  // namespace gemmd::bench
