// An ONNX file: the matrices among a model's initializers and constants, and those that its nodes
// make of codes and scales (onnx_layers.h). Read over the mapped bytes, which may be gigabytes.
//
//   ModelProto      ir_version 1, graph 7
//   GraphProto      node 1, initializer 5, sparse_initializer 15
//   NodeProto       input 1, output 2, op_type 4, attribute 5
//   AttributeProto  name 1, i 3, t 5, g 6, ints 8
//
// Initializers of graphs within nodes, such as the branches of an If, are not read; their nodes
// are, for they use those of the graph around them. Source: onnx.proto3 of onnx 1.23.2.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/bytes.h"
#include "client/weights/onnx/onnx_tensor.h"
#include "client/weights/weight_tensor.h"

namespace gemmd::client {

inline constexpr std::size_t kMostOnnxTensors = std::size_t{1} << 18;
inline constexpr std::size_t kMostOnnxNodes = std::size_t{1} << 20;
inline constexpr int kMostOnnxDepth = 16;           // of graphs in nodes of graphs
inline constexpr std::size_t kMostOnnxInputs = 16;  // of a node: the others are left out

struct OnnxNode {
  absl::string_view type;
  std::vector<absl::string_view> inputs;  // "": it is not given
  absl::string_view output;               // the first
  // By name; of a list the first.
  std::map<absl::string_view, std::int64_t> integers;
};

// The bytes with which BeginsAsOnnx() needs to be called, or all that there are.
inline constexpr std::size_t kOnnxPreambleBytes = 16;

// ONNX has no magic number. Returns whether the bytes begin with a ModelProto's ir_version of 3 or
// more, as 2017's first release of ONNX has it, and another field of one: texts are printable.
// TensorFlow's SavedModel begins like one of version 1.
bool BeginsAsOnnx(absl::string_view begin);

// In the order of their names. INVALID_ARGUMENT, with the place or the tensor: the message is cut
// off, or is no model, has two graphs, or a name twice; or there is more than the limits above
// allow. Else as OnnxTensorReader::Read().
absl::StatusOr<std::vector<WeightTensor>> ParseOnnx(const Bytes& file, const OpenBesideOnnx& open);

}  // namespace gemmd::client
