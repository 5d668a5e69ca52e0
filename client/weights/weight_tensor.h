// A tensor of a file of weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/bytes.h"

namespace gemmd::client {

struct Layer;

// Its description in the file, and its bytes where they lie. Keeps the file's mapping.
struct WeightTensor {
  std::string name;
  bool is_gguf = false;              // its type is one of gguf_types.h, else of safetensors_types.h
  std::string type;                  // as the file's format names it: "BF16", "Q4_0"
  std::vector<std::uint64_t> shape;  // as torch has it: the dimension that runs fastest last
  Bytes bytes;
  // Made of several tensors of the file (layer.h), instead of bytes; else null.
  std::shared_ptr<const Layer> layer;
  bool is_column_major = false;  // the first dimension runs fastest in the bytes instead
};

// Three dimensions are a stack of matrices, of which each has a name of its own: "NAME[3]".
inline bool IsStack(const WeightTensor& tensor) { return tensor.shape.size() == 3; }

// REQUIRES: it is a stack, and index < shape[0].
WeightTensor MatrixOf(const WeightTensor& stack, std::uint64_t index);

// The bytes that it takes in the file.
std::uint64_t FileBytes(const WeightTensor& tensor);

// Gives back the memory of its bytes, as client/file.h does.
void ReleasePages(const WeightTensor& tensor);

// "[4096, 1024]"
std::string ShapeText(const std::vector<std::uint64_t>& shape);

}  // namespace gemmd::client
