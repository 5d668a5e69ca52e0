#include "client/quantized/quantized_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file/write_file.h"
#include "base/numbers/quant/elements.h"
#include "base/order/k_order.h"
#include "base/text/quoted.h"
#include "client/file.h"

namespace gemmd::client {
namespace {

constexpr char kVersion[] = "gemmd.version";
constexpr char kFormat[] = "gemmd.format";
constexpr char kShape[] = "gemmd.shape";
constexpr char kKAxis[] = "gemmd.k_axis";
constexpr char kScaleLayout[] = "gemmd.scale_layout";

constexpr char kTiles[] = "blocked-128x4";

constexpr char kOrder[] = "k_order";  // a tensor's name
constexpr int kOrderBytes = sizeof(std::uint32_t);

// A plane as the file must have it.
struct Plane {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  SafetensorsTensor QuantizedLayout::*place;
  int element_bytes = 1;
};

// Types that every reader of safetensors knows by name; the others are bytes, packed.
absl::string_view DtypeOf(DataType type) {
  switch (type) {
    case DataType::kF32:
      return "F32";
    case DataType::kF16:
      return "F16";
    case DataType::kBf16:
      return "BF16";
    case DataType::kInt8:
      return "I8";
    case DataType::kFp8E4M3:
      return "F8_E4M3";
    case DataType::kFp8E5M2:
      return "F8_E5M2";
    default:
      return "U8";
  }
}

// `columns` elements run fastest. For elements of less than 8 bits the shape counts bytes: each
// row's where a row has whole ones, else all in one dimension.
absl::StatusOr<Plane> PlaneOf(absl::string_view name, DataType type, std::uint64_t rows,
                              std::uint64_t columns, SafetensorsTensor QuantizedLayout::*place) {
  const absl::StatusOr<std::uint64_t> bytes = SizeBytes({type, rows, columns});
  if (!bytes.ok()) return bytes.status();
  Plane plane{std::string(name), std::string(DtypeOf(type)), {rows, columns}, *bytes, place};
  const int bits = SizeBits(type);
  plane.element_bytes = std::max(1, bits / 8);
  if (bits >= 8) return plane;
  const std::uint64_t row_bits = columns * static_cast<std::uint64_t>(bits);
  if (row_bits % 8 == 0) {
    plane.shape = {rows, row_bits / 8};
  } else {
    plane.shape = {*bytes};
  }
  return plane;
}

// Every plane that the array's format has, and an order of K where there is one: those of wide
// elements first, so that all are aligned.
absl::StatusOr<std::vector<Plane>> PlanesOf(const QuantizedArray& array, bool has_order) {
  const Scaling& scaling = array.format.scaling;
  const std::uint64_t lines = array.lines();
  auto line_blocks =
      static_cast<std::uint64_t>(scaling.line_blocks(static_cast<std::int64_t>(lines)));
  auto k_blocks =
      static_cast<std::uint64_t>(scaling.k_blocks(static_cast<std::int64_t>(array.k())));
  if (array.is_tiled()) {
    line_blocks = (line_blocks + 127) / 128 * 128;
    k_blocks = (k_blocks + 3) / 4 * 4;
  }
  std::vector<absl::StatusOr<Plane>> made;
  made.push_back(PlaneOf("data", array.format.element, lines, array.k(), &QuantizedLayout::codes));
  made.push_back(PlaneOf("scales", scaling.type, line_blocks, k_blocks, &QuantizedLayout::scales));
  if (scaling.has_zero_points) {
    const bool is_signed = RangeOf(array.format.element).lowest < 0;
    made.push_back(PlaneOf("zero_points", is_signed ? DataType::kInt8 : DataType::kUint8,
                           line_blocks, k_blocks, &QuantizedLayout::zero_points));
  }
  if (scaling.has_tensor_scale) {
    made.push_back(PlaneOf("tensor_scale", DataType::kF32, 1, 1, &QuantizedLayout::tensor_scale));
  }
  if (scaling.has_offsets) {
    made.push_back(
        PlaneOf("offsets", scaling.type, line_blocks, k_blocks, &QuantizedLayout::offsets));
  }
  if (has_order) {
    const std::uint64_t bytes = array.k() * kOrderBytes;
    made.push_back(
        Plane{kOrder, "I32", {array.k()}, bytes, &QuantizedLayout::k_order, kOrderBytes});
  }
  std::vector<Plane> planes;
  for (absl::StatusOr<Plane>& plane : made) {
    if (!plane.ok()) return plane.status();
    planes.push_back(*std::move(plane));
  }
  std::stable_sort(planes.begin(), planes.end(), [](const Plane& x, const Plane& y) {
    return x.element_bytes > y.element_bytes;
  });
  return planes;
}

// "[2, 3]"
std::string ShapeText(const std::vector<std::uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Digits alone, as the writer has them: no sign, no blank, no leading 0.
std::optional<std::uint64_t> ParseDimension(absl::string_view text) {
  std::uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || absl::StrCat(value) != text) return std::nullopt;
  if (value < 1 || value > kMaxDimension) return std::nullopt;
  return value;
}

class MetadataReader {
 public:
  explicit MetadataReader(const std::map<std::string, std::string>& metadata)
      : metadata_(metadata) {}

