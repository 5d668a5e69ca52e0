#include "client/calls/operand_transfer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/digest/operand_digest.h"
#include "base/math.h"
#include "client/file.h"
#include "client/status.h"
#include "client/wire/wire_types.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/chunk_framing.h"
#include "proto/payload_codec.h"

namespace gemmd::client {
namespace {

constexpr std::uint64_t kChunkBytes = 1 << 20;
// The chunk for kLeastInLargeChunks or more: several cores of the server share one, and fewer
// messages are waited for.
constexpr std::uint64_t kLargeChunkBytes = 4 << 20;
constexpr std::uint64_t kLeastInLargeChunks = 16 << 20;

absl::Status BadAnswer(absl::string_view why) {
  return absl::InternalError(absl::StrCat("the server's answer is malformed: ", why));
}

// A message around bytes of the source, which it keeps.
grpc::ByteBuffer ChunkOf(const OperandSource& source, v1::PlaneName plane, std::uint64_t begin,
                         std::uint64_t end) {
  using Owner = std::shared_ptr<const void>;
  v1::Chunk head;
  head.set_plane(plane);
  head.set_offset_bytes(begin);
  const absl::string_view bytes = source.plane(plane)->bytes().substr(begin, end - begin);
  const grpc::Slice slices[] = {
      grpc::Slice(ChunkPrefix(v1::UploadRequest::kChunkFieldNumber, head, bytes.size())),
      grpc::Slice(
          const_cast<char*>(bytes.data()), bytes.size(),
          [](void* owner) { delete static_cast<Owner*>(owner); }, new Owner(source.owner()))};
  return grpc::ByteBuffer(slices, 2);
}

// A plane while it arrives; its bytes come in order.
struct Arrival {
  MatrixFormat format;
  std::uint64_t size = 0;
  std::string bytes;
};

struct Arrivals {
  std::array<Arrival, std::size(kPlaneNames)> planes;
  std::optional<BlockScaling> blocks;
  KOrder k_order;
};

// Finishes a call of one answer.
CallEnd Finish(BlockingCall& call, bool is_answered) {
  CallEnd end = call.Finish();
  if (end.status.ok() && !is_answered) end.status = AnswerWasLost();
  return end;
}

absl::Status Expect(const v1::Plane& plane, Arrival* arrival) {
  const absl::StatusOr<MatrixFormat> format = FormatOf(plane);
  if (!format.ok()) return format.status();
  const absl::StatusOr<std::uint64_t> size = SizeBytes(*format);
  if (!size.ok()) return BadAnswer(size.status().message());
  arrival->format = *format;
  arrival->size = *size;
  return absl::OkStatus();
}

absl::Status Take(const v1::Chunk& chunk, const PayloadViews& payload, Arrivals* arrivals) {
  if (!v1::PlaneName_IsValid(chunk.plane())) {
    return BadAnswer("a chunk is of no plane of the operand");
  }
  Arrival& plane = arrivals->planes[static_cast<std::size_t>(chunk.plane())];
  if (chunk.offset_bytes() != plane.bytes.size()) {
    return BadAnswer(absl::StrCat("a chunk begins at byte ", chunk.offset_bytes(), " where byte ",
                                  plane.bytes.size(), " comes next"));
  }
  for (absl::string_view piece : payload.of(chunk)) {
    if (piece.size() > plane.size - plane.bytes.size()) {
      return BadAnswer("more bytes came than the plane has");
    }
    plane.bytes.append(piece.data(), piece.size());
  }
  return absl::OkStatus();
}

// Its K is one of the two dimensions: only a product says which.
absl::Status TakeOrder(const v1::Operand& operand, Arrivals* arrivals) {
  const std::uint64_t places = operand.k_order().size() / sizeof(std::uint32_t);
  absl::StatusOr<KOrder> order = OrderOf(operand, places);
  if (!order.ok()) return BadAnswer(order.status().message());
  if (*order != nullptr && places != operand.data().rows() && places != operand.data().columns()) {
    return BadAnswer(absl::StrCat("k_order has ", places, " places, and no dimension has"));
  }
  arrivals->k_order = *std::move(order);
  return absl::OkStatus();
}

absl::Status TakeMessage(const grpc::ByteBuffer& bytes, bool is_first, Arrivals* arrivals) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return BadAnswer("a message cannot be read");
  std::vector<absl::string_view> pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) {
    pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::DownloadResponse message;
  PayloadViews payload;
  if (!ParseAroundPayload(pieces, &message, &payload)) return BadAnswer("no DownloadResponse");
  if (message.has_operand() != is_first) return BadAnswer("the operand does not come first");
  if (!is_first) return Take(message.chunk(), payload, arrivals);
  absl::Status status;
  for (const v1::PlaneName name : kPlaneNames) {
    const v1::Plane* const plane = FindPlane(name, message.operand());
    if (plane == nullptr && name != v1::DATA) continue;
    status.Update(Expect(plane == nullptr ? v1::Plane() : *plane,
                         &arrivals->planes[static_cast<std::size_t>(name)]));
  }
  if (message.operand().has_quantization()) {
    arrivals->blocks = BlocksOf(message.operand().quantization());
  }
  status.Update(TakeOrder(message.operand(), arrivals));
  return status;
}

}  // namespace

grpc::ByteBuffer Serialize(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::Slice whole;
  if (bytes.DumpToSingleSlice(&whole).ok() &&
      message->ParseFromArray(whole.begin(), static_cast<int>(whole.size()))) {
    return absl::OkStatus();
  }
  return BadAnswer(absl::StrCat("no ", message->GetTypeName()));
}

