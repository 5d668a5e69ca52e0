#include "server/admission/quantization.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/math.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// "1 x 32": lines by elements of K.
std::string BlockText(std::int64_t lines, std::int64_t k) { return StrCat(lines, " x ", k); }

// The formats whose elements these are.
std::vector<const QuantFormat*> FormatsOf(DataType element) {
  std::vector<const QuantFormat*> formats;
  for (const NamedFormat& each : QuantFormats()) {
    if (each.format.element == element) formats.push_back(&each.format);
  }
  return formats;
}

bool HasBlocks(const QuantFormat& format) { return format.scaling.block_k != kWhole; }

// "1 x 32 (f16, bf16), 1 x 64 (f16)": blocks, and the types of their scales.
std::string BlocksOf(const std::vector<const QuantFormat*>& formats) {
  std::vector<std::pair<std::string, std::vector<absl::string_view>>> blocks;
  for (const QuantFormat* each : formats) {
    if (!HasBlocks(*each)) continue;
    const std::string text = BlockText(each->scaling.block_lines, each->scaling.block_k);
    auto found = absl::c_find_if(blocks, [&](const auto& block) { return block.first == text; });
    if (found == blocks.end()) found = blocks.insert(found, {text, {}});
    const absl::string_view type = Name(each->scaling.type);
    if (!absl::c_linear_search(found->second, type)) found->second.push_back(type);
  }
  return absl::StrJoin(blocks, ", ", [](std::string* text, const auto& block) {
    absl::StrAppend(text, block.first, " (", absl::StrJoin(block.second, ", "), ")");
  });
}

absl::Status CheckTight(absl::string_view field, const PlaneSpec& plane) {
  const std::uint64_t tight = plane.order == Order::kRowMajor ? plane.columns : plane.rows;
  if (plane.leading_dimension == 0 || plane.leading_dimension == tight) return absl::OkStatus();
  return InvalidArgumentError(StrCat(field, ".leading_dimension is ", plane.leading_dimension,
                                     "; it must be ", tight, " or 0: scales are tightly packed"));
}

// One operand while it is looked at.
class Checker {
 public:
  Checker(absl::string_view field, const OperandSpec& operand, const OperandUse& use)
      : field_(field),
        operand_(operand),
        lines_(use.k_is_columns ? Rows() : Columns()),
        k_(use.k_is_columns ? Columns() : Rows()),
        is_a_(use.is_a),
        k_is_columns_(use.k_is_columns) {}

  absl::StatusOr<Scaling> Check() {
    if (!operand_.scales.has_value()) {
      if (absl::Status s = CheckNothingElse(); !s.ok()) return s;
      return Scaling::kNone;
    }
    if (!IsQuantizedType(type())) {
      return InvalidArgumentError(StrCat(field_, ".scales is set, and ", field_, ".data.type is ",
                                         Name(type()), "; only quantized types have scales"));
    }
    scaling_.has_scales = true;
    for (absl::Status s :
         {CheckFormat(), CheckScales(), CheckZeroPoints(), CheckTensorScale(), CheckOffsets()}) {
      if (!s.ok()) return s;
    }
    return scaling_;
  }

 private:
  std::int64_t Rows() const { return static_cast<std::int64_t>(operand_.data.rows); }
  std::int64_t Columns() const { return static_cast<std::int64_t>(operand_.data.columns); }
  DataType type() const { return operand_.data.type; }
  const PlaneSpec& scales() const { return *operand_.scales; }

  absl::Status CheckNothingElse() const {
    const auto without = [this](absl::string_view what) {
      return InvalidArgumentError(
          StrCat(field_, ".", what, " is set, and ", field_, ".scales is missing"));
    };
    if (operand_.zero_points.has_value()) return without("zero_points");
    if (operand_.tensor_scale.has_value()) return without("tensor_scale");
    if (operand_.offsets.has_value()) return without("offsets");
    if (operand_.blocks.has_value()) return without("quantization");
    const bool may_go_without = !IsQuantizedType(type()) || type() == DataType::kInt8 ||
                                type() == DataType::kFp8E4M3 || type() == DataType::kFp8E5M2;
    if (may_go_without) return absl::OkStatus();
    return InvalidArgumentError(
        StrCat(field_, ".scales is missing; ", Name(type()), " goes with scales"));
  }

