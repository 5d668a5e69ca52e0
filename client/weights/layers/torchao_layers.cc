#include "client/weights/layers/torchao_layers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/text/quoted.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<std::uint64_t>;

constexpr std::size_t kMostTextBytes = 16384;
constexpr std::uint64_t kTileLines = 128;
constexpr std::uint64_t kTileColumns = 4;
constexpr std::uint64_t kTileRows = 32;  // of 16 scales

constexpr absl::string_view kNvfp4Class = "NVFP4Tensor";
constexpr absl::string_view kMxClass = "MXTensor";
constexpr absl::string_view kInt4Class = "Int4Tensor";

// The class and the attributes of a matrix, by its text.
struct Said {
  std::string class_name;
  std::string elements;  // of an MXTensor
  std::uint64_t block = 0;
  bool has_tiles = false;
};

struct Kind {
  absl::string_view elements;
  absl::string_view name;
  absl::string_view codes;  // their type in the file
  DataType element;
};
constexpr Kind kNvfp4 = {"", "torchao NVFP4", "U8", DataType::kFp4E2M1};
constexpr Kind kInt4 = {"", "torchao INT4", "I8", DataType::kUint4};
constexpr Kind kKindsOfMx[] = {
    {"float8_e4m3fn", "torchao MXFP8", "F8_E4M3", DataType::kFp8E4M3},
    {"float8_e5m2", "torchao MXFP8", "F8_E5M2", DataType::kFp8E5M2},
    {"float4_e2m1fn_x2", "torchao MXFP4", "U8", DataType::kFp4E2M1},
};

std::string Shown(const Json& value) {
  return Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

absl::Status Wrong(absl::string_view field, const Json& value, absl::string_view must) {
  return absl::InvalidArgumentError(absl::StrCat("its ", field, " in torchao's metadata is ",
                                                 Shown(value), "; it must be ", must));
}

// Without values deeper than any attribute is, whose copies and texts would recurse.
absl::StatusOr<Json> ParseText(absl::string_view text) {
  if (text.size() > kMostTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("its text in torchao's metadata has ",
                                                   text.size(), " bytes; at most ", kMostTextBytes,
                                                   " are read"));
  }
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kMostConfigDepth; };
  Json json = Json::parse(text.begin(), text.end(), keep, false);
  if (!json.is_object() || !json.value("_type", Json()).is_string()) {
    return absl::InvalidArgumentError(
        "its text in torchao's metadata is no JSON object with a _type");
  }
  return json;
}

// Its name; a type of torch is an object that has it.
std::string ElementsOf(const Json& elements) {
  const Json name = elements.is_object() ? elements.value("_data", Json()) : elements;
  return name.is_string() ? name.get<std::string>() : Shown(elements);
}

// The size of a block along K: a number, or an array whose last number is it and whose others
// are 1.
absl::StatusOr<Json> BlockOfK(const Json& block) {
  if (!block.is_array()) return block;
  for (std::size_t i = 0; i + 1 < block.size(); ++i) {
    if (block[i] != 1) return Wrong("block_size", block, "1 in each dimension but K");
  }
  return block.empty() ? Json() : block.back();
}

absl::Status ReadAttributes(const Json& json, Said& said) {
  const Json data = json.value("_data", Json());
  if (!data.is_object()) return Wrong("_data", data, "an object");
  const absl::StatusOr<Json> of_k = BlockOfK(data.value("block_size", Json()));
  if (!of_k.ok()) return of_k.status();
  const Json& block = *of_k;
  if (!block.is_number_unsigned() || block.get<std::uint64_t>() < 1 ||
      block.get<std::uint64_t>() > kMaxDimension) {
    return Wrong("block_size", block, absl::StrCat("a whole number from 1 to ", kMaxDimension));
  }
  said.block = block.get<std::uint64_t>();
  if (said.class_name == kInt4Class) return absl::OkStatus();
  const Json tiles = data.value("is_swizzled_scales", Json());
  if (!tiles.is_boolean()) return Wrong("is_swizzled_scales", tiles, "true or false");
  said.has_tiles = tiles.get<bool>();
  said.elements = ElementsOf(data.value("elem_dtype", Json()));
  return absl::OkStatus();
}

absl::StatusOr<const Kind*> FindKind(const Said& said) {
  if (said.class_name == kNvfp4Class) return &kNvfp4;
  if (said.class_name == kInt4Class) return &kInt4;
  for (const Kind& kind : kKindsOfMx) {
    if (said.elements == kind.elements) return &kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("its elements are ", Quoted(said.elements),
                   " in torchao's metadata, and float8_e4m3fn, float8_e5m2 and float4_e2m1fn_x2 "
                   "are read; mxfp6-e3m2 and mxfp6-e2m3 are closest: gemm quantize makes them of "
                   "the f16 or f32 file"));
}

