// Quantizing on arrival: an operand comes in one form and is kept in another.
#pragma once

#include "absl/status/status.h"
#include "kernels/gemm.h"
#include "server/store/operand_form.h"

namespace gemmd {

// The form in which an upload is kept. A value.
struct StoredAs {
  OperandForm form;          // the shape and order of what comes
  QuantFormat format;        // of the form, with the order of its scales
  bool k_is_columns = true;  // blocks lie along rows of the data, else along columns
};

// Memory for the bytes of each plane of `as.form`; null where the form has none.
using KeptPlanes = OperandPlanes<char*>;

// Quantizes data of F32, F16 or BF16, of the layout `from`, and fills all planes, as
// base/numbers/quant/README.md specifies: E8M0 scales by the floor rule, elements to nearest. Uses
// up to a quarter of the machine's cores.
// INVALID_ARGUMENT: an element that the format cannot hold; names it by row and column.
absl::Status Convert(const MatrixLayout& from, const char* data, const StoredAs& as,
                     const KeptPlanes& planes);

}  // namespace gemmd
