// Matrices of safetensors that MLX quantized: X.weight, X.scales and perhaps X.biases make X.weight
// of N x K. Values; no files.
//
//   mode     X.weight               X.scales, [N, K/group]       X.biases
//   affine   U32 [N, K*bits/32]     F32, F16 or BF16             as the scales
//   mxfp4    U32 [N, K/8], E2M1     U8, E8M0 of 32 of K          none
//   mxfp8    U32 [N, K/4], E4M3     U8, E8M0 of 32 of K          none
//   nvfp4    U32 [N, K/8], E2M1     U8, E4M3 of 16 of K          none
//
// Codes follow each other without gaps, the first in the lowest bits; affine has 2, 3, 4, 5, 6 or 8
// bits, and a code is worth code * scale + bias, which MLX itself rounds to the type of the scales.
// Words for a group are group * bits / 32, so that shapes say the mode of those without biases;
// config.json says the group of affine. A stack has a dimension more, before the others.
//
// Source: mlx 0.32.4, ops.quantize and ops.dequantize.
#pragma once

#include "absl/strings/string_view.h"
#include "client/weights/layers/layer_config.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is one of scales by its name.
bool IsNameOfMlx(absl::string_view name);

// Puts a tensor in the place of those of each layer; one that has no form says why.
void CombineMlxLayers(const LayerConfig& config, TensorsByName& tensors);

}  // namespace gemmd::client
