#include "server/rpc/codec/operands_codec.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "proto/chunk_framing.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/wire_types.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

void EncodePlane(const MatrixLayout& layout, v1::Plane* plane) {
  plane->set_type(ToWire(layout.type));
  plane->set_rows(static_cast<std::uint64_t>(layout.rows));
  plane->set_columns(static_cast<std::uint64_t>(layout.columns));
  plane->set_order(ToWire(layout.order));
}

}  // namespace

absl::StatusOr<UploadBegin> DecodeBegin(const v1::UploadRequest::Begin& wire,
                                        const RequestLimits& limits) {
  UploadBegin begin;
  const absl::StatusOr<Sha256Digest> digest = DecodeDigest("begin.digest", wire.digest());
  if (!digest.ok()) return digest.status();
  begin.digest = *digest;
  if (!wire.has_operand()) return InvalidArgumentError("begin.operand is missing");
  const absl::StatusOr<OperandSpec> spec = DecodeOperand("begin.operand", wire.operand());
  if (!spec.ok()) return spec.status();
  absl::StatusOr<OperandForm> form = ValidateUpload(*spec, limits);
  if (!form.ok()) return form.status();
  begin.form = *std::move(form);
  if (wire.has_stored_form()) {
    const absl::StatusOr<OperandSpec> stored =
        DecodeOperand("begin.stored_form", wire.stored_form());
    if (!stored.ok()) return stored.status();
    absl::StatusOr<StoredAs> as = ValidateStoredForm(begin.form, *stored, limits);
    if (!as.ok()) return as.status();
    begin.as = *std::move(as);
  }
  if (wire.has_lease()) {
    const absl::StatusOr<TimeNs> lease = DecodeDuration("begin.lease", wire.lease());
    if (!lease.ok()) return lease.status();
    begin.lease = *lease;
  }
  return begin;
}

absl::StatusOr<UploadChunk> DecodeUploadChunk(const v1::Chunk& wire, const PayloadViews& payload) {
  if (wire.request_id() != 0) {
    return InvalidArgumentError(
        StrCat("chunk.request_id is ", wire.request_id(), "; in an upload it must be 0"));
  }
  if (wire.operand() != v1::OPERAND_UNSPECIFIED) {
    return InvalidArgumentError(StrCat("chunk.operand is ", static_cast<int>(wire.operand()),
                                       "; in an upload it must be unspecified"));
  }
  const std::optional<PlaneName> plane = FromWire(wire.plane());
  if (!plane.has_value()) {
    return InvalidArgumentError(StrCat("chunk.plane is ", static_cast<int>(wire.plane()),
                                       "; it must be a value of the enum in gemmd.v1"));
  }
  UploadChunk chunk;
  chunk.plane = *plane;
  chunk.offset = wire.offset_bytes();
  chunk.pieces = payload.of(wire);
  return chunk;
}

v1::Operand EncodeForm(const OperandForm& form) {
  v1::Operand operand;
  EncodePlane(form.data, operand.mutable_data());
  if (form.scales.has_value()) EncodePlane(*form.scales, operand.mutable_scales());
  if (form.zero_points.has_value()) EncodePlane(*form.zero_points, operand.mutable_zero_points());
  if (form.tensor_scale.has_value()) {
    EncodePlane(*form.tensor_scale, operand.mutable_tensor_scale());
  }
  if (form.offsets.has_value()) EncodePlane(*form.offsets, operand.mutable_offsets());
  if (form.blocks.has_value()) {
    v1::Quantization& wire = *operand.mutable_quantization();
    wire.set_block_k(form.blocks->block_k);
    wire.set_block_lines(form.blocks->block_lines);
    if (form.blocks->is_tiled) wire.set_scale_layout(v1::SCALES_BLOCKED_128X4);
  }
  if (form.k_order != nullptr) {
    operand.set_k_order(form.k_order->data(), form.k_order->size() * sizeof(std::uint32_t));
  }
  return operand;
}

v1::ResidentOperand EncodeInfo(const StoredInfo& info) {
  v1::ResidentOperand wire;
  wire.set_handle(info.handle);
  wire.set_digest(info.digest);
  for (const std::string& name : info.names) wire.add_names(name);
  *wire.mutable_operand() = EncodeForm(info.form);
  wire.mutable_operand()->clear_k_order();  // a list would be long; a download has it
  wire.set_device_bytes(info.device_bytes);
  wire.set_size_bytes(info.form.size_bytes());
  EncodeDuration(info.lease_remaining, wire.mutable_lease_remaining());
  EncodeDuration(info.lease, wire.mutable_lease());
  return wire;
}

v1::ByteRange EncodeRange(const MissingRange& range) {
  v1::ByteRange wire;
  wire.set_plane(ToWire(range.plane));
  wire.set_begin_bytes(range.bytes.begin);
  wire.set_end_bytes(range.bytes.end);
  return wire;
}

void EncodeDuration(TimeNs duration, google::protobuf::Duration* wire) {
  wire->set_seconds(duration / kSecond);
  wire->set_nanos(static_cast<std::int32_t>(duration % kSecond));
}

grpc::ByteBuffer EncodeDownloadChunk(PlaneName plane, const HostBuffer& memory,
                                     std::uint64_t offset, std::uint64_t bytes) {
  v1::Chunk head;
  head.set_plane(ToWire(plane));
  head.set_offset_bytes(offset);
  std::vector<grpc::Slice> slices = {
      grpc::Slice(ChunkPrefix(v1::DownloadResponse::kChunkFieldNumber, head, bytes))};
  for (const HostPiece& piece : memory) {
    if (bytes == 0) break;
    if (offset >= piece.size_bytes) {
      offset -= piece.size_bytes;
      continue;
    }
    const std::uint64_t part = std::min(bytes, piece.size_bytes - offset);
    auto owner = std::make_unique<std::shared_ptr<void>>(piece.owner);
    slices.emplace_back(
        piece.data + offset, part,
        [](void* shared) { delete static_cast<std::shared_ptr<void>*>(shared); }, owner.release());
    offset = 0;
    bytes -= part;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string EncodePageToken(std::uint64_t last) {
  return last == 0 ? std::string() : StrCat(absl::Hex(last));
}

absl::StatusOr<std::uint64_t> DecodePageToken(const std::string& token) {
  std::uint64_t last = 0;
  if (token.empty()) return last;
  if (token.size() <= 16 && absl::SimpleHexAtoi(token, &last) && EncodePageToken(last) == token) {
    return last;
  }
  return InvalidArgumentError("page_token is none that an earlier page gave");
}

}  // namespace gemmd
