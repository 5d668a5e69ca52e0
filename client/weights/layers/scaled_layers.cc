#include "client/weights/layers/scaled_layers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/math.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"
#include "client/weights/safetensors_types.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

// The names of codes and scales behind the same base.
struct Naming {
  absl::string_view codes;
  absl::string_view scales;
  absl::string_view made;  // behind the base, what they make is called so
};
constexpr Naming kNamings[] = {
    {"", "_scale", ""},
    {"", "_scale_inv", ""},
    {"_packed", "_scale", ""},
    {"_blocks", "_scales", ""},
    {".weight", ".scale_weight", ".weight"},
    {".weight", ".scale", ".weight"},
    {"._data", "._scale", ""},
};
constexpr absl::string_view kCodesOfTorchao = "_qdata";

// Codes that are not read, by what stands beside them: alone they would be taken for numbers.
struct Unread {
  absl::string_view codes;
  absl::string_view beside;
  absl::string_view why;
};
constexpr Unread kUnread[] = {
    {".weight", ".weight.absmax",
     "its codes, of bitsandbytes, stand for numbers of a table, and its quant_state, which says "
     "which, is missing"},
    {"._data._data", "._shift",
     "its codes, of quanto, have 2 or 4 bits, and their _scale is missing or they are no matrix; "
     "int4-g128-f16-offset is closest: gemm quantize makes it of the f16 or f32 file"},
    {"._data", "._scale",
     "its scales, of quanto, are in ._scale, and are not those of its rows or of all; int8-row is "
     "closest: gemm quantize makes it of the f16 or f32 file"},
};

std::uint64_t CountOf(const Shape& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t each : shape) count *= each;
  return count;
}

// A tensor without the dimension of a stack.
struct Source {
  const WeightTensor* tensor = nullptr;  // null: it is not there
  Shape shape;                           // of one matrix
  std::uint64_t part_bytes = 0;

  explicit operator bool() const { return tensor != nullptr; }
  const std::string& type() const { return tensor->type; }
};

// The tensors of a layer.
struct Sources {
  Source codes;
  Source scales;
  Source zero_points;
  Source overall_scale;
  const WeightTensor* shape = nullptr;
  const WeightTensor* g_idx = nullptr;
  bool is_blocks = false;
  bool divides = false;
  bool is_of_torchao = false;
  bool is_of_sdnq = false;  // unless DeepSeek's program converted it: both have X.scale
  std::uint64_t parts = 0;
};

// A layer before its form is known.
struct Made {
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  Layer layer;
};

Plane PlaneOf(const Source& source, int bits, std::uint64_t columns) {
  Plane plane = PlaneOfLines(source.tensor->bytes, bits, columns);
  plane.part_bytes = source.part_bytes;
  return plane;
}

std::uint64_t ColumnsOf(const Shape& shape) { return shape.size() == 2 ? shape[1] : 1; }

std::string TextOf(const Source& source) {
  return absl::StrCat(source.type(), " of ", ShapeText(source.shape));
}

std::optional<DataType> FloatOfScales(absl::string_view type) {
  if (type == "F32") return DataType::kF32;
  if (type == "F16") return DataType::kF16;
  if (type == "BF16") return DataType::kBf16;
  if (type == "F8_E8M0") return DataType::kE8M0;
  return std::nullopt;
}

bool Fits(const BlockShape& block, std::uint64_t n, std::uint64_t k, const Shape& scales) {
  return CeilOfRatio(n, block.lines) == scales[0] && CeilOfRatio(k, block.k) == scales[1];
}

bool AreSame(const BlockShape& x, const BlockShape& y) { return x.lines == y.lines && x.k == y.k; }

