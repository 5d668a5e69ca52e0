#include "client/cli/files/scale_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/npy/npy.h"

namespace gemmd::cli {
namespace {

DataType ZeroPointType(DataType element) {
  const bool is_signed = element == DataType::kInt8 || element == DataType::kInt4;
  return is_signed ? DataType::kInt8 : DataType::kUint8;
}

// Elements without what scales them are worth something else, and nobody would notice.
Outcome CheckAllAreThere(const ScaleFiles& files, const std::string& prefix,
                         const QuantFormat& format) {
  const auto missing = [&](const char* option, const char* what) {
    return UsageFailure(
        absl::StrCat("--", prefix, option, ": the type has ", what, ", and no file says which"));
  };
  if (files.scales.empty()) return missing("scales", "scales");
  if (format.scaling.has_zero_points && files.zero_points.empty()) {
    return missing("zero-points", "zero points");
  }
  if (format.scaling.has_tensor_scale && files.tensor_scale.empty()) {
    return missing("tensor-scale", "a scale of the tensor");
  }
  if (format.scaling.has_offsets && files.offsets.empty()) return missing("offsets", "offsets");
  return std::nullopt;
}

}  // namespace

void AddScaleFiles(CLI::App& app, const std::string& prefix, const std::string& line,
                   ScaleFiles& files, const std::string& group) {
  const auto add = [&](const std::string& name, std::string& path, const std::string& description) {
    CLI::Option* const option =
        app.add_option("--" + prefix + name, path, description)->type_name("FILE");
    if (!group.empty()) option->group(group);
  };
  add("scales", files.scales,
      ".npy: one f32 scale, or one for each " + line +
          ", of int8, uint8 and fp8; where --type names a format with blocks, one for each block, "
          "in the matrix's shape");
  add("zero-points", files.zero_points,
      ".npy of int8 or uint8, one for each scale; only for integer types");
  add("tensor-scale", files.tensor_scale, ".npy: one f32, which nvfp4 has beside its scales");
  add("offsets", files.offsets,
      ".npy, one for each scale and of its type, which is added to code * scale; only for integer "
      "types in blocks");
}

Outcome ReadScaleFiles(const ScaleFiles& files, const std::string& prefix,
                       const std::optional<QuantFormat>& format, bool is_tiled, bool is_column,
                       client::InlineOperand& operand) {
  if (format) {
    if (Outcome failure = CheckAllAreThere(files, prefix, *format)) return failure;
  }
  const bool has_blocks = format && format->scaling.block_k != kWhole;
  const auto read = [&](const std::string& path, DataType type, bool is_vector,
                        std::optional<client::Matrix>& matrix) -> Outcome {
    if (path.empty()) return std::nullopt;
    absl::StatusOr<client::Matrix> made =
        is_vector ? client::ReadNpyScales(path, is_column, type) : client::ReadNpy(path, type);
    if (!made.ok()) return FileFailure(made.status());
    matrix = *std::move(made);
    return std::nullopt;
  };
  if (has_blocks) {
    operand.blocks = BlockScaling{format->scaling.block_k, format->scaling.block_lines, is_tiled};
  }
  const DataType scale_type = has_blocks ? format->scaling.type : DataType::kF32;
  if (Outcome failure = read(files.scales, scale_type, !has_blocks, operand.scales)) {
    return failure;
  }
  const DataType zero_point_type = ZeroPointType(operand.data.format().type);
  if (Outcome failure =
          read(files.zero_points, zero_point_type, !has_blocks, operand.zero_points)) {
    return failure;
  }
  if (Outcome failure = read(files.offsets, scale_type, !has_blocks, operand.offsets)) {
    return failure;
  }
  return read(files.tensor_scale, DataType::kF32, true, operand.tensor_scale);
}

}  // namespace gemmd::cli
