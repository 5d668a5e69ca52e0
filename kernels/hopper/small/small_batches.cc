#include "kernels/hopper/small/small_batches.h"

#include <algorithm>
#include <cmath>

namespace gemmd::hopper::small {
namespace {

// Limits of M and N up to which kFew products and more are quicker here, and up to which two are;
// and a multiprocessor's cycles for a stage of a warp's tile of 32 x 32 (an H200;
// docs/benchmarks/stacks.md).
struct Measured {
  std::int64_t largest;
  std::int64_t largest_of_two;
  std::int64_t stage_k;
  double stage_cycles;
  double emulated_macs_per_us;  // by one core
};

Measured MeasuredOf(DataType type) {
  switch (NumbersOf(type)) {
    case kF32Numbers:
      return {512, 256, 32, 405, 12};
    case kF64Numbers:
      return {512, 16, 16, 175, 100};
    default:
      return {64, 64, 64, 320, 100};
  }
}

constexpr std::int64_t kFew = 4;
constexpr double kCyclesPerUs = 1750;
constexpr double kLaunchUs = 1.5;
constexpr double kTinyShare = 0.35;    // of a tile's cycles, up to 16 x 16
constexpr double kMemoryShare = 0.85;  // of what the memory could move
// A warp has all of K, so longer sums are quicker by a family's blocks.
constexpr std::int64_t kLargestK = 2048;

std::int64_t Tiles(const Problem& problem) {
  return ((problem.m + 31) / 32) * ((problem.n + 31) / 32);
}

}  // namespace

int NumbersOf(DataType type) {
  switch (type) {
    case DataType::kBf16:
      return kBf16Numbers;
    case DataType::kF16:
      return kF16Numbers;
    case DataType::kF64:
      return kF64Numbers;
    default:
      return kF32Numbers;
  }
}

bool TakesBatch(const Problem& problem, std::int64_t problems) {
  const Measured measured = MeasuredOf(problem.a.type);
  const std::int64_t size = std::max(problem.m, problem.n);
  return problems >= (size <= measured.largest_of_two ? 2 : kFew) && size <= measured.largest &&
         problem.k <= kLargestK;
}

double PredictedUs(const Problem& problem, std::int64_t problems, const DeviceTraits& device) {
  const Measured measured = MeasuredOf(problem.a.type);
  const auto count = static_cast<double>(problems);
  const auto tiles = static_cast<double>(Tiles(problem));
  if (device.kind == DeviceKind::kEmulated) {
    return count * tiles * 1024 * static_cast<double>(problem.k) / measured.emulated_macs_per_us;
  }
  const double stages =
      std::ceil(static_cast<double>(problem.k) / static_cast<double>(measured.stage_k));
  const double share = std::max(problem.m, problem.n) <= 16 ? kTinyShare : 1;
  const double cycles =
      count * tiles * share * stages * measured.stage_cycles / std::max(1, device.compute_units);
  double bytes = count * static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() +
                                             problem.d.size_bytes());
  if (problem.epilogue.beta != 0) bytes += count * static_cast<double>(problem.c.size_bytes());
  return kLaunchUs +
         std::max(cycles / kCyclesPerUs, bytes / (device.memory_gbps * 1e3 * kMemoryShare));
}

}  // namespace gemmd::hopper::small
