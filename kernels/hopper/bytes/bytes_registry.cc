#include "kernels/hopper/bytes/bytes_registry.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/hopper/bytes/fp8_gemm_entries.h"
#include "kernels/hopper/bytes/int8_gemm_entries.h"
#include "kernels/hopper/bytes/launch.h"
#include "kernels/hopper/bytes/tilings.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/half/tiling_entry.h"
#include "kernels/short_sums.h"

namespace gemmd {
namespace {

using hopper::bytes::ByteTiling;
using hopper::half::Tiling;

static_assert(hopper::bytes::kInt8GemmVariants == hopper::bytes::kInt8TilingCount &&
                  hopper::bytes::kFp8GemmVariants == hopper::bytes::kFp8TilingCount,
              "BUILD.bazel names each tiling");

constexpr double kEmulatedMacsPerUs = 10;  // with checks, on one core

bool IsFp8(DataType type) { return type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2; }

// "sm90/one64x64" as "sm90/int8_one64x64".
std::string NameOf(const char* family, const Tiling& tiling) {
  return absl::StrCat("sm90/", family, "_", std::string(tiling.name).substr(5));
}

std::string OperandRejection(const Problem& problem) {
  for (const auto& [name, layout] : {std::pair<const char*, const MatrixLayout&>{"A", problem.a},
                                     {"B", problem.b},
                                     {"D", problem.d}}) {
    std::string rejection = hopper::StrideRejection(name, layout);
    if (!rejection.empty()) return rejection;
  }
  if (!problem.a_is_k_major()) return "takes A with neighbours along K";
  if (!problem.b_is_k_major()) return "takes B with neighbours along K";
  return "";
}

bool IsScaledOutput(DataType type) {
  return type == DataType::kF32 || type == DataType::kF16 || type == DataType::kBf16;
}

Tiling WithCost(const ByteTiling& tiling) {
  Tiling values = hopper::half::kTilings[tiling.place];
  values.k_block_cycles = tiling.k_block_cycles;
  values.tile_cycles = tiling.tile_cycles;
  return values;
}

// The base holds the tiling by reference, so that it has to be there first.
struct OwnTiling {
  Tiling values;
};

class ByteEntry : private OwnTiling, public hopper::half::TilingEntry {
 protected:
  ByteEntry(const char* family, const ByteTiling& tiling)
      : OwnTiling{WithCost(tiling)},
        TilingEntry(
            {NameOf(family, OwnTiling::values), "sm_90a",
             absl::StrCat(family, ": ", OwnTiling::values.idea), Determinism::kBatchInvariant},
            OwnTiling::values, hopper::half::kTileK * 2, kEmulatedMacsPerUs),
        place_(tiling.place) {}

  int place() const { return place_; }

 private:
  Problem InUnits(const Problem& problem) const final { return hopper::bytes::InHalves(problem); }

  // No tiling has a form for a batch.
  absl::Status LaunchVariant(const Problem& problem, const Config& config,
                             absl::Span<const Arguments> batch,
                             const LaunchTarget& target) const final {
    for (const Arguments& arguments : batch) {
      const absl::Status status = LaunchOne(problem, config, arguments, target);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  virtual absl::Status LaunchOne(const Problem& problem, const Config& config,
                                 const Arguments& arguments, const LaunchTarget& target) const = 0;

  const int place_;
};

class Int8Entry final : public ByteEntry {
 public:
  explicit Int8Entry(const ByteTiling& tiling) : ByteEntry("int8", tiling) {}

  std::string Rejection(const Problem& problem) const override {
    if (problem.a.type != DataType::kInt8 || problem.b.type != DataType::kInt8) {
      return "takes int8 operands";
    }
    if (problem.accumulate != DataType::kInt32) {
      return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
    }
    if (!problem.a_scaling.scales_whole_lines() || !problem.b_scaling.scales_whole_lines()) {
      return "takes scales of operands or of whole lines";
    }
    const bool is_exact = problem.d.type == DataType::kInt32;
    if (is_exact && (problem.a_scaling.has_scales || problem.b_scaling.has_scales ||
                     hopper::bytes::NeedsEpilogue(problem))) {
      return "int32 output is the exact product: no scales, alpha, beta, bias or activation (ask "
             "for f32)";
    }
    if (!is_exact && !IsScaledOutput(problem.d.type)) {
      return absl::StrCat("does not write ", Name(problem.d.type));
    }
    // An int32 holds K * 128 * 128 up to here.
    constexpr std::int64_t kMaxK = 131072;
    if (problem.k > kMaxK) return absl::StrCat("takes a K up to ", kMaxK);
    std::string rejection = OperandRejection(problem);
    return rejection.empty() ? SizeRejection(problem) : rejection;
  }

  std::string NumericsId(const Problem& problem) const override {
    // Integers are exact: every kernel that says so has equal bits.
    if (problem.d.type == DataType::kInt32) return "exact-int32";
    return absl::StrCat("int8:", Name(problem.d.type));
  }

 private:
  absl::Status LaunchOne(const Problem& problem, const Config& config, const Arguments& arguments,
                         const LaunchTarget& target) const override {
    return hopper::bytes::Int8GemmFor(target, place())(problem, config, arguments, target);
  }
};

bool IsBlockScaling(const Scaling& scaling) {
  constexpr std::uint16_t kBlock = 128;
  return scaling.has_scales && scaling.type == DataType::kF32 && scaling.block_k == kBlock &&
         (scaling.block_lines == 1 || scaling.block_lines == kBlock) &&
         scaling.order != ScaleOrder::kTiles128x4 && !scaling.has_zero_points &&
         !scaling.has_tensor_scale && !scaling.has_offsets;
}

class Fp8Entry final : public ByteEntry, public SumsFp8InTensorCores {
 public:
  explicit Fp8Entry(const ByteTiling& tiling) : ByteEntry("fp8", tiling) {}

  std::string Rejection(const Problem& problem) const override {
    if (!IsFp8(problem.a.type) || !IsFp8(problem.b.type)) {
      return "takes fp8_e4m3 and fp8_e5m2 operands";
    }
    if (problem.accumulate != DataType::kF32) {
      return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
    }
    if (!IsScaledOutput(problem.d.type)) {
      return absl::StrCat("does not write ", Name(problem.d.type));
    }
    if (hopper::bytes::HasBlocks(problem) &&
        (!IsBlockScaling(problem.a_scaling) || !IsBlockScaling(problem.b_scaling))) {
      return "takes scales of operands, of whole lines, or f32 ones of 1x128 and 128x128 blocks in "
             "both";
    }
    std::string rejection = OperandRejection(problem);
    return rejection.empty() ? SizeRejection(problem) : rejection;
  }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat("tensor-core-k32-promoted-k128:", Name(problem.a.type), ",",
                        Name(problem.b.type), ":f32");
  }

 private:
  absl::Status LaunchOne(const Problem& problem, const Config& config, const Arguments& arguments,
                         const LaunchTarget& target) const override {
    return hopper::bytes::Fp8GemmFor(target, place())(problem, config, arguments, target);
  }
};

}  // namespace

void AppendHopperBytes(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (const ByteTiling& tiling : hopper::bytes::kInt8Tilings) {
    kernels->push_back(std::make_unique<Int8Entry>(tiling));
  }
  for (const ByteTiling& tiling : hopper::bytes::kFp8Tilings) {
    kernels->push_back(std::make_unique<Fp8Entry>(tiling));
  }
}

}  // namespace gemmd