// The blocks of scales of that shape: of the config if some of it fit, else groups that divide K,
// else 128 x 128. Absent: the shape fits none, or blocks of the config that differ.
std::optional<BlockShape> BlockOf(const LayerConfig& config, const Shape& scales, std::uint64_t n,
                                  std::uint64_t k) {
  if (CountOf(scales) == 1) return BlockShape{0, 0};
  if (scales == Shape{n} || scales == Shape{n, 1}) return BlockShape{1, 0};
  if (scales.size() != 2 || CountOf(scales) == 0) return std::nullopt;
  std::optional<BlockShape> found;
  for (const BlockShape& block : config.blocks) {
    if (!Fits(block, n, k, scales)) continue;
    if (found && !AreSame(*found, block)) return std::nullopt;
    found = block;
  }
  if (found) return found;
  const BlockShape group{1, k / scales[1]};
  if (scales[0] == n && k % scales[1] == 0) return group;
  constexpr BlockShape kUsual{128, 128};
  if (Fits(kUsual, n, k, scales)) return kUsual;
  return std::nullopt;
}

// Scales of the blocks that their shape says, one float each.
void ReadFloatScales(const LayerConfig& config, const Source& scales, Made& made) {
  const std::optional<DataType> type = FloatOfScales(scales.type());
  const std::optional<BlockShape> block = BlockOf(config, scales.shape, made.n, made.k);
  if (!type || !block) {
    made.layer.why =
        absl::StrCat("its scales are ", TextOf(scales), "; for ", ShapeText({made.n, made.k}),
                     " they must be F32, F16, BF16 or F8_E8M0, one, one for each row, "
                     "or one for each group of K or block that its config says");
    return;
  }
  made.layer.block = *block;
  made.layer.scale_type = *type;
  made.layer.scales = PlaneOf(scales, SizeBits(*type), ColumnsOf(scales.shape));
}

// Scales of one byte for each `block` elements of K.
void ReadByteScales(const Source& scales, DataType type, std::uint64_t block, Made& made) {
  const Shape expected = {made.n, CeilOfRatio(made.k, block)};
  if (scales.shape != expected) {
    made.layer.why =
        absl::StrCat("its scales are ", TextOf(scales), "; for ", ShapeText({made.n, made.k}),
                     " they must be ", scales.type(), " of ", ShapeText(expected));
    return;
  }
  made.layer.block = {1, block};
  made.layer.scale_type = type;
  made.layer.scales = PlaneOf(scales, 8, expected[1]);
}

// Codes of a byte each: floats of 8 bits, or int8.
Made OfBytes(const LayerConfig& config, const Sources& from) {
  Made made{from.codes.shape[0], from.codes.shape[1], {}};
  Layer& layer = made.layer;
  const std::string& type = from.codes.type();
  layer.type = absl::StrCat(type, "*", from.scales.type());
  layer.fnuz = FindFnuz(type);
  if (type != "F8_E4M3" && type != "F8_E5M2" && type != "I8" && layer.fnuz == nullptr) {
    layer.why = std::string(FindSafetensorsType(type)->why);
    return made;
  }
  layer.element = layer.fnuz != nullptr ? layer.fnuz->like
                  : type == "I8"        ? DataType::kInt8
                  : type == "F8_E4M3"   ? DataType::kFp8E4M3
                                        : DataType::kFp8E5M2;
  layer.codes = PlaneOf(from.codes, 8, made.k);
  if (from.scales.type() == "U8" && type != "I8") {
    layer.type = "MXFP8";
    ReadByteScales(from.scales, DataType::kE8M0, 32, made);
  } else {
    ReadFloatScales(config, from.scales, made);
  }
  if (layer.why.empty() && from.zero_points) {
    if (type != "I8" || from.zero_points.type() != "I8" ||
        from.zero_points.shape != from.scales.shape) {
      layer.why = absl::StrCat("its zero_point is ", TextOf(from.zero_points),
                               "; zero points of I8 codes alone are read, I8 of ",
                               ShapeText(from.scales.shape));
      return made;
    }
    layer.zero_points = PlaneOf(from.zero_points, 8, ColumnsOf(from.zero_points.shape));
  }
  return made;
}

