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

absl::Status CheckBytes(const MatrixFormat& format, std::uint64_t actual) {
  const absl::StatusOr<std::uint64_t> expected = SizeBytes(format);
  if (!expected.ok()) return expected.status();
  if (*expected == actual) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(format), " takes ", *expected, " bytes, not ", actual));
}

}  // namespace

absl::StatusOr<std::uint64_t> SizeBytes(const MatrixFormat& format) {
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
  if (size_bits >= 8) return elements * size_bytes;
  const auto bits = static_cast<std::uint64_t>(size_bits);
  return elements / 8 * bits + (elements % 8 * bits + 7) / 8;
}

std::string ToString(const MatrixFormat& format) {
  std::string text = absl::StrCat(format.rows, " x ", format.columns, " ", Name(format.type), " ",
                                  OptionName(Name(format.order)));
  if (format.stride() != format.inner()) {
    absl::StrAppend(&text, " (leading dimension ", format.leading_dimension, ")");
  }
  return text;
}

absl::StatusOr<MatrixView> MatrixView::Create(const MatrixFormat& format, absl::string_view bytes) {
  if (absl::Status status = CheckBytes(format, bytes.size()); !status.ok()) return status;
  return MatrixView(format, bytes);
}

absl::StatusOr<Matrix> Matrix::Create(const MatrixFormat& format, Bytes bytes) {
  if (absl::Status status = CheckBytes(format, bytes.view().size()); !status.ok()) return status;
  return Matrix(format, std::move(bytes));
}

}  // namespace gemmd::client
