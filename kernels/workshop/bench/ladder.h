// The published ladders: their steps in order, with the figures that their authors gave. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/workshop/bench/bench_case.h"

namespace gemmd::bench {

// A size at which figures were published.
struct PublishedSize {
  std::int64_t side;     // M = N = K
  double cublas_tflops;  // of the published cuBLAS
};

struct LadderStep {
  const char* kernel;                    // registry name
  std::vector<double> published_tflops;  // at each of the ladder's sizes; empty: nothing published
};

struct Ladder {
  const char* name;
  const char* published_as;  // title, machine, types and shapes of the published figures
  std::vector<PublishedSize> sizes;
  const char* types;  // to measure, the published ones first
  const char* layouts;
  const char* shapes;
  std::vector<LadderStep> steps;
};

// "A" to "D". INVALID_ARGUMENT names those there are.
absl::StatusOr<Ladder> FindLadder(absl::string_view name);

// "256 (0.89)": TFLOP/s that were published for the shape, and their ratio to the published cuBLAS;
// "-" where nothing was. The second is cuBLAS's own.
std::string PublishedCell(const Ladder& ladder, const Shape& shape, absl::string_view kernel);
std::string PublishedCublasCell(const Ladder& ladder, const Shape& shape);

}  // namespace gemmd::bench
