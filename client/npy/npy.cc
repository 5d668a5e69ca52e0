#include "client/npy/npy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file/write_file.h"
#include "base/numbers/quant/packed_codes.h"
#include "client/file.h"
#include "client/npy/npy_header.h"
#include "client/npy/npy_type.h"

namespace gemmd::client {
namespace {

absl::Status Annotate(absl::string_view path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

struct OpenNpy {
  std::uint64_t data_offset = 0;
  NpyDictionary dictionary;
};

absl::StatusOr<OpenNpy> ReadHeader(const InputFile& file) {
  absl::StatusOr<std::string> start = file.Read(0, std::min(file.size_bytes(), kNpyPreambleBytes));
  if (!start.ok()) return start.status();
  const absl::StatusOr<NpyPreamble> preamble = ParseNpyPreamble(*start);
  if (!preamble.ok()) return Annotate(file.path(), preamble.status());
  if (preamble->dictionary_bytes > file.size_bytes() - preamble->dictionary_offset) {
    return Annotate(file.path(), absl::InvalidArgumentError(absl::StrCat(
                                     "header length ", preamble->dictionary_bytes,
                                     " reaches beyond the file of ", file.size_bytes(), " bytes")));
  }
  const absl::StatusOr<std::string> text =
      file.Read(preamble->dictionary_offset, preamble->dictionary_bytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<NpyDictionary> dictionary = ParseNpyDictionary(*text);
  if (!dictionary.ok()) return Annotate(file.path(), dictionary.status());
  return OpenNpy{preamble->dictionary_offset + preamble->dictionary_bytes, *std::move(dictionary)};
}

// The matrix behind an offset, once the file's size has been accounted for.
absl::StatusOr<Matrix> ReadData(const InputFile& file, std::uint64_t offset,
                                const MatrixFormat& format, const Stack& stack = {}) {
  const absl::StatusOr<std::uint64_t> bytes = SizeBytes(format, stack);
  if (!bytes.ok()) return Annotate(file.path(), bytes.status());
  if (*bytes != file.size_bytes() - offset) {
    return Annotate(file.path(),
                    absl::InvalidArgumentError(absl::StrCat(
                        ToString(format, stack), " takes ", *bytes,
                        " bytes of data, but the file has ", file.size_bytes() - offset)));
  }
  absl::StatusOr<Bytes> data = file.ReadLarge(offset, *bytes);
  if (!data.ok()) return data.status();
  return Matrix::Create(format, stack, *std::move(data));
}

// Elements of less than 8 bits in the low bits of a byte each, which are packed.
absl::StatusOr<Matrix> ReadElements(const InputFile& file, std::uint64_t offset,
                                    const MatrixFormat& format, const Stack& stack) {
  MatrixFormat in_bytes = format;
  in_bytes.type = DataType::kUint8;
  const absl::StatusOr<Matrix> read = ReadData(file, offset, in_bytes, stack);
  if (!read.ok()) return read.status();
  const absl::StatusOr<std::uint64_t> size = SizeBytes(format, stack);
  if (!size.ok()) return Annotate(file.path(), size.status());
  const int bits = SizeBits(format.type);
  std::string packed(*size, '\0');
  std::int64_t index = 0;
  for (const char byte : read->bytes()) {
    StoreCode(packed.data(), bits, index++, static_cast<std::uint8_t>(byte));
  }
  return Matrix::Create(format, stack, Bytes(std::move(packed)));
}

// The role that an array is read in; each role accepts other shapes.
enum class Role { kMatrix, kStack, kRow, kScaleColumn, kScaleRow };

absl::string_view Accepted(Role role) {
  switch (role) {
    case Role::kMatrix:
      return "two dimensions are";
    case Role::kStack:
      return "two dimensions, or three, are";
    case Role::kRow:
      return "(N,) or (1, N) is";
    case Role::kScaleColumn:
      return "(), (M,) or (M, 1) is";
    case Role::kScaleRow:
      return "(), (N,) or (1, N) is";
  }
  return "";
}

// Says what to save instead of an array that is no matrix.
absl::string_view CureFor(Role role, std::size_t dimensions) {
  if (role == Role::kStack && dimensions > 2) return "; x.reshape(-1, *x.shape[-2:]) has three";
  if (role != Role::kMatrix && role != Role::kStack) return "";
  return dimensions > 2 ? "; save each matrix x[i], or x.reshape(-1, x.shape[-1]) where one matrix "
                          "multiplies the rows of all"
                        : "; x.reshape(1, -1) is a row, x.reshape(-1, 1) a column";
}

// Rows and columns of an array in its role, if it fits.
bool FitShape(Role role, std::vector<std::uint64_t>* shape) {
  if (role == Role::kMatrix || role == Role::kStack) return shape->size() == 2;
  if (shape->empty() && role != Role::kRow) shape->push_back(1);
  if (shape->size() == 1) {
    shape->insert(role == Role::kScaleColumn ? shape->end() : shape->begin(), 1);
  }
  return shape->size() == 2 && (*shape)[role == Role::kScaleColumn ? 1 : 0] == 1;
}

absl::StatusOr<Matrix> Read(const std::string& path, std::optional<DataType> asked, Role role) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<OpenNpy> npy = ReadHeader(*file);
  if (!npy.ok()) return npy.status();
  const absl::StatusOr<DataType> type = TypeOfDescr(npy->dictionary.descr, asked);
  if (!type.ok()) return Annotate(path, type.status());

  std::vector<std::uint64_t> shape = npy->dictionary.shape;
  const std::string written = absl::StrCat("shape ", FormatShape(shape));
  Stack stack;
  if (role == Role::kStack && shape.size() == 3) {
    if (npy->dictionary.fortran_order) {
      return Annotate(path, absl::InvalidArgumentError(absl::StrCat(
                                written,
                                " in Fortran order: three dimensions are accepted in C "
                                "order; save numpy.ascontiguousarray(x)")));
    }
    stack.count = shape.front();
    shape.erase(shape.begin());
    if (stack.count == 0) {
      return Annotate(path, absl::InvalidArgumentError(
                                absl::StrCat(written, ": at least one matrix is accepted")));
    }
  }
  if (!FitShape(role, &shape)) {
    return Annotate(path, absl::InvalidArgumentError(
                              absl::StrCat(written, ": ", Accepted(role), " accepted",
                                           CureFor(role, npy->dictionary.shape.size()))));
  }
  MatrixFormat format;
  format.type = *type;
  format.rows = shape[0];
  format.columns = shape[1];
  format.order = npy->dictionary.fortran_order ? Order::kColumnMajor : Order::kRowMajor;
  // Dimensions above kMaxDimension are refused, so that a product that overflows does not matter.
  if (npy->dictionary.shape.size() == 3) stack.stride = shape[0] * shape[1];
  if (SizeBits(format.type) >= 8) return ReadData(*file, npy->data_offset, format, stack);
  if (npy->dictionary.descr != "|u1") return ReadElements(*file, npy->data_offset, format, stack);
  // The shape counts bytes.
  std::uint64_t& inner = format.order == Order::kRowMajor ? format.columns : format.rows;
  const auto bits = static_cast<std::uint64_t>(SizeBits(format.type));
  if (inner > kMaxDimension || inner * 8 % bits != 0) {
    return Annotate(path, absl::InvalidArgumentError(absl::StrCat(
                              written, ": lines of ", inner, " bytes are no whole number of ",
                              Name(format.type), ", which has ", bits, " bits")));
  }
  inner = inner * 8 / bits;
  if (stack.stride != 0) stack.stride = format.rows * format.columns;
  return ReadData(*file, npy->data_offset, format, stack);
}

// The lines of a padded matrix without their padding.
std::string Pack(const MatrixView& matrix) {
  const MatrixFormat& format = matrix.format();
  const std::size_t element_bytes = static_cast<std::size_t>(SizeBits(format.type)) / 8;
  std::string packed;
  packed.reserve(format.inner() * format.outer() * element_bytes);
  for (std::uint64_t line = 0; line < format.outer(); ++line) {
    packed.append(matrix.bytes().data() + line * format.stride() * element_bytes,
                  format.inner() * element_bytes);
  }
  return packed;
}

}  // namespace

absl::StatusOr<Matrix> ReadNpy(const std::string& path, std::optional<DataType> asked) {
  return Read(path, asked, Role::kMatrix);
}

absl::StatusOr<Matrix> ReadNpyStack(const std::string& path, std::optional<DataType> asked) {
  return Read(path, asked, Role::kStack);
}

absl::StatusOr<Matrix> ReadNpyVector(const std::string& path, std::optional<DataType> asked) {
  return Read(path, asked, Role::kRow);
}

absl::StatusOr<Matrix> ReadNpyScales(const std::string& path, bool is_column, DataType type) {
  return Read(path, type, is_column ? Role::kScaleColumn : Role::kScaleRow);
}

absl::StatusOr<Matrix> ReadRaw(const std::string& path, const MatrixFormat& format) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  return ReadData(*file, 0, format);
}

absl::Status WriteNpy(const std::string& path, const MatrixView& matrix) {
  const MatrixFormat& format = matrix.format();
  const absl::StatusOr<absl::string_view> descr = DescrOfType(format.type);
  if (!descr.ok()) return Annotate(path, descr.status());
  NpyDictionary dictionary;
  dictionary.descr = std::string(*descr);
  dictionary.fortran_order = format.order == Order::kColumnMajor;
  dictionary.shape = {format.rows, format.columns};
  const std::string header = FormatNpyHeader(dictionary);
  const bool padded = format.stride() != format.inner() && format.outer() > 1;
  const std::string packed = padded ? Pack(matrix) : std::string();
  return WriteFile(path, {header, padded ? absl::string_view(packed) : matrix.bytes()});
}

absl::Status WriteNpyStack(const std::string& path, const Matrix& stack) {
  const MatrixFormat& format = stack.format();
  if (format.order == Order::kColumnMajor) {
    return Annotate(path, absl::InvalidArgumentError(absl::StrCat(
                              ToString(format, stack.stack()),
                              ": of three dimensions row-major matrices are written")));
  }
  const absl::StatusOr<absl::string_view> descr = DescrOfType(format.type);
  if (!descr.ok()) return Annotate(path, descr.status());
  NpyDictionary dictionary;
  dictionary.descr = std::string(*descr);
  dictionary.shape = {stack.stack().count, format.rows, format.columns};
  const std::string header = FormatNpyHeader(dictionary);
  const std::uint64_t elements = format.rows * format.columns;
  if (format.stride() == format.inner() &&
      (stack.stack().count == 1 || stack.stack().stride == elements)) {
    return WriteFile(path, {header, stack.bytes()});
  }
  std::string packed;
  for (std::uint64_t i = 0; i < stack.stack().count; ++i) packed += Pack(stack.view(i));
  return WriteFile(path, {header, packed});
}

}  // namespace gemmd::client
