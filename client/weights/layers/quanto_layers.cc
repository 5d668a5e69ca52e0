#include "client/weights/layers/quanto_layers.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr absl::string_view kCodes = "._data._data";
constexpr absl::string_view kShift = "._shift";
constexpr absl::string_view kClosest =
    "; int4-g128-f16-offset is closest: gemm quantize makes it of the f16 or f32 file";

bool HasSize(const Shape& shape) {
  return shape.size() == 2 && shape[0] >= 1 && shape[1] >= 1 && shape[0] <= kMaxDimension &&
         shape[1] <= kMaxDimension;
}

DataType FloatOf(absl::string_view type) {
  return type == "F32" ? DataType::kF32 : type == "F16" ? DataType::kF16 : DataType::kBf16;
}

// Empty: `layer` and `shape` have been set. REQUIRES: the codes have a size.
std::string ReadLayer(const WeightTensor& codes, const WeightTensor& scales,
                      const WeightTensor& shifts, const WeightTensor* bias, Shape& shape,
                      Layer& layer) {
  const std::string type =
      scales.type == "F32" || scales.type == "F16" ? scales.type : std::string("BF16");
  const std::uint64_t packed = codes.shape[0];
  const std::uint64_t group = codes.shape[1];
  const std::uint64_t rows = scales.shape.empty() ? 0 : scales.shape[0];
  const std::uint64_t in_byte = rows / packed;
  std::string why = WhyNotOf("_data", codes, "U8", codes.shape);
  if (why.empty()) why = WhyNotOf("_scale", scales, type, {rows, 1});
  if (why.empty()) why = WhyNotOf("_shift", shifts, type, {rows, 1});
  if (!why.empty()) return why;
  if (rows % packed != 0 || (in_byte != 2 && in_byte != 4)) {
    return absl::StrCat("its _data has ", packed, " rows, and its _scale ", rows,
                        "; codes of 4 bits have 2 in a byte, those of 2 bits 4", kClosest);
  }
  if (bias == nullptr || bias->shape.size() != 1) {
    return absl::StrCat(
        "its groups are in order, but the file does not say its N and K, and there is no bias "
        "beside it that would say N",
        kClosest);
  }
  const std::uint64_t n = bias->shape[0];
  if (n == 0 || rows % n != 0 || n % in_byte != 0) {
    return absl::StrCat("its bias says that N is ", n, ", and it has ", rows,
                        " groups: N must divide them, and ", in_byte, " divide N", kClosest);
  }
  const std::uint64_t groups = rows / n;
  if (groups > kMaxDimension / group) {
    return absl::StrCat("its K is more than ", kMaxDimension, ", which is the most");
  }
  const std::uint64_t k = groups * group;
  shape = {n, k};
  const int bits = 8 / static_cast<int>(in_byte);
  layer.element = DataType::kUint4;
  layer.codes = PlaneOfLines(codes.bytes, bits, k);
  layer.codes.line.step = k * 8;
  layer.codes.line.per_word = in_byte;
  layer.codes.line.words = n / in_byte;
  layer.codes.k.step = 8;
  layer.block = {1, group};
  layer.scale_type = FloatOf(type);
  const int width = SizeBits(layer.scale_type);
  layer.scales = PlaneOfLines(scales.bytes, width, groups);
  layer.offsets =
      Offsets{PlaneOfLines(shifts.bytes, width, groups), layer.scale_type, OffsetKind::kSubtracted};
  FindForm(n, k, layer);
  return "";
}

void Combine(const std::string& name, TensorsByName& tensors) {
  const std::string codes_name = absl::StrCat(name, kCodes);
  const std::string scales_name = absl::StrCat(name, "._scale");
  const std::string shifts_name = absl::StrCat(name, kShift);
  const WeightTensor* const codes = FindTensor(tensors, codes_name);
  const WeightTensor* const scales = FindTensor(tensors, scales_name);
  if (codes == nullptr || scales == nullptr || codes->layer != nullptr) return;
  if (FindTensor(tensors, name) != nullptr || !HasSize(codes->shape)) return;
  const std::string bias = absl::StrCat(absl::StripSuffix(name, "weight"), "bias");
  Shape shape = codes->shape;
  Layer layer;
  layer.type = "quanto";
  std::string why = ReadLayer(*codes, *scales, *FindTensor(tensors, shifts_name),
                              FindTensor(tensors, bias), shape, layer);
  if (!why.empty()) layer.why = std::move(why);
  Replace({codes_name, scales_name, shifts_name}, name, std::move(shape), std::move(layer),
          tensors);
}

}  // namespace

bool IsNameOfQuanto(absl::string_view name) { return absl::EndsWith(name, kShift); }

void CombineQuantoLayers(TensorsByName& tensors) {
  for (const std::string& name : NamesBefore(tensors, kShift)) Combine(name, tensors);
}

}  // namespace gemmd::client
