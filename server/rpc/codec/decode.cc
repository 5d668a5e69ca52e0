#include "server/rpc/codec/decode.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/duration.h"
#include "base/text/operand_name.h"
#include "base/time/units.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "server/rpc/codec/wire_types.h"
#include "server/store/operand_store.h"

namespace gemmd {
namespace {

// Converts one enum field, or names it, its value and what would be right.
template <typename Wire, typename Ours>
absl::Status Decode(absl::string_view field, Wire wire, Ours* ours) {
  const auto value = FromWire(wire);
  if (!value.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is ", static_cast<int>(wire), "; it must be a value of the enum in gemmd.v1",
        static_cast<int>(wire) == 0 ? " other than unspecified" : ""));
  }
  *ours = *value;
  return absl::OkStatus();
}

absl::Status DecodeOptionalType(absl::string_view field, v1::DataType wire,
                                std::optional<DataType>* ours) {
  if (wire == v1::DATA_TYPE_UNSPECIFIED) return absl::OkStatus();
  return Decode(field, wire, &ours->emplace());
}

Source SourceOf(const v1::Operand& operand) {
  switch (operand.source_case()) {
    case v1::Operand::kHandle:
    case v1::Operand::kDigest:
    case v1::Operand::kName:
      return Source::kResident;
    case v1::Operand::kShared:
      return Source::kShared;
    case v1::Operand::kInline:
    case v1::Operand::SOURCE_NOT_SET:
      break;
  }
  return Source::kInline;
}

absl::Status DecodePlane(absl::string_view field, const v1::Plane& wire, PlaneSpec* plane) {
  plane->rows = wire.rows();
  plane->columns = wire.columns();
  plane->leading_dimension = wire.leading_dimension();
  absl::Status status = Decode(absl::StrCat(field, ".type"), wire.type(), &plane->type);
  status.Update(Decode(absl::StrCat(field, ".order"), wire.order(), &plane->order));
  return status;
}

absl::Status DecodeBlocks(absl::string_view field, const v1::Quantization& wire,
                          BlockScaling* blocks) {
  blocks->block_k = wire.block_k();
  blocks->block_lines = wire.block_lines() == 0 ? 1 : wire.block_lines();
  blocks->is_tiled = wire.scale_layout() == v1::SCALES_BLOCKED_128X4;
  if (blocks->is_tiled || wire.scale_layout() == v1::SCALES_PLAIN) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ".scale_layout is ",
                                                 static_cast<int>(wire.scale_layout()),
                                                 "; it must be a value of the enum in gemmd.v1"));
}

SharedMemorySpec DecodeShared(const v1::SharedMemory& wire) {
  return {wire.region(), wire.offset_bytes()};
}

absl::Status DecodeInto(absl::string_view field, const v1::Operand& wire,
                        std::optional<OperandSpec>* ours) {
  absl::StatusOr<OperandSpec> operand = DecodeOperand(field, wire);
  if (!operand.ok()) return operand.status();
  *ours = *std::move(operand);
  return absl::OkStatus();
}

absl::Status Decode(const v1::MatmulHeader& header, MatmulCall* call) {
  absl::Status status;
  if (header.has_a()) status.Update(DecodeInto("a", header.a(), &call->a));
  if (header.has_b()) status.Update(DecodeInto("b", header.b(), &call->b));
  if (header.has_c()) status.Update(DecodeInto("c", header.c(), &call->c));
  if (header.has_bias()) status.Update(DecodeInto("bias", header.bias(), &call->bias));
  call->transpose_a = header.transpose_a();
  call->transpose_b = header.transpose_b();
  if (header.has_alpha()) call->alpha = header.alpha();
  if (header.has_beta()) call->beta = header.beta();
  status.Update(Decode("activation", header.activation(), &call->activation));
  status.Update(DecodeOptionalType("output_type", header.output_type(), &call->output_type));
  status.Update(Decode("output_order", header.output_order(), &call->output_order));
  call->output_leading_dimension = header.output_leading_dimension();
  status.Update(
      DecodeOptionalType("accumulate_type", header.accumulate_type(), &call->accumulate_type));
  status.Update(Decode("determinism", header.determinism(), &call->determinism));
  call->kernel = header.kernel();
  status.Update(Decode("priority", header.priority(), &call->priority));
  call->verification_vectors = header.verification().vectors();
  if (header.has_keep_result()) {
    KeepResult& keep = call->keep_result.emplace();
    if (header.keep_result().has_lease()) {
      const absl::StatusOr<TimeNs> lease =
          DecodeDuration("keep_result.lease", header.keep_result().lease());
      status.Update(lease.status());
      if (lease.ok()) keep.lease = *lease;
    }
  }
  if (header.has_output()) call->output = DecodeShared(header.output());
  if (header.has_batch()) {
    const v1::StridedBatch& batch = header.batch();
    call->batch = BatchSpec{batch.count(),
                            batch.a_stride(),
                            batch.b_stride(),
                            batch.c_stride(),
                            batch.bias_stride(),
                            batch.output_stride(),
                            {batch.row_ends().begin(), batch.row_ends().end()}};
  }
  return status;
}

