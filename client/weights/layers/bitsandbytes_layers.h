// Matrices of safetensors that bitsandbytes quantized. Values; no files.
//
//   BASE                  codes of 4 bits, the first of two in the high half of a byte, of N x K
//   row
//                         by row; saved as [bytes, 1] U8, or as the same bytes of another type
//   BASE.quant_map        F32 [16], the table of nf4 or fp4
//   BASE.quant_state.bitsandbytes__nf4, __fp4
//                         U8, a JSON text: quant_type, blocksize, shape, and nested_blocksize and
//                         nested_offset of nested scales
//   BASE.absmax           F32 [blocks], a scale for each `blocksize` elements, which may run on
//   from
//                         a row into the next; or, nested, U8 [blocks], codes of scales:
//   BASE.nested_quant_map F32 [256], what these codes are worth,
//   BASE.nested_absmax    F32, times one for each nested_blocksize of them, plus nested_offset
//
//   X.weight              codes of LLM.int8(), I8 [N, K]
//   X.SCB                 F32 [N], whose scales are f32(SCB * f32(1 / 127))
//   X.weight_format       U8, 0: the rows are in order
//
// Source: bitsandbytes 0.50.2, functional.py (QuantState) and autograd/_functions.py, with
// transformers 5.24.0.
#pragma once

#include "absl/strings/string_view.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is one of scales by its name.
bool IsNameOfBitsandbytes(absl::string_view name);

// Puts a tensor in the place of those of each layer; one whose values are not known says why.
void CombineBitsandbytesLayers(TensorsByName& tensors);

}  // namespace gemmd::client