// SDNQ's uint8: zero points are offsets.
Made OfUnsignedBytes(const LayerConfig& config, const Sources& from) {
  Made made{from.codes.shape[0], from.codes.shape[1], {}};
  Layer& layer = made.layer;
  layer.type = "SDNQ uint8";
  layer.element = DataType::kUint8;
  layer.codes = PlaneOf(from.codes, 8, made.k);
  ReadFloatScales(config, from.scales, made);
  if (!layer.why.empty()) return made;
  const std::string& type = from.scales.type();
  if (!from.zero_points || type == "F8_E8M0" || from.zero_points.type() != type ||
      from.zero_points.shape != from.scales.shape) {
    layer.why =
        absl::StrCat("its zero_point is ", from.zero_points ? TextOf(from.zero_points) : "missing",
                     "; codes of U8 with ", TextOf(from.scales),
                     " in .scale have one of the same type and shape");
    return made;
  }
  const int bits = SizeBits(layer.scale_type);
  layer.offsets = Offsets{PlaneOf(from.zero_points, bits, ColumnsOf(from.zero_points.shape)),
                          layer.scale_type, OffsetKind::kAdded};
  return made;
}

// E2M1, two in a byte along K.
Made OfFp4(const Sources& from) {
  Made made{from.codes.shape[0], from.codes.shape[1], {}};
  if (from.codes.type() != "F4") made.k *= 2;
  Layer& layer = made.layer;
  layer.element = DataType::kFp4E2M1;
  layer.codes = PlaneOf(from.codes, 4, made.k);
  const bool is_nvfp4 = from.scales.type() == "F8_E4M3";
  layer.type = is_nvfp4 ? "NVFP4" : "MXFP4";
  ReadByteScales(from.scales, is_nvfp4 ? DataType::kFp8E4M3 : DataType::kE8M0, is_nvfp4 ? 16 : 32,
                 made);
  if (from.zero_points) layer.why = "it has a zero_point, which codes of E2M1 have not";
  return made;
}

// gpt-oss: the same, but that the blocks of K are a dimension of their own.
Made OfBlocks(const Sources& from) {
  Sources flat = from;
  flat.codes.shape = {from.codes.shape[0], from.codes.shape[1] * 16};
  return OfFp4(flat);
}

// ModelOpt's int4: two rows in a byte, two's complement.
Made OfRowPairs(const LayerConfig& config, const Sources& from) {
  Made made{from.codes.shape[0] * 2, from.codes.shape[1], {}};
  Layer& layer = made.layer;
  layer.type = "INT4";
  layer.element = DataType::kInt4;
  layer.codes = PlaneOf(from.codes, 4, 0);
  layer.codes.line.step = made.k * 8;
  layer.codes.line.per_word = 2;
  layer.codes.k.step = 8;
  ReadFloatScales(config, from.scales, made);
  if (from.zero_points) layer.why = "it has a zero_point, which INT4 of ModelOpt has not";
  return made;
}

// The last two of the numbers that a tensor `_shape` has.
std::optional<Shape> ReadShape(const WeightTensor* tensor, std::uint64_t parts) {
  if (tensor == nullptr || (tensor->type != "I64" && tensor->type != "I32")) return std::nullopt;
  const std::uint64_t count = parts == 0 ? 2 : 3;
  const std::size_t size = tensor->type == "I64" ? 8 : 4;
  const absl::string_view bytes = tensor->bytes.view();
  if (tensor->shape != Shape{count} || bytes.size() != count * size) return std::nullopt;
  Shape shape(2);
  for (std::size_t i = 0; i < 2; ++i) {
    std::memcpy(&shape[i], bytes.data() + (count - 2 + i) * size, size);
    if (shape[i] < 1 || shape[i] > kMaxDimension) return std::nullopt;
  }
  return shape;
}

std::uint64_t WordsOf(std::uint64_t count, int bits) {
  return CeilOfRatio(count * static_cast<std::uint64_t>(bits), 32);
}

// The bits that codes of K may have in as many words, of those that the config says if it does.
std::vector<int> BitsOf(const LayerConfig& config, std::uint64_t k, std::uint64_t words) {
  std::vector<int> found;
  for (int bits = 1; bits <= 8; ++bits) {
    const bool is_said = config.bits.empty() || std::find(config.bits.begin(), config.bits.end(),
                                                          bits) != config.bits.end();
    if (is_said && WordsOf(k, bits) == words) found.push_back(bits);
  }
  return found;
}

