// Matrices of safetensors that quanto quantized to 4 or 2 bits: X._data._data and what stands
// beside it make X. Values; no files.
//
//   X._data._data  U8 [R/c, group], of c codes a byte: that of row r < R/c is in the lowest bits,
//                  those of rows r + R/c and so on in the next ones. A row is a group of K, and
//                  those of a line follow each other
//   X._scale       F32, F16 or BF16 [R, 1]
//   X._shift       as the scales: a code is worth code * scale - shift
//
// The file does not say N and K: N is the size of the bias beside X, and without one there is no
// form. quanto itself rounds each step to its type of scales.
//
// Source: optimum-quanto 0.2.7, tensor/packed.py, grouped.py and qbits.py.
#pragma once

#include "absl/strings/string_view.h"
#include "client/weights/layers/layer_tensors.h"

namespace gemmd::client {

// Returns whether a tensor is one of such a layer by its name.
bool IsNameOfQuanto(absl::string_view name);

// Puts a tensor in the place of those of each layer; one that has no form says why.
void CombineQuantoLayers(TensorsByName& tensors);

}  // namespace gemmd::client
