#include "client/weights/layers/mlx_layers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr absl::string_view kScales = ".scales";
constexpr std::uint64_t kWordBits = 32;

// A mode without biases, by the words of a group.
struct Mode {
  std::uint64_t words;
  absl::string_view name;
  DataType element;
  DataType scale;
  std::uint64_t group;
};
constexpr Mode kModes[] = {
    {2, "MLX nvfp4", DataType::kFp4E2M1, DataType::kFp8E4M3, 16},
    {4, "MLX mxfp4", DataType::kFp4E2M1, DataType::kE8M0, 32},
    {8, "MLX mxfp8", DataType::kFp8E4M3, DataType::kE8M0, 32},
};

// The sizes of a matrix: all but a stack's own.
struct Sizes {
  std::uint64_t parts = 0;  // 0: it is no stack
  std::uint64_t n = 0;
  std::uint64_t words = 0;   // of a line
  std::uint64_t groups = 0;  // of a line
};

std::optional<Sizes> SizesOf(const Shape& codes, const Shape& scales) {
  if (codes.size() != scales.size() || (codes.size() != 2 && codes.size() != 3)) {
    return std::nullopt;
  }
  const auto is_size = [](std::uint64_t each) { return each >= 1 && each <= kMaxDimension; };
  if (!std::all_of(codes.begin(), codes.end(), is_size)) return std::nullopt;
  if (!std::all_of(scales.begin(), scales.end(), is_size)) return std::nullopt;
  const std::size_t last = codes.size() - 1;
  if (!std::equal(codes.begin(), codes.end() - 1, scales.begin())) return std::nullopt;
  if (codes[last] % scales[last] != 0) return std::nullopt;
  return Sizes{last == 2 ? codes[0] : 0, codes[last - 1], codes[last], scales[last]};
}

bool IsWidth(std::uint64_t bits) { return bits >= 2 && bits <= 8 && bits != 7; }

// The group of so many words that the config says, and whether it says only one.
std::optional<std::uint64_t> GroupOf(const LayerConfig& config, std::uint64_t words) {
  std::optional<std::uint64_t> found;
  for (const BlockShape& block : config.blocks) {
    const std::uint64_t bits = words * kWordBits;
    if (block.lines != 1 || bits % block.k != 0 || !IsWidth(bits / block.k)) continue;
    if (found && *found != block.k) return std::nullopt;
    found = block.k;
  }
  return found;
}

Plane PlaneOf(const WeightTensor& tensor, int bits, std::uint64_t columns, const Sizes& sizes) {
  Plane plane = PlaneOfLines(tensor.bytes, bits, columns);
  if (sizes.parts != 0) plane.part_bytes = tensor.bytes.view().size() / sizes.parts;
  return plane;
}

std::string ReadAffine(const LayerConfig& config, const WeightTensor& scales,
                       const WeightTensor& biases, const Sizes& sizes, std::uint64_t& k, int& bits,
                       Layer& layer) {
  if (scales.type != "F32" && scales.type != "F16" && scales.type != "BF16") {
    return absl::StrCat("its scales are ", scales.type, "; they must be F32, F16 or BF16");
  }
  std::string why = WhyNotOf("biases", biases, scales.type, scales.shape);
  if (!why.empty()) return why;
  const std::uint64_t words = sizes.words / sizes.groups;
  const std::optional<std::uint64_t> group = GroupOf(config, words);
  if (!group) {
    return absl::StrCat("its groups have ", words,
                        " words, and the quantization of config.json beside it does not say one "
                        "group_size that has so many, of 2, 3, 4, 5, 6 or 8 bits");
  }
  k = *group * sizes.groups;
  bits = static_cast<int>(words * kWordBits / *group);
  layer.element = bits > 4 ? DataType::kUint8 : DataType::kUint4;
  layer.block = {1, *group};
  layer.scale_type = scales.type == "F32"   ? DataType::kF32
                     : scales.type == "F16" ? DataType::kF16
                                            : DataType::kBf16;
  const int width = SizeBits(layer.scale_type);
  layer.scales = PlaneOf(scales, width, sizes.groups, sizes);
  layer.offsets =
      Offsets{PlaneOf(biases, width, sizes.groups, sizes), layer.scale_type, OffsetKind::kAdded};
  return "";
}

std::string ReadMode(const WeightTensor& scales, const Sizes& sizes, std::uint64_t& k, int& bits,
                     Layer& layer) {
  const std::uint64_t words = sizes.words / sizes.groups;
  for (const Mode& mode : kModes) {
    if (mode.words != words || scales.type != "U8") continue;
    layer.type = std::string(mode.name);
    k = mode.group * sizes.groups;
    bits = SizeBits(mode.element);
    layer.element = mode.element;
    layer.block = {1, mode.group};
    layer.scale_type = mode.scale;
    layer.scales = PlaneOf(scales, 8, sizes.groups, sizes);
    return "";
  }
  return absl::StrCat("it has no biases, its scales are ", scales.type, ", and its groups have ",
                      words,
                      " words; nvfp4, mxfp4 and mxfp8 of U8 scales and 2, 4 and 8 words are "
                      "read so");
}

void Combine(const LayerConfig& config, const std::string& prefix, TensorsByName& tensors) {
  const std::string name = prefix + ".weight";
  const std::string scales_name = absl::StrCat(prefix, kScales);
  const WeightTensor* const codes = FindTensor(tensors, name);
  const WeightTensor& scales = *FindTensor(tensors, scales_name);
  const WeightTensor* const biases = FindTensor(tensors, prefix + ".biases");
  if (codes == nullptr || codes->layer != nullptr || codes->type != "U32") return;
  Layer layer;
  layer.type = "MLX affine";
  Shape shape = codes->shape;
  const std::optional<Sizes> sizes = SizesOf(codes->shape, scales.shape);
  if (!sizes) {
    layer.why = absl::StrCat("its scales are ", scales.type, " of ", ShapeText(scales.shape),
                             ", which is not the shape of groups of U32 of ", ShapeText(shape));
  } else {
    std::uint64_t k = 0;
    int bits = 0;
    layer.parts = sizes->parts;
    layer.why = biases != nullptr ? ReadAffine(config, scales, *biases, *sizes, k, bits, layer)
                                  : ReadMode(scales, *sizes, k, bits, layer);
    if (layer.why.empty()) {
      layer.codes = PlaneOf(*codes, bits, k, *sizes);
      shape.back() = k;
      FindForm(sizes->n, k, layer);
    }
  }
  Replace({name, scales_name, prefix + ".biases"}, name, std::move(shape), std::move(layer),
          tensors);
}

}  // namespace

bool IsNameOfMlx(absl::string_view name) { return absl::EndsWith(name, kScales); }

void CombineMlxLayers(const LayerConfig& config, TensorsByName& tensors) {
  for (const std::string& prefix : NamesBefore(tensors, kScales)) Combine(config, prefix, tensors);
}

}  // namespace gemmd::client