void ReadPackedZeroPoints(const Source& zeros, int bits, Made& made) {
  const std::uint64_t groups =
      made.layer.block.k == 0 ? 1 : CeilOfRatio(made.k, made.layer.block.k);
  const Shape expected = {WordsOf(made.n, bits), groups};
  if (zeros.type() != "I32" || zeros.shape != expected) {
    made.layer.why = absl::StrCat("its zero_point is ", TextOf(zeros), "; it must be I32 of ",
                                  ShapeText(expected));
    return;
  }
  Plane plane = PlaneOf(zeros, bits, 0);
  plane.line.step = groups * 32;
  plane.line.per_word = 32 / static_cast<std::uint64_t>(bits);
  plane.k.step = 32;
  made.layer.zero_points = std::move(plane);
}

// compressed-tensors' "pack-quantized".
Made OfWords(const LayerConfig& config, const Sources& from) {
  Made made{from.codes.shape[0], from.codes.shape[1], {}};
  Layer& layer = made.layer;
  layer.type = "pack-quantized";
  const std::optional<Shape> shape = ReadShape(from.shape, from.parts);
  if (!shape || (*shape)[0] != made.n) {
    layer.why = absl::StrCat("its codes are ", TextOf(from.codes),
                             ", and its tensor weight_shape does not say their N and K");
    return made;
  }
  const std::uint64_t words = made.k;
  made.k = (*shape)[1];
  const std::vector<int> bits = BitsOf(config, made.k, words);
  if (bits.size() != 1 || (bits[0] != 4 && bits[0] != 8)) {
    layer.why = absl::StrCat(
        "its codes are ", words, " words for ", made.k, " elements, ",
        bits.empty() ? "no number of bits" : absl::StrCat(absl::StrJoin(bits, " or "), " bits"),
        " each, and 4 and 8 are read; int8-g128 is closest: gemm quantize makes it of the f16 or "
        "f32 file");
    return made;
  }
  const std::uint64_t offset = bits[0] == 4 ? 8 : 128;
  layer.codes = PlaneOf(from.codes, bits[0], 0);
  layer.codes.line.step = words * 32;
  layer.codes.k.step = static_cast<std::uint64_t>(bits[0]);
  ReadFloatScales(config, from.scales, made);
  if (layer.why.empty() && from.g_idx != nullptr) {
    absl::StatusOr<KOrder> order = OrderOfGroups(*from.g_idx, made.k, layer.block.k);
    layer.why = std::string(order.status().message());
    if (order.ok()) layer.k_order = *std::move(order);
  }
  if (!layer.why.empty()) return made;
  if (from.zero_points) {
    layer.element = bits[0] == 4 ? DataType::kUint4 : DataType::kUint8;
    ReadPackedZeroPoints(from.zero_points, bits[0], made);
  } else {
    layer.element = bits[0] == 4 ? DataType::kInt4 : DataType::kInt8;
    layer.flip = static_cast<std::uint32_t>(offset);
  }
  return made;
}

bool IsByteScale(const Source& scales) {
  return scales.type() == "F8_E4M3" || scales.type() == "U8" || scales.type() == "F8_E8M0";
}

Made MakeLayer(const LayerConfig& config, const Sources& from) {
  const std::string& type = from.codes.type();
  if (from.is_of_torchao &&
      (type == "U8" || !FloatOfScales(from.scales.type()) || from.scales.type() == "F8_E8M0")) {
    Made made{from.codes.shape[0], from.codes.shape[1], {}};
    made.layer.type = absl::StrCat(type, "*", from.scales.type());
    made.layer.why =
        "torchao may hold such scales and codes in another order, and its metadata, which says "
        "so, is missing";
    return made;
  }
  if (from.is_blocks) return OfBlocks(from);
  if (from.is_of_sdnq && type == "I8" && from.scales.type() == "F8_E8M0") {
    Made made{from.codes.shape[0], from.codes.shape[1], {}};
    made.layer.type = "I8*F8_E8M0";
    made.layer.why =
        "each byte may hold two codes of E2M1, and nothing in the file says whether it does; mxfp4 "
        "is closest: gemm quantize makes it of the f16 or f32 file";
    return made;
  }
  if (from.is_of_sdnq && type == "U8") return OfUnsignedBytes(config, from);
  if (type == "I32") return OfWords(config, from);
  if (type == "F4" || (type == "U8" && IsByteScale(from.scales))) return OfFp4(from);
  if (type == "U8") return OfRowPairs(config, from);
  return OfBytes(config, from);
}

