// A tensor of a file of weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/bytes.h"

namespace gemmd::client {

struct PackedLayer;

// Its description in the file, and its bytes where they lie. Keeps the file's mapping.
struct WeightTensor {
  std::string name;
  bool is_gguf = false;              // its type is one of gguf_types.h, else of safetensors_types.h
  std::string type;                  // as the file's format names it: "BF16", "Q4_0"
  std::vector<std::uint64_t> shape;  // as torch has it: the dimension that runs fastest last
  Bytes bytes;
  // Made of several tensors of the file (packed_layers.h), instead of bytes; else null.
  std::shared_ptr<const PackedLayer> layer;
};

// The bytes that it takes in the file.
std::uint64_t FileBytes(const WeightTensor& tensor);

// "[4096, 1024]"
std::string ShapeText(const std::vector<std::uint64_t>& shape);

}  // namespace gemmd::client
