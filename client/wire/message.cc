#include "client/wire/message.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/chunk_framing.h"

namespace gemmd::client {

void MessageWriter::Append(const Bytes& bytes, std::uint64_t offset, std::uint64_t size) {
  const absl::string_view view = bytes.view().substr(offset, size);
  // Below this, a slice of its own costs more than the copy.
  constexpr std::size_t kCopied = 1024;
  if (view.size() <= kCopied) return Append(view);
  Flush();
  size_ += view.size();
  using Owner = std::shared_ptr<const void>;
  // A slice's memory is not const, but nobody writes to what is sent.
  slices_.emplace_back(
      const_cast<char*>(view.data()), view.size(),
      [](void* owner) { delete static_cast<Owner*>(owner); }, new Owner(bytes.owner()));
}

void MessageWriter::Append(MessageWriter other) {
  if (other.slices_.empty()) return Append(other.pending_);
  Flush();
  other.Flush();
  for (grpc::Slice& slice : other.slices_) slices_.push_back(std::move(slice));
  size_ += other.size_;
}

void MessageWriter::Flush() {
  if (pending_.empty()) return;
  slices_.emplace_back(pending_);
  pending_.clear();
}

grpc::ByteBuffer MessageWriter::Finish() && {
  Flush();
  return {slices_.data(), slices_.size()};
}

absl::StatusOr<grpc::ByteBuffer> UnaryMessage(const EncodedMatmul& request) {
  MessageWriter writer;
  v1::MatmulRequest head;
  *head.mutable_header() = request.header;
  writer.Append(head.SerializeAsString());
  for (const PlaneBytes& plane : request.planes) {
    v1::Chunk fields;
    fields.set_operand(plane.operand);
    fields.set_plane(plane.plane);
    const std::uint64_t bytes = plane.bytes.view().size();
    writer.Append(ChunkPrefix(v1::MatmulRequest::kPayloadFieldNumber, fields, bytes));
    writer.Append(plane.bytes, 0, bytes);
  }
  constexpr std::uint64_t kProtobufLimit = std::numeric_limits<int>::max();
  if (writer.size() > kProtobufLimit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request would be a message of ", writer.size(), " bytes, but one message holds ",
        kProtobufLimit, " at most; stream it, or split the product"));
  }
  return std::move(writer).Finish();
}

}  // namespace gemmd::client
