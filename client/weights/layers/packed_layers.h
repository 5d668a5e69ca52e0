// Layers that GPTQ and AWQ have quantized: PREFIX.qweight, .qzeros, .scales and perhaps .g_idx make
// one matrix, PREFIX.weight, of N x K. Values; no files.
//
// Codes and zero points of 2 to 8 bits are packed in int32, c of them, the first in the
// lowest bits:
//
//            GPTQ                       AWQ, "gemm"              AWQ, "gemv"
//   qweight  [K/c, N], along K          [K, N/c], along N        [N, K/c], along K
//   qzeros   [groups, N/c], along N     [groups, N/c], along N   [N, W], along groups
//   scales   [groups, N]                [groups, N]              [N, W*c], zeros at the end
//   g_idx    [K], groups, or none       none                     none
//
// 32 codes of 3 bits fill three words without gaps, so that two of them lie in two words each.
// GPTQ of the checkpoint format "gptq_p" has 32 codes of 3, 5, 6 or 7 bits in as many words, in
// pieces of 4, 2 and 1 bits: first the lowest piece of all 32, then the next ones.
//
// AWQ "gemm" packs eight columns in the order 0, 2, 4, 6, 1, 3, 5, 7; both have 4 bits alone. GPTQ
// of the checkpoint format "gptq" stores zero points less 1, "gptq_v2" as they are. Where such a
// zero point less 1 is the highest code, programs read the next number or carry it over, so that it
// is refused.
//
// AWQ "gemv_fast" has other planes: qweight I16 [N/4, K], each word of four codes of one line, and
// scales and qzeros F16 [W*c, N], where qzeros are offsets, -(zero point * scale) rounded to f16.
// Four lines are side by side, 64 codes of each, in an order within 32 of a kernel.
//
// Sources: AutoGPTQ 0.7.1, qlinear_cuda_old.py; GPTQModel 7.7.0, utils/model.py and
// planar_packing.py; AutoAWQ 0.2.9, linear/gemm.py, gemv.py and gemv_fast.py.
#pragma once

#include "client/weights/layers/layer_config.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Puts a tensor in the place of those of each layer. A layer whose name is taken, or that has no
// qzeros or scales, stays as it is.
void CombinePackedLayers(const PackingConfig& config, TensorsByName& tensors);

}  // namespace gemmd::client
