#include "client/weights/layers/bitsandbytes_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/numbers/quant/code_table.h"
#include "base/text/quoted.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<std::uint64_t>;

constexpr absl::string_view kState = ".quant_state.bitsandbytes__";
constexpr std::size_t kMostStateBytes = 4096;
constexpr int kMostDepth = 2;
constexpr std::uint64_t kMostBlock = std::uint64_t{1} << 20;

struct Kind {
  absl::string_view name;  // quant_type
  DataType element;
};
constexpr Kind kKinds[] = {{"nf4", DataType::kNf4}, {"fp4", DataType::kBnbFp4}};

// The JSON text of a layer.
struct State {
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t block = 0;
  std::uint64_t nested_block = 0;  // 0: scales are not nested
  float nested_offset = 0;
};

absl::Status Wrong(absl::string_view field, const std::string& is, absl::string_view must) {
  return absl::InvalidArgumentError(
      absl::StrCat("its quant_state's ", field, " is ", is, "; it must be ", must));
}

std::string Shown(const Json& value) {
  return Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

absl::StatusOr<std::uint64_t> WholeNumber(absl::string_view field, const Json& value,
                                          std::uint64_t most) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
      value.get<std::uint64_t>() <= most) {
    return value.get<std::uint64_t>();
  }
  return Wrong(field, Shown(value), absl::StrCat("a whole number from 1 to ", most));
}

absl::Status ReadNesting(const Json& json, State& state) {
  const Json block = json.value("nested_blocksize", Json());
  if (block.is_null()) return absl::OkStatus();
  const absl::StatusOr<std::uint64_t> size = WholeNumber("nested_blocksize", block, kMostBlock);
  if (!size.ok()) return size.status();
  const Json offset = json.value("nested_offset", Json());
  const double number = offset.is_number() ? offset.get<double>() : HUGE_VAL;
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) {
    return Wrong("nested_offset", Shown(offset), "a finite number of f32");
  }
  state.nested_block = *size;
  state.nested_offset = static_cast<float>(number);
  return absl::OkStatus();
}

absl::StatusOr<State> ParseState(const WeightTensor& tensor, const Kind& kind) {
  const absl::string_view text = tensor.bytes.view();
  if (tensor.type != "U8" || text.size() > kMostStateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("its quant_state is ", tensor.type, " of ",
                                                   ShapeText(tensor.shape),
                                                   "; it must be U8 of at most ", kMostStateBytes));
  }
  // Without values deeper than any of its fields, whose copies and texts would recurse.
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kMostDepth; };
  const Json json = Json::parse(text.begin(), text.end(), keep, false);
  if (!json.is_object()) return absl::InvalidArgumentError("its quant_state is no JSON object");
  const Json type = json.value("quant_type", Json());
  if (type != std::string(kind.name)) return Wrong("quant_type", Shown(type), Quoted(kind.name));
  const Json shape = json.value("shape", Json());
  if (!shape.is_array() || shape.size() != 2) {
    return Wrong("shape", Shown(shape), "N and K: stacks are read as matrices of their own alone");
  }
  State state;
  std::uint64_t* const numbers[] = {&state.n, &state.k, &state.block};
  const Json values[] = {shape[0], shape[1], json.value("blocksize", Json())};
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<std::uint64_t> number =
        WholeNumber(i < 2 ? "shape" : "blocksize", values[i], i < 2 ? kMaxDimension : kMostBlock);
    if (!number.ok()) return number.status();
    *numbers[i] = *number;
  }
  if (absl::Status s = ReadNesting(json, state); !s.ok()) return s;
  return state;
}

// Planes are looked for behind one name.
class Planes {
 public:
  Planes(const TensorsByName& tensors, const std::string& base) : tensors_(tensors), base_(base) {}

  absl::StatusOr<const WeightTensor*> Find(absl::string_view plane, absl::string_view type,
                                           const Shape& shape) const {
    const WeightTensor* const tensor = FindTensor(tensors_, absl::StrCat(base_, ".", plane));
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("its ", plane, " is missing"));
    }
    const std::string why = WhyNotOf(plane, *tensor, type, shape);
    if (!why.empty()) return absl::InvalidArgumentError(why);
    return tensor;
  }

 private:
  const TensorsByName& tensors_;
  const std::string& base_;
};

