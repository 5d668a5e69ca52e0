#include "client/matrix.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "client/names.h"

namespace gemmd::client {
namespace {

absl::Status CheckDimension(absl::string_view field, std::uint64_t value) {
  if (value <= kMaxDimension) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", value, ": up to ", kMaxDimension, " are accepted"));
}

absl::Status CheckBytes(const MatrixFormat& format, const Stack& stack, std::uint64_t actual) {
  const absl::StatusOr<std::uint64_t> expected = SizeBytes(format, stack);
  if (!expected.ok()) return expected.status();
  if (*expected == actual) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(format, stack), " takes ", *expected, " bytes, not ", actual));
}

std::uint64_t BytesOf(std::uint64_t elements, int size_bits) {
  const auto bits = static_cast<std::uint64_t>(size_bits);
  return elements / 8 * bits + (elements % 8 * bits + 7) / 8;
}

// Bytes of a stack of matrices of so many elements each, gaps included. All together must be at
// most `limit_elements`.
absl::StatusOr<std::uint64_t> StackBytes(const MatrixFormat& format, std::uint64_t elements,
                                         std::uint64_t limit_elements, const Stack& stack) {
  const int size_bits = SizeBits(format.type);
  const std::uint64_t bytes = BytesOf(elements, size_bits);
  if (stack.is_one()) return bytes;
  if (stack.count == 0) {
    return absl::InvalidArgumentError("count 0: a stack has at least one matrix");
  }
  if (stack.stride > (limit_elements - elements) / (stack.count - 1)) {
    return absl::InvalidArgumentError(absl::StrCat("stride ", stack.stride, " with ", stack.count,
                                                   " matrices: the size in bytes overflows"));
  }
  if (stack.stride * static_cast<std::uint64_t>(size_bits) % 8 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("stride ", stack.stride, " of elements of ",
                                                   size_bits,
                                                   " bits: a matrix begins at a whole byte"));
  }
  return (stack.count - 1) * BytesOf(stack.stride, size_bits) + bytes;
}

}  // namespace

absl::StatusOr<std::uint64_t> SizeBytes(const MatrixFormat& format, const Stack& stack) {
  if (absl::Status status = CheckDimension("rows", format.rows); !status.ok()) return status;
  if (absl::Status status = CheckDimension("columns", format.columns); !status.ok()) return status;
  if (format.stride() < format.inner()) {
    return absl::InvalidArgumentError(absl::StrCat("leading dimension ", format.leading_dimension,
                                                   ": at least ", format.inner(),
                                                   " (or 0, tightly packed) is accepted"));
  }
  if (format.has_no_elements()) return 0;
  const int size_bits = SizeBits(format.type);
  const std::uint64_t size_bytes = size_bits < 8 ? 1 : static_cast<std::uint64_t>(size_bits) / 8;
  const std::uint64_t limit_elements =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size_bytes;
  // Neither side of the sum can overflow: outer and inner are below 2^31.
  if (format.outer() > 1 &&
      format.stride() > (limit_elements - format.inner()) / (format.outer() - 1)) {
    return absl::InvalidArgumentError(absl::StrCat("leading dimension ", format.stride(), " with ",
                                                   format.outer(),
                                                   " lines: the size in bytes overflows"));
  }
  const std::uint64_t elements = (format.outer() - 1) * format.stride() + format.inner();
  return StackBytes(format, elements, limit_elements, stack);
}

std::string ToString(const MatrixFormat& format) {
  std::string text = absl::StrCat(format.rows, " x ", format.columns, " ", Name(format.type), " ",
                                  OptionName(Name(format.order)));
  if (format.stride() != format.inner()) {
    absl::StrAppend(&text, " (leading dimension ", format.leading_dimension, ")");
  }
  return text;
}

std::string ToString(const MatrixFormat& format, const Stack& stack) {
  const std::string one = ToString(format);
  return stack.count == 1 ? one : absl::StrCat(stack.count, " matrices of ", one);
}

absl::StatusOr<MatrixView> MatrixView::Create(const MatrixFormat& format, absl::string_view bytes) {
  absl::Status status = CheckBytes(format, Stack(), bytes.size());
  if (!status.ok()) return status;
  return MatrixView(format, bytes);
}

absl::StatusOr<Matrix> Matrix::Create(const MatrixFormat& format, const Stack& stack, Bytes bytes) {
  absl::Status status = CheckBytes(format, stack, bytes.view().size());
  if (!status.ok()) return status;
  return Matrix(format, stack, std::move(bytes));
}

MatrixView Matrix::view(std::uint64_t index) const {
  const std::uint64_t size = *SizeBytes(format_);
  const std::uint64_t step = size == 0 ? 0 : BytesOf(stack_.stride, SizeBits(format_.type));
  return {format_, bytes().substr(index * step, size)};
}

}  // namespace gemmd::client