void ReadOverallScale(const Sources& from, Layer& layer) {
  if (!from.overall_scale || !layer.why.empty()) return;
  if (from.overall_scale.type() != "F32" || CountOf(from.overall_scale.shape) != 1) {
    layer.why =
        absl::StrCat("its scale of all is ", TextOf(from.overall_scale), "; it must be one F32");
    return;
  }
  layer.overall_scale = PlaneOf(from.overall_scale, 32, 1);
  layer.overall_scale_divides = from.divides;
}

// Returns whether codes of such a type are worth something else without their scales.
bool AreCodes(const WeightTensor& tensor, const Naming& naming) {
  const absl::string_view type = tensor.type;
  if (naming.codes == "_packed") return type == "I32" || type == "U8" || type == "F4";
  if (naming.codes == "_blocks") return type == "U8";
  if (naming.codes == "._data") return absl::StartsWith(type, "F8_E") || type == "I8";
  return absl::StartsWith(type, "F8_E") || type == "I8" || type == "U8" || type == "F4";
}

// Cuts the first dimension off where it is a stack's. Absent: it does not fit the stack.
std::optional<Source> SourceOf(const WeightTensor* tensor, std::uint64_t parts) {
  Source source{tensor, {}, 0};
  if (tensor == nullptr) return source;
  source.shape = tensor->shape;
  if (parts == 0 || CountOf(source.shape) == 1) return source;
  if (source.shape.empty() || source.shape[0] != parts) return std::nullopt;
  source.shape.erase(source.shape.begin());
  source.part_bytes = tensor->bytes.view().size() / parts;
  return source;
}

bool HasSize(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [](std::uint64_t each) { return each >= 1 && each <= kMaxDimension; });
}

// Makes one layer, if these tensors are one.
void Combine(const LayerConfig& config, const Naming& naming, const std::string& base,
             TensorsByName& tensors) {
  const auto find = [&](absl::string_view suffix) {
    return FindTensor(tensors, absl::StrCat(base, suffix));
  };
  const WeightTensor* const codes = find(naming.codes);
  if (codes == nullptr || codes->layer != nullptr || !AreCodes(*codes, naming)) return;
  const std::string made_name = absl::StrCat(base, naming.made);
  if (naming.codes != naming.made && FindTensor(tensors, made_name) != nullptr) return;
  Sources from;
  from.is_blocks = naming.codes == "_blocks";
  from.is_of_torchao = absl::EndsWith(naming.codes, kCodesOfTorchao);
  from.is_of_sdnq = naming.scales == ".scale";
  const std::size_t rank = from.is_blocks ? 3 : 2;
  if (codes->shape.size() != rank && codes->shape.size() != rank + 1) return;
  if (!HasSize(codes->shape) || (from.is_blocks && codes->shape.back() != 16)) return;
  if (codes->shape.size() == rank + 1) from.parts = codes->shape[0];

  const absl::string_view of_weight = absl::StripSuffix(naming.scales, "scale");
  const std::string beside = absl::StrCat(of_weight == naming.scales ? "_" : of_weight);
  const WeightTensor* const divisor = find(beside + "global_scale");
  from.divides = divisor != nullptr;
  from.shape = find(beside + "shape");
  from.g_idx = find(beside + "g_idx");
  const std::optional<Source> sources[] = {
      SourceOf(codes, from.parts), SourceOf(find(naming.scales), from.parts),
      SourceOf(find(beside + "zero_point"), from.parts),
      SourceOf(divisor != nullptr ? divisor : find(beside + "scale_2"), from.parts)};
  Made made;
  if (std::all_of(std::begin(sources), std::end(sources),
                  [](const std::optional<Source>& source) { return source.has_value(); })) {
    from.codes = *sources[0];
    from.scales = *sources[1];
    from.zero_points = *sources[2];
    from.overall_scale = *sources[3];
    made = MakeLayer(config, from);
    ReadOverallScale(from, made.layer);
  } else {
    made = {codes->shape[1], codes->shape[2], {}};
    made.layer.type = codes->type;
    made.layer.why = absl::StrCat("it is a stack of ", from.parts,
                                  " matrices, and a tensor of its scales has another first "
                                  "dimension");
  }
  made.layer.parts = from.parts;
  FindForm(made.n, made.k, made.layer);
  Shape shape = {made.n, made.k};
  if (from.parts != 0) shape.insert(shape.begin(), from.parts);
  std::vector<std::string> planes;
  for (const absl::string_view suffix : {naming.codes, naming.scales}) {
    planes.push_back(absl::StrCat(base, suffix));
  }
  if (find(".svd_up") != nullptr && from.is_of_sdnq) {
    made.layer.why =
        "a product of svd_up and svd_down is added to it, which is not read; int8-row is closest: "
        "gemm quantize makes it of the f16 or f32 file";
  }
  if (config.is_rotated) {
    made.layer.why =
        "its config has use_hadamard, which rotates K, and such weights are not read; int8-row is "
        "closest: gemm quantize makes it of the f16 or f32 file";
  }
  for (const char* suffix : {"zero_point", "global_scale", "scale_2", "shape", "g_idx"}) {
    planes.push_back(absl::StrCat(base, beside, suffix));
  }
  Replace(planes, made_name, std::move(shape), std::move(made.layer), tensors);
}