  absl::StatusOr<QuantizedArray> Read() const {
    for (const auto& [key, value] : metadata_) {
      const bool is_known = key == kVersion || key == kFormat || key == kShape || key == kKAxis ||
                            key == kScaleLayout;
      if (absl::StartsWith(key, "gemmd.") && !is_known) {
        return absl::InvalidArgumentError(
            absl::StrCat("the metadata has ", Quoted(key), ", which version 1 has not"));
      }
    }
    if (absl::Status s = OneOf(kVersion, {"1"}); !s.ok()) return s;
    QuantizedArray array;
    if (absl::Status s = ReadFormat(array); !s.ok()) return s;
    if (absl::Status s = ReadShape(array); !s.ok()) return s;
    if (absl::Status s = OneOf(kKAxis, {"0", "1"}); !s.ok()) return s;
    array.k_axis = metadata_.at(kKAxis) == "0" ? KAxis::kRows : KAxis::kColumns;
    return array;
  }

 private:
  absl::StatusOr<std::string> Find(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found != metadata_.end()) return found->second;
    return absl::InvalidArgumentError(
        absl::StrCat("the metadata has no ", key, "; gemm quantize writes it"));
  }

  absl::Status OneOf(const std::string& key, const std::vector<std::string>& accepted) const {
    const absl::StatusOr<std::string> value = Find(key);
    if (!value.ok()) return value.status();
    if (std::find(accepted.begin(), accepted.end(), *value) != accepted.end()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(key, " is ", Quoted(*value), "; it must be ",
                                                   absl::StrJoin(accepted, " or ")));
  }

  absl::Status ReadFormat(QuantizedArray& array) const {
    const absl::StatusOr<std::string> name = Find(kFormat);
    if (!name.ok()) return name.status();
    const QuantFormat* const format = FindQuantFormat(*name);
    if (format == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(kFormat, " is ", Quoted(*name), ", which is no quantized format"));
    }
    array.format_name = *name;
    array.format = *format;
    if (absl::Status s = OneOf(kScaleLayout, {"plain", kTiles}); !s.ok()) return s;
    if (metadata_.at(kScaleLayout) == "plain") return absl::OkStatus();
    if (SizeBits(format->scaling.type) != 8) {
      return absl::InvalidArgumentError(
          absl::StrCat(kScaleLayout, " is ", kTiles, "; scales of ", *name, " must be plain"));
    }
    array.format.scaling.order = ScaleOrder::kTiles128x4;
    return absl::OkStatus();
  }

