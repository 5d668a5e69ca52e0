#include "client/weights/onnx/onnx_layers.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

// Nodes that read codes by one scale, or one for each line, or blocks.
struct Reading {
  absl::string_view node;
  std::size_t codes;  // inputs
  std::size_t scales;
  std::size_t zero_points;
  bool is_product;  // of codes that are K x N
};
constexpr Reading kReadings[] = {
    {"DequantizeLinear", 0, 1, 2, false},
    {"QLinearMatMul", 3, 4, 5, true},
    {"QGemm", 3, 4, 5, true},
    {"DynamicQuantizeMatMul", 1, 2, 3, true},
    {"MatMulIntegerToFloat", 1, 3, 5, true},
};

// Nodes whose codes are not read, by the input that they are.
struct Unread {
  absl::string_view node;
  std::size_t codes;
  absl::string_view why;
};
constexpr absl::string_view kNoProduct =
    "the node that reads its codes is no product of matrices; gemm quantize makes int8-row of the "
    "f16 or f32 file";
constexpr Unread kUnread[] = {
    {"QLinearConv", 3, kNoProduct},
    {"ConvInteger", 1, kNoProduct},
    {"GatherBlockQuantized", 0, kNoProduct},
    {"QAttention", 1, kNoProduct},
    {"DynamicQuantizeLSTM", 1, kNoProduct},
    {"DynamicQuantizeLSTM", 2, kNoProduct},
    {"QMoE", 2, kNoProduct},
    {"QMoE", 5, kNoProduct},
    {"QMoE", 8, kNoProduct},
    {"MatMulBnb4", 1,
     "its codes stand for numbers of a table; int4-g64-f16 is closest: gemm quantize makes it of "
     "the f16 or f32 file"},
};

// Codes less zero points, which no name says the scales of.
constexpr Unread kUnscaled = {
    "MatMulInteger", 1,
    "its scales are computed by the graph; those of NAME_quantized are read in NAME_scale"};

// Codes by their type, as a layer has them.
struct CodesType {
  absl::string_view name;
  int bits;
  DataType element;
  // XORed to codes and zero points where there are zero points, so that they are unsigned.
  std::uint32_t flip;
  bool is_float;
};
constexpr CodesType kCodesTypes[] = {
    {"I8", 8, DataType::kInt8, 0, false},
    {"U8", 8, DataType::kUint8, 0, false},
    {"I4", 4, DataType::kInt4, 8, false},
    {"U4", 4, DataType::kUint4, 0, false},
    {"I2", 2, DataType::kUint4, 2, false},
    {"U2", 2, DataType::kUint4, 0, false},
    {"F8_E4M3", 8, DataType::kFp8E4M3, 0, true},
    {"F8_E5M2", 8, DataType::kFp8E5M2, 0, true},
    {"F4", 4, DataType::kFp4E2M1, 0, true},
    {"F8_E4M3FNUZ", 8, DataType::kFp8E4M3, 0, true},
    {"F8_E5M2FNUZ", 8, DataType::kFp8E5M2, 0, true},
};

