#include "base/numbers/quant/quant_format.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"

namespace gemmd {
namespace {

constexpr std::uint16_t kGroups[] = {16, 32, 64, 128};  // of integers along K

Scaling WithZeroPoints(Scaling scaling) {
  scaling.has_zero_points = true;
  return scaling;
}

Scaling WithOffsets(Scaling scaling) {
  scaling.has_offsets = true;
  return scaling;
}

// Scales of tensors, of lines and of groups along K, with zero points or without; groups of
// unsigned integers have offsets too.
void AppendBytes(absl::string_view name, DataType element, std::vector<NamedFormat>* formats) {
  const auto append = [&](absl::string_view blocks, absl::string_view suffix,
                          const Scaling& scaling) {
    formats->push_back({absl::StrCat(name, "-", blocks, suffix), {element, scaling}});
  };
  for (const bool zero_points : {false, true}) {
    const absl::string_view suffix = zero_points ? "-zp" : "";
    const auto shifted = [zero_points](const Scaling& scaling) {
      return zero_points ? WithZeroPoints(scaling) : scaling;
    };
    append("tensor", suffix, shifted(Scaling::kTensor));
    append("row", suffix, shifted(Scaling::kVector));
    for (const std::uint16_t group : kGroups) {
      append(absl::StrCat("g", group), suffix, shifted({true, DataType::kF32, 1, group}));
    }
  }
  if (element != DataType::kUint8) return;
  for (const std::uint16_t group : kGroups) {
    append(absl::StrCat("g", group), "-offset", WithOffsets({true, DataType::kF32, 1, group}));
  }
}

void AppendNibbles(std::vector<NamedFormat>* formats) {
  for (const std::uint16_t group : kGroups) {
    for (const DataType scale : {DataType::kF16, DataType::kBf16, DataType::kF32}) {
      const std::string name = absl::StrCat("int4-g", group, "-", Name(scale));
      const Scaling scaling = {true, scale, 1, group};
      formats->push_back({name, {DataType::kInt4, scaling}});
      formats->push_back({name + "-zp", {DataType::kUint4, WithZeroPoints(scaling)}});
      formats->push_back({name + "-offset", {DataType::kUint4, WithOffsets(scaling)}});
    }
  }
}

void AppendTable(absl::string_view name, DataType element, std::vector<NamedFormat>* formats) {
  for (const std::uint16_t group : kGroups) {
    for (const DataType scale : {DataType::kF16, DataType::kBf16, DataType::kF32}) {
      formats->push_back(
          {absl::StrCat(name, "-g", group, "-", Name(scale)), {element, {true, scale, 1, group}}});
    }
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
  AppendBytes("int8", DataType::kInt8, &formats);
  AppendBytes("uint8", DataType::kUint8, &formats);
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
  AppendNibbles(&formats);
  AppendTable("nf4", DataType::kNf4, &formats);
  AppendTable("bnb-fp4", DataType::kBnbFp4, &formats);
  AppendTable("iq4-nl", DataType::kIq4Nl, &formats);
  return formats;
}

}  // namespace

bool HasSign(const QuantFormat& format) {
  const bool is_signed = !IsQuantizedInteger(format.element) || RangeOf(format.element).lowest < 0;
  return is_signed || format.scaling.has_zero_points || format.scaling.has_offsets;
}

bool HasIntegerSums(const QuantFormat& format) {
  return IsQuantizedInteger(format.element) && !format.scaling.has_offsets;
}

double BitsPerElement(const QuantFormat& format) {
  double bits = SizeBits(format.element);
  if (format.scaling.block_lines != kWhole && format.scaling.block_k != kWhole) {
    const int number = SizeBits(format.scaling.type);
    bits += (number + (format.scaling.has_zero_points ? 8 : 0) +
             (format.scaling.has_offsets ? number : 0)) /
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
