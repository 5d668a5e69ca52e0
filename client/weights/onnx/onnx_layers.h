// Matrices that nodes of an ONNX model read by scales. Each becomes one tensor, N x K as torch has
// it, under the name of the node's codes. Values; no files.
//
//   node                  codes                          scales, zero points
//   MatMulNBits           B U8 [N, blocks, bytes],       [N, blocks] or [N * blocks]; U8 [N, bytes
//                         packed along K, whole blocks   of all blocks], packed, or 2^(bits-1)
//   DequantizeLinear      x [K, N] or [N, K]             one; one for each of axis; or of blocks of
//                                                        block_size along axis. Zero points the
//                                                        same, of the codes' type
//   QLinearMatMul, QGemm, B [K, N]                       the same, without blocks
//   and others like them
//
// Codes of 2 and 4 bits of MatMulNBits are packed with the first lowest; those of types of so many
// bits likewise, without a gap at the end of a row. x is K x N where a MatMul reads it as its
// second input, or a Gemm without transB, or one of these by a Transpose; else the scales of rows
// or blocks tell.
//
// NAME_quantized with NAME_scale, and perhaps NAME_zero_point, are what onnxruntime's
// quantize_dynamic() makes of NAME for MatMulInteger: the scale is in no node with the codes.
//
// Sources: onnxruntime 1.32.0, ContribOperators.md and matmul_nbits_helper.h; onnx 1.23.2,
// DequantizeLinear 28.
#pragma once

#include <vector>

#include "client/weights/layers/layer_tensors.h"
#include "client/weights/onnx/onnx.h"

namespace gemmd::client {

// Returns whether CombineOnnxLayers() asks for such a node.
bool MakesOnnxLayers(const OnnxNode& node);

// Puts a tensor in the place of those of each layer. Codes that a node reads in another way are
// left in the list with the reason why they are not read: alone they would be taken for numbers.
void CombineOnnxLayers(const std::vector<OnnxNode>& nodes, TensorsByName& tensors);

}  // namespace gemmd::client
