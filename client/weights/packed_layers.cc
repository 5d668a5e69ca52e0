#include "client/weights/packed_layers.h"

#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "client/matrix.h"
#include "client/weights/layer_form.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kWordBits = 32;
constexpr std::uint16_t kPlacesOfAwq[] = {0, 4, 1, 5, 2, 6, 3, 7};

absl::string_view Name(Packing packing) {
  switch (packing) {
    case Packing::kGptq:
      return "GPTQ";
    case Packing::kGptqV2:
      return "GPTQ v2";
    case Packing::kAwq:
      return "AWQ";
    case Packing::kAwqGemv:
      return "AWQ gemv";
  }
  return "";
}

// The tensors of one layer.
struct Planes {
  const WeightTensor& qweight;
  const WeightTensor& qzeros;
  const WeightTensor& scales;
  const WeightTensor* g_idx;
};

// Returns the fewest codes that end where a word does: those of one word, of 3 bits of three.
std::uint64_t CodesOf(std::uint64_t bits) { return kWordBits / std::gcd(kWordBits, bits); }

std::uint64_t WordsOf(std::uint64_t codes, std::uint64_t bits) { return codes * bits / kWordBits; }

std::uint64_t GroupsOf(const PackingConfig& config, std::uint64_t k) {
  return config.group_size == 0 ? 1 : CeilOfRatio(k, config.group_size);
}

// Words of zero points in a line of AWQ "gemv": whole ones, for as many groups of 128 as a kernel
// reads at once.
std::uint64_t ZeroWordsOfGemv(const PackingConfig& config, std::uint64_t k) {
  const std::uint64_t words = CeilOfRatio(GroupsOf(config, k), kWordBits / config.bits);
  const std::uint64_t size = config.group_size == 0 ? k : config.group_size;
  return RoundUp(words, size >= 128 ? 1 : size == 64 ? 2 : 4);
}

// The shapes that planes must have.
struct Shapes {
  Shape qweight;
  Shape qzeros;
  Shape scales;
};

Shapes ShapesOf(const PackingConfig& config, std::uint64_t n, std::uint64_t k) {
  const std::uint64_t bits = config.bits;
  const std::uint64_t groups = GroupsOf(config, k);
  switch (config.packing) {
    case Packing::kGptq:
    case Packing::kGptqV2:
      return {{WordsOf(k, bits), n}, {groups, WordsOf(n, bits)}, {groups, n}};
    case Packing::kAwq:
      return {{k, WordsOf(n, bits)}, {groups, WordsOf(n, bits)}, {groups, n}};
    case Packing::kAwqGemv:
      break;
  }
  const std::uint64_t words = ZeroWordsOfGemv(config, k);
  return {{n, WordsOf(k, bits)}, {n, words}, {n, words * (kWordBits / bits)}};
}

std::string WhyNoLayer(const PackingConfig& config, const Planes& planes, std::uint64_t n,
                       std::uint64_t k) {
  if (!config.why.empty()) return config.why;
  const bool is_gptq = config.packing == Packing::kGptq || config.packing == Packing::kGptqV2;
  const bool is_read = config.bits == 4 || (is_gptq && (config.bits < 4 || config.bits == 8));
  if (!is_read) {
    return absl::StrCat("its codes have ", config.bits, " bits, and ",
                        is_gptq ? "2, 3, 4 and 8" : "4", " are read; ",
                        config.bits < 4 ? "int4-g128-f16-zp" : "uint8-g128-zp",
                        " is closest: gemm quantize makes it of the f16 or f32 file");
  }
  const std::uint64_t words = WordsOf(CodesOf(config.bits), config.bits);
  if (is_gptq && planes.qweight.shape[0] % words != 0) {
    return absl::StrCat("its qweight has ", planes.qweight.shape[0], " rows, no multiple of ",
                        words);
  }
  const Shapes shapes = ShapesOf(config, n, k);
  const char* scale_type = planes.scales.type == "BF16" ? "BF16" : "F16";
  std::string why = WhyNotOf("qweight", planes.qweight, "I32", shapes.qweight);
  if (why.empty()) why = WhyNotOf("qzeros", planes.qzeros, "I32", shapes.qzeros);
  if (why.empty()) why = WhyNotOf("scales", planes.scales, scale_type, shapes.scales);
  if (why.empty() && n % CodesOf(config.bits) != 0) {
    why = absl::StrCat("it has ", n, " columns, no multiple of ", CodesOf(config.bits));
  }
  return why;
}

Axis OneByOne(std::uint64_t step) {
  Axis axis;
  axis.step = step;
  return axis;
}

