#include "client/weights/onnx/onnx.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/weights/layers/layer_tensors.h"
#include "client/weights/onnx/onnx_layers.h"
#include "client/weights/onnx/proto_wire.h"

namespace gemmd::client {
namespace {

constexpr std::uint8_t kIrVersionTag = 1 << 3;
constexpr std::uint8_t kFirstIrVersion = 3;
constexpr std::uint8_t kMostIrVersion = 127;  // of one byte; onnx 1.23 writes 14

absl::Status Refused(absl::string_view where, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(where, " ", why));
}

class ModelReader {
 public:
  ModelReader(const Bytes& file, const OpenBesideOnnx& open)
      : file_(file), tensor_reader_(file, open) {}

  absl::StatusOr<std::vector<WeightTensor>> Read() {
    WireReader reader = ReaderOf(file_.view());
    bool has_graph = false;
    while (!reader.AtEnd()) {
      const absl::StatusOr<WireField> field = reader.Next();
      if (!field.ok()) return field.status();
      if (field->number != 7 || field->kind != WireKind::kBytes) continue;
      if (std::exchange(has_graph, true)) return Refused("the model", "has two graphs");
      if (absl::Status s = ReadGraph(field->bytes, 0); !s.ok()) return s;
    }
    if (!has_graph) {
      return Refused("the file", "begins as an ONNX model and has no graph, its field 7");
    }
    for (const absl::string_view name : inner_names_) {
      if (FindTensor(tensors_, std::string(name)) == nullptr) continue;
      return Refused(absl::StrCat("tensor ", Quoted(name)),
                     "comes twice, once in a graph within a node");
    }
    if (absl::Status s = tensor_reader_.CheckApart(); !s.ok()) return s;
    CombineOnnxLayers(nodes_, tensors_);
    std::vector<WeightTensor> tensors;
    for (auto& [name, tensor] : tensors_) tensors.push_back(std::move(tensor));
    return tensors;
  }

 private:
  WireReader ReaderOf(absl::string_view message) const { return {message, file_.view().data()}; }

