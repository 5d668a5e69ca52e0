// Matrices of safetensors whose scales are in tensors beside them, as BASE + "_scale" and the like;
// a BASE is "model.layers.0.mlp.up_proj.weight", say. Each becomes one tensor, BASE. Stacks of them
// have one dimension more, the first. Values; no files.
//
//   codes                            scales                           written by
//   BASE          F8 or I8 [N, K]    _scale, _scale_inv: F32, F16,    DeepSeek, compressed-tensors,
//                                    BF16 or F8_E8M0, of blocks       ModelOpt and others
//   BASE          F8 [N, K]          _scale U8, E8M0 of 32 of K       MXFP8 of both
//   BASE          U8 [N, K/2], F4    _scale F8_E4M3, of 16 of K,      NVFP4 of ModelOpt
//                                    times _scale_2 F32
//   BASE_packed   U8 [N, K/2]        the same, by _global_scale F32   NVFP4 of compressed-tensors
//   BASE, _packed U8 [N, K/2], F4    _scale U8 or E8M0, of 32 of K    MXFP4 of both
//   BASE          U8 [N/2, K]        _scale of groups of K            INT4 of ModelOpt
//   BASE_packed   I32 [N, words]     _scale of groups of K            pack-quantized
//   BASE_blocks   U8 [N, K/32, 16]   _scales U8 [N, K/32], E8M0       gpt-oss
//   BASE._data    I8, F8 [N, K]      ._scale F32, F16, BF16 [N, 1]    quanto
//
// Two codes of 4 bits are in a byte, the first low; in ModelOpt's INT4 they are of two rows. Codes
// of "pack-quantized" are offset to unsigned numbers and packed along K in int32, and its zero
// points, _zero_point I32 [words, groups], along N; _shape has N and K. Zero points of I8 codes are
// I8. A scale multiplies, "_inv" too, but _global_scale divides.
//
// The names X.weight and X.scale_weight, of ComfyUI, and X._P_qdata and X._P_scale, of torchao, are
// read as X.weight and X.weight_scale, X.P and X.P_scale; torchao_layers.h reads its other classes.
//
// Sources: compressed-tensors 0.20.0, compressors/; ModelOpt 0.47.0, export/quant_utils.py;
// transformers 5.24.0, integrations/finegrained_fp8.py and mxfp4.py; torchao 0.18.0,
// prototype/safetensors/; optimum-quanto 0.2.7, tensor/weights/qbytes.py.
#pragma once

#include "client/weights/layers/layer_config.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is one of scales by its name.
bool IsNameOfScales(absl::string_view name);

// Puts a tensor in the place of those of each layer. Where a matrix would be read as exact without
// scales that stand beside it, or without what else bitsandbytes and quanto put there, its
// layer says why it has no form.
void CombineScaledLayers(const LayerConfig& config, TensorsByName& tensors);

}  // namespace gemmd::client