// The planes of a matrix that lie as they are read.
class Builder {
 public:
  Builder(const Said& said, const Kind& kind, const WeightTensor& codes)
      : said_(said), kind_(kind), codes_(codes) {
    const bool is_stack = codes.shape.size() == 3;
    parts_ = is_stack ? codes.shape[0] : 0;
    shape_ = codes.shape;
    if (SizeBits(kind.element) == 4) shape_.back() *= 2;
    n_ = shape_[shape_.size() - 2];
    k_ = shape_.back();
  }

  const Shape& shape() const { return shape_; }
  std::uint64_t n() const { return n_; }
  std::uint64_t k() const { return k_; }

  // Planes that a class has not are null.
  absl::Status Build(const WeightTensor* scales, const WeightTensor* overall,
                     const WeightTensor* zeros, Layer& layer) const {
    if (codes_.type != kind_.codes) {
      return absl::InvalidArgumentError(WhyNotOf("qdata", codes_, kind_.codes, codes_.shape));
    }
    if (scales == nullptr) return absl::InvalidArgumentError("its scale is missing");
    layer.parts = parts_;
    layer.element = kind_.element;
    const int bits = SizeBits(kind_.element);
    layer.codes = PlaneOfLines(codes_.bytes, bits, k_);
    layer.codes.part_bytes = PartBytes(codes_);
    layer.block = {1, said_.block};
    if (&kind_ == &kInt4) return ReadCentred(*scales, zeros, layer);
    if (absl::Status s = ReadScales(*scales, layer); !s.ok()) return s;
    return overall == nullptr ? absl::OkStatus() : ReadOverallScale(*overall, layer);
  }

 private:
  std::uint64_t PartBytes(const WeightTensor& tensor) const {
    return parts_ == 0 ? 0 : tensor.bytes.view().size() / parts_;
  }

  // The shape of one matrix, as the file has it.
  Shape OfAll(std::uint64_t rows, std::uint64_t columns) const {
    return parts_ == 0 ? Shape{rows, columns} : Shape{parts_, rows, columns};
  }

  // Int4Tensor: a code from -8 to 7 times its scale, plus its zero point.
  absl::Status ReadCentred(const WeightTensor& scales, const WeightTensor* zeros,
                           Layer& layer) const {
    if (zeros == nullptr) return absl::InvalidArgumentError("its zero_point is missing");
    const bool is_f16 = scales.type == "F16";
    const Shape expected = OfAll(CeilOfRatio(k_, said_.block), n_);
    std::string why = WhyNotOf("scale", scales, is_f16 ? "F16" : "BF16", expected);
    if (why.empty()) why = WhyNotOf("zero_point", *zeros, scales.type, expected);
    if (!why.empty()) return absl::InvalidArgumentError(why);
    layer.flip = 8;
    layer.scale_type = is_f16 ? DataType::kF16 : DataType::kBf16;
    layer.scales = AcrossLines(scales);
    layer.offsets = Offsets{AcrossLines(*zeros), layer.scale_type, OffsetKind::kOfSigned};
    return absl::OkStatus();
  }

  // [blocks, N], of 16 bits.
  Plane AcrossLines(const WeightTensor& tensor) const {
    Plane plane = PlaneOfLines(tensor.bytes, 16, 1);
    plane.k.step = n_ * 16;
    plane.part_bytes = PartBytes(tensor);
    return plane;
  }

  absl::Status ReadScales(const WeightTensor& scales, Layer& layer) const {
    const bool is_nvfp4 = &kind_ == &kNvfp4;
    layer.scale_type = is_nvfp4 ? DataType::kFp8E4M3 : DataType::kE8M0;
    const std::uint64_t columns = CeilOfRatio(k_, said_.block);
    const std::uint64_t tiles = CeilOfRatio(columns, kTileColumns);
    const std::uint64_t tile_scales = kTileLines * kTileColumns;
    const Shape expected = said_.has_tiles ? OfAll(CeilOfRatio(n_, kTileLines) * kTileRows,
                                                   tiles * (tile_scales / kTileRows))
                                           : OfAll(n_, columns);
    const std::string why = WhyNotOf("scale", scales, is_nvfp4 ? "F8_E4M3" : "F8_E8M0", expected);
    if (!why.empty()) return absl::InvalidArgumentError(why);
    if (said_.has_tiles && parts_ > 1 && n_ % kTileLines != 0) {
      return absl::InvalidArgumentError(absl::StrCat("its scales are in tiles of ", kTileLines,
                                                     " rows, and its matrices have ", n_,
                                                     ", so that two share a tile"));
    }
    layer.scales = said_.has_tiles ? PlaneOfTiles(scales.bytes, columns)
                                   : PlaneOfLines(scales.bytes, 8, columns);
    layer.scales.part_bytes = PartBytes(scales);
    return absl::OkStatus();
  }