absl::Status DecodeOrder(absl::string_view field, const std::string& bytes, KOrder* order) {
  if (bytes.empty()) return absl::OkStatus();
  std::vector<std::uint32_t> places(bytes.size() / sizeof(std::uint32_t));
  if (places.size() * sizeof(std::uint32_t) != bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", bytes.size(), " bytes; a place of K takes 4"));
  }
  std::memcpy(places.data(), bytes.data(), bytes.size());
  *order = std::make_shared<const std::vector<std::uint32_t>>(std::move(places));
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy = bytes;  // of references: parsing consumes its buffer
  const grpc::Status parsed =
      grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&copy, message);
  return parsed.ok() ? absl::OkStatus() : MalformedError(*message);
}

absl::StatusOr<OperandSpec> DecodeOperand(absl::string_view field, const v1::Operand& wire) {
  OperandSpec operand;
  operand.source = SourceOf(wire);
  operand.has_data = wire.has_data();
  absl::Status status;
  if (operand.source == Source::kResident) {
    absl::StatusOr<OperandKey> key =
        MakeKey(absl::StrCat(field, "."), wire.handle(), wire.digest(), wire.name());
    if (!key.ok()) return key.status();
    operand.resident = *std::move(key);
  } else if (!wire.has_data()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".data is missing"));
  }
  if (wire.has_shared()) operand.shared = DecodeShared(wire.shared());
  if (wire.has_data()) {
    status.Update(DecodePlane(absl::StrCat(field, ".data"), wire.data(), &operand.data));
  }
  const auto decode = [&](absl::string_view name, bool is_there, const v1::Plane& plane,
                          std::optional<PlaneSpec>* to) {
    if (!is_there) return;
    status.Update(DecodePlane(absl::StrCat(field, ".", name), plane, &to->emplace()));
  };
  decode("scales", wire.has_scales(), wire.scales(), &operand.scales);
  decode("zero_points", wire.has_zero_points(), wire.zero_points(), &operand.zero_points);
  decode("tensor_scale", wire.has_tensor_scale(), wire.tensor_scale(), &operand.tensor_scale);
  decode("offsets", wire.has_offsets(), wire.offsets(), &operand.offsets);
  if (wire.has_quantization()) {
    status.Update(DecodeBlocks(absl::StrCat(field, ".quantization"), wire.quantization(),
                               &operand.blocks.emplace()));
  }
  status.Update(DecodeOrder(absl::StrCat(field, ".k_order"), wire.k_order(), &operand.k_order));
  if (wire.has_matrix()) {
    if (operand.source != Source::kResident) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".matrix is ", wire.matrix(),
                       ", which goes with a resident operand: a handle, a digest or a name"));
    }
    operand.matrix = wire.matrix();
  }
  if (!status.ok()) return status;
  return operand;
}

absl::StatusOr<OperandKey> MakeKey(absl::string_view prefix, const std::string& handle,
                                   const std::string& digest, const std::string& name) {
  if (handle.empty() && digest.empty() && name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        prefix, "handle, digest and name are missing; one of them says which operand"));
  }
  if (handle.size() > kMaxHandleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        prefix, "handle has ", handle.size(), " bytes; a handle has at most ", kMaxHandleBytes));
  }
  if (!digest.empty()) {
    const absl::StatusOr<Sha256Digest> checked =
        DecodeDigest(absl::StrCat(prefix, "digest"), digest);
    if (!checked.ok()) return checked.status();
  }
  if (!name.empty()) {
    absl::Status s = CheckOperandName(absl::StrCat(prefix, "name"), name);
    if (!s.ok()) return s;
  }
  return OperandKey{handle, digest, name};
}

