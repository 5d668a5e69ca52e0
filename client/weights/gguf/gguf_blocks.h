// Blocks of GGUF's quantized types, each made into blocks of the format that gguf_types.h names.
// Exact: the value of an element is what ggml's own decoder rounds to f32, but that a zero has no
// sign.
//
// Layouts of types of few elements; gguf_k_decoders.cc has the others. "halves" means that byte j
// of the codes holds element j in its low half and element j + 16 in the high one.
//
//   Q8_0    f16 d, 32 int8 codes
//   Q5_0    f16 d, a bit of each of 32 codes (the highest), halves; codes less 16
//   Q5_1    f16 d, f16 offset, the bits, halves
//   Q4_0    f16 d, halves; codes less 8
//   Q4_1    f16 d, f16 offset, halves
//   IQ4_NL  f16 d, halves; codes stand for integers of a table
//   IQ4_XS  f16 d, then 6 bits less 32 for each 32 of 256 elements: all high 2 of them in a u16,
//           all low 4; then halves of 32 each. A scale is d times that integer
//   MXFP4   E8M0 scale, halves of E2M1
//   NVFP4   4 scales of E4M3 without a sign; 4 times 16 elements of E2M1 in 8 bytes, whose low
//           halves are the first 8
//
// d may be below zero, and is in most blocks of Q4_0 and Q5_0, whose largest element by magnitude
// is -8 or -16 times d.
//
// Source: ggml-quants.c and ggml-common.h; tests/client/weights/against_tools.py compares with
// gguf 0.19.0.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/quantized/quantized_array.h"
#include "client/weights/gguf/gguf_types.h"

namespace gemmd::client {

// A matrix of lines of K elements, K its columns. INVALID_ARGUMENT, with the place and the cause: a
// block has no form, for its scale is NaN or infinite, say.
//
// REQUIRES: the type has a format; k is a multiple of its block, and the bytes are all blocks.
absl::StatusOr<QuantizedArray> DecodeGgufBlocks(const GgufType& type, std::uint64_t lines,
                                                std::uint64_t k, absl::string_view bytes);

}  // namespace gemmd::client
