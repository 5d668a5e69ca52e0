// Maps a .npy "descr" to an element type, and back.
//
// Types that NumPy has of its own are little-endian: <f8 f64, <f4 f32, <f2 f16, |i1 int8,
// <i4 int32. NumPy has no bf16, so this convention holds, which is what ml_dtypes makes
// np.save write: two opaque bytes (<V2, |V2) are one bf16. One opaque byte (<V1, |V1,
// and <f1, which ml_dtypes writes for E5M2) is one of its types of at most 8 bits, so the caller
// must say which: fp8, E8M0, or one element of 4 or 6 bits in the low bits of each byte. |u1 is the
// codes as PyTorch gives them by tensor.view(torch.uint8).numpy(): of 4 and 6 bits packed.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numbers/types.h"

namespace gemmd::client {

// `asked` is the caller's own word for the type. It decides where the file does not
// (types of at most 8 bits but int8; tf32, which is stored as f32), and must otherwise agree with
// it. INVALID_ARGUMENT names the descr and what is accepted.
absl::StatusOr<DataType> TypeOfDescr(absl::string_view descr, std::optional<DataType> asked);

// INVALID_ARGUMENT for types that .npy cannot hold (int4, fp4).
absl::StatusOr<absl::string_view> DescrOfType(DataType type);

}  // namespace gemmd::client
