// Where the problems of a batch lie: at equal distances, or anywhere. Host code, pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/kernel.h"

namespace gemmd::hopper::half {

// Bytes from each problem's planes to the next one's; 0 where there is no such plane.
struct BatchSteps {
  bool is_strided = false;
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

inline BatchSteps StepsOf(absl::Span<const Arguments> batch) {
  BatchSteps steps;
  if (batch.size() < 2) return steps;
  const auto between = [](const Arguments& x, const Arguments& y) {
    BatchSteps each;
    each.a = BytesBetween(x.a, y.a);
    each.b = BytesBetween(x.b, y.b);
    each.c = BytesBetween(x.c, y.c);
    each.bias = BytesBetween(x.bias, y.bias);
    each.d = BytesBetween(x.d, y.d);
    return each;
  };
  steps = between(batch[0], batch[1]);
  steps.is_strided = IsTensorStep(steps.a) && IsTensorStep(steps.b) && IsTensorStep(steps.d);
  for (std::size_t i = 2; steps.is_strided && i < batch.size(); ++i) {
    const BatchSteps next = between(batch[i - 1], batch[i]);
    steps.is_strided = next.a == steps.a && next.b == steps.b && next.d == steps.d &&
                       next.c == steps.c && next.bias == steps.bias;
  }
  return steps;
}

}  // namespace gemmd::hopper::half
