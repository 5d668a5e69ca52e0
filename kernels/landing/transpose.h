// Transposes a matrix in device memory, as operands that a kernel wants K-major are when
// they land: 8-bit and tf32 ones, which wgmma and cuBLASLt take in no other form.
//
// Padding that needs no transposition is zeroed by cudaMemset2DAsync; there is no kernel
// for it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd {

// to[column][row] = from[row][column] for every element of a row-major rows x columns
// matrix. Zeros fill the rest of a padded_rows x padded_columns destination.
//
// REQUIRES: both addresses, and both leading dimensions in bytes, are multiples of 16;
//   from_leading_dimension >= columns, and memory holds rows whole lines of it;
//   padded_rows >= columns, to_leading_dimension >= padded_columns >= rows, and memory
//   holds padded_rows whole lines. Lines are written in whole words of 4 bytes (8 for
//   8-byte elements), which may end in a line's padding.
struct Transposition {
  int element_bytes = 1;  // 1, 2, 4 or 8
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const void* from = nullptr;
  std::int64_t from_leading_dimension = 0;  // elements
  void* to = nullptr;
  std::int64_t to_leading_dimension = 0;  // elements
  std::int64_t padded_rows = 0;           // of the destination: its lines
  std::int64_t padded_columns = 0;        // of the destination: elements in a line
};

// Queues on target.stream, or runs to its end in *target.emulator. Thread-safe.
// INVALID_ARGUMENT: a requirement above is not met; the message names field and value.
// UNIMPLEMENTED: target.stream without CUDA in this build. INTERNAL: the launch failed.
absl::Status LaunchTranspose(const Transposition& transposition, const LaunchTarget& target);

}  // namespace gemmd