  absl::Status ReadShape(QuantizedArray& array) const {
    const absl::StatusOr<std::string> text = Find(kShape);
    if (!text.ok()) return text.status();
    const std::vector<absl::string_view> parts = absl::StrSplit(*text, absl::MaxSplits('x', 2));
    const auto rows = parts.size() == 2 ? ParseDimension(parts[0]) : std::nullopt;
    const auto columns = parts.size() == 2 ? ParseDimension(parts[1]) : std::nullopt;
    if (!rows || !columns) {
      return absl::InvalidArgumentError(absl::StrCat(kShape, " is ", Quoted(*text),
                                                     "; it must be ROWSxCOLUMNS, each of 1 to ",
                                                     kMaxDimension));
    }
    array.rows = *rows;
    array.columns = *columns;
    return absl::OkStatus();
  }

  const std::map<std::string, std::string>& metadata_;
};

absl::Status CheckTensor(const Plane& plane, const SafetensorsTensor& tensor) {
  if (tensor.dtype != plane.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(plane.name, " has dtype ", Quoted(tensor.dtype),
                                                   "; it must be ", plane.dtype));
  }
  if (tensor.shape != plane.shape) {
    return absl::InvalidArgumentError(absl::StrCat(plane.name, " has shape ",
                                                   ShapeText(tensor.shape), "; it must be ",
                                                   ShapeText(plane.shape)));
  }
  if (tensor.end - tensor.begin == plane.bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(plane.name, " takes ", plane.bytes,
                                                 " bytes, but its data_offsets have ",
                                                 tensor.end - tensor.begin));
}

absl::Status Annotate(const std::string& path, const absl::Status& status) {
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

}  // namespace

absl::StatusOr<QuantizedLayout> ParseQuantizedHeader(absl::string_view text,
                                                     std::uint64_t data_bytes) {
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(text, data_bytes);
  if (!header.ok()) return header.status();
  absl::StatusOr<QuantizedArray> array = MetadataReader(header->metadata).Read();
  if (!array.ok()) return array.status();
  const bool has_order =
      array->format.scaling.block_k != kWhole && header->tensors.count(kOrder) != 0;
  const absl::StatusOr<std::vector<Plane>> planes = PlanesOf(*array, has_order);
  if (!planes.ok()) return planes.status();

  QuantizedLayout layout;
  layout.array = *std::move(array);
  for (const Plane& plane : *planes) {
    const auto tensor = header->tensors.find(plane.name);
    if (tensor == header->tensors.end()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no tensor ", plane.name, ", which ",
                                                     layout.array.format_name, " has"));
    }
    if (absl::Status s = CheckTensor(plane, tensor->second); !s.ok()) return s;
    layout.*plane.place = tensor->second;
  }
  for (const auto& [name, tensor] : header->tensors) {
    const bool is_plane = std::any_of(planes->begin(), planes->end(),
                                      [&name = name](const Plane& p) { return p.name == name; });
    if (!is_plane) {
      return absl::InvalidArgumentError(absl::StrCat("there is a tensor ", Quoted(name), ", which ",
                                                     layout.array.format_name, " has not"));
    }
  }
  if (absl::Status s = CheckCovered(*header, data_bytes); !s.ok()) return s;
  return layout;
}

bool IsQuantizedFile(const std::string& path) {
  if (absl::EndsWith(path, ".gq") || absl::EndsWith(path, ".safetensors")) return true;
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  constexpr std::uint64_t kBegin = kSafetensorsPreambleBytes + 1;
  if (!file.ok() || file->size_bytes() < kBegin) return false;
  const absl::StatusOr<std::string> begin = file->Read(0, kBegin);
  return begin.ok() && begin->back() == '{' &&
         ParseSafetensorsPreamble(*begin, file->size_bytes()).ok();
}

