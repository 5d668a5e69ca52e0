// Matrices of safetensors that HQQ quantized to 1, 2, 4 or 8 bits along K: X.W_q and what stands
// beside it make X.weight. Values; no files.
//
//   X.W_q        U8 [N/c * K/group, group], of c codes a byte: that of line n < N/c is in the
//                highest bits, those of lines n + N/c and so on in the next ones
//   X.scale      F16, BF16 or F32 [N * K/group, 1], line by line
//   X.zero       zero points, as the scales: a code is worth (code - zero) * scale
//   X.shape      I64 [2], N and K
//   X.nbits, X.group_size, X.axis
//                I32, of which the last is 1: groups lie along K
//   X.packing    U8, a text: "4bit_u8" of 4 bits
//
// Zero points are no whole numbers, so that they become offsets, -(zero * scale), which f32 has;
// products of F32 are rounded to it. Groups along N (`axis` 0) have another scale for each k, which
// no block along K has. HQQ itself rounds each step to its type of scales.
//
// Source: hqq 0.2.8.post1, core/quantize.py and core/bitpack.py.
#pragma once

#include "absl/strings/string_view.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is one of codes by its name.
bool IsNameOfHqq(absl::string_view name);

// Puts a tensor in the place of those of each layer; one that has no form says why.
void CombineHqqLayers(TensorsByName& tensors);

}  // namespace gemmd::client
