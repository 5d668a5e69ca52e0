#include "kernels/hopper/quant/quant_registry.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/quant/few_bytes_entries.h"
#include "kernels/hopper/quant/few_int4_entries.h"
#include "kernels/hopper/quant/few_mxfp4_entries.h"
#include "kernels/hopper/quant/few_nvfp4_entries.h"
#include "kernels/hopper/quant/forms.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/hopper/quant/wide_bytes_entries.h"
#include "kernels/hopper/quant/wide_int4_entries.h"
#include "kernels/hopper/quant/wide_mxfp4_entries.h"
#include "kernels/hopper/quant/wide_nvfp4_entries.h"

namespace gemmd {
namespace {

using hopper::quant::CodeFormat;
using hopper::quant::CodeFormatOf;
using hopper::quant::ConfigOf;
using hopper::quant::Form;
using hopper::quant::FormKind;
using hopper::quant::FormsOf;
using hopper::quant::QuickestForm;
using hopper::quant::Takes;

static_assert(FewTilingCount(CodeFormat::kInt4) == hopper::quant::kFewInt4Variants &&
              FewTilingCount(CodeFormat::kMxfp4) == hopper::quant::kFewMxfp4Variants &&
              FewTilingCount(CodeFormat::kNvfp4) == hopper::quant::kFewNvfp4Variants &&
              FewTilingCount(CodeFormat::kInt8) == hopper::quant::kFewBytesVariants &&
              FewTilingCount(CodeFormat::kE4m3) == hopper::quant::kFewBytesVariants &&
              hopper::quant::kWideTilingCount == hopper::quant::kWideInt4Variants &&
              hopper::quant::kWideTilingCount == hopper::quant::kWideMxfp4Variants &&
              hopper::quant::kWideTilingCount == hopper::quant::kWideNvfp4Variants &&
              hopper::quant::kWideTilingCount == hopper::quant::kWideBytesVariants);

// An entry's words for its format.
struct FormatNames {
  const char* entry;
  const char* weights;
  const char* description;
};
FormatNames NamesOf(CodeFormat format) {
  switch (format) {
    case CodeFormat::kInt4:
      return {"sm90/packed_int4", "int4 or uint4",
              "4-bit weights decoded in registers, read once as their four bits"};
    case CodeFormat::kMxfp4:
      return {"sm90/packed_mxfp4", "mxfp4",
              "4-bit weights decoded in registers, read once as their four bits"};
    case CodeFormat::kNvfp4:
      return {"sm90/packed_nvfp4", "nvfp4",
              "4-bit weights decoded in registers, read once as their four bits"};
    case CodeFormat::kInt8:
      return {"sm90/packed_int8", "int8 or uint8",
              "8-bit weights decoded in registers, read once as their byte"};
    case CodeFormat::kE4m3:
      break;
  }
  return {"sm90/packed_fp8", "fp8_e4m3",
          "8-bit weights decoded in registers, read once as their byte"};
}

absl::Status LaunchForm(const Form& form, const Problem& problem, const Arguments& arguments,
                        const LaunchTarget& target) {
  namespace quant = hopper::quant;
  const bool is_few = form.kind == FormKind::kFew;
  const int tiling = form.tiling;
  switch (form.format) {
    case CodeFormat::kInt4:
      return (is_few ? quant::FewInt4For(target, tiling) : quant::WideInt4For(target, tiling))(
          problem, arguments, target);
    case CodeFormat::kNvfp4:
      return (is_few ? quant::FewNvfp4For(target, tiling) : quant::WideNvfp4For(target, tiling))(
          problem, arguments, target);
    case CodeFormat::kMxfp4:
      return (is_few ? quant::FewMxfp4For(target, tiling) : quant::WideMxfp4For(target, tiling))(
          problem, arguments, target);
    case CodeFormat::kInt8:
    case CodeFormat::kE4m3:
      break;
  }
  return (is_few ? quant::FewBytesFor(target, tiling) : quant::WideBytesFor(target, tiling))(
      problem, arguments, target);
}

std::optional<Form> FormOf(const Problem& problem, const Config& config) {
  for (const Form& form : FormsOf(CodeFormatOf(problem))) {
    if (ConfigOf(form) == config) return form;
  }
  return std::nullopt;
}

// Where the device is not known: an H100.
DeviceTraits AnyDevice() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCuda;
  traits.compute_capability = 90;
  traits.compute_units = 132;
  traits.memory_gbps = 3000;
  return traits;
}

Kernel::Traits TraitsOf(CodeFormat format) {
  Kernel::Traits traits;
  const FormatNames names = NamesOf(format);
  traits.name = names.entry;
  traits.architecture = "sm_90a";
  traits.description = names.description;
  traits.determinism = Determinism::kBatchInvariant;
  traits.b_packing = Packing::kStrips;
  return traits;
}

class PackedEntry final : public Kernel {
 public:
  explicit PackedEntry(CodeFormat format) : Kernel(TraitsOf(format)), format_(format) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return hopper::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = PackingRejection(problem); !rejection.empty()) return rejection;
    if (CodeFormatOf(problem) != format_) {
      return absl::StrCat("takes B of ", NamesOf(format_).weights, ", not ", Name(problem.b.type),
                          " with scales of ", Name(problem.b_scaling));
    }
    if (!problem.a_is_k_major()) return "takes A whose lines run along K";
    // Coordinates are 32 bits wide, with room for a tile past the end.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit);
    }
    return hopper::StrideRejection("A", problem.a);
  }

  Config Configure(const Problem& problem, const DeviceTraits& device) const override {
    return ConfigOf(QuickestForm(problem, device));
  }

  std::vector<Config> Alternatives(const Problem& problem,
                                   const DeviceTraits& device) const override {
    std::vector<Config> configs = {Configure(problem, device)};
    for (const Form& form : FormsOf(format_)) {
      const Config config = ConfigOf(form);
      if (Takes(form, problem) && config != configs.front()) configs.push_back(config);
    }
    return configs;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    const std::optional<Form> form = FormOf(problem, config);
    if (!form.has_value() || !Takes(*form, problem)) {
      return std::numeric_limits<double>::infinity();
    }
    return hopper::quant::PredictedUs(*form, problem, device);
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }

  std::string NumericsId(const Problem& problem) const override {
    // Packed scales lie in one order, whichever they were sent in.
    Scaling scaling = problem.b_scaling;
    scaling.order = ScaleOrder::kAlongK;
    const char* const sums =
        hopper::quant::IsChain(format_) ? ":tensor-core-k16:bf16:f32" : ":k16-in-128:f32";
    return absl::StrCat("packed:", Name(problem.b.type), "*", Name(scaling), sums);
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    std::optional<Form> form = FormOf(problem, config);
    if (!form.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(traits().name, " has no tiling of ", ToString(config)));
    }
    // A panel may have fewer columns than the tiling's blocks; all tilings have the same bits.
    if (!Takes(*form, problem)) form = QuickestForm(problem, AnyDevice());
    return LaunchForm(*form, problem, arguments, target);
  }

 private:
  const CodeFormat format_;
};

}  // namespace

void AppendHopperQuant(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (const CodeFormat format : hopper::quant::kCodeFormats) {
    kernels->push_back(std::make_unique<PackedEntry>(format));
  }
}

}  // namespace gemmd
