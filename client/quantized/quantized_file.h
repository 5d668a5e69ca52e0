// Quantized matrices as safetensors files, which `gemm quantize` writes; docs/quantization.md
// ("Containers") specifies them. One file holds one matrix.
//
// A file is believed about nothing: its format and shape must account for each plane's type, shape
// and bytes, and the planes for the whole file, before memory is taken for them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/quantized/quantized_array.h"
#include "client/quantized/safetensors.h"

namespace gemmd::client {

// The header's matrix without its bytes, and where these lie behind the header.
struct QuantizedLayout {
  QuantizedArray array;
  SafetensorsTensor codes;
  SafetensorsTensor scales;
  SafetensorsTensor zero_points;   // end 0: there are none
  SafetensorsTensor tensor_scale;  // likewise
  SafetensorsTensor offsets;       // likewise
  SafetensorsTensor k_order;       // likewise
};

// INVALID_ARGUMENT names what is wrong with the text, `data_bytes` of which must all be used.
absl::StatusOr<QuantizedLayout> ParseQuantizedHeader(absl::string_view text,
                                                     std::uint64_t data_bytes);

// Errors of the rest begin with the path.

// Returns whether a file is to be read as a container: its name ends in .gq or .safetensors, or it
// begins as one. False for what cannot be opened.
bool IsQuantizedFile(const std::string& path);

absl::StatusOr<QuantizedArray> ReadQuantizedFile(const std::string& path);

// Whole or not at all (file.h).
absl::Status WriteQuantizedFile(const std::string& path, const QuantizedArray& array);

}  // namespace gemmd::client
