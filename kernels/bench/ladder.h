// The published ladders: their steps in order, with the figures that their authors gave. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::bench {

struct LadderStep {
  const char* kernel;       // registry name
  double published_tflops;  // 0: nothing published
};

struct Ladder {
  const char* name;
  const char* published_as;  // title, machine, types and shape of the published figures
  double published_cublas_tflops;
  const char* types;  // to measure, the published ones first
  const char* shapes;
  std::vector<LadderStep> steps;
};

// "A" or "B". INVALID_ARGUMENT names those there are.
absl::StatusOr<Ladder> FindLadder(absl::string_view name);

// "256 (0.89)": TFLOP/s and their ratio to the published cuBLAS; "-" where nothing was published.
std::string PublishedCell(const Ladder& ladder, absl::string_view kernel);

}  // namespace gemmd::bench
