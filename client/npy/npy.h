// Matrices as .npy files (format versions 1.0, 2.0, 3.0) and as raw bytes.
//
// Every error begins with the path and names the field, its value and what is
// accepted. A file is believed about nothing: its header, shape and type must account
// for its size to the byte before memory is taken for it.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numbers/types.h"
#include "client/matrix.h"

namespace gemmd::client {

// Two dimensions; fortran_order gives a column-major matrix. `asked` as in npy_type.h. If it has 4
// or 6 bits and the bytes are uint8, a line is packed elements in whole bytes.
absl::StatusOr<Matrix> ReadNpy(const std::string& path,
                               std::optional<DataType> asked = std::nullopt);

// Or three dimensions in C order: a stack of matrices, one after another.
absl::StatusOr<Matrix> ReadNpyStack(const std::string& path,
                                    std::optional<DataType> asked = std::nullopt);

// One dimension of N elements as 1 x N, or a 1 x N matrix.
absl::StatusOr<Matrix> ReadNpyVector(const std::string& path,
                                     std::optional<DataType> asked = std::nullopt);

// Scales: one for the operand (zero dimensions, or a single element), or a vector: N
// elements as N x 1 for A (is_column) and 1 x N for B, in one dimension or in both.
absl::StatusOr<Matrix> ReadNpyScales(const std::string& path, bool is_column,
                                     DataType type = DataType::kF32);

// The file holds exactly the format's bytes and nothing else.
absl::StatusOr<Matrix> ReadRaw(const std::string& path, const MatrixFormat& format);

// Version 1.0, tightly packed, whole or not at all (base/file/write_file.h). np.load reads it; bf16
// comes back as V2 and is used by .view(ml_dtypes.bfloat16).
absl::Status WriteNpy(const std::string& path, const MatrixView& matrix);

// Three dimensions, also of a stack of one. INVALID_ARGUMENT: its matrices are column-major.
absl::Status WriteNpyStack(const std::string& path, const Matrix& stack);

}  // namespace gemmd::client