absl::StatusOr<Sha256Digest> DecodeDigest(absl::string_view field, absl::string_view bytes) {
  Sha256Digest digest{};
  if (bytes.size() != digest.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", bytes.size(), " bytes; a digest has ", digest.size()));
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

absl::StatusOr<TimeNs> DecodeDuration(absl::string_view field,
                                      const google::protobuf::Duration& wire) {
  constexpr std::int64_t kMaxSeconds = std::int64_t{366} * 24 * 3600;
  if (wire.seconds() < 0 || wire.seconds() > kMaxSeconds) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", DurationText(absl::Seconds(wire.seconds())),
                     "; it must be 0s to ", DurationText(absl::Seconds(kMaxSeconds))));
  }
  if (wire.nanos() < 0 || wire.nanos() >= kSecond) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".nanos is ", wire.nanos(), "; it must be 0 to ", kSecond - 1));
  }
  return wire.seconds() * kSecond + wire.nanos();
}

absl::Status MalformedError(const google::protobuf::Message& message) {
  return absl::InvalidArgumentError(
      absl::StrCat("the request is not a ", message.GetTypeName(), ": malformed protobuf"));
}

absl::Status RefusedError(const google::protobuf::Message& message, const PayloadViews& payload) {
  if (payload.other_bytes() <= payload.most_other_bytes()) return MalformedError(message);
  return absl::InvalidArgumentError(
      absl::StrCat("the request has ", payload.other_bytes(), " bytes besides ",
                   payload.data_bytes(), " of payload; it may have ", payload.most_other_bytes(),
                   payload.are_chunks() ? ": a mebibyte and a quarter of its payload" : ""));
}

ReceivedMessage::ReceivedMessage(const grpc::ByteBuffer& bytes) : bytes_(bytes) {
  // Fails only where there are no bytes.
  if (!bytes_.Dump(&slices_).ok()) return;
  pieces_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    pieces_.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
}

absl::StatusOr<MatmulCall> DecodeHeader(const v1::MatmulHeader& header) {
  MatmulCall call;
  if (absl::Status status = Decode(header, &call); !status.ok()) return status;
  return call;
}

absl::StatusOr<PayloadChunk> DecodeChunk(const v1::Chunk& chunk, const PayloadViews& payload) {
  PayloadChunk decoded;
  absl::Status status = Decode("payload.operand", chunk.operand(), &decoded.operand);
  status.Update(Decode("payload.plane", chunk.plane(), &decoded.plane));
  if (!status.ok()) return status;
  decoded.offset = chunk.offset_bytes();
  decoded.pieces = payload.of(chunk);
  return decoded;
}

absl::StatusOr<MatmulCall> DecodeShape(absl::string_view field, const v1::ProblemShape& shape) {
  MatmulCall call;
  std::optional<DataType> type;
  absl::Status status = DecodeOptionalType(absl::StrCat(field, ".type"), shape.type(), &type);
  status.Update(DecodeOptionalType(absl::StrCat(field, ".output_type"), shape.output_type(),
                                   &call.output_type));
  status.Update(
      Decode(absl::StrCat(field, ".determinism"), shape.determinism(), &call.determinism));
  if (!status.ok()) return status;
  const auto plane = [&](std::uint64_t rows, std::uint64_t columns, bool transpose) {
    OperandSpec operand;
    operand.data.type = type.value_or(DataType::kF32);
    operand.data.rows = transpose ? columns : rows;
    operand.data.columns = transpose ? rows : columns;
    return operand;
  };
  call.transpose_a = shape.transpose_a();
  call.transpose_b = shape.transpose_b();
  call.a = plane(shape.m(), shape.k(), shape.transpose_a());
  call.b = plane(shape.k(), shape.n(), shape.transpose_b());
  return call;
}

}  // namespace gemmd