// Another table than bitsandbytes' own, which its decoders would not read, stands for other values.
absl::Status CheckTable(const WeightTensor& tensor, const Kind& kind) {
  CodeTable table;
  std::memcpy(table.data(), tensor.bytes.view().data(), sizeof table);
  if (table == *CodeTableOf(kind.element)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its quant_map is not the table of ", kind.name, " that bitsandbytes has"));
}

absl::Status ReadScales(const Planes& planes, const State& state, Layer& layer) {
  const std::uint64_t blocks = CeilOfRatio(state.n * state.k, state.block);
  const bool is_nested = state.nested_block != 0;
  const auto absmax = planes.Find("absmax", is_nested ? "U8" : "F32", {blocks});
  if (!absmax.ok()) return absmax.status();
  layer.scale_type = DataType::kF32;
  layer.scales = PlaneOfLines((*absmax)->bytes, is_nested ? 8 : 32, blocks);
  layer.run = state.block;
  // Where a row has no whole number of them, blocks that divide rows and them.
  const bool are_of_rows = state.n == 1 || state.k % state.block == 0;
  layer.block = {1, are_of_rows ? state.block : std::gcd(state.k, state.block)};
  if (!is_nested) return absl::OkStatus();
  const auto map = planes.Find("nested_quant_map", "F32", {256});
  if (!map.ok()) return map.status();
  const std::uint64_t runs = CeilOfRatio(blocks, state.nested_block);
  const auto nested = planes.Find("nested_absmax", "F32", {runs});
  if (!nested.ok()) return nested.status();
  layer.nested =
      NestedScales{PlaneOfLines((*map)->bytes, 32, 256), PlaneOfLines((*nested)->bytes, 32, runs),
                   state.nested_block, state.nested_offset};
  return absl::OkStatus();
}

absl::Status ReadLayer(const Planes& planes, const WeightTensor& codes, const State& state,
                       const Kind& kind, Layer& layer) {
  const std::uint64_t bytes = (state.n * state.k + 1) / 2;
  if (codes.bytes.view().size() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("its codes have ", codes.bytes.view().size(),
                                                   " bytes; ", state.n, " x ", state.k, " take ",
                                                   bytes));
  }
  if (state.n > 1 && state.k % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its K is ", state.k, ", so that rows begin within a byte; K must be even"));
  }
  const auto map = planes.Find("quant_map", "F32", {16});
  if (!map.ok()) return map.status();
  if (absl::Status s = CheckTable(**map, kind); !s.ok()) return s;
  layer.element = kind.element;
  layer.codes = PlaneOfLines(codes.bytes, 4, state.k);
  layer.codes.k.step = 8;
  layer.codes.k.per_word = 2;
  layer.codes.k.places = {1, 0};
  return ReadScales(planes, state, layer);
}

void CombineFourBits(const std::string& base, const Kind& kind, TensorsByName& tensors) {
  const WeightTensor* const codes = FindTensor(tensors, base);
  if (codes == nullptr || codes->layer != nullptr) return;
  const std::string state_name = absl::StrCat(base, kState, kind.name);
  Layer layer;
  layer.type = absl::StrCat("bitsandbytes ", kind.name);
  Shape shape = codes->shape;
  const absl::StatusOr<State> state = ParseState(*FindTensor(tensors, state_name), kind);
  absl::Status status = state.status();
  if (state.ok()) {
    shape = {state->n, state->k};
    status = ReadLayer(Planes(tensors, base), *codes, *state, kind, layer);
  }
  layer.why = std::string(status.message());
  if (status.ok()) FindForm(shape[0], shape[1], layer);
  std::vector<std::string> planes = {base, state_name};
  for (const char* plane : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) {
    planes.push_back(base + plane);
  }
  Replace(planes, base, std::move(shape), std::move(layer), tensors);
}

// Empty: the codes' rows are in order.
std::string WhyNotByRows(const WeightTensor* format) {
  if (format == nullptr) return "";
  const absl::string_view bytes = format->bytes.view();
  if (format->type == "U8" && bytes == absl::string_view("\0", 1)) return "";
  return "its weight_format is not 0: its codes have an order of old versions";
}

void CombineInt8(const std::string& prefix, TensorsByName& tensors) {
  const std::string name = prefix + ".weight";
  const WeightTensor* const codes = FindTensor(tensors, name);
  if (codes == nullptr || codes->layer != nullptr || codes->type != "I8") return;
  Shape shape = codes->shape;
  const WeightTensor& scales = *FindTensor(tensors, prefix + ".SCB");
  Layer layer;
  layer.type = "bitsandbytes int8";
  const bool has_size = shape.size() == 2 && shape[0] >= 1 && shape[1] >= 1 &&
                        shape[0] <= kMaxDimension && shape[1] <= kMaxDimension;
  layer.why = has_size ? WhyNotOf("SCB", scales, "F32", {shape[0]})
                       : absl::StrCat("its codes are I8 of ", ShapeText(shape),
                                      "; they must be I8 of [N, K]");
  if (layer.why.empty()) layer.why = WhyNotByRows(FindTensor(tensors, prefix + ".weight_format"));
  if (layer.why.empty()) {
    layer.element = DataType::kInt8;
    layer.codes = PlaneOfLines(codes->bytes, 8, shape[1]);
    layer.block = {1, 0};
    layer.scale_type = DataType::kF32;
    layer.scales = PlaneOfLines(scales.bytes, 32, 1);
    layer.scale_factor = 1 / 127.0F;
    FindForm(shape[0], shape[1], layer);
  }
  Replace({name, prefix + ".SCB", prefix + ".weight_format"}, name, std::move(shape),
          std::move(layer), tensors);
}

}  // namespace

bool IsNameOfBitsandbytes(absl::string_view name) {
  return absl::EndsWith(name, ".SCB") ||
         std::any_of(std::begin(kKinds), std::end(kKinds), [name](const Kind& kind) {
           return absl::EndsWith(name, absl::StrCat(kState, kind.name));
         });
}

void CombineBitsandbytesLayers(TensorsByName& tensors) {
  for (const Kind& kind : kKinds) {
    for (const std::string& base : NamesBefore(tensors, absl::StrCat(kState, kind.name))) {
      CombineFourBits(base, kind, tensors);
    }
  }
  for (const std::string& prefix : NamesBefore(tensors, ".SCB")) CombineInt8(prefix, tensors);
}

}  // namespace gemmd::client
