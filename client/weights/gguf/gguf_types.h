// The element types of GGUF, by number and name: what a block of each takes in a file, and the form
// in which servers take it. Source: ggml.h (enum ggml_type) and gguf 0.19.0's GGML_QUANT_SIZES.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/numbers/types.h"

namespace gemmd::client {

struct GgufType {
  std::uint32_t number;
  std::optional<DataType> element;  // of matrices that servers take as they are
  absl::string_view name;
  std::uint64_t block_elements;  // along the dimension that runs fastest
  std::uint64_t block_bytes;     // 0: programs differ, so that a tensor's end is not known
  absl::string_view format;      // without `element`, the quantized format of the same values
  absl::string_view why;         // without both, why there is none, and what is closest
};

absl::Span<const GgufType> GgufTypes();

// Null: there is none of that number.
const GgufType* FindGgufType(std::uint32_t number);

}  // namespace gemmd::client
