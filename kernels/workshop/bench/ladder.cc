#include "kernels/workshop/bench/ladder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/workshop/model/published.h"

namespace gemmd::bench {
namespace {

Ladder LadderA() {
  return {"A",
          "article on PTX mma.sync HGEMM, A100-SXM4-40GB, f16 with f16 sums, 8192 cubed",
          {{8192, 289}},
          "f16_f16,f16,bf16",
          "NN",
          "ladder",
          {{"sm80/a01a", {75}},
           {"sm80/a01b", {73}},
           {"sm80/a02", {212}},
           {"sm80/a03a", {}},  // published with a03b as one step
           {"sm80/a03b", {245}},
           {"sm80/a04", {255}},
           {"sm80/a05", {256}},
           {"sm80/a06", {}}}};
}

Ladder LadderB() {
  return {
      "B",
      "\"HGEMM SM120 - Micro-Sculpture Warfare in 100KB SMEM\" by WingEdge777, RTX 5060 Laptop, "
      "f16 with f32 sums, 4096 cubed",
      {{4096, 32.27}},
      "f16,bf16",
      "NN",
      "ladder",
      {{"sm120/bcf_dbf_rw", {34.00}},
       {"sm120/k_stages", {33.27}},
       {"sm120/tma_loads", {}},  // published within tma_r_64
       {"sm120/tma_r_32", {34.31}},
       {"sm120/tma_r_64", {32.05}},
       {"sm120/tma_rw", {}},
       {"sm120/pair_boxes", {}},
       {"sm120/warp_release", {}},
       {"sm120/warps_64x64", {}},
       {"sm120/warps_64x64_k64", {}},
       {"sm120/tma_rw_64x64", {}}}};
}

// B is K-major, as published.
Ladder LadderC() {
  return {"C",
          "\"Matrix Multiplication on Blackwell: Part 2\" by Modular, B200, bf16, 4096 cubed",
          {{4096, 1758}},
          "bf16,f16",
          "NT",
          "ladder",
          // Those of 64x256x64 are the tile of the published rates, the others that of the text.
          {{"sm100/c1", {5}},
           {"sm100/c2", {155.0}},
           {"sm100/c3", {288.3}},
           {"sm100/c4", {293.6}},
           {"sm100/c2_256", {155.0}},
           {"sm100/c3_256", {288.3}},
           {"sm100/c4_256", {293.6}},
           {"sm100/c4_elected", {}}}};
}

// Both operands are K-major. The steps' figures are those that the model is compared with.
Ladder LadderD() {
  Ladder ladder = {"D",
                   "\"MXFP8 GEMM: Up to 99% of cuBLAS performance using CUDA + PTX\", B200, e4m3, "
                   "2048, 4096, 8192 and 16384 cubed",
                   {},
                   "mxfp8",
                   "NT",
                   "2048x2048x2048,4096x4096x4096,8192x8192x8192,16384x16384x16384",
                   {{"sm100/d0", {}},
                    {"sm100/d1", {}},
                    {"sm100/d2", {}},
                    {"sm100/d3", {}},
                    {"sm100/d4", {}},
                    {"sm100/d5", {}},
                    {"sm100/d6", {}},
                    {"sm100/d7", {}},
                    {"sm100/d8", {}},
                    {"sm100/d9", {}},
                    {"sm100/d10", {}},
                    {"sm100/d11", {}},
                    {"sm100/d12", {}},
                    {"sm100/d13", {}},
                    {"sm100/d14", {}},
                    {"sm100/d15", {}}}};
  for (std::size_t i = 0; i < model::kSides.size(); ++i) {
    ladder.sizes.push_back({model::kSides[i], model::kPublishedCublas[i]});
  }
  for (std::size_t i = 0; i < model::kPublishedTeraflops.size(); ++i) {
    const auto& published = model::kPublishedTeraflops[i];
    ladder.steps[i].published_tflops.assign(published.begin(), published.end());
  }
  return ladder;
}

// The place of a shape among a ladder's sizes; that behind the last where it is none of them.
std::size_t FindSize(const Ladder& ladder, const Shape& shape) {
  std::size_t i = 0;
  while (i < ladder.sizes.size()) {
    const std::int64_t side = ladder.sizes[i].side;
    if (shape == Shape{side, side, side}) break;
    ++i;
  }
  return i;
}

}  // namespace

absl::StatusOr<Ladder> FindLadder(absl::string_view name) {
  for (const Ladder& ladder : {LadderA(), LadderB(), LadderC(), LadderD()}) {
    if (name == ladder.name) return ladder;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("ladder is \"", name, "\"; it must be A, B, C or D"));
}

std::string PublishedCell(const Ladder& ladder, const Shape& shape, absl::string_view kernel) {
  const std::size_t size = FindSize(ladder, shape);
  for (const LadderStep& step : ladder.steps) {
    if (kernel != step.kernel || size >= step.published_tflops.size()) continue;
    const double tflops = step.published_tflops[size];
    return absl::StrFormat("%.4g (%.2f)", tflops, tflops / ladder.sizes[size].cublas_tflops);
  }
  return "-";
}

std::string PublishedCublasCell(const Ladder& ladder, const Shape& shape) {
  const std::size_t size = FindSize(ladder, shape);
  if (size == ladder.sizes.size()) return "-";
  return absl::StrFormat("%.4g (1)", ladder.sizes[size].cublas_tflops);
}

}  // namespace gemmd::bench
