#include "client/weights/layers/comfy_layers.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<std::uint64_t>;

constexpr absl::string_view kText = ".comfy_quant";
constexpr std::size_t kMostTextBytes = 4096;
constexpr int kMostDepth = 2;

// The formats of which scaled_layers.h reads what they say.
constexpr absl::string_view kOfLines[] = {"float8_e4m3fn", "float8_e5m2", "int8_tensorwise"};

// A format whose scales are in tiles.
struct Kind {
  absl::string_view format;
  absl::string_view name;
  absl::string_view codes;  // their type in the file
  DataType element;
  DataType scale;
  std::uint64_t block;
};
constexpr Kind kOfTiles[] = {
    {"nvfp4", "ComfyUI NVFP4", "U8", DataType::kFp4E2M1, DataType::kFp8E4M3, 16},
    {"mxfp8", "ComfyUI MXFP8", "F8_E4M3", DataType::kFp8E4M3, DataType::kE8M0, 32},
};

bool IsOfLines(absl::string_view format) {
  return std::find(std::begin(kOfLines), std::end(kOfLines), format) != std::end(kOfLines);
}

// Null: it is none of these.
const Kind* FindKind(absl::string_view format) {
  for (const Kind& kind : kOfTiles) {
    if (kind.format == format) return &kind;
  }
  return nullptr;
}

absl::Status Wrong(const std::string& why) { return absl::InvalidArgumentError(why); }

// Its format; an error where K is rotated too.
absl::StatusOr<std::string> FormatOf(const WeightTensor& text) {
  const absl::string_view bytes = text.bytes.view();
  if (text.type != "U8" || bytes.size() > kMostTextBytes) {
    return Wrong(absl::StrCat("its comfy_quant is ", text.type, " of ", ShapeText(text.shape),
                              "; it must be U8 of at most ", kMostTextBytes));
  }
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kMostDepth; };
  const Json json = Json::parse(bytes.begin(), bytes.end(), keep, false);
  const Json format = json.is_object() ? json.value("format", Json()) : Json();
  if (!format.is_string()) return Wrong("its comfy_quant is no JSON object with a format");
  for (const char* key : {"convrot", "params"}) {
    Json said = json.value(key, Json());
    if (said.is_object()) said = said.value("convrot", Json());
    if (said.is_null() || said == false) continue;
    return Wrong(
        "its comfy_quant has convrot, which rotates K before it multiplies, and such weights are "
        "not read; int8-row is closest: gemm quantize makes it of the f16 or f32 file");
  }
  return format.get<std::string>();
}

// `shape` is that of the codes, and becomes the matrix's.
std::string ReadTiles(const Kind& kind, const WeightTensor& codes, const WeightTensor* scales,
                      const WeightTensor* overall, Shape& shape, Layer& layer) {
  if (codes.type != kind.codes || shape.size() != 2) {
    return absl::StrCat("its weight is ", codes.type, " of ", ShapeText(shape), "; it must be ",
                        kind.codes, " of two dimensions");
  }
  const bool is_nvfp4 = kind.element == DataType::kFp4E2M1;
  for (const std::uint64_t each : shape) {
    if (each >= 1 && each <= kMaxDimension) continue;
    return absl::StrCat("its weight has ", each, "; a dimension is 1 to ", kMaxDimension);
  }
  if (is_nvfp4) shape[1] *= 2;
  const auto [n, k] = std::pair(shape[0], shape[1]);
  if (k > kMaxDimension || k % kind.block != 0) {
    return absl::StrCat("its K is ", k, "; it must be a multiple of ", kind.block, ", at most ",
                        kMaxDimension);
  }
  if (scales == nullptr) return "its weight_scale is missing";
  const bool is_e8m0 = !is_nvfp4 && scales->type == "F8_E8M0";
  std::string why = WhyNotOf("weight_scale", *scales,
                             is_nvfp4  ? "F8_E4M3"
                             : is_e8m0 ? "F8_E8M0"
                                       : "U8",
                             ShapeOfTiles(n, k / kind.block));
  if (why.empty() && is_nvfp4) {
    if (overall == nullptr) return "its weight_scale_2 is missing";
    const Shape one = overall->shape == Shape{1} ? Shape{1} : Shape();
    why = WhyNotOf("weight_scale_2", *overall, "F32", one);
  }
  if (!why.empty()) return why;
  layer.element = kind.element;
  layer.codes = PlaneOfLines(codes.bytes, SizeBits(kind.element), k);
  if (is_nvfp4) {
    layer.codes.k.step = 8;
    layer.codes.k.per_word = 2;
    layer.codes.k.places = {1, 0};
    layer.overall_scale = PlaneOfLines(overall->bytes, 32, 1);
  }
  layer.block = {1, kind.block};
  layer.scale_type = kind.scale;
  layer.scales = PlaneOfTiles(scales->bytes, k / kind.block);
  return "";
}

void Combine(const std::string& base, TensorsByName& tensors) {
  const std::string name = base + ".weight";
  const WeightTensor* const codes = FindTensor(tensors, name);
  if (codes == nullptr || codes->layer != nullptr) return;
  const absl::StatusOr<std::string> format =
      FormatOf(*FindTensor(tensors, absl::StrCat(base, kText)));
  Layer layer;
  layer.type = absl::StrCat("ComfyUI ", codes->type);
  Shape shape = codes->shape;
  if (!format.ok()) {
    layer.why = std::string(format.status().message());
  } else if (IsOfLines(*format)) {
    return;
  } else if (const Kind* const kind = FindKind(*format)) {
    layer.type = std::string(kind->name);
    layer.why = ReadTiles(*kind, *codes, FindTensor(tensors, name + "_scale"),
                          FindTensor(tensors, name + "_scale_2"), shape, layer);
  } else {
    layer.why = absl::StrCat("its format in comfy_quant is ", Quoted(*format),
                             ", and float8_e4m3fn, float8_e5m2, int8_tensorwise, nvfp4 and mxfp8 "
                             "are read");
  }
  if (layer.why.empty()) FindForm(shape[0], shape[1], layer);
  std::vector<std::string> planes = {name, absl::StrCat(base, kText), name + "_scale",
                                     name + "_scale_2"};
  Replace(planes, name, std::move(shape), std::move(layer), tensors);
}

}  // namespace

bool IsNameOfComfy(absl::string_view name) { return absl::EndsWith(name, kText); }

void CombineComfyLayers(TensorsByName& tensors) {
  for (const std::string& base : NamesBefore(tensors, kText)) Combine(base, tensors);
}

}  // namespace gemmd::client
