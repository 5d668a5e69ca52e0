#include "client/weights/layers/packed_layers.h"

#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kWordBits = 32;
// AWQ "gemv_fast" has four lines in one of its own, 64 of K of each after 64 of the one before.
constexpr std::uint64_t kFastLines = 4;
constexpr std::uint64_t kFastRun = 64;
constexpr std::uint16_t kPlacesOfAwq[] = {0, 4, 1, 5, 2, 6, 3, 7};

absl::string_view Name(Packing packing) {
  switch (packing) {
    case Packing::kGptq:
      return "GPTQ";
    case Packing::kGptqV2:
      return "GPTQ v2";
    case Packing::kGptqPlanar:
      return "GPTQ planar";
    case Packing::kAwq:
      return "AWQ";
    case Packing::kAwqGemv:
      return "AWQ gemv";
    case Packing::kAwqGemvFast:
      return "AWQ gemv_fast";
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

// Returns the fewest codes that end where a word does: those of one word, of 3 bits of three, and
// where they are in pieces, of a word for each bit.
std::uint64_t CodesOf(const PackingConfig& config) {
  const bool has_pieces = config.packing == Packing::kGptqPlanar;
  return has_pieces ? kWordBits : kWordBits / std::gcd(kWordBits, config.bits);
}

bool IsGptq(Packing packing) {
  return packing == Packing::kGptq || packing == Packing::kGptqV2 ||
         packing == Packing::kGptqPlanar;
}

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
    case Packing::kGptqPlanar:
      return {{WordsOf(k, bits), n}, {groups, WordsOf(n, bits)}, {groups, n}};
    case Packing::kAwq:
      return {{k, WordsOf(n, bits)}, {groups, WordsOf(n, bits)}, {groups, n}};
    case Packing::kAwqGemv:
    case Packing::kAwqGemvFast:
      break;
  }
  const std::uint64_t words = ZeroWordsOfGemv(config, k);
  const std::uint64_t padded = words * (kWordBits / bits);
  if (config.packing == Packing::kAwqGemv) return {{n, WordsOf(k, bits)}, {n, words}, {n, padded}};
  return {{n / kFastLines, k}, {padded, n}, {padded, n}};
}

std::string WhyNoLayer(const PackingConfig& config, const Planes& planes, std::uint64_t n,
                       std::uint64_t k) {
  if (!config.why.empty()) return config.why;
  const bool is_gptq = IsGptq(config.packing);
  const bool is_read = config.bits == 4 || config.packing == Packing::kGptqPlanar ||
                       (is_gptq && (config.bits < 4 || config.bits == 8));
  if (!is_read) {
    return absl::StrCat("its codes have ", config.bits, " bits, and ",
                        is_gptq ? "2, 3, 4 and 8" : "4", " are read; ",
                        config.bits < 4 ? "int4-g128-f16-zp" : "uint8-g128-zp",
                        " is closest: gemm quantize makes it of the f16 or f32 file");
  }
  const std::uint64_t words = WordsOf(CodesOf(config), config.bits);
  if (is_gptq && planes.qweight.shape[0] % words != 0) {
    return absl::StrCat("its qweight has ", planes.qweight.shape[0], " rows, no multiple of ",
                        words);
  }
  const Shapes shapes = ShapesOf(config, n, k);
  const char* scale_type = planes.scales.type == "BF16" ? "BF16" : "F16";
  const bool is_fast = config.packing == Packing::kAwqGemvFast;
  std::string why = WhyNotOf("qweight", planes.qweight, is_fast ? "I16" : "I32", shapes.qweight);
  if (why.empty()) {
    why = WhyNotOf("qzeros", planes.qzeros, is_fast ? scale_type : "I32", shapes.qzeros);
  }
  if (why.empty()) why = WhyNotOf("scales", planes.scales, scale_type, shapes.scales);
  if (why.empty() && n % CodesOf(config) != 0) {
    why = absl::StrCat("it has ", n, " columns, no multiple of ", CodesOf(config));
  }
  if (why.empty() && is_fast && k % kFastRun != 0) {
    why = absl::StrCat("its K is ", k, ", no multiple of ", kFastRun);
  }
  return why;
}

Axis OneByOne(std::uint64_t step) {
  Axis axis;
  axis.step = step;
  return axis;
}

// The widths of a code's pieces, lowest first: powers of two.
std::vector<std::uint8_t> PiecesOf(std::uint64_t bits) {
  std::vector<std::uint8_t> pieces;
  for (const std::uint8_t width : {std::uint8_t{4}, std::uint8_t{2}, std::uint8_t{1}}) {
    if ((bits & width) != 0) pieces.push_back(width);
  }
  return pieces;
}