const CodesType* FindCodesType(absl::string_view name) {
  for (const CodesType& type : kCodesTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::optional<DataType> FindScaleType(absl::string_view name) {
  if (name == "F32") return DataType::kF32;
  if (name == "F16") return DataType::kF16;
  if (name == "BF16") return DataType::kBf16;
  if (name == "F8_E8M0") return DataType::kE8M0;
  return std::nullopt;
}

bool IsMatrixSize(std::uint64_t n) { return n >= 1 && n <= kMaxDimension; }

bool IsMatrix(const Shape& shape) {
  return shape.size() == 2 && IsMatrixSize(shape[0]) && IsMatrixSize(shape[1]);
}

Axis Step(std::uint64_t bits) {
  Axis axis;
  axis.step = bits;
  return axis;
}

Plane PlaneOf(const WeightTensor& tensor, int bits) {
  Plane plane;
  plane.bytes = tensor.bytes;
  plane.bits = bits;
  return plane;
}

// One zero point of all blocks.
Plane ZeroPointOfAll(char value) {
  Plane plane;
  plane.bytes = Bytes(std::string(1, value));
  plane.bits = 8;
  return plane;
}

// A layer before it is known whether others of the same codes agree.
struct Made {
  Shape shape;
  Layer layer;
  std::set<std::string> planes;   // the names of all its tensors
  std::vector<std::int64_t> how;  // what else says which numbers its codes are
};

class Combiner {
 public:
  Combiner(const std::vector<OnnxNode>& nodes, TensorsByName& tensors)
      : nodes_(nodes), tensors_(tensors) {}

  void Combine() {
    FindOrders();
    for (const OnnxNode& node : nodes_) {
      if (node.type == "MatMulNBits") {
        AddNBits(node);
        continue;
      }
      for (const Reading& reading : kReadings) {
        if (reading.node == node.type) AddReading(node, reading);
      }
      for (const Unread& unread : kUnread) {
        if (unread.node == node.type) AddUnread(node, unread);
      }
    }
    AddNamed();
    for (const OnnxNode& node : nodes_) {
      const bool has_zero_points = node.type == "MatMulInteger" && !InputOf(node, 3).empty();
      const bool is_made = made_.count(std::string(InputOf(node, kUnscaled.codes))) != 0;
      if (has_zero_points && !is_made) AddUnread(node, kUnscaled);
    }
    Put();
  }

 private:
  static absl::string_view InputOf(const OnnxNode& node, std::size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : absl::string_view();
  }
  static std::optional<std::int64_t> IntegerOf(const OnnxNode& node, absl::string_view name) {
    const auto found = node.integers.find(name);
    return found == node.integers.end() ? std::nullopt : std::make_optional(found->second);
  }
  const WeightTensor* Find(absl::string_view name) const {
    return FindTensor(tensors_, std::string(name));
  }

  // Finds the dimension of K of what is multiplied, by the nodes that do it, and of the codes of
  // which a DequantizeLinear or Transpose makes it.
  void FindOrders() {
    for (const OnnxNode& node : nodes_) {
      const std::int64_t transposes = IntegerOf(node, "transB").value_or(0);
      if (node.type == "MatMul" || node.type == "MatMulInteger") k_axes_[InputOf(node, 1)] = 0;
      if (node.type == "Gemm") k_axes_[InputOf(node, 1)] = transposes != 0 ? 1 : 0;
    }
    for (const OnnxNode& node : nodes_) {
      const auto found = k_axes_.find(node.output);
      const bool turns = node.type == "Transpose" && IntegerOf(node, "perm").value_or(1) == 1;
      if (turns && found != k_axes_.end()) k_axes_.emplace(InputOf(node, 0), 1 - found->second);
    }
    for (const OnnxNode& node : nodes_) {
      const auto found = k_axes_.find(node.output);
      if (node.type != "DequantizeLinear" || found == k_axes_.end()) continue;
      k_axes_.emplace(InputOf(node, 0), found->second);
    }
  }

  // A plane's tensor. Sets `why` where it is none of the model's own, or is not read.
  const WeightTensor* FindPlane(absl::string_view plane, absl::string_view name,
                                std::string& why) const {
    const WeightTensor* const tensor = Find(name);
    if (tensor == nullptr) {
      why = absl::StrCat("its ", plane, " are computed by the graph; initializers are read");
    } else if (tensor->layer != nullptr) {
      why = absl::StrCat("its ", plane, " are not read: ", tensor->layer->why);
    } else {
      return tensor;
    }
    return nullptr;
  }

  void Add(absl::string_view codes, Made made) {
    made.planes.insert(std::string(codes));
    if (made.layer.why.empty()) FindForm(made.shape[0], made.shape[1], made.layer);
    const auto [place, is_new] = made_.emplace(std::string(codes), made);
    if (is_new) return;
    Made& before = place->second;
    if (before.planes == made.planes && before.how == made.how && before.shape == made.shape)
      return;
    before.layer.why = absl::StrCat("two nodes read its codes in different ways, ",
                                    before.layer.type, " and ", made.layer.type);
    before.planes.insert(made.planes.begin(), made.planes.end());
  }

  void AddNBits(const OnnxNode& node) {
    const absl::string_view name = InputOf(node, 1);
    const WeightTensor* const codes = Find(name);
    if (codes == nullptr) return;
    Made made;
    made.shape = codes->shape;
    made.layer.type = "MatMulNBits";
    made.layer.why = WhyNoNBits(node, *codes, made);
    Add(name, std::move(made));
  }

  std::string WhyNoNBits(const OnnxNode& node, const WeightTensor& codes, Made& made) const {
    const auto n = static_cast<std::uint64_t>(IntegerOf(node, "N").value_or(0));
    const auto k = static_cast<std::uint64_t>(IntegerOf(node, "K").value_or(0));
    const auto size = static_cast<std::uint64_t>(IntegerOf(node, "block_size").value_or(0));
    const std::int64_t bits = IntegerOf(node, "bits").value_or(4);
    const std::int64_t prepacked = IntegerOf(node, "weight_prepacked").value_or(0);
    for (std::size_t i = 1; i <= 4; ++i) {
      if (!InputOf(node, i).empty()) made.planes.insert(std::string(InputOf(node, i)));
    }
    made.how = {bits, static_cast<std::int64_t>(size), prepacked};
    if (!IsMatrixSize(n) || !IsMatrixSize(k)) {
      return absl::StrCat("its node has N ", static_cast<std::int64_t>(n), " and K ",
                          static_cast<std::int64_t>(k), "; a dimension is 1 to ", kMaxDimension);
    }
    made.shape = {n, k};
    if (bits != 2 && bits != 4 && bits != 8) {
      return absl::StrCat("its codes have ", bits, " bits, and 2, 4 and 8 are read");
    }
    if (size < 16 || size > kMaxDimension || (size & (size - 1)) != 0) {
      return absl::StrCat("its block_size is ", static_cast<std::int64_t>(size),
                          "; MatMulNBits has powers of two from 16 on");
    }
    if (prepacked != 0) {
      return absl::StrCat("its codes are in an order of one device, weight_prepacked ", prepacked,
                          "; a model that was not packed before has a form");
    }
    if (codes.layer != nullptr) return codes.layer->why;
    const std::uint64_t blocks = CeilOfRatio(k, size);
    const auto code_bits = static_cast<std::uint64_t>(bits);
    std::string why = WhyNotOf("B", codes, "U8", {n, blocks, size * code_bits / 8});
    if (!why.empty()) return why;
    Layer& layer = made.layer;
    layer.block = {1, size};
    layer.codes = PlaneOf(codes, static_cast<int>(bits));
    layer.codes.line = Step(blocks * size * code_bits);
    layer.codes.k = Step(code_bits);
    const WeightTensor* const scales = FindPlane("scales", InputOf(node, 2), why);
    if (scales == nullptr) return why;
    const std::optional<DataType> scale_type = FindScaleType(scales->type);
    const bool is_flat = scales->shape.size() == 1;
    why = WhyNotOf("scales", *scales,
                   scale_type && *scale_type != DataType::kE8M0 ? scales->type : "F32",
                   is_flat ? Shape{n * blocks} : Shape{n, blocks});
    if (!why.empty()) return why;
    const auto scale_bits = static_cast<std::uint64_t>(SizeBits(*scale_type));
    layer.scale_type = *scale_type;
    layer.scales = PlaneOf(*scales, SizeBits(*scale_type));
    layer.scales.line = Step(blocks * scale_bits);
    layer.scales.k = Step(scale_bits);
    why = FindZerosOfNBits(node, code_bits, n, blocks, *scales, layer);
    if (!why.empty() || InputOf(node, 4).empty()) return why;
    const WeightTensor* const g_idx = FindPlane("g_idx", InputOf(node, 4), why);
    if (g_idx == nullptr) return why;
    // It may be as long as all blocks are.
    WeightTensor groups = *g_idx;
    if (groups.type == "I32" && groups.shape == Shape{blocks * size}) {
      groups.shape = {k};
      groups.bytes = {g_idx->bytes.owner(),
                      g_idx->bytes.view().substr(0, k * sizeof(std::int32_t))};
    }
    absl::StatusOr<KOrder> order = OrderOfGroups(groups, k, size);
    if (!order.ok()) return std::string(order.status().message());
    layer.k_order = *std::move(order);
    return "";
  }

  std::string FindZerosOfNBits(const OnnxNode& node, std::uint64_t bits, std::uint64_t n,
                               std::uint64_t blocks, const WeightTensor& scales,
                               Layer& layer) const {
    layer.element = bits == 8 ? DataType::kUint8 : DataType::kUint4;
    if (InputOf(node, 3).empty()) {
      if (bits == 2) {
        layer.zero_points = ZeroPointOfAll(2);
        return "";
      }
      layer.element = bits == 8 ? DataType::kInt8 : DataType::kInt4;
      layer.flip = 1U << (bits - 1);
      return "";
    }
    std::string why;
    const WeightTensor* const zeros = FindPlane("zero_points", InputOf(node, 3), why);
    if (zeros == nullptr) return why;
    if (zeros->type == scales.type) {
      return absl::StrCat("its zero_points are ", zeros->type,
                          ", which need not be whole numbers; packed ones of U8 are read");
    }
    const std::uint64_t line_bytes = CeilOfRatio(blocks * bits, 8);
    const bool is_flat = zeros->shape.size() == 1;
    why = WhyNotOf("zero_points", *zeros, "U8",
                   is_flat ? Shape{n * line_bytes} : Shape{n, line_bytes});
    if (!why.empty()) return why;
    layer.zero_points = PlaneOf(*zeros, static_cast<int>(bits));
    layer.zero_points->line = Step(line_bytes * 8);
    layer.zero_points->k = Step(bits);
    return "";
  }

  void AddReading(const OnnxNode& node, const Reading& reading) {
    const absl::string_view name = InputOf(node, reading.codes);
    std::optional<int> k_axis;
    if (const auto found = k_axes_.find(name); found != k_axes_.end()) k_axis = found->second;
    if (reading.is_product) k_axis = IntegerOf(node, "transB").value_or(0) != 0 ? 1 : 0;
    Dequantizing how;
    how.type = std::string(node.type);
    how.scales = InputOf(node, reading.scales);
    how.zero_points = InputOf(node, reading.zero_points);
    how.k_axis = k_axis;
    if (reading.is_product) {
      how.axis = 1 - *k_axis;
    } else {
      how.axis = IntegerOf(node, "axis").value_or(1);
      how.block_size = IntegerOf(node, "block_size").value_or(0);
    }
    AddCodes(name, how);
  }

  // The scales of codes, as a node has them.
  struct Dequantizing {
    std::string type;
    absl::string_view scales;
    absl::string_view zero_points;  // "": there are none
    std::int64_t axis = 1;
    std::int64_t block_size = 0;
    std::optional<int> k_axis;  // as the nodes that multiply say
  };

  void AddCodes(absl::string_view name, const Dequantizing& how) {
    const WeightTensor* const codes = Find(name);
    // Vectors and what has more dimensions is no matrix in any way.
    const bool may_be_matrix =
        codes != nullptr && (codes->shape.size() == 2 || codes->shape.size() == 3);
    if (!may_be_matrix || FindCodesType(codes->type) == nullptr) return;
    Made made;
    made.shape = codes->shape;
    made.layer.type = how.type;
    made.how = {how.axis, how.block_size, how.k_axis.value_or(-1)};
    for (const absl::string_view each : {how.scales, how.zero_points}) {
      if (!each.empty()) made.planes.insert(std::string(each));
    }
    made.layer.why = WhyNoCodes(*codes, how, made);
    Add(name, std::move(made));
  }

  std::string WhyNoCodes(const WeightTensor& codes, const Dequantizing& how, Made& made) const {
    if (codes.layer != nullptr) return codes.layer->why;
    if (!IsMatrix(codes.shape)) {
      return absl::StrCat("its shape is ", ShapeText(codes.shape),
                          "; by scales matrices alone are read, whose dimensions are 1 to ",
                          kMaxDimension);
    }
    std::string why;
    const WeightTensor* const scales = FindPlane("scales", how.scales, why);
    if (scales == nullptr) return why;
    const std::optional<DataType> scale_type = FindScaleType(scales->type);
    if (!scale_type) {
      return absl::StrCat("its scales are ", scales->type, "; F32, F16, BF16 and F8_E8M0 are read");
    }
    const std::int64_t axis = how.axis < 0 ? how.axis + 2 : how.axis;
    if (axis != 0 && axis != 1) {
      return absl::StrCat("its axis is ", how.axis, "; a matrix has -2 to 1");
    }
    Layer& layer = made.layer;
    layer.scale_type = *scale_type;
    Places places;
    why = FindPlaces(codes.shape, *scales, static_cast<int>(axis), how, places);
    if (!why.empty()) return why;
    made.shape = {codes.shape[1 - places.k_axis], codes.shape[places.k_axis]};
    layer.block = places.block;
    const CodesType& type = *FindCodesType(codes.type);
    layer.codes = Along(places, codes, type.bits, codes.shape[1]);
    layer.scales = OfBlocks(places, *scales, SizeBits(*scale_type));
    return FindZeros(how, type, places, *scales, layer);
  }

  // Where K is, and what a block is.
  struct Places {
    std::size_t k_axis = 1;
    BlockShape block;
    std::uint64_t columns = 0;  // of scales, of which each block has its own; 0: they are a list
  };

  static std::string FindPlaces(const Shape& codes, const WeightTensor& scales, int axis,
                                const Dequantizing& how, Places& places) {
    const Shape& shape = scales.shape;
    const std::uint64_t size = codes[static_cast<std::size_t>(axis)];
    std::uint64_t count = 1;
    for (const std::uint64_t each : shape) count = each <= 1 ? count * each : count + each;
    if (how.block_size != 0) {
      const auto block = static_cast<std::uint64_t>(how.block_size);
      if (how.block_size < 0) return absl::StrCat("its block_size is ", how.block_size);
      Shape expected = codes;
      // A block_size may be any number: no sum with it, which could wrap.
      expected[static_cast<std::size_t>(axis)] = (size - 1) / block + 1;
      if (shape != expected) {
        return absl::StrCat("its scales have the shape ", ShapeText(shape), "; by blocks of ",
                            block, " along axis ", axis, " it must be ", ShapeText(expected));
      }
      places = {static_cast<std::size_t>(axis), {1, block}, shape[1]};
    } else if (count == 1) {
      places = {static_cast<std::size_t>(how.k_axis.value_or(1)), {0, 0}, 0};
    } else if (shape == Shape{size}) {
      places = {static_cast<std::size_t>(1 - axis), {1, 0}, 0};
    } else {
      return absl::StrCat("its scales have the shape ", ShapeText(shape), "; it must be [] or [",
                          size, "], of axis ", axis);
    }
    if (!how.k_axis || static_cast<std::size_t>(*how.k_axis) == places.k_axis) return "";
    return absl::StrCat("its scales run along axis ", axis, " of ", ShapeText(codes),
                        ", and the product sums along axis ", *how.k_axis,
                        ": only blocks along K, or one scale for each column, have a form");
  }

  static Plane Along(const Places& places, const WeightTensor& tensor, int bits,
                     std::uint64_t columns) {
    Plane plane = PlaneOf(tensor, bits);
    const auto step = static_cast<std::uint64_t>(bits);
    plane.line = Step(places.k_axis == 1 ? columns * step : step);
    plane.k = Step(places.k_axis == 1 ? step : columns * step);
    return plane;
  }

  static Plane OfBlocks(const Places& places, const WeightTensor& tensor, int bits) {
    if (places.columns != 0) return Along(places, tensor, bits, places.columns);
    Plane plane = PlaneOf(tensor, bits);
    plane.line = Step(places.block.lines == 0 ? 0 : static_cast<std::uint64_t>(bits));
    return plane;
  }

  std::string FindZeros(const Dequantizing& how, const CodesType& type, const Places& places,
                        const WeightTensor& scales, Layer& layer) const {
    layer.element = type.element;
    layer.fnuz = FindFnuz(type.name);
    if (how.zero_points.empty()) {
      // No form has uint4 without zero points, and none two's complement of 2 bits.
      if (type.element != DataType::kUint4) return "";
      layer.flip = type.flip;
      layer.zero_points = ZeroPointOfAll(static_cast<char>(type.flip));
      return "";
    }
    std::string why;
    const WeightTensor* const zeros = FindPlane("zero points", how.zero_points, why);
    if (zeros == nullptr) return why;
    why = WhyNotOf("zero points", *zeros, type.name, scales.shape);
    if (!why.empty()) return why;
    if (type.is_float) {
      const absl::string_view bytes = zeros->bytes.view();
      const bool are_zero = std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
      return are_zero ? "" : "its zero points are floats other than 0";
    }
    if (type.element == DataType::kInt4) layer.element = DataType::kUint4;
    layer.flip = layer.zero_flip = type.flip;
    layer.zero_points = OfBlocks(places, *zeros, type.bits);
    return "";
  }

  void AddUnread(const OnnxNode& node, const Unread& unread) {
    const absl::string_view name = InputOf(node, unread.codes);
    const WeightTensor* const codes = Find(name);
    if (codes == nullptr || FindCodesType(codes->type) == nullptr) return;
    Made made;
    made.shape = codes->shape;
    made.layer.type = std::string(node.type);
    made.layer.why = codes->layer == nullptr ? std::string(unread.why) : codes->layer->why;
    Add(name, std::move(made));
  }

  void AddNamed() {
    for (const std::string& base : NamesBefore(tensors_, "_quantized")) {
      const std::string name = base + "_quantized";
      const std::string scales = base + "_scale";
      const std::string zero_points = base + "_zero_point";
      if (made_.count(name) != 0 || Find(scales) == nullptr) continue;
      Dequantizing how;
      how.type = "MatMulInteger";
      how.scales = scales;
      if (Find(zero_points) != nullptr) how.zero_points = zero_points;
      if (const auto found = k_axes_.find(name); found != k_axes_.end()) how.k_axis = found->second;
      how.axis = 1 - how.k_axis.value_or(1);
      AddCodes(name, how);
    }
  }

  void Put() {
    for (auto& [name, made] : made_) {
      WeightTensor tensor;
      tensor.name = name;
      tensor.type = made.layer.type;
      tensor.shape = std::move(made.shape);
      for (const std::string& plane : made.planes) {
        if (const WeightTensor* const each = Find(plane)) made.layer.file_bytes += FileBytes(*each);
      }
      tensor.layer = std::make_shared<const Layer>(std::move(made.layer));
      put_.push_back(std::move(tensor));
    }
    // Only now: layers may share scales and zero points.
    for (const auto& [name, made] : made_) {
      for (const std::string& plane : made.planes) tensors_.erase(plane);
    }
    for (WeightTensor& tensor : put_) {
      std::string name = tensor.name;
      tensors_.insert_or_assign(std::move(name), std::move(tensor));
    }
    for (auto& [name, tensor] : tensors_) {
      const CodesType* const type = FindCodesType(tensor.type);
      if (tensor.layer != nullptr || type == nullptr || type->bits == 8 || type->is_float) continue;
      GiveReason(
          "no node that is read gives its codes scales; int4-g32-f16 is closest: gemm "
          "quantize makes it of the f16 or f32 file",
          tensor);
    }
  }

  const std::vector<OnnxNode>& nodes_;
  TensorsByName& tensors_;
  std::map<absl::string_view, int> k_axes_;
  std::map<std::string, Made> made_;  // by the name of the codes
  std::vector<WeightTensor> put_;
};

}  // namespace

bool MakesOnnxLayers(const OnnxNode& node) {
  for (const absl::string_view type :
       {"MatMulNBits", "MatMul", "MatMulInteger", "Gemm", "Transpose"}) {
    if (node.type == type) return true;
  }
  return std::any_of(std::begin(kReadings), std::end(kReadings),
                     [&](const Reading& each) { return each.node == node.type; }) ||
         std::any_of(std::begin(kUnread), std::end(kUnread),
                     [&](const Unread& each) { return each.node == node.type; });
}

void CombineOnnxLayers(const std::vector<OnnxNode>& nodes, TensorsByName& tensors) {
  Combiner(nodes, tensors).Combine();
}

}  // namespace gemmd::client
