#include "client/stream/stream_message.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/wire/message.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/chunk_framing.h"

namespace gemmd::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using Message = v1::MatmulStreamRequest;

void AppendChunk(int field, const Outgoing& outgoing, std::size_t plane, std::uint64_t offset,
                 std::uint64_t bytes, MessageWriter& writer) {
  const PlaneBytes& source = outgoing.matmul->planes[plane];
  v1::Chunk head;
  head.set_request_id(outgoing.request_id);
  head.set_operand(source.operand);
  head.set_plane(source.plane);
  head.set_offset_bytes(offset);
  writer.Append(ChunkPrefix(field, head, bytes));
  writer.Append(source.bytes, offset, bytes);
}

// Tag and length of a field that is a message, and its first `fields`, of `bytes` in all.
std::string FieldPrefix(int field, std::uint64_t bytes, const std::string& fields) {
  std::string prefix;
  {
    google::protobuf::io::StringOutputStream stream(&prefix);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteTag(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out.WriteVarint64(bytes);
    out.WriteString(fields);
  }
  return prefix;
}

// A Begin as that field of its message.
void AppendBegin(int field, const Outgoing& outgoing, absl::Time now, MessageWriter& writer) {
  Message::Begin begin;
  begin.set_request_id(outgoing.request_id);
  *begin.mutable_header() = outgoing.matmul->header;
  if (outgoing.deadline != absl::InfiniteFuture()) {
    const auto left_us = absl::ToInt64Microseconds(outgoing.deadline - now);
    begin.mutable_header()->set_timeout_us(
        static_cast<std::uint64_t>(std::max<std::int64_t>(1, left_us)));
  }
  if (outgoing.trace != nullptr) {
    begin.set_traceparent(outgoing.trace->traceparent);
    begin.set_tracestate(outgoing.trace->tracestate);
  }
  begin.set_await_accepted(outgoing.await_accepted);
  begin.set_accepts_batches(true);
  const std::string fields = begin.SerializeAsString();
  if (outgoing.await_accepted) {
    return writer.Append(FieldPrefix(field, fields.size(), fields));
  }
  // The lengths of the chunks come before them, so they are written aside.
  MessageWriter payload;
  for (std::size_t i = 0; i < outgoing.matmul->planes.size(); ++i) {
    AppendChunk(Message::Begin::kPayloadFieldNumber, outgoing, i, 0,
                outgoing.matmul->planes[i].bytes.view().size(), payload);
  }
  writer.Append(FieldPrefix(field, fields.size() + payload.size(), fields));
  writer.Append(std::move(payload));
}

void AppendBatch(const Outgoing& first, absl::Time now, MessageWriter& writer) {
  MessageWriter begins;
  AppendBegin(Message::Batch::kBeginsFieldNumber, first, now, begins);
  for (const Outgoing& outgoing : first.more) {
    AppendBegin(Message::Batch::kBeginsFieldNumber, outgoing, now, begins);
  }
  writer.Append(FieldPrefix(Message::kBatchFieldNumber, begins.size(), {}));
  writer.Append(std::move(begins));
}

}  // namespace

grpc::ByteBuffer StreamMessage(const Outgoing& outgoing, absl::Time now) {
  MessageWriter writer;
  switch (outgoing.kind) {
    case Outgoing::Kind::kBegin:
      if (outgoing.more.empty()) {
        AppendBegin(Message::kBeginFieldNumber, outgoing, now, writer);
      } else {
        AppendBatch(outgoing, now, writer);
      }
      break;
    case Outgoing::Kind::kChunk:
      AppendChunk(Message::kChunkFieldNumber, outgoing, outgoing.plane, outgoing.offset,
                  outgoing.bytes, writer);
      break;
    case Outgoing::Kind::kOpen:
    case Outgoing::Kind::kJoin:
    case Outgoing::Kind::kCancel: {
      Message message;
      if (outgoing.kind == Outgoing::Kind::kOpen) message.mutable_open();
      if (outgoing.kind == Outgoing::Kind::kJoin) {
        message.mutable_join()->set_session(outgoing.session);
      }
      if (outgoing.kind == Outgoing::Kind::kCancel) {
        message.mutable_cancel()->set_request_id(outgoing.request_id);
      }
      writer.Append(message.SerializeAsString());
      break;
    }
  }
  return std::move(writer).Finish();
}

}  // namespace gemmd::client