// A dimension whose codes are packed in words that are `step` bits apart.
Axis Packed(std::uint64_t step, std::uint64_t bits) {
  Axis axis;
  axis.per_word = CodesOf(bits);
  const std::uint64_t words = WordsOf(axis.per_word, bits);
  axis.step = words * step;
  if (words == 1) return axis;
  if (step == kWordBits) return OneByOne(bits);
  axis.part_step = step;
  return axis;
}

void FindPlanes(const PackingConfig& config, const Planes& from, std::uint64_t n, Layer& layer) {
  const int bits = static_cast<int>(config.bits);
  const std::uint64_t row_of_words = WordsOf(n, config.bits) * kWordBits;
  Plane codes;
  codes.bytes = from.qweight.bytes;
  codes.bits = bits;
  Plane zeros;
  zeros.bytes = from.qzeros.bytes;
  zeros.bits = bits;
  zeros.line = Packed(kWordBits, config.bits);
  zeros.k = OneByOne(row_of_words);
  Plane scales;
  scales.bytes = from.scales.bytes;
  scales.bits = 16;
  scales.line = OneByOne(16);
  scales.k = OneByOne(n * 16);
  switch (config.packing) {
    case Packing::kGptq:
    case Packing::kGptqV2:
      codes.line = OneByOne(kWordBits);
      codes.k = Packed(n * kWordBits, config.bits);
      break;
    case Packing::kAwq:
      codes.line = zeros.line = Packed(kWordBits, config.bits);
      codes.line.places.assign(std::begin(kPlacesOfAwq), std::end(kPlacesOfAwq));
      zeros.line.places = codes.line.places;
      codes.k = OneByOne(row_of_words);
      break;
    case Packing::kAwqGemv:
      codes = PlaneOfLines(codes.bytes, bits, from.qweight.shape[1] * kWordBits / config.bits);
      zeros = PlaneOfLines(zeros.bytes, bits, from.qzeros.shape[1] * kWordBits / config.bits);
      scales = PlaneOfLines(scales.bytes, 16, from.scales.shape[1]);
      break;
  }
  layer.codes = std::move(codes);
  layer.zero_points = std::move(zeros);
  layer.scales = std::move(scales);
}

Layer LayerOf(const PackingConfig& config, const Planes& planes, std::uint64_t n, std::uint64_t k) {
  Layer layer;
  layer.type = std::string(Name(config.packing));
  layer.why = WhyNoLayer(config, planes, n, k);
  if (!layer.why.empty()) return layer;
  layer.element = config.bits == 8 ? DataType::kUint8 : DataType::kUint4;
  layer.scale_type = planes.scales.type == "BF16" ? DataType::kBf16 : DataType::kF16;
  layer.block = {1, config.group_size};
  layer.zero_points_are_less = config.packing == Packing::kGptq;
  if (planes.g_idx != nullptr) {
    absl::StatusOr<KOrder> order = OrderOfGroups(*planes.g_idx, k, config.group_size);
    layer.why = std::string(order.status().message());
    if (!order.ok()) return layer;
    layer.k_order = *std::move(order);
  }
  FindPlanes(config, planes, n, layer);
  FindForm(n, k, layer);
  return layer;
}

}  // namespace

void CombinePackedLayers(const PackingConfig& config, TensorsByName& tensors) {
  for (const std::string& prefix : NamesBefore(tensors, ".qweight")) {
    const WeightTensor& qweight = *FindTensor(tensors, prefix + ".qweight");
    const WeightTensor* const qzeros = FindTensor(tensors, prefix + ".qzeros");
    const WeightTensor* const scales = FindTensor(tensors, prefix + ".scales");
    const bool has_size = qweight.shape.size() == 2 && qweight.shape[0] >= 1 &&
                          qweight.shape[1] >= 1 && qweight.shape[0] <= kMaxDimension &&
                          qweight.shape[1] <= kMaxDimension;
    const std::string name = prefix + ".weight";
    if (qzeros == nullptr || scales == nullptr || !has_size || FindTensor(tensors, name)) continue;
    // Words become codes along the dimension that is packed.
    const bool packs_second =
        config.packing == Packing::kAwq || config.packing == Packing::kAwqGemv;
    Shape codes = qweight.shape;
    std::uint64_t& packed = codes[packs_second ? 1 : 0];
    packed = packed * kWordBits / config.bits;
    if (config.packing != Packing::kAwqGemv) std::swap(codes[0], codes[1]);
    Layer layer =
        LayerOf(config, {qweight, *qzeros, *scales, FindTensor(tensors, prefix + ".g_idx")},
                codes[0], codes[1]);
    Replace({prefix + ".qweight", prefix + ".qzeros", prefix + ".scales", prefix + ".g_idx"}, name,
            std::move(codes), std::move(layer), tensors);
  }
}

}  // namespace gemmd::client
