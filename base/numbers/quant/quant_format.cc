#include "base/numbers/quant/quant_format.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"

namespace gemmd {
namespace {

// Scales of tensors, of lines and of groups along K, with zero points or without.
void AppendIntegers(absl::string_view name, DataType element, std::vector<NamedFormat>* formats) {
  for (const bool zero_points : {false, true}) {
    const absl::string_view suffix = zero_points ? "-zp" : "";
    const auto append = [&](absl::string_view scaling, std::uint16_t lines, std::uint16_t k) {
      formats->push_back(
          {absl::StrCat(name, "-", scaling, suffix),
           {element, {true, DataType::kF32, lines, k, ScaleOrder::kAlongK, zero_points}}});
    };
    append("tensor", kWhole, kWhole);
    append("row", 1, kWhole);
    for (const std::uint16_t group : {32, 64, 128}) append(absl::StrCat("g", group), 1, group);
  }
}

void AppendFp8(absl::string_view name, DataType element, std::vector<NamedFormat>* formats) {
  const auto append = [&](absl::string_view scaling, std::uint16_t lines, std::uint16_t k) {
    formats->push_back(
        {absl::StrCat(name, "-", scaling), {element, {true, DataType::kF32, lines, k}}});
  };
  append("tensor", kWhole, kWhole);
  append("row", 1, kWhole);
  append("1x128", 1, 128);
  append("128x128", 128, 128);
}

std::vector<NamedFormat> MakeFormats() {
  std::vector<NamedFormat> formats;
  AppendIntegers("int8", DataType::kInt8, &formats);
  AppendIntegers("uint8", DataType::kUint8, &formats);
  AppendFp8("fp8-e4m3", DataType::kFp8E4M3, &formats);
  AppendFp8("fp8-e5m2", DataType::kFp8E5M2, &formats);
  const auto append_mx = [&](absl::string_view name, DataType element) {
    formats.push_back({std::string(name), {element, {true, DataType::kE8M0, 1, 32}}});
  };
  append_mx("mxfp8-e4m3", DataType::kFp8E4M3);
  append_mx("mxfp8-e5m2", DataType::kFp8E5M2);
  append_mx("mxfp6-e3m2", DataType::kFp6E3M2);
  append_mx("mxfp6-e2m3", DataType::kFp6E2M3);
  append_mx("mxfp4", DataType::kFp4E2M1);
  formats.push_back(
      {"nvfp4",
       {DataType::kFp4E2M1, {true, DataType::kFp8E4M3, 1, 16, ScaleOrder::kAlongK, false, true}}});
  for (const std::uint16_t group : {32, 64, 128}) {
    for (const DataType scale : {DataType::kF16, DataType::kBf16}) {
      const std::string name = absl::StrCat("int4-g", group, "-", Name(scale));
      formats.push_back({name, {DataType::kInt4, {true, scale, 1, group}}});
      formats.push_back(
          {name + "-zp", {DataType::kUint4, {true, scale, 1, group, ScaleOrder::kAlongK, true}}});
    }
  }
  return formats;
}

}  // namespace

bool HasSign(const QuantFormat& format) {
  const bool is_signed = !IsQuantizedInteger(format.element) || RangeOf(format.element).lowest < 0;
  return is_signed || format.scaling.has_zero_points;
}

double BitsPerElement(const QuantFormat& format) {
  double bits = SizeBits(format.element);
  if (format.scaling.block_lines != kWhole && format.scaling.block_k != kWhole) {
    bits += (SizeBits(format.scaling.type) + (format.scaling.has_zero_points ? 8 : 0)) /
            (static_cast<double>(format.scaling.block_lines) *
             static_cast<double>(format.scaling.block_k));
  }
  return bits;
}

absl::Span<const NamedFormat> QuantFormats() {
  static const std::vector<NamedFormat>& formats = *new std::vector<NamedFormat>(MakeFormats());
  return formats;
}

const QuantFormat* FindQuantFormat(absl::string_view name) {
  for (const NamedFormat& each : QuantFormats()) {
    if (each.name == name) return &each.format;
  }
  return nullptr;
}

}  // namespace gemmd
