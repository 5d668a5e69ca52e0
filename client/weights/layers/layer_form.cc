#include "client/weights/layers/layer_form.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/quant_format.h"

namespace gemmd::client {
namespace {

// Returns whether every value of `from` is one of `to`.
bool HoldsElements(DataType to, DataType from) {
  if (to == from) return true;
  if (!IsQuantizedInteger(to) || !IsQuantizedInteger(from)) return false;
  const IntegerRange outer = RangeOf(to);
  const IntegerRange inner = RangeOf(from);
  return outer.lowest <= inner.lowest && inner.highest <= outer.highest;
}

// BF16 has E8M0's least, 2^-127, among its subnormal numbers; F16 lacks most of them.
bool HoldsScales(DataType to, DataType from) {
  return to == from || to == DataType::kF32 || (to == DataType::kBf16 && from == DataType::kE8M0);
}

// Returns whether blocks of `size` are whole ones of `form_size`, of which kWhole is all.
bool Divides(std::uint64_t form_size, std::uint64_t size, std::uint64_t all) {
  const bool is_all = size == 0 || size >= all;
  if (form_size == kWhole) return is_all;
  return is_all || size % form_size == 0;
}

// The least type that every offset has a number of.
DataType OffsetType(const Offsets& offsets) {
  const bool is_number =
      offsets.kind == OffsetKind::kAdded || offsets.kind == OffsetKind::kSubtracted;
  return is_number ? offsets.type : DataType::kF32;
}

// Each 128 of FNUZ codes have a scale of their own, by how large they are.
bool FitsFnuz(const Scaling& scaling) {
  return scaling.type == DataType::kF32 && scaling.block_lines == 1 && scaling.block_k == 128;
}

bool HasValues(const QuantFormat& form, std::uint64_t lines, std::uint64_t k, const Layer& layer) {
  const Scaling& scaling = form.scaling;
  return (layer.fnuz == nullptr || FitsFnuz(scaling)) &&
         scaling.has_offsets == layer.offsets.has_value() &&
         HoldsElements(form.element, layer.element) &&
         HoldsScales(scaling.type, layer.scale_type) &&
         Divides(scaling.block_lines, layer.block.lines, lines) &&
         Divides(scaling.block_k, layer.block.k, k) &&
         scaling.has_zero_points == layer.zero_points.has_value() &&
         (scaling.has_tensor_scale || !layer.overall_scale) &&
         (!layer.offsets || HoldsScales(scaling.type, OffsetType(*layer.offsets)));
}

std::uint64_t BytesOf(const QuantFormat& form, std::uint64_t lines, std::uint64_t k) {
  const Scaling& scaling = form.scaling;
  const auto bits = static_cast<std::uint64_t>(SizeBits(form.element));
  const auto scales = static_cast<std::uint64_t>(
      scaling.count(static_cast<std::int64_t>(lines), static_cast<std::int64_t>(k)));
  const auto scale_bytes = static_cast<std::uint64_t>(SizeBits(scaling.type)) / 8;
  return lines * k * bits / 8 + scales * (scale_bytes + (scaling.has_zero_points ? 1 : 0) +
                                          (scaling.has_offsets ? scale_bytes : 0));
}

// The one of the same elements whose blocks are the largest.
std::string Closest(const Layer& layer) {
  std::string closest;
  double fewest = 0;
  for (const NamedFormat& each : QuantFormats()) {
    const bool is_like = each.format.element == layer.element &&
                         each.format.scaling.has_offsets == layer.offsets.has_value() &&
                         each.format.scaling.has_zero_points == layer.zero_points.has_value();
    const bool has_blocks = each.format.scaling.block_k != kWhole;
    if (!is_like || !has_blocks) continue;
    const double bits = BitsPerElement(each.format);
    if (closest.empty() || bits < fewest) {
      closest = each.name;
      fewest = bits;
    }
  }
  return closest;
}

std::string SizeText(std::uint64_t size) { return size == 0 ? "all" : absl::StrCat(size); }

}  // namespace

void FindForm(std::uint64_t lines, std::uint64_t k, Layer& layer) {
  if (!layer.why.empty()) return;
  std::uint64_t fewest = 0;
  std::uint16_t block = 0;
  for (const NamedFormat& each : QuantFormats()) {
    if (!HasValues(each.format, lines, k, layer)) continue;
    const std::uint64_t bytes = BytesOf(each.format, lines, k);
    // Two may take as many bytes: the layer's own blocks go before the longest, kWhole.
    const std::uint16_t is = each.format.scaling.block_k;
    const auto length = static_cast<std::uint16_t>(is == layer.block.k ? kWhole - 1 : is - 1);
    if (!layer.format.empty() && (bytes > fewest || (bytes == fewest && length <= block))) continue;
    layer.format = each.name;
    fewest = bytes;
    block = length;
  }
  if (!layer.format.empty()) return;
  layer.why = absl::StrCat("it has a scale of ", Name(layer.scale_type), " for each ",
                           SizeText(layer.block.lines), " x ", SizeText(layer.block.k), " ",
                           Name(layer.element), ", and no form has that; ", Closest(layer),
                           " is closest: gemm quantize makes it of the f16 or f32 file");
}

}  // namespace gemmd::client