// A dimension whose codes are packed in words that are `step` bits apart.
Axis Packed(const PackingConfig& config, std::uint64_t step) {
  const std::uint64_t bits = config.bits;
  Axis axis;
  axis.per_word = CodesOf(config);
  const std::uint64_t words = WordsOf(axis.per_word, bits);
  axis.step = words * step;
  if (config.packing == Packing::kGptqPlanar) {
    axis.part_step = step;
    axis.pieces = PiecesOf(bits);
    return axis;
  }
  if (words == 1) return axis;
  if (step == kWordBits) return OneByOne(bits);
  axis.part_step = step;
  return axis;
}

// A k of 32, 8a + 2b + c, has the place 8b + 4c + a.
Plane FastCodes(const Bytes& bytes, std::uint64_t k) {
  Plane codes;
  codes.bytes = bytes;
  codes.bits = 4;
  codes.line.step = kFastLines * k * 4;
  codes.line.per_word = kFastLines;
  for (std::uint64_t i = 0; i < kFastLines; ++i) {
    codes.line.places.push_back(static_cast<std::uint16_t>(i * kFastRun));
  }
  codes.k.step = kFastLines * kFastRun * 4;
  codes.k.per_word = kFastRun;
  for (std::uint64_t i = 0; i < kFastRun; ++i) {
    const std::uint64_t place = i / 32 * 32 + i / 2 % 4 * 8 + i % 2 * 4 + i % 32 / 8;
    codes.k.places.push_back(static_cast<std::uint16_t>(place));
  }
  return codes;
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
  zeros.line = Packed(config, kWordBits);
  zeros.k = OneByOne(row_of_words);
  Plane scales;
  scales.bytes = from.scales.bytes;
  scales.bits = 16;
  scales.line = OneByOne(16);
  scales.k = OneByOne(n * 16);
  switch (config.packing) {
    case Packing::kGptq:
    case Packing::kGptqV2:
    case Packing::kGptqPlanar:
      codes.line = OneByOne(kWordBits);
      codes.k = Packed(config, n * kWordBits);
      break;
    case Packing::kAwq:
      codes.line = zeros.line = Packed(config, kWordBits);
      codes.line.places.assign(std::begin(kPlacesOfAwq), std::end(kPlacesOfAwq));
      zeros.line.places = codes.line.places;
      codes.k = OneByOne(row_of_words);
      break;
    case Packing::kAwqGemv:
      codes = PlaneOfLines(codes.bytes, bits, from.qweight.shape[1] * kWordBits / config.bits);
      zeros = PlaneOfLines(zeros.bytes, bits, from.qzeros.shape[1] * kWordBits / config.bits);
      scales = PlaneOfLines(scales.bytes, 16, from.scales.shape[1]);
      break;
    case Packing::kAwqGemvFast: {
      codes = FastCodes(codes.bytes, from.qweight.shape[1]);
      Plane offsets = scales;
      offsets.bytes = from.qzeros.bytes;
      layer.offsets = Offsets{std::move(offsets), layer.scale_type, OffsetKind::kAdded};
      break;
    }
  }
  layer.codes = std::move(codes);
  layer.scales = std::move(scales);
  if (!layer.offsets) layer.zero_points = std::move(zeros);
}

Layer LayerOf(const PackingConfig& config, const Planes& planes, std::uint64_t n, std::uint64_t k) {
  Layer layer;
  layer.type = std::string(Name(config.packing));
  layer.why = WhyNoLayer(config, planes, n, k);
  if (!layer.why.empty()) return layer;
  layer.element = config.bits > 4 ? DataType::kUint8 : DataType::kUint4;
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

// N and K, by the shape of qweight: words become codes along the dimension that is packed.
Shape SizeOf(const PackingConfig& config, const Shape& qweight) {
  const auto codes = [&config](std::uint64_t words) { return words * kWordBits / config.bits; };
  switch (config.packing) {
    case Packing::kGptq:
    case Packing::kGptqV2:
    case Packing::kGptqPlanar:
      return {qweight[1], codes(qweight[0])};
    case Packing::kAwq:
      return {codes(qweight[1]), qweight[0]};
    case Packing::kAwqGemv:
      return {qweight[0], codes(qweight[1])};
    case Packing::kAwqGemvFast:
      break;
  }
  return {qweight[0] * kFastLines, qweight[1]};
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
    Shape codes = SizeOf(config, qweight.shape);
    Layer layer =
        LayerOf(config, {qweight, *qzeros, *scales, FindTensor(tensors, prefix + ".g_idx")},
                codes[0], codes[1]);
    Replace({prefix + ".qweight", prefix + ".qzeros", prefix + ".scales", prefix + ".g_idx"}, name,
            std::move(codes), std::move(layer), tensors);
  }
}

}  // namespace gemmd::client
