// The element types of ONNX's TensorProto, by number, with the names that safetensors has for the
// same types. Source: onnx.proto3 of onnx 1.23.2, TensorProto.DataType.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gemmd::client {

struct OnnxType {
  std::uint64_t number;
  std::uint64_t field;  // of TensorProto that has its values where raw_data has not
  absl::string_view name;
  int bits;         // of an element; neighbours of less than 8 share a byte. 0: none is known
  int entry_bytes;  // that an entry of int32_data stands for; 0: they are in another field
};

// Null: there is none of that number.
const OnnxType* FindOnnxType(std::uint64_t number);

}  // namespace gemmd::client