  absl::Status ReadGraph(absl::string_view message, int depth) {
    if (depth > kMostOnnxDepth) {
      return Refused("the model", absl::StrCat("has graphs in nodes more than ", kMostOnnxDepth,
                                               " deep, the most that is accepted"));
    }
    WireReader reader = ReaderOf(message);
    while (!reader.AtEnd()) {
      const absl::StatusOr<WireField> field = reader.Next();
      if (!field.ok()) return field.status();
      if (field->kind != WireKind::kBytes) continue;
      absl::Status status;
      if (field->number == 1) status = ReadNode(field->bytes, depth);
      if (field->number == 5) status = ReadInitializer(field->bytes, depth);
      if (field->number == 15 && depth == 0) status = ReadSparse(field->bytes);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadInitializer(absl::string_view message, int depth) {
    if (depth == 0) {
      absl::StatusOr<WeightTensor> tensor = tensor_reader_.Read(message);
      return tensor.ok() ? Add(*std::move(tensor)) : tensor.status();
    }
    WireReader reader = ReaderOf(message);
    while (!reader.AtEnd()) {
      const absl::StatusOr<WireField> field = reader.Next();
      if (!field.ok()) return field.status();
      if (field->number == 8) inner_names_.push_back(field->bytes);
    }
    return absl::OkStatus();
  }

  // Its values have the name that all of it has.
  absl::Status ReadSparse(absl::string_view message) {
    WireReader reader = ReaderOf(message);
    while (!reader.AtEnd()) {
      const absl::StatusOr<WireField> field = reader.Next();
      if (!field.ok()) return field.status();
      if (field->number != 1 || field->kind != WireKind::kBytes) continue;
      absl::StatusOr<WeightTensor> tensor = tensor_reader_.Read(field->bytes);
      if (!tensor.ok()) return tensor.status();
      GiveReason("it is sparse; a dense F32 is closest", *tensor);
      return Add(*std::move(tensor));
    }
    return absl::OkStatus();
  }

  absl::Status Add(WeightTensor tensor) {
    if (tensor.name.empty()) {
      return Refused(absl::StrCat("tensor ", tensors_.size()), "has no name");
    }
    if (tensors_.size() == kMostOnnxTensors) {
      return Refused("the model", absl::StrCat("has more than ", kMostOnnxTensors, " tensors"));
    }
    std::string name = tensor.name;
    if (tensors_.emplace(name, std::move(tensor)).second) return absl::OkStatus();
    return Refused(absl::StrCat("tensor ", Quoted(name)), "comes twice");
  }

  absl::Status ReadNode(absl::string_view message, int depth) {
    OnnxNode node;
    std::vector<absl::string_view> attributes;
    WireReader reader = ReaderOf(message);
    while (!reader.AtEnd()) {
      const absl::StatusOr<WireField> field = reader.Next();
      if (!field.ok()) return field.status();
      if (field->kind != WireKind::kBytes) continue;
      if (field->number == 1 && node.inputs.size() < kMostOnnxInputs) {
        node.inputs.push_back(field->bytes);
      }
      if (field->number == 2 && node.output.empty()) node.output = field->bytes;
      if (field->number == 4) node.type = field->bytes;
      if (field->number == 5) attributes.push_back(field->bytes);
    }
    for (const absl::string_view attribute : attributes) {
      if (absl::Status s = ReadAttribute(attribute, depth, node); !s.ok()) return s;
    }
    if (!MakesOnnxLayers(node)) return absl::OkStatus();
    if (nodes_.size() == kMostOnnxNodes) {
      return Refused("the model", absl::StrCat("has more than ", kMostOnnxNodes, " nodes"));
    }
    nodes_.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status ReadAttribute(absl::string_view message, int depth, OnnxNode& node) {
    absl::string_view name;
    absl::string_view tensor;
    bool has_integer = false;
    std::uint64_t integer = 0;
    WireReader reader = ReaderOf(message);
    while (!reader.AtEnd()) {
      const absl::StatusOr<WireField> field = reader.Next();
      if (!field.ok()) return field.status();
      const bool is_bytes = field->kind == WireKind::kBytes;
      if (field->number == 1 && is_bytes) name = field->bytes;
      if (field->number == 5 && is_bytes) tensor = field->bytes;
      const bool is_first = field->number == 8 && !has_integer;
      if ((field->number == 3 || is_first) && field->kind == WireKind::kVarint) {
        has_integer = true;
        integer = field->value;
      } else if (is_first && !field->bytes.empty()) {
        const absl::StatusOr<std::uint64_t> first = ReaderOf(field->bytes).NextVarint();
        if (!first.ok()) return first.status();
        has_integer = true;
        integer = *first;
      }
      if ((field->number == 6 || field->number == 11) && is_bytes) {
        if (absl::Status s = ReadGraph(field->bytes, depth + 1); !s.ok()) return s;
      }
    }
    if (has_integer) node.integers[name] = static_cast<std::int64_t>(integer);
    const bool is_constant = node.type == "Constant" && name == "value" && depth == 0;
    if (!is_constant || tensor.empty()) return absl::OkStatus();
    absl::StatusOr<WeightTensor> constant = tensor_reader_.Read(tensor);
    if (!constant.ok()) return constant.status();
    constant->name = std::string(node.output);
    return Add(*std::move(constant));
  }

  const Bytes& file_;
  OnnxTensorReader tensor_reader_;
  TensorsByName tensors_;
  std::vector<OnnxNode> nodes_;
  std::vector<absl::string_view> inner_names_;
};

}  // namespace

bool BeginsAsOnnx(absl::string_view begin) {
  if (begin.size() < 3) return false;
  const auto at = [begin](std::size_t i) { return static_cast<std::uint8_t>(begin[i]); };
  if (at(0) != kIrVersionTag || at(1) < kFirstIrVersion || at(1) > kMostIrVersion) return false;
  // The fields of a ModelProto that may be next, with their kinds: a graph, model_version, others.
  constexpr absl::string_view kTexts = "\x12\x1a\x22\x32";
  constexpr absl::string_view kOthers = "\x28\x3a\x42\x72";
  if (kOthers.find(begin[2]) != absl::string_view::npos) return begin.size() > 3;
  if (kTexts.find(begin[2]) == absl::string_view::npos || begin.size() < 4) return false;
  if (at(3) >= 0x80) return true;  // a text of some length, which begins later
  const absl::string_view text = begin.substr(4, at(3));
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<std::uint8_t>(c) >= ' ' && c != '\x7f'; });
}

absl::StatusOr<std::vector<WeightTensor>> ParseOnnx(const Bytes& file, const OpenBesideOnnx& open) {
  return ModelReader(file, open).Read();
}

}  // namespace gemmd::client
