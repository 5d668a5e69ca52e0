#include "kernels/hopper/quant/quant_registry.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/quant/few_e4m3_entries.h"
#include "kernels/hopper/quant/few_e5m2_entries.h"
#include "kernels/hopper/quant/few_int4_entries.h"
#include "kernels/hopper/quant/few_int4_g32_entries.h"
#include "kernels/hopper/quant/few_int4_g64_entries.h"
#include "kernels/hopper/quant/few_int8_entries.h"
#include "kernels/hopper/quant/few_int8_g32_entries.h"
#include "kernels/hopper/quant/few_int8_g64_entries.h"
#include "kernels/hopper/quant/few_iq4_nl_g32_entries.h"
#include "kernels/hopper/quant/few_iq4_nl_g32_float_entries.h"
#include "kernels/hopper/quant/few_mx_e2m3_entries.h"
#include "kernels/hopper/quant/few_mx_e3m2_entries.h"
#include "kernels/hopper/quant/few_mx_e4m3_entries.h"
#include "kernels/hopper/quant/few_mx_e5m2_entries.h"
#include "kernels/hopper/quant/few_mxfp4_entries.h"
#include "kernels/hopper/quant/few_nvfp4_entries.h"
#include "kernels/hopper/quant/few_table_g64_float_entries.h"
#include "kernels/hopper/quant/few_uint4_g32_float_offset_entries.h"
#include "kernels/hopper/quant/few_uint4_g32_offset_entries.h"
#include "kernels/hopper/quant/few_uint4_g64_offset_entries.h"
#include "kernels/hopper/quant/few_uint4_offset_entries.h"
#include "kernels/hopper/quant/few_uint8_g32_offset_entries.h"
#include "kernels/hopper/quant/float_rows_entries.h"
#include "kernels/hopper/quant/float_rows_places.h"
#include "kernels/hopper/quant/format_names.h"
#include "kernels/hopper/quant/forms.h"
#include "kernels/hopper/quant/group_launches.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/hopper/quant/wide_e4m3_entries.h"
#include "kernels/hopper/quant/wide_e5m2_entries.h"
#include "kernels/hopper/quant/wide_int4_entries.h"
#include "kernels/hopper/quant/wide_int4_g32_entries.h"
#include "kernels/hopper/quant/wide_int4_g64_entries.h"
#include "kernels/hopper/quant/wide_int8_entries.h"
#include "kernels/hopper/quant/wide_int8_g32_entries.h"
#include "kernels/hopper/quant/wide_int8_g64_entries.h"
#include "kernels/hopper/quant/wide_iq4_nl_g32_entries.h"
#include "kernels/hopper/quant/wide_iq4_nl_g32_float_entries.h"
#include "kernels/hopper/quant/wide_mx_e2m3_entries.h"
#include "kernels/hopper/quant/wide_mx_e3m2_entries.h"
#include "kernels/hopper/quant/wide_mx_e4m3_entries.h"
#include "kernels/hopper/quant/wide_mx_e5m2_entries.h"
#include "kernels/hopper/quant/wide_mxfp4_entries.h"
#include "kernels/hopper/quant/wide_nvfp4_entries.h"
#include "kernels/hopper/quant/wide_table_g64_float_entries.h"
#include "kernels/hopper/quant/wide_uint4_g32_float_offset_entries.h"
#include "kernels/hopper/quant/wide_uint4_g32_offset_entries.h"
#include "kernels/hopper/quant/wide_uint4_g64_offset_entries.h"
#include "kernels/hopper/quant/wide_uint4_offset_entries.h"
#include "kernels/hopper/quant/wide_uint8_g32_offset_entries.h"

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

constexpr char kFourBits[] = "4-bit weights decoded in registers, read once as their four bits";
constexpr char kSixBits[] = "6-bit weights decoded in registers, read once as their six bits";
constexpr char kBytes[] = "8-bit weights decoded in registers, read once as their byte";