  // One of all, or one of each matrix of a stack.
  absl::Status ReadOverallScale(const WeightTensor& overall, Layer& layer) const {
    const bool is_of_each = !overall.shape.empty() && parts_ != 0;
    const Shape expected = is_of_each ? Shape{parts_, 1, 1} : Shape{};
    const std::string why = WhyNotOf("per_tensor_scale", overall, "F32", expected);
    if (!why.empty()) return absl::InvalidArgumentError(why);
    layer.overall_scale = PlaneOfLines(overall.bytes, 32, 1);
    layer.overall_scale->part_bytes = is_of_each ? 4 : 0;
    return absl::OkStatus();
  }

  const Said& said_;
  const Kind& kind_;
  const WeightTensor& codes_;
  std::uint64_t parts_ = 0;
  Shape shape_;
  std::uint64_t n_ = 0;
  std::uint64_t k_ = 0;
};

bool HasSize(const Shape& shape) {
  if (shape.size() != 2 && shape.size() != 3) return false;
  return std::all_of(shape.begin(), shape.end(),
                     [](std::uint64_t each) { return each >= 1 && each <= kMaxDimension; });
}

bool IsRead(absl::string_view class_name) {
  return class_name == kNvfp4Class || class_name == kMxClass || class_name == kInt4Class;
}

absl::StatusOr<Said> ReadSaid(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseText(text);
  if (!json.ok()) return json.status();
  Said said;
  said.class_name = json->at("_type").get<std::string>();
  if (!IsRead(said.class_name)) return said;
  if (absl::Status s = ReadAttributes(*json, said); !s.ok()) return s;
  return said;
}

absl::Status MakeLayer(const absl::StatusOr<Said>& said, const WeightTensor& codes,
                       const TensorsByName& tensors, const std::string& base, Shape& shape,
                       Layer& layer) {
  if (!said.ok()) return said.status();
  if (!IsRead(said->class_name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its class in torchao's metadata, ", Quoted(said->class_name),
        ", has an order of a kernel, which is not read; int4-g128-bf16-zp is closest: gemm "
        "quantize makes it of the f16 or f32 file"));
  }
  const absl::StatusOr<const Kind*> kind = FindKind(*said);
  if (!kind.ok()) return kind.status();
  layer.type = std::string((*kind)->name);
  if (!HasSize(codes.shape)) {
    return absl::InvalidArgumentError(absl::StrCat("its qdata has shape ", ShapeText(codes.shape),
                                                   "; a matrix has 2 dimensions, a stack 3, each "
                                                   "of 1 to ",
                                                   kMaxDimension));
  }
  const Builder builder(*said, **kind, codes);
  shape = builder.shape();
  const bool is_nvfp4 = *kind == &kNvfp4;
  absl::Status built =
      builder.Build(FindTensor(tensors, base + "scale"),
                    is_nvfp4 ? FindTensor(tensors, base + "per_tensor_scale") : nullptr,
                    FindTensor(tensors, base + "zero_point"), layer);
  if (!built.ok()) return built;
  FindForm(builder.n(), builder.k(), layer);
  return absl::OkStatus();
}

// Returns whether scaled_layers.h reads them.
bool HasRows(absl::string_view class_name) {
  return class_name == "Float8Tensor" || class_name == "Int8Tensor" ||
         class_name == "IntxUnpackedToInt8Tensor";
}

// `name` is MODULE.PARAM.
void Combine(const std::string& name, absl::string_view text, TensorsByName& tensors) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return;
  const std::string base = absl::StrCat(name.substr(0, dot), "._", name.substr(dot + 1), "_");
  const WeightTensor* const codes = FindTensor(tensors, base + "qdata");
  if (codes == nullptr || codes->layer != nullptr || FindTensor(tensors, name)) return;
  const absl::StatusOr<Said> said = ReadSaid(text);
  if (said.ok() && HasRows(said->class_name)) return;
  Layer layer;
  layer.type = absl::StrCat("torchao ", codes->type);
  Shape shape = codes->shape;
  if (absl::Status s = MakeLayer(said, *codes, tensors, base, shape, layer); !s.ok()) {
    layer.why = std::string(s.message());
  }
  std::vector<std::string> planes;
  for (const char* plane : {"qdata", "scale", "per_tensor_scale", "act_per_tensor_scale",
                            "zero_point", "scale_and_zero", "act_pre_scale"}) {
    planes.push_back(base + plane);
  }
  Replace(planes, name, std::move(shape), std::move(layer), tensors);
}

}  // namespace

bool IsNameOfTorchao(absl::string_view name) { return absl::EndsWith(name, "_qdata"); }

void CombineTorchaoLayers(const FileMetadata& metadata, TensorsByName& tensors) {
  for (const auto& [name, text] : metadata) Combine(name, text, tensors);
}

}  // namespace gemmd::client