// MODULE._PARAM_qdata and MODULE._PARAM_scale make MODULE.PARAM.
void CombineTorchao(const LayerConfig& config, TensorsByName& tensors) {
  for (const std::string& base : NamesBefore(tensors, kCodesOfTorchao)) {
    const std::size_t dot = base.rfind("._");
    if (dot == std::string::npos) continue;
    const std::string parameter = base.substr(dot + 2);
    const std::string codes = absl::StrCat("._", parameter, kCodesOfTorchao);
    const std::string scales = absl::StrCat("._", parameter, "_scale");
    const std::string made = absl::StrCat(".", parameter);
    if (FindTensor(tensors, base + "_scale") == nullptr) continue;
    Combine(config, {codes, scales, made}, base.substr(0, dot), tensors);
  }
}

// Gives codes of which the rest is not read a layer that says so.
void Refuse(const Unread& unread, const std::string& base, TensorsByName& tensors) {
  const std::string name = absl::StrCat(base, unread.codes);
  const WeightTensor* const codes = FindTensor(tensors, name);
  if (codes == nullptr || codes->layer != nullptr) return;
  if (codes->type != "U8" && codes->type != "I8" && !absl::StartsWith(codes->type, "F8_E")) return;
  Layer layer;
  layer.type = codes->type;
  layer.why = std::string(unread.why);
  Shape shape = codes->shape;
  Replace({name}, name, std::move(shape), std::move(layer), tensors);
}

}  // namespace

bool IsNameOfScales(absl::string_view name) {
  const auto ends = [name](absl::string_view end) { return absl::EndsWith(name, end); };
  return std::any_of(std::begin(kNamings), std::end(kNamings),
                     [&ends](const Naming& naming) { return ends(naming.scales); }) ||
         std::any_of(std::begin(kUnread), std::end(kUnread),
                     [&ends](const Unread& unread) { return ends(unread.beside); });
}

void CombineScaledLayers(const LayerConfig& config, TensorsByName& tensors) {
  for (const Naming& naming : kNamings) {
    for (const std::string& base : NamesBefore(tensors, naming.scales)) {
      Combine(config, naming, base, tensors);
    }
  }
  CombineTorchao(config, tensors);
  for (const Unread& unread : kUnread) {
    for (const std::string& base : NamesBefore(tensors, unread.beside)) {
      Refuse(unread, base, tensors);
    }
  }
}

}  // namespace gemmd::client