// An entry, of some formats: those for whose types of B it has one name.
struct EntryTraits {
  const char* name;
  const char* weights;
  const char* description;
};
constexpr EntryTraits kInt4 = {"sm90/packed_int4", "int4 or uint4", kFourBits};
constexpr EntryTraits kMxfp4 = {"sm90/packed_mxfp4", "mxfp4", kFourBits};
constexpr EntryTraits kNvfp4 = {"sm90/packed_nvfp4", "nvfp4", kFourBits};
constexpr EntryTraits kInt8 = {"sm90/packed_int8", "int8 or uint8", kBytes};
constexpr EntryTraits kFp8 = {"sm90/packed_fp8", "fp8_e4m3 or fp8_e5m2", kBytes};
constexpr EntryTraits kMxfp8 = {"sm90/packed_mxfp8", "mxfp8", kBytes};
constexpr EntryTraits kMxfp6 = {"sm90/packed_mxfp6", "mxfp6", kSixBits};
constexpr EntryTraits kTable = {"sm90/packed_table4", "nf4, bnb_fp4 or iq4_nl", kFourBits};
constexpr const EntryTraits* kEntries[] = {&kInt4, &kTable, &kMxfp4, &kNvfp4,
                                           &kInt8, &kFp8,   &kMxfp8, &kMxfp6};

const EntryTraits* EntryOf(CodeFormat format) {
  switch (format) {
    case CodeFormat::kInt4:
    case CodeFormat::kInt4G64:
    case CodeFormat::kInt4G32:
    case CodeFormat::kUint4Offset:
    case CodeFormat::kUint4G64Offset:
    case CodeFormat::kUint4G32Offset:
    case CodeFormat::kUint4G32FloatOffset:
      return &kInt4;
    case CodeFormat::kTableG64Float:
    case CodeFormat::kIq4NlG32:
    case CodeFormat::kIq4NlG32Float:
      return &kTable;
    case CodeFormat::kMxfp4:
      return &kMxfp4;
    case CodeFormat::kNvfp4:
      return &kNvfp4;
    case CodeFormat::kInt8:
    case CodeFormat::kInt8G64:
    case CodeFormat::kInt8G32:
    case CodeFormat::kUint8G32Offset:
      return &kInt8;
    case CodeFormat::kE4m3:
    case CodeFormat::kE5m2:
      return &kFp8;
    case CodeFormat::kMxE4m3:
    case CodeFormat::kMxE5m2:
      return &kMxfp8;
    case CodeFormat::kMxE3m2:
    case CodeFormat::kMxE2m3:
      break;
  }
  return &kMxfp6;
}

