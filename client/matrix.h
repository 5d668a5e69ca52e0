// A dense matrix in host memory: its shape and layout, and the bytes they describe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numbers/types.h"
#include "client/bytes.h"

namespace gemmd::client {

// The largest number of rows or columns that the wire accepts (matrix.proto).
inline constexpr std::uint64_t kMaxDimension = (std::uint64_t{1} << 31) - 1;

// Element (r, c) lies at index r * leading_dimension + c (row-major) or
// c * leading_dimension + r (column-major), little-endian.
struct MatrixFormat {
  DataType type = DataType::kF32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  Order order = Order::kRowMajor;
  std::uint64_t leading_dimension = 0;  // elements; 0 means tightly packed

  // The dimension that runs fastest, and the number of its lines.
  std::uint64_t inner() const { return order == Order::kRowMajor ? columns : rows; }
  std::uint64_t outer() const { return order == Order::kRowMajor ? rows : columns; }

  // Such a matrix takes part in products whose K is 0, and in nothing else.
  bool has_no_elements() const { return rows == 0 || columns == 0; }

  // Elements between the starts of neighbouring lines.
  std::uint64_t stride() const { return leading_dimension == 0 ? inner() : leading_dimension; }
};

// Matrices of one format in one memory: matrix k begins k * stride elements behind the first. With
// stride 0 all of them are that one.
struct Stack {
  std::uint64_t count = 1;
  std::uint64_t stride = 0;  // elements

  bool is_one() const { return count == 1 || stride == 0; }
};

// Bytes up to and with the last element, or INVALID_ARGUMENT that names the field
// where a dimension is above kMaxDimension, a leading dimension is too short, a stack's matrix does
// not begin at a whole byte, or the size does not fit 63 bits.
absl::StatusOr<std::uint64_t> SizeBytes(const MatrixFormat& format, const Stack& stack = {});

// "1500 x 900 f32 row-major".
std::string ToString(const MatrixFormat& format);
// "5000 matrices of 16 x 16 f32 row-major"; of one as above.
std::string ToString(const MatrixFormat& format, const Stack& stack);

// Someone else's bytes, read as a matrix.
//
// Invariant: the format is valid and bytes().size() == *SizeBytes(format()).
class MatrixView {
 public:
  // INVALID_ARGUMENT where the bytes are not exactly those that the format says.
  static absl::StatusOr<MatrixView> Create(const MatrixFormat& format, absl::string_view bytes);

  const MatrixFormat& format() const { return format_; }
  absl::string_view bytes() const { return bytes_; }

 private:
  friend class Matrix;
  MatrixView(const MatrixFormat& format, absl::string_view bytes)
      : format_(format), bytes_(bytes) {}

  MatrixFormat format_;
  absl::string_view bytes_;
};

// A matrix, or a stack of them, that holds its bytes: a value that never changes, cheap to copy and
// to move. A request sends them from where they are.
//
// Invariant: the format is valid and bytes().size() == *SizeBytes(format(), stack()).
class Matrix {
 public:
  static absl::StatusOr<Matrix> Create(const MatrixFormat& format, Bytes bytes) {
    return Create(format, Stack(), std::move(bytes));
  }
  static absl::StatusOr<Matrix> Create(const MatrixFormat& format, std::string bytes) {
    return Create(format, Bytes(std::move(bytes)));
  }
  // INVALID_ARGUMENT where the bytes are not exactly those of the stack.
  static absl::StatusOr<Matrix> Create(const MatrixFormat& format, const Stack& stack, Bytes bytes);
  static Matrix CopyOf(const MatrixView& view) {
    return Matrix(view.format(), Stack(), Bytes(std::string(view.bytes())));
  }

  const MatrixFormat& format() const { return format_; }  // of each
  const Stack& stack() const { return stack_; }
  absl::string_view bytes() const { return bytes_.view(); }  // of all
  // REQUIRES: index < stack().count.
  MatrixView view(std::uint64_t index = 0) const;
  const Bytes& shared_bytes() const { return bytes_; }

 private:
  Matrix(const MatrixFormat& format, const Stack& stack, Bytes bytes)
      : format_(format), stack_(stack), bytes_(std::move(bytes)) {}

  MatrixFormat format_;
  Stack stack_;
  Bytes bytes_;
};

}  // namespace gemmd::client
