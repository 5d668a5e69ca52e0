// Where the problems of a batch lie: at equal distances, or anywhere. Host code, pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/kernel.h"

namespace gemmd::hopper {

// Bytes from each problem's planes to the next one's; 0 where there is no such plane.
struct BatchSteps {
  bool are_equal = true;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t bias = 0;
  std::int64_t d = 0;
};

inline std::int64_t BytesBetween(const void* from, const void* to) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) -
                                   reinterpret_cast<std::uintptr_t>(from));
}

// Returns whether TMA takes the step as a third dimension's stride.
inline bool IsTensorStep(std::int64_t step) {
  return step > 0 && step % 16 == 0 && step < std::int64_t{1} << 40;
}

inline BatchSteps StepsBetween(const Arguments& from, const Arguments& to) {
  BatchSteps steps;
  steps.a = BytesBetween(from.a, to.a);
  steps.b = BytesBetween(from.b, to.b);
  steps.c = BytesBetween(from.c, to.c);
  steps.bias = BytesBetween(from.bias, to.bias);
  steps.d = BytesBetween(from.d, to.d);
  return steps;
}

// All steps are 0 for one problem.
inline BatchSteps StepsOf(absl::Span<const Arguments> batch) {
  BatchSteps steps;
  for (std::size_t i = 1; steps.are_equal && i < batch.size(); ++i) {
    const BatchSteps next = StepsBetween(batch[i - 1], batch[i]);
    if (i == 1) {
      steps = next;
      continue;
    }
    steps.are_equal = next.a == steps.a && next.b == steps.b && next.d == steps.d &&
                      next.c == steps.c && next.bias == steps.bias;
  }
  return steps;
}

}  // namespace gemmd::hopper
