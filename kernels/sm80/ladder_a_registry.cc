#include "kernels/sm80/ladder_a_registry.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/sm80/ladder_a_entries.h"
#include "kernels/sm80/ladder_a_params.h"
#include "kernels/sm80/ladder_a_steps.h"

namespace gemmd {
namespace {

constexpr std::int64_t kStrideElements = 8;  // 16 bytes
// What one core emulates, with checks: it ranks emulated kernels behind real ones.
constexpr double kEmulatedMacsPerUs = 100;
// f16 multiply-adds of mma.sync in one cycle of a multiprocessor, and the cycles in a
// microsecond, of an A100; a larger device is only faster.
constexpr double kMacsPerCycle = 1024;
constexpr double kCyclesPerUs = 1400;

// What ladder_a_steps.h says about a step, as values.
struct StepTraits {
  const char* name;
  const char* idea;
  int stages;
  int raster_group;
  double efficiency;  // of the peak, as published for 8192 cubed
};

template <class Step>
constexpr StepTraits Describe(double efficiency) {
  return {Step::kName, Step::kIdea, Step::kStages, Step::kRasterGroup, efficiency};
}

constexpr StepTraits kSteps[sm80::kLadderASteps] = {
    Describe<sm80::A01a>(0.24), Describe<sm80::A01b>(0.23), Describe<sm80::A02>(0.68),
    Describe<sm80::A03>(0.79),  Describe<sm80::A04>(0.82),  Describe<sm80::A05>(0.82)};

std::string LayoutRejection(const char* name, const MatrixLayout& layout) {
  if (layout.order != Order::kRowMajor) return absl::StrCat("takes a row-major ", name);
  if (layout.leading_dimension % kStrideElements == 0) return "";
  return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ",
                      kStrideElements, ", not ", layout.leading_dimension);
}

class LadderAEntry final : public Kernel {
 public:
  explicit LadderAEntry(int step)
      : Kernel({kSteps[step].name, "sm_80", kSteps[step].idea, Determinism::kBatchInvariant}),
        step_(step) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    if (device.kind == DeviceKind::kEmulated) return "";
    if (device.kind != DeviceKind::kCuda) return "runs on a CUDA or an emulated device";
    if (device.compute_capability >= 80) return "";
    return absl::StrCat("needs sm_80, this is sm_", device.compute_capability);
  }

  std::string Rejection(const Problem& problem) const override {
    const DataType type = problem.a.type;
    if ((type != DataType::kF16 && type != DataType::kBf16) || problem.b.type != type) {
      return "takes f16 or bf16 operands";
    }
    if (problem.d.type != type) return absl::StrCat("writes ", Name(type));
    const bool is_f16_sum = type == DataType::kF16 && problem.accumulate == DataType::kF16;
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
    // Indices of rows and columns are 32 bits wide, with room for a tile past the end.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 256;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit);
    }
    if (Tiles(problem) > kLimit) return absl::StrCat("takes up to ", kLimit, " tiles");
    return "";
  }

  Config Configure(const Problem&, const DeviceTraits&) const override {
    Config config;
    config.tile_m = sm80::kTileM;
    config.tile_n = sm80::kTileN;
    config.tile_k = sm80::kTileK;
    config.stages = kSteps[step_].stages;
    config.warps = sm80::kThreads / 32;
    config.raster_group = kSteps[step_].raster_group;
    return config;
  }

  double PredictedUs(const Problem& problem, const Config&,
                     const DeviceTraits& device) const override {
    const std::int64_t k_tiles = (problem.k + sm80::kTileK - 1) / sm80::kTileK;
    const double tile_macs = static_cast<double>(sm80::kTileM) * sm80::kTileN * sm80::kTileK *
                             static_cast<double>(k_tiles);
    const double tiles = static_cast<double>(Tiles(problem));
    if (device.kind == DeviceKind::kEmulated) return tiles * tile_macs / kEmulatedMacsPerUs;
    const double at_once = sm80::kBlocksPerMultiprocessor;
    const double waves = std::max(1.0, tiles / (at_once * device.compute_units));
    const double compute_us =
        waves * at_once * tile_macs / (kMacsPerCycle * kCyclesPerUs * kSteps[step_].efficiency);
    const double bytes = static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() +
                                             problem.d.size_bytes());
    return std::max(compute_us, bytes / (device.memory_gbps * 1e3));
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
  }

  absl::Status Launch(const Problem& problem, const Config&, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    const bool is_emulated = target.emulator != nullptr;
    return (is_emulated ? sm80::EmulatedLadderA : sm80::CudaLadderA)(step_)(problem, arguments,
                                                                            target);
  }

 private:
  static std::int64_t Tiles(const Problem& problem) {
    return ((problem.m + sm80::kTileM - 1) / sm80::kTileM) *
           ((problem.n + sm80::kTileN - 1) / sm80::kTileN);
  }

  const int step_;
};

}  // namespace

void AppendLadderA(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < sm80::kLadderASteps; ++step) {
    kernels->push_back(std::make_unique<LadderAEntry>(step));
  }
}

}  // namespace gemmd