  // Chooses blocks and the type of scales, which some format must have.
  absl::Status CheckFormat() {
    const std::vector<const QuantFormat*> formats = FormatsOf(type());
    const bool has_vectors =
        absl::c_any_of(formats, [](const QuantFormat* each) { return !HasBlocks(*each); });
    if (!operand_.blocks.has_value()) {
      if (!has_vectors) {
        return InvalidArgumentError(StrCat(field_, ".quantization is missing; blocks of ",
                                           Name(type()), " are ", BlocksOf(formats)));
      }
      if (scales().type != DataType::kF32) {
        return InvalidArgumentError(StrCat(field_, ".scales.type is ", Name(scales().type),
                                           "; it must be f32, or ", field_,
                                           ".quantization must say what blocks are scaled"));
      }
      return absl::OkStatus();
    }
    const BlockScaling& blocks = *operand_.blocks;
    std::vector<std::string> types;
    for (const QuantFormat* each : formats) {
      if (each->scaling.block_k != blocks.block_k || !HasBlocks(*each) ||
          each->scaling.block_lines != blocks.block_lines) {
        continue;
      }
      if (each->scaling.type == scales().type) {
        scaling_.type = each->scaling.type;
        scaling_.block_k = each->scaling.block_k;
        scaling_.block_lines = each->scaling.block_lines;
        return absl::OkStatus();
      }
      std::string name(Name(each->scaling.type));
      if (!absl::c_linear_search(types, name)) types.push_back(std::move(name));
    }
    const std::string asked = BlockText(blocks.block_lines, blocks.block_k);
    if (types.empty()) {
      return InvalidArgumentError(StrCat(field_, ".quantization is blocks of ", asked, "; of ",
                                         Name(type()), " they must be ", BlocksOf(formats)));
    }
    return InvalidArgumentError(StrCat(field_, ".scales.type is ", Name(scales().type), "; of ",
                                       Name(type()), " in blocks of ", asked, " it must be ",
                                       absl::StrJoin(types, " or ")));
  }

  absl::Status CheckScales() {
    if (absl::Status s = operand_.blocks.has_value() ? CheckBlocks() : CheckVector(); !s.ok()) {
      return s;
    }
    return CheckTight(StrCat(field_, ".scales"), scales());
  }

  absl::Status CheckVector() {
    const auto vector = static_cast<std::uint64_t>(lines_);
    const std::uint64_t rows = is_a_ ? vector : 1;
    const std::uint64_t columns = is_a_ ? 1 : vector;
    const bool is_tensor = scales().rows == 1 && scales().columns == 1;
    // The product says which way the vector of an operand that stays lies.
    const bool is_vector = (scales().rows == rows && scales().columns == columns) ||
                           (scales().rows == columns && scales().columns == rows);
    if (!is_tensor && !is_vector) {
      return InvalidArgumentError(StrCat(
          field_, ".scales is ", scales().rows, " x ", scales().columns, "; it must be 1 x 1, or ",
          rows, " x ", columns,
          is_a_ ? ": one for each row of op(" : ": one for each column of op(", field_, ")"));
    }
    scaling_.block_lines = is_tensor ? kWhole : 1;
    return absl::OkStatus();
  }

  absl::Status CheckBlocks() {
    std::int64_t lines = scaling_.line_blocks(lines_);
    std::int64_t blocks = scaling_.k_blocks(k_);
    if (operand_.blocks->is_tiled) {
      if (scaling_.type != DataType::kE8M0 && scaling_.type != DataType::kFp8E4M3) {
        return InvalidArgumentError(StrCat(field_,
                                           ".quantization.scale_layout is blocked_128x4; of ",
                                           Name(scaling_.type), " scales it must be plain"));
      }
      lines = RoundUp(lines, 128);
      blocks = RoundUp(blocks, 4);
    }
    const auto rows = static_cast<std::uint64_t>(k_is_columns_ ? lines : blocks);
    const auto columns = static_cast<std::uint64_t>(k_is_columns_ ? blocks : lines);
    if (scales().rows != rows || scales().columns != columns) {
      return InvalidArgumentError(StrCat(
          field_, ".scales is ", scales().rows, " x ", scales().columns, "; it must be ", rows,
          " x ", columns, ": the data are ", operand_.data.rows, " x ", operand_.data.columns,
          ", in blocks of ", k_is_columns_ ? scaling_.block_lines : scaling_.block_k, " x ",
          k_is_columns_ ? scaling_.block_k : scaling_.block_lines,
          operand_.blocks->is_tiled ? ", in whole tiles of 128 x 4" : ""));
    }
    const bool is_row_major = scales().order == Order::kRowMajor;
    if (operand_.blocks->is_tiled && !is_row_major) {
      return InvalidArgumentError(
          StrCat(field_, ".scales.order is column_major; of blocked_128x4 it must be row_major"));
    }
    scaling_.order = operand_.blocks->is_tiled       ? ScaleOrder::kTiles128x4
                     : is_row_major == k_is_columns_ ? ScaleOrder::kAlongK
                                                     : ScaleOrder::kAlongLines;
    return absl::OkStatus();
  }

