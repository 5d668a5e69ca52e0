// A result put together from what a server sends. The server is believed about nothing. No
// gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ranges/range_set.h"
#include "client/bytes.h"
#include "client/matrix.h"
#include "client/wire/codec.h"
#include "gemmd/v1/gemm.pb.h"
#include "proto/payload_codec.h"

namespace gemmd::client {

// INTERNAL: what the server sent contradicts itself or the request.
absl::Status BadResponse(absl::string_view why);

// UNIMPLEMENTED: a batch was asked for, and the receipt has another number of products. A server
// that is older than batches computes one.
absl::Status CheckProducts(const v1::Receipt& receipt, const ExpectedResult& expected);

// The status that a server refused with; UNIMPLEMENTED where it is of one that is older than
// batches. Such a server counts the bytes of one matrix where those of a stack come, which were
// counted on this side.
absl::Status RefusalOf(const absl::Status& status, const ExpectedResult& expected);

// The result's memory, filled by chunks in any order, each byte once.
//
// Not thread-safe, but for Copy() of ranges that were claimed: they do not overlap.
class ResultAssembly {
 public:
  // INTERNAL where D is not what was asked for. Allocates nothing yet, because a leading
  // dimension may be anything.
  static absl::StatusOr<ResultAssembly> Create(const v1::Plane& d, const ExpectedResult& expected);

  // INTERNAL where the chunk is none of D's data, reaches beyond it (the last line's padding
  // may come too) or holds bytes that were claimed before. It reads of the chunk only what
  // describes it; `size` is that of its data.
  absl::Status Claim(const v1::Chunk& chunk, std::uint64_t size);

  const MatrixFormat& format() const { return format_; }  // of each of a batch
  const Stack& stack() const { return stack_; }
  std::uint64_t size_bytes() const { return size_; }
  std::uint64_t claimed_bytes() const { return claimed_; }  // of size_bytes(), without padding

  void Allocate() { buffer_ = into_ ? *into_ : Buffer::Allocate(size_); }
  // Returns how many bytes went into the result, without padding. REQUIRES: allocated, and
  // the range was claimed.
  std::uint64_t Copy(std::uint64_t offset, absl::Span<const absl::string_view> pieces) const;

  // REQUIRES: all of size_bytes() was copied.
  Matrix Take() &&;

 private:
  ResultAssembly(const MatrixFormat& format, const Stack& stack, std::uint64_t size,
                 std::uint64_t padded, std::optional<Buffer> into)
      : format_(format), stack_(stack), size_(size), padded_(padded), into_(std::move(into)) {}

  MatrixFormat format_;
  Stack stack_;
  std::uint64_t size_;
  std::uint64_t padded_;  // with the last line's padding
  std::optional<Buffer> into_;
  std::uint64_t claimed_ = 0;
  RangeSet ranges_;
  std::optional<Buffer> buffer_;
};

std::uint64_t SizeOf(absl::Span<const absl::string_view> pieces);

// A server's answer has D, or the handle of a D that stays on the server.
struct Answer {
  MatrixFormat format;
  std::optional<Matrix> d;
  std::string handle;
  v1::Receipt receipt;
};

// The part of an answer that both transports have.
struct ResultMessage {
  const v1::Receipt& receipt;
  const v1::Plane& d;
  const std::string& handle;
  const google::protobuf::RepeatedPtrField<v1::Chunk>& chunks;
  const PayloadViews& payload;
};

// An answer whose chunks have all come, without its receipt. Copies each byte once, and allocates
// no more than what was received. A result that went into shared memory is that memory. INTERNAL:
// what the server sent contradicts itself or the request. UNIMPLEMENTED as CheckProducts().
absl::StatusOr<Answer> DecodeResult(const ResultMessage& message, const ExpectedResult& expected);

}  // namespace gemmd::client
