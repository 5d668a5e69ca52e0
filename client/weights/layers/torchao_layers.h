// Matrices that torchao quantized and saved as safetensors. The file's metadata has a JSON text
// under the name of each, MODULE.PARAM: its class and attributes. Values; no files.
//
//                              NVFP4Tensor              MXTensor
//   MODULE._PARAM_qdata        U8 [N, K/2]              F8_E4M3 or F8_E5M2 [N, K], U8 [N, K/2]
//   MODULE._PARAM_scale        F8_E4M3, for each        F8_E8M0, for each block_size of K
//                              block_size of K
//   MODULE._PARAM_per_tensor_scale
//                              F32 that multiplies      none
//
// Two codes of 4 bits are in a byte, the first low. Scales are [N, blocks] or, where the attribute
// is_swizzled_scales is true, in tiles of 128 x 4, those of a tile in rows of 32, as tcgen05 has
// them: [32 for each 128 of N, 16 for each 4 blocks]. Stacks have one dimension more, the first.
//
// Int4Tensor has codes from -8 to 7, I8 [N, K/2], scales F16 or BF16 [blocks, N], and in
// zero_point, as the scales, offsets: an element is worth code * scale + zero_point.
//
// Float8Tensor, Int8Tensor and IntxUnpackedToInt8Tensor have rows of codes and scales, which
// scaled_layers.h reads; other classes are refused by their name.
//
// Sources: torchao 0.18.0, prototype/safetensors/, prototype/mx_formats/ and
// quantization/quantize_/workflows/int4/int4_tensor.py; FBGEMM's quantize.py, which quantizes
// Int4Tensor.
#pragma once

#include "absl/strings/string_view.h"
#include "client/weights/layers/layer_config.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is one of codes by its name.
bool IsNameOfTorchao(absl::string_view name);

// Puts a tensor in the place of those of each layer of these classes, of which `metadata` speaks;
// one that has no form says why.
void CombineTorchaoLayers(const FileMetadata& metadata, TensorsByName& tensors);

}  // namespace gemmd::client