absl::StatusOr<QuantizedArray> ReadQuantizedFile(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::string> preamble =
      file->Read(0, std::min(file->size_bytes(), kSafetensorsPreambleBytes));
  if (!preamble.ok()) return preamble.status();
  const absl::StatusOr<std::uint64_t> length =
      ParseSafetensorsPreamble(*preamble, file->size_bytes());
  if (!length.ok()) return Annotate(path, length.status());
  const absl::StatusOr<std::string> text = file->Read(kSafetensorsPreambleBytes, *length);
  if (!text.ok()) return text.status();
  const std::uint64_t data = kSafetensorsPreambleBytes + *length;
  absl::StatusOr<QuantizedLayout> layout = ParseQuantizedHeader(*text, file->size_bytes() - data);
  if (!layout.ok()) return Annotate(path, layout.status());

  QuantizedArray array = std::move(layout->array);
  const auto read = [&](const SafetensorsTensor& tensor, Bytes& bytes) -> absl::Status {
    absl::StatusOr<Bytes> got = file->ReadLarge(data + tensor.begin, tensor.end - tensor.begin);
    if (!got.ok()) return got.status();
    bytes = *std::move(got);
    return absl::OkStatus();
  };
  if (absl::Status s = read(layout->codes, array.codes); !s.ok()) return s;
  if (absl::Status s = read(layout->scales, array.scales); !s.ok()) return s;
  if (absl::Status s = read(layout->zero_points, array.zero_points); !s.ok()) return s;
  if (absl::Status s = read(layout->offsets, array.offsets); !s.ok()) return s;
  if (array.format.scaling.has_tensor_scale) {
    Bytes bytes;
    if (absl::Status s = read(layout->tensor_scale, bytes); !s.ok()) return s;
    std::memcpy(&array.tensor_scale, bytes.view().data(), sizeof array.tensor_scale);
  }
  if (layout->k_order.end != 0) {
    Bytes bytes;
    if (absl::Status s = read(layout->k_order, bytes); !s.ok()) return s;
    std::vector<std::uint32_t> order(array.k());
    std::memcpy(order.data(), bytes.view().data(), bytes.view().size());
    if (absl::Status s = CheckKOrder(kOrder, order, array.k()); !s.ok()) return Annotate(path, s);
    array.k_order = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
  }
  return array;
}

absl::Status WriteQuantizedFile(const std::string& path, const QuantizedArray& array) {
  const absl::StatusOr<std::vector<Plane>> planes = PlanesOf(array, array.k_order != nullptr);
  if (!planes.ok()) return Annotate(path, planes.status());
  SafetensorsHeader header;
  header.metadata = {{kVersion, "1"},
                     {kFormat, array.format_name},
                     {kShape, absl::StrCat(array.rows, "x", array.columns)},
                     {kKAxis, array.k_axis == KAxis::kRows ? "0" : "1"},
                     {kScaleLayout, array.is_tiled() ? kTiles : "plain"}};
  std::string tensor_scale(sizeof array.tensor_scale, '\0');
  std::memcpy(tensor_scale.data(), &array.tensor_scale, tensor_scale.size());
  std::map<std::string, absl::string_view> bytes = {{"data", array.codes.view()},
                                                    {"scales", array.scales.view()},
                                                    {"zero_points", array.zero_points.view()},
                                                    {"tensor_scale", tensor_scale},
                                                    {"offsets", array.offsets.view()}};
  if (array.k_order != nullptr) {
    bytes[kOrder] = {reinterpret_cast<const char*>(array.k_order->data()),
                     array.k_order->size() * kOrderBytes};
  }
  std::vector<absl::string_view> parts = {""};
  std::uint64_t end = 0;
  for (const Plane& plane : *planes) {
    const std::uint64_t begin = end;
    end += plane.bytes;
    header.tensors[plane.name] = {plane.dtype, plane.shape, begin, end};
    parts.push_back(bytes.at(plane.name));
  }
  const std::string text = FormatSafetensorsHeader(header);
  parts[0] = text;
  return WriteFile(path, parts);
}

}  // namespace gemmd::client