using Launch = absl::Status(const Problem&, const Arguments&, const LaunchTarget&);
Launch* LaunchOf(const Form& form, const LaunchTarget& target) {
  namespace quant = hopper::quant;
  const bool is_few = form.kind == FormKind::kFew;
  // The launches of a format have its name.
#define GEMMD_CASE(format)                                                                   \
  case CodeFormat::k##format:                                                                \
    static_assert(quant::kFew##format##Variants == FewTilingCount(CodeFormat::k##format) &&  \
                  quant::kWide##format##Variants == WideTilingCount(CodeFormat::k##format)); \
    return is_few ? quant::Few##format##For(target, form.tiling)                             \
                  : quant::Wide##format##For(target, form.tiling);
  switch (form.format) { GEMMD_QUANT_FORMATS(GEMMD_CASE) }
#undef GEMMD_CASE
  return nullptr;
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

Kernel::Traits TraitsOf(const EntryTraits& entry) {
  Kernel::Traits traits;
  traits.name = entry.name;
  traits.architecture = "sm_90a";
  traits.description = entry.description;
  traits.determinism = Determinism::kBatchInvariant;
  traits.b_packing = Packing::kStrips;
  return traits;
}

// The order of a format's sums, for its numerics id.
std::string SumsOf(CodeFormat format) {
  if (hopper::quant::IsChain(format)) return "tensor-core-k16:bf16:f32";
  if (!hopper::quant::HasParts(format)) return "k16-in-128:f32";
  const char* const offsets = HasOffsets(format) ? "+rows" : "";
  const char* const terms = HasTwoTerms(format) ? "k16-of-2" : "k16";
  return absl::StrCat(terms, "-in-", hopper::quant::ScaleK(format), "-in-128", offsets, ":f32");
}

bool HasFloatRows(const Problem& problem) { return problem.a.type == DataType::kF32; }

// The problem that a form is for.
Problem Multiplied(const Problem& problem) {
  return HasFloatRows(problem) ? hopper::quant::ProductOfParts(problem) : problem;
}

// The time of the passes ahead of a product of rows of f32 and behind it, beside the product's.
double FloatRowsUs(const Problem& problem, const DeviceTraits& device) {
  if (device.kind == DeviceKind::kEmulated) return 0;
  constexpr double kLaunchesUs = 5;
  const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.k);
  const double results = static_cast<double>(problem.m) * static_cast<double>(problem.n);
  return kLaunchesUs + (10 * elements + 16 * results) / (0.7 * device.memory_gbps * 1e3);
}

// The problem with so many rows.
Problem RowsOf(const Problem& problem, std::int64_t count) {
  Problem rows = problem;
  rows.m = count;
  (problem.transpose_a ? rows.a.columns : rows.a.rows) = rows.m;
  rows.c.rows = rows.m;
  rows.d.rows = rows.m;
  return rows;
}
// The arguments for rows from `first` on.
Arguments ArgumentsOf(const Problem& problem, std::int64_t first, const Arguments& arguments) {
  const std::int64_t size = SizeBits(problem.d.type) / 8;
  Arguments rows = arguments;
  rows.a = static_cast<const std::uint8_t*>(arguments.a) +
           first * problem.a_row_stride() * SizeBits(problem.a.type) / 8;
  rows.d = static_cast<std::uint8_t*>(arguments.d) + first * problem.d.row_stride() * size;
  if (problem.epilogue.beta != 0) {
    rows.c = static_cast<const std::uint8_t*>(arguments.c) + first * problem.c.row_stride() * size;
  }
  return rows;
}

// The arguments for a group, whose planes of B and bias lie behind product 0's.
Arguments ArgumentsOf(const Problem& problem, const RowGroups& groups,
                      const hopper::quant::PackedGroup& group, const Arguments& all) {
  const std::int64_t matrices =
      groups.b_step / static_cast<std::int64_t>(PackedBytes(problem, WeightPlane::kCodes));
  const auto moved = [](const void* plane, std::int64_t bytes) -> const void* {
    return plane == nullptr ? nullptr : static_cast<const std::uint8_t*>(plane) + bytes;
  };
  const auto packed = [&](const void* plane, WeightPlane which) {
    return moved(plane,
                 group.product * matrices * static_cast<std::int64_t>(PackedBytes(problem, which)));
  };
  Arguments own = ArgumentsOf(problem, group.begin, all);
  own.b = packed(all.b, WeightPlane::kCodes);
  own.b_scales = packed(all.b_scales, WeightPlane::kScales);
  own.b_zero_points = packed(all.b_zero_points, WeightPlane::kZeroPoints);
  own.b_offsets = packed(all.b_offsets, WeightPlane::kOffsets);
  own.bias = moved(all.bias, group.product * groups.bias_step);
  return own;
}

class PackedEntry final : public Kernel {
 public:
  explicit PackedEntry(const EntryTraits& entry) : Kernel(TraitsOf(entry)), entry_(entry) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return hopper::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = PackingRejection(problem); !rejection.empty()) return rejection;
    if (EntryOf(CodeFormatOf(problem)) != &entry_) {
      return absl::StrCat("takes B of ", entry_.weights, ", not ", Name(problem.b.type),
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
    return ConfigOf(QuickestForm(Multiplied(problem), device));
  }

  std::vector<Config> Alternatives(const Problem& problem,
                                   const DeviceTraits& device) const override {
    std::vector<Config> configs = {Configure(problem, device)};
    for (const Form& form : FormsOf(CodeFormatOf(problem))) {
      const Config config = ConfigOf(form);
      if (Takes(form, Multiplied(problem)) && config != configs.front()) configs.push_back(config);
    }
    return configs;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    const std::optional<Form> form = FormOf(problem, config);
    const Problem multiplied = Multiplied(problem);
    if (!form.has_value() || !Takes(*form, multiplied)) {
      return std::numeric_limits<double>::infinity();
    }
    const double us = hopper::quant::PredictedUs(*form, multiplied, device);
    if (!HasFloatRows(problem)) return us;
    const std::int64_t times = CeilOfRatio(problem.m, hopper::quant::kFloatRowsAtOnce);
    return static_cast<double>(times) * us + FloatRowsUs(problem, device);
  }

  // Sums of A's rows, for tilings of any number of rows by weights with offsets. With rows of f32
  // they lie behind those of bf16 and their products.
  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    const Problem multiplied = Multiplied(problem);
    const std::uint64_t parts =
        HasFloatRows(problem) ? hopper::quant::PlacesOfParts(multiplied).row_sums : 0;
    const std::optional<Form> form = FormOf(problem, config);
    if (!form.has_value() || form->kind != FormKind::kWide || !HasOffsets(form->format)) {
      return parts;
    }
    return parts + hopper::quant::RowSumBytes(form->format, multiplied.m, problem.k);
  }

  std::string NumericsId(const Problem& problem) const override {
    // Packed scales lie in one order, whichever they were sent in.
    Scaling scaling = problem.b_scaling;
    scaling.order = ScaleOrder::kAlongK;
    return absl::StrCat("packed:", Name(problem.b.type), "*", Name(scaling), ":",
                        SumsOf(CodeFormatOf(problem)),
                        HasFloatRows(problem) ? ":rows-of-3-bf16" : "");
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    std::optional<Form> form = FormOf(problem, config);
    if (!form.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(traits().name, " has no tiling of ", ToString(config)));
    }
    if (!HasFloatRows(problem)) return LaunchForm(*form, problem, arguments, target);
    for (std::int64_t first = 0; first < problem.m; first += hopper::quant::kFloatRowsAtOnce) {
      const std::int64_t count = std::min(problem.m - first, hopper::quant::kFloatRowsAtOnce);
      absl::Status status = LaunchFloatRows(*form, RowsOf(problem, count),
                                            ArgumentsOf(problem, first, arguments), target);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The planes of B are a stack: each has as many packed matrices, one behind another, and all
  // share a scale of the tensor.
  bool TakesGroups(const Problem& problem, std::int64_t b_step) const override {
    if (problem.b_packing != Packing::kStrips || HasFloatRows(problem)) return false;
    if (!Rejection(problem).empty()) return false;
    return b_step > 0 &&
           b_step % static_cast<std::int64_t>(PackedBytes(problem, WeightPlane::kCodes)) == 0;
  }

  double PredictedGroupsUs(const Problem& problem, const Config& /*config*/,
                           const RowGroups& groups, const DeviceTraits& device) const override {
    const hopper::quant::GroupsByTiling by_tiling =
        hopper::quant::ByTiling(problem, groups, device);
    double us = by_tiling.predicted_us;
    for (const hopper::quant::PackedGroup& group : by_tiling.alone) {
      const Problem own = RowsOf(problem, group.end - group.begin);
      us += hopper::quant::PredictedUs(QuickestForm(own, device), own, device);
    }
    return us;
  }

  absl::Status LaunchGroups(const Problem& problem, const Config& /*config*/,
                            const RowGroups& groups, const Arguments& arguments,
                            const LaunchTarget& target) const override {
    const hopper::quant::GroupsByTiling by_tiling =
        hopper::quant::ByTiling(problem, groups, AnyDevice());
    for (const hopper::quant::PackedGroup& group : by_tiling.alone) {
      const Problem own = RowsOf(problem, group.end - group.begin);
      absl::Status status = LaunchForm(QuickestForm(own, AnyDevice()), own,
                                       ArgumentsOf(problem, groups, group, arguments), target);
      if (!status.ok()) return status;
    }
    return hopper::quant::LaunchTilings(by_tiling, problem, groups, arguments, target);
  }

 private:
  static absl::Status LaunchForm(Form form, const Problem& problem, const Arguments& arguments,
                                 const LaunchTarget& target) {
    // A panel may have fewer columns than the tiling's blocks; all tilings have the same bits.
    if (!Takes(form, problem)) form = QuickestForm(problem, AnyDevice());
    return LaunchOf(form, target)(problem, arguments, target);
  }

  // kFloatRowsAtOnce rows at most.
  static absl::Status LaunchFloatRows(const Form& form, const Problem& problem,
                                      const Arguments& arguments, const LaunchTarget& target) {
    absl::Status status = hopper::quant::SplitRowsFor(target)(problem, arguments, target);
    if (!status.ok()) return status;
    const Problem parts = Multiplied(problem);
    const hopper::quant::FloatRowsPlaces places = hopper::quant::PlacesOfParts(parts);
    auto* const workspace = static_cast<std::uint8_t*>(arguments.workspace);
    Arguments of_parts = arguments;
    of_parts.a = workspace;
    of_parts.d = workspace + places.sums;
    of_parts.workspace = workspace + places.row_sums;
    status = LaunchForm(form, parts, of_parts, target);
    if (!status.ok()) return status;
    return hopper::quant::AddRowsFor(target)(problem, arguments, target);
  }

  const EntryTraits& entry_;
};

}  // namespace

void AppendHopperQuant(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (const EntryTraits* entry : kEntries) {
    kernels->push_back(std::make_unique<PackedEntry>(*entry));
  }
}

}  // namespace gemmd