  absl::Status CheckZeroPoints() {
    if (!operand_.zero_points.has_value()) return absl::OkStatus();
    const std::string field = StrCat(field_, ".zero_points");
    const PlaneSpec& plane = *operand_.zero_points;
    if (absl::Status s = CheckIntegers(field, "zero points"); !s.ok()) return s;
    const DataType expected = RangeOf(type()).lowest < 0 ? DataType::kInt8 : DataType::kUint8;
    if (plane.type != expected) {
      return InvalidArgumentError(StrCat(field, ".type is ", Name(plane.type), "; of ",
                                         Name(type()), " it must be ", Name(expected)));
    }
    scaling_.has_zero_points = true;
    return CheckAsScales(field, plane);
  }

  absl::Status CheckOffsets() {
    if (!operand_.offsets.has_value()) return absl::OkStatus();
    const std::string field = StrCat(field_, ".offsets");
    const PlaneSpec& plane = *operand_.offsets;
    if (absl::Status s = CheckIntegers(field, "offsets"); !s.ok()) return s;
    if (!operand_.blocks.has_value()) {
      return InvalidArgumentError(StrCat(field, " is set, and ", field_,
                                         ".quantization is missing; offsets are of blocks"));
    }
    if (operand_.zero_points.has_value()) {
      return InvalidArgumentError(
          StrCat(field, " is set beside ", field_, ".zero_points; a block has one of both"));
    }
    if (plane.type != scales().type) {
      return InvalidArgumentError(StrCat(field, ".type is ", Name(plane.type),
                                         "; it must be that of ", field_, ".scales, ",
                                         Name(scales().type)));
    }
    scaling_.has_offsets = true;
    return CheckAsScales(field, plane);
  }

  absl::Status CheckIntegers(absl::string_view field, absl::string_view what) const {
    if (!IsQuantizedInteger(type())) {
      return InvalidArgumentError(StrCat(field, " is set, and ", field_, ".data.type is ",
                                         Name(type()), "; only integers have ", what));
    }
    return absl::OkStatus();
  }

  // A plane with one place for each scale.
  absl::Status CheckAsScales(absl::string_view field, const PlaneSpec& plane) const {
    if (plane.rows != scales().rows || plane.columns != scales().columns ||
        plane.order != scales().order) {
      return InvalidArgumentError(StrCat(field, " is ", plane.rows, " x ", plane.columns, " ",
                                         Name(plane.order), "; it must be as ", field_, ".scales, ",
                                         scales().rows, " x ", scales().columns, " ",
                                         Name(scales().order)));
    }
    return CheckTight(field, plane);
  }

  absl::Status CheckTensorScale() {
    if (!operand_.tensor_scale.has_value()) return absl::OkStatus();
    const std::string field = StrCat(field_, ".tensor_scale");
    const PlaneSpec& plane = *operand_.tensor_scale;
    if (type() != DataType::kFp4E2M1 || scaling_.type != DataType::kFp8E4M3) {
      return InvalidArgumentError(
          StrCat(field, " is set, and ", field_, " is ", Name(type()), " with ",
                 Name(scaling_.type), " scales; it goes with fp4_e2m1 and fp8_e4m3 scales alone"));
    }
    if (plane.type != DataType::kF32 || plane.rows != 1 || plane.columns != 1) {
      return InvalidArgumentError(StrCat(field, " is ", plane.rows, " x ", plane.columns, " ",
                                         Name(plane.type), "; it must be 1 x 1 f32"));
    }
    scaling_.has_tensor_scale = true;
    return CheckTight(field, plane);
  }

  const std::string field_;
  const OperandSpec& operand_;
  const std::int64_t lines_;
  const std::int64_t k_;
  const bool is_a_;
  const bool k_is_columns_;  // of the data as they lie
  Scaling scaling_;
};

}  // namespace

absl::StatusOr<Scaling> CheckScaling(absl::string_view field, const OperandSpec& operand,
                                     const OperandUse& use) {
  return Checker(field, operand, use).Check();
}

absl::StatusOr<UploadScaling> CheckUploadScaling(absl::string_view field,
                                                 const OperandSpec& operand) {
  absl::Status as_a;
  for (const OperandUse& use :
       {OperandUse{true, true}, {false, false}, {true, false}, {false, true}}) {
    const absl::StatusOr<Scaling> scaling = CheckScaling(field, operand, use);
    if (scaling.ok()) return UploadScaling{*scaling, use.k_is_columns};
    if (as_a.ok()) as_a = scaling.status();
  }
  return as_a;
}

}  // namespace gemmd
