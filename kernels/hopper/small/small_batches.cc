#include "kernels/hopper/small/small_batches.h"

#include <algorithm>
#include <cmath>

namespace gemmd::hopper::small {
namespace {

// The largest M and N that are quicker here, even if a batch has two products, and a
// multiprocessor's cycles for a stage of a warp's tile of 32 x 32 (an H200;
// docs/benchmarks/stacks.md).
struct Measured {
  std::int64_t largest;
  std::int64_t stage_k;
  double stage_cycles;
};

Measured MeasuredOf(DataType type) {
  switch (NumbersOf(type)) {
    case kF32Numbers:
      return {512, 32, 405};
    case kF64Numbers:
      return {512, 16, 175};
    default:
      return {64, 64, 320};
  }
}

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
  return problems > 1 && problem.k <= kLargestK &&
         std::max(problem.m, problem.n) <= MeasuredOf(problem.a.type).largest;
}

double PredictedUs(const Problem& problem, std::int64_t problems, const DeviceTraits& device,
                   double emulated_macs_per_us) {
  const Measured measured = MeasuredOf(problem.a.type);
  const auto count = static_cast<double>(problems);
  const auto tiles = static_cast<double>(Tiles(problem));
  if (device.kind == DeviceKind::kEmulated) {
    return count * tiles * 1024 * static_cast<double>(problem.k) / emulated_macs_per_us;
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
