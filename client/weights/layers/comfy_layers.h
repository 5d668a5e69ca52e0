// Matrices of safetensors that ComfyUI quantized: X.comfy_quant, a JSON text of U8, says how
// X.weight and what stands beside it are meant. Values; no files.
//
//   format           X.weight                      X.weight_scale
//   float8_e4m3fn,   F8_E4M3, F8_E5M2 and I8, as   as scaled_layers.h has them
//   float8_e5m2,     scaled_layers.h has them
//   int8_tensorwise
//   nvfp4            U8 [N, K/2], the first of     F8_E4M3 of 16 of K, in the tiles of tcgen05:
//                    two in the high half          [128 * ceil(N/128), 4 * ceil(K/64)]
//   mxfp8            F8_E4M3 [N, K]                U8 or F8_E8M0 of 32 of K, in the same tiles:
//                                                  [128 * ceil(N/128), 4 * ceil(K/128)]
//
// X.weight_scale_2, one F32, multiplies nvfp4. Scales in lines may have the shape of tiles, and
// ModelOpt has the same names for them: the text alone tells the two apart. A layer with `convrot`
// is not what it multiplies by: its K is rotated first.
//
// Source: comfy-kitchen 0.2.40, tensor/nvfp4.py, mxfp8.py, int8.py and backends/eager.
#pragma once

#include "absl/strings/string_view.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is such a text by its name.
bool IsNameOfComfy(absl::string_view name);

// Puts a tensor in the place of those of each layer of nvfp4 and mxfp8, and of those that have no
// form, which say why; others stay as they are, for scaled_layers.h.
void CombineComfyLayers(TensorsByName& tensors);

}  // namespace gemmd::client
