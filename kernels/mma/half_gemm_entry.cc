#include "kernels/mma/half_gemm_entry.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/math.h"

namespace gemmd::mma {
namespace {

constexpr std::int64_t kStrideElements = 8;  // 16 bytes
// The rate at which one core emulates, with checks: it ranks emulated kernels behind real ones.
constexpr double kEmulatedMacsPerUs = 100;
// The time of a launch beside its products: a05 and a06 take 4 to 5 us longer on an H200 at 2048
// cubed than at the rate of 8192 cubed.
constexpr double kLaunchUs = 5;
// Indices of rows and columns, and block numbers, are 32 bits wide, with room for a tile past
// the end.
constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 256;
// In the description of what no card has run, which listings, estimates and receipts have from
// here, and behind the reason why a device does not run it.
constexpr char kNotRun[] = "emulated, compiled, not run";

// The registries of such kernels have both: served by name alone, and no accuracy claimed.
bool IsNotRun(const HalfGemmTraits& traits) { return traits.only_by_name && traits.is_reduced; }

std::string LayoutRejection(const char* name, const MatrixLayout& layout) {
  if (layout.order != Order::kRowMajor) return absl::StrCat("takes a row-major ", name);
  if (layout.leading_dimension % kStrideElements == 0) return "";
  return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ",
                      kStrideElements, ", not ", layout.leading_dimension);
}

// Multiply-adds of one multiprocessor in a microsecond.
double MacsPerUs(const HalfGemmTraits& values, const Problem& problem, const DeviceTraits& device) {
  const HalfGemmSpeed* speed = &values.speeds[0];
  for (const HalfGemmSpeed& each : values.speeds) {
    if (each.compute_capability <= device.compute_capability) speed = &each;
  }
  const double share = problem.accumulate == DataType::kF16 ? speed->f16_sums : speed->f32_sums;
  constexpr double kMacsPerUs = 1e3 / 2;  // for 1 GFLOP/s
  return share * device.half_gflops * kMacsPerUs / device.compute_units;
}

}  // namespace

std::string HalfGemmRejection(const Problem& problem, bool accumulates_f16) {
  const DataType type = problem.a.type;
  if ((type != DataType::kF16 && type != DataType::kBf16) || problem.b.type != type) {
    return "takes f16 or bf16 operands";
  }
  if (problem.d.type != type) return absl::StrCat("writes ", Name(type));
  const bool is_f16_sum =
      accumulates_f16 && type == DataType::kF16 && problem.accumulate == DataType::kF16;
  if (problem.accumulate != DataType::kF32 && !is_f16_sum) {
    return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
  }
  if (problem.transpose_a || problem.transpose_b) return "takes operands that are not transposed";
  const Epilogue& epilogue = problem.epilogue;
  if (epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
      epilogue.activation != Activation::kNone) {
    return "has no epilogue: alpha 1, beta 0, no bias, no activation";
  }
  for (const auto& [name, layout] : {std::pair<const char*, const MatrixLayout&>{"A", problem.a},
                                     {"B", problem.b},
                                     {"D", problem.d}}) {
    std::string rejection = LayoutRejection(name, layout);
    if (!rejection.empty()) return rejection;
  }
  if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
    return absl::StrCat("takes dimensions up to ", kLimit);
  }
  return "";
}

std::string HalfGemmNumericsId(const Problem& problem) {
  return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
}

HalfGemmEntry::HalfGemmEntry(const HalfGemmTraits& traits, const char* architecture,
                             bool accumulates_f16, HalfGemmLaunch cuda, HalfGemmLaunch emulated)
    : Kernel(
          {traits.name, architecture,
           absl::StrCat(IsNotRun(traits) ? kNotRun : "", IsNotRun(traits) ? ": " : "", traits.idea),
           Determinism::kBatchInvariant, traits.only_by_name, traits.is_reduced}),
      values_(traits),
      accumulates_f16_(accumulates_f16),
      cuda_(cuda),
      emulated_(emulated) {}

std::string HalfGemmEntry::UnavailableReason(const DeviceTraits& device) const {
  if (device.kind == DeviceKind::kEmulated) return "";
  std::string reason = device.kind == DeviceKind::kCuda
                           ? CapabilityRejection(device.compute_capability)
                           : "runs on a CUDA or an emulated device";
  if (!reason.empty() && IsNotRun(values_)) absl::StrAppend(&reason, "; ", kNotRun);
  return reason;
}

std::string HalfGemmEntry::Rejection(const Problem& problem) const {
  std::string rejection = HalfGemmRejection(problem, accumulates_f16_);
  if (!rejection.empty() || Tiles(problem) <= kLimit) return rejection;
  return absl::StrCat("takes up to ", kLimit, " tiles");
}

Config HalfGemmEntry::Configure(const Problem&, const DeviceTraits&) const {
  Config config;
  config.tile_m = values_.tile_m;
  config.tile_n = values_.tile_n;
  config.tile_k = values_.tile_k;
  config.stages = values_.stages;
  config.warps = values_.warps;
  config.raster_group = values_.raster_group;
  return config;
}

double HalfGemmEntry::PredictedUs(const Problem& problem, const Config&,
                                  const DeviceTraits& device) const {
  const std::int64_t k = RoundUp(problem.k, values_.tile_k);
  const double tile_macs =
      static_cast<double>(values_.tile_m) * values_.tile_n * static_cast<double>(k);
  const double tiles = static_cast<double>(Tiles(problem));
  if (device.kind == DeviceKind::kEmulated) return tiles * tile_macs / kEmulatedMacsPerUs;
  const double at_once = values_.blocks_per_multiprocessor;
  const double waves = std::max(1.0, tiles / (at_once * device.compute_units));
  const double compute_us = waves * at_once * tile_macs / MacsPerUs(values_, problem, device);
  const double bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes());
  return kLaunchUs + std::max(compute_us, bytes / (device.memory_gbps * 1e3));
}

absl::Status HalfGemmEntry::Launch(const Problem& problem, const Config&,
                                   const Arguments& arguments, const LaunchTarget& target) const {
  return (target.emulator != nullptr ? emulated_ : cuda_)(problem, arguments, target);
}

std::int64_t HalfGemmEntry::Tiles(const Problem& problem) const {
  return CeilOfRatio(problem.m, values_.tile_m) * CeilOfRatio(problem.n, values_.tile_n);
}

}  // namespace gemmd::mma