CallEnd Exchange(BlockingCall& call, const grpc::ByteBuffer& request, grpc::ByteBuffer* answer) {
  call.Write(request);
  call.WritesDone();
  std::optional<grpc::ByteBuffer> message = call.Read();
  const bool is_answered = message.has_value();
  if (is_answered) *answer = *std::move(message);
  return Finish(call, is_answered);
}

std::vector<v1::ByteRange> WholeOf(const OperandSource& source) {
  std::vector<v1::ByteRange> ranges;
  for (const v1::PlaneName name : kPlaneNames) {
    const Matrix* const plane = source.plane(name);
    if (plane == nullptr) continue;
    v1::ByteRange& range = ranges.emplace_back();
    range.set_plane(name);
    range.set_end_bytes(plane->bytes().size());
  }
  return ranges;
}

std::uint64_t SizeOf(const std::vector<v1::ByteRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const v1::ByteRange& range : ranges) {
    bytes += range.end_bytes() - std::min(range.begin_bytes(), range.end_bytes());
  }
  return bytes;
}

std::vector<std::vector<v1::ByteRange>> CutRanges(const std::vector<v1::ByteRange>& ranges,
                                                  std::size_t count) {
  const std::uint64_t share =
      (SizeOf(ranges) / count + kDigestChunkBytes) / kDigestChunkBytes * kDigestChunkBytes;
  std::vector<std::vector<v1::ByteRange>> parts(1);
  std::uint64_t left = share;  // of the last part
  for (v1::ByteRange range : ranges) {
    while (range.end_bytes() > range.begin_bytes()) {
      if (left == 0) {
        parts.emplace_back();
        left = share;
      }
      std::uint64_t end = range.end_bytes();
      if (end - range.begin_bytes() > left) {
        // So that no piece that is hashed waits for two streams.
        end = RoundUp(range.begin_bytes() + left, kDigestChunkBytes);
        end = std::min<std::uint64_t>(end, range.end_bytes());
      }
      v1::ByteRange& cut = parts.back().emplace_back(range);
      cut.set_end_bytes(end);
      left -= std::min(left, end - range.begin_bytes());
      range.set_begin_bytes(end);
    }
  }
  return parts;
}

void UploadStream::Begin(const v1::UploadRequest::Begin& begin) {
  v1::UploadRequest first;
  *first.mutable_begin() = begin;
  goes_on_ = call_.Write(Serialize(first));
}

void UploadStream::Send(const OperandSource& source, const std::vector<v1::ByteRange>& ranges) {
  const std::uint64_t chunk_bytes =
      SizeOf(ranges) < kLeastInLargeChunks ? kChunkBytes : kLargeChunkBytes;
  for (const v1::ByteRange& range : ranges) {
    const Matrix* const plane = source.plane(range.plane());
    if (plane == nullptr) continue;
    const std::uint64_t end = std::min<std::uint64_t>(range.end_bytes(), plane->bytes().size());
    std::uint64_t sent_before = range.begin_bytes();  // where the chunk before this one began
    for (std::uint64_t at = range.begin_bytes(); goes_on_ && at < end;) {
      const std::uint64_t next = std::min(at + chunk_bytes, end);
      goes_on_ = call_.Write(ChunkOf(source, range.plane(), at, next));
      if (goes_on_ && sent_) sent_(next - at);
      // gRPC is done with the chunk before; where it is not, the page is read again.
      ReleasePages(
          plane->shared_bytes().Part(plane->bytes().substr(sent_before, at - sent_before)));
      sent_before = at;
      at = next;
    }
  }
}

CallEnd UploadStream::End(v1::UploadResponse* response) {
  if (goes_on_) call_.WritesDone();
  const std::optional<grpc::ByteBuffer> answer = call_.Read();
  CallEnd end = Finish(call_, answer.has_value());
  if (!end.status.ok()) return end;
  end.status = Parse(*answer, response);
  return end;
}

CallEnd Download(BlockingCall& call, const v1::DownloadRequest& request,
                 std::optional<InlineOperand>* operand) {
  call.Write(Serialize(request));
  call.WritesDone();
  Arrivals arrivals;
  absl::Status status;
  bool is_first = true;
  while (status.ok()) {
    const std::optional<grpc::ByteBuffer> message = call.Read();
    if (!message) break;
    status = TakeMessage(*message, is_first, &arrivals);
    is_first = false;
  }
  if (!status.ok()) return {status, {}};
  CallEnd end = call.Finish();
  if (!end.status.ok()) return end;
  if (is_first) return {AnswerWasLost(), {}};
  std::array<std::optional<Matrix>, std::size(kPlaneNames)> planes;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    Arrival& arrival = arrivals.planes[i];
    if (arrival.size == 0) continue;
    absl::StatusOr<Matrix> made = Matrix::Create(arrival.format, std::move(arrival.bytes));
    if (!made.ok()) return {BadAnswer(made.status().message()), {}};
    planes[i] = *std::move(made);
  }
  operand->emplace(*std::move(planes[v1::DATA]), std::move(planes[v1::SCALES]));
  (*operand)->zero_points = std::move(planes[v1::ZERO_POINTS]);
  (*operand)->tensor_scale = std::move(planes[v1::TENSOR_SCALE]);
  (*operand)->offsets = std::move(planes[v1::OFFSETS]);
  (*operand)->blocks = arrivals.blocks;
  (*operand)->k_order = std::move(arrivals.k_order);
  return end;
}

}  // namespace gemmd::client
