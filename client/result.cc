#include "client/result.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/wire/wire_types.h"

namespace gemmd::client {
namespace {

absl::Status OlderServer(const ExpectedResult& expected, absl::string_view why) {
  return absl::UnimplementedError(
      absl::StrCat("batch.count is ", expected.products,
                   ", and the server is older than batches of products: ", why));
}

absl::StatusOr<MatrixFormat> ResultFormat(const v1::Plane& plane, const ExpectedResult& expected) {
  absl::StatusOr<MatrixFormat> format = FormatOf(plane);
  if (!format.ok()) return format.status();
  MatrixFormat wanted = *format;
  wanted.rows = expected.rows.value_or(format->rows);
  wanted.columns = expected.columns.value_or(format->columns);
  wanted.order = expected.order;
  wanted.type = expected.type.value_or(format->type);
  if (format->rows != wanted.rows || format->columns != wanted.columns ||
      format->order != wanted.order || format->type != wanted.type) {
    wanted.leading_dimension = 0;
    return BadResponse(
        absl::StrCat("D is ", ToString(*format), ", but ", ToString(wanted), " was asked for"));
  }
  return format;
}

}  // namespace

absl::Status BadResponse(absl::string_view why) {
  return absl::InternalError(absl::StrCat("the server's response is malformed: ", why));
}

absl::Status CheckProducts(const v1::Receipt& receipt, const ExpectedResult& expected) {
  if (expected.products == 0 || receipt.products() == expected.products) return absl::OkStatus();
  return OlderServer(expected,
                     absl::StrCat("it computed ", std::max<std::uint64_t>(1, receipt.products())));
}

absl::Status RefusalOf(const absl::Status& status, const ExpectedResult& expected) {
  const bool is_of_bytes =
      absl::IsInvalidArgument(status) && absl::StartsWith(status.message(), "payload of ");
  return is_of_bytes && expected.products != 0 ? OlderServer(expected, status.message()) : status;
}

absl::StatusOr<ResultAssembly> ResultAssembly::Create(const v1::Plane& d,
                                                      const ExpectedResult& expected) {
  const absl::StatusOr<MatrixFormat> format = ResultFormat(d, expected);
  if (!format.ok()) return format.status();
  const Stack stack = expected.StackOf(*format);
  const absl::StatusOr<std::uint64_t> size = SizeBytes(*format, stack);
  if (!size.ok()) return BadResponse(size.status().message());
  // With the last line's padding the plane is a whole number of lines.
  MatrixFormat whole = *format;
  (whole.order == Order::kRowMajor ? whole.columns : whole.rows) = format->stride();
  std::optional<Buffer> into;
  if (expected.into) {
    absl::StatusOr<std::optional<Buffer>> memory = expected.into(*format);
    if (!memory.ok()) return BadResponse(memory.status().message());
    into = *std::move(memory);
  }
  if (into && *size > into->size()) {
    return BadResponse(absl::StrCat("D, ", ToString(*format, stack), ", takes ", *size,
                                    " bytes, but ", into->size(), " are there for it"));
  }
  return ResultAssembly(*format, stack, *size, SizeBytes(whole, stack).value_or(*size),
                        std::move(into));
}

absl::Status ResultAssembly::Claim(const v1::Chunk& chunk, std::uint64_t size) {
  if (chunk.operand() != v1::D || chunk.plane() != v1::DATA) {
    return BadResponse("a chunk belongs to something else than the data of D");
  }
  const std::uint64_t begin = chunk.offset_bytes();
  if (begin > padded_ || size > padded_ - begin) {
    return BadResponse(absl::StrCat("a chunk of ", size, " bytes at byte ", begin,
                                    " reaches beyond D, ", ToString(format_, stack_), " of ", size_,
                                    " bytes"));
  }
  if (!ranges_.AddNew({begin, begin + size})) {
    return BadResponse(absl::StrCat("a chunk of ", size, " bytes at byte ", begin,
                                    " holds some that came before"));
  }
  if (begin < size_) claimed_ += std::min(size, size_ - begin);
  return absl::OkStatus();
}

std::uint64_t ResultAssembly::Copy(std::uint64_t offset,
                                   absl::Span<const absl::string_view> pieces) const {
  std::uint64_t copied = 0;
  for (const absl::string_view piece : pieces) {
    if (offset >= size_) break;
    const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), size_ - offset);
    if (bytes > 0) std::memcpy(buffer_->data() + offset, piece.data(), bytes);
    offset += bytes;
    copied += bytes;
  }
  return copied;
}

Matrix ResultAssembly::Take() && {
  return *Matrix::Create(format_, stack_, std::move(*buffer_).Freeze(size_));
}

std::uint64_t SizeOf(absl::Span<const absl::string_view> pieces) {
  std::uint64_t size = 0;
  for (const absl::string_view piece : pieces) size += piece.size();
  return size;
}

namespace {

// D where the server wrote it.
absl::StatusOr<Matrix> SharedResult(const ResultAssembly& result, int chunks, const Bytes& shared) {
  const std::uint64_t size = result.size_bytes();
  if (chunks != 0) return BadResponse("D came along, which was to go into shared memory");
  if (size > shared.view().size()) {
    return BadResponse(absl::StrCat(ToString(result.format(), result.stack()), " takes ", size,
                                    " bytes, but ", shared.view().size(),
                                    " of shared memory are there"));
  }
  return Matrix::Create(result.format(), result.stack(),
                        Bytes(shared.owner(), shared.view().substr(0, size)));
}

}  // namespace

absl::StatusOr<Answer> DecodeResult(const ResultMessage& message, const ExpectedResult& expected) {
  if (absl::Status s = CheckProducts(message.receipt, expected); !s.ok()) return s;
  absl::StatusOr<ResultAssembly> result = ResultAssembly::Create(message.d, expected);
  if (!result.ok()) return result.status();
  Answer answer;
  answer.format = result->format();
  if (expected.stays != !message.handle.empty()) {
    return BadResponse(expected.stays ? "it has no handle of the result that was to be kept"
                                      : "it has a handle, and nothing was to be kept");
  }
  if (expected.stays) {
    if (!message.chunks.empty()) return BadResponse("D came along, which was to stay");
    answer.handle = message.handle;
    return answer;
  }
  if (expected.shared.has_value()) {
    absl::StatusOr<Matrix> shared = SharedResult(*result, message.chunks.size(), *expected.shared);
    if (!shared.ok()) return shared.status();
    answer.d = *std::move(shared);
    return answer;
  }
  for (const v1::Chunk& chunk : message.chunks) {
    const absl::Status claimed = result->Claim(chunk, SizeOf(message.payload.of(chunk)));
    if (!claimed.ok()) return claimed;
  }
  if (result->claimed_bytes() != result->size_bytes()) {
    return BadResponse(absl::StrCat(ToString(result->format(), result->stack()), " takes ",
                                    result->size_bytes(), " bytes, but ", result->claimed_bytes(),
                                    " came"));
  }
  result->Allocate();
  for (const v1::Chunk& chunk : message.chunks) {
    result->Copy(chunk.offset_bytes(), message.payload.of(chunk));
  }
  answer.d = std::move(*result).Take();
  return answer;
}

}  // namespace gemmd::client
