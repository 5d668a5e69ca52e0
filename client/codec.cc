#include "client/codec.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/matmul_header.h"
#include "client/wire_types.h"
#include "proto/chunk_framing.h"

namespace gemmd::client {
namespace {

void AddPlane(v1::OperandName operand, v1::PlaneName name, Matrix matrix, v1::Plane& plane,
              v1::MatmulRequest& request) {
  const MatrixFormat& format = matrix.format();
  plane.set_type(ToWire(format.type));
  plane.set_rows(format.rows);
  plane.set_columns(format.columns);
  plane.set_order(ToWire(format.order));
  plane.set_leading_dimension(format.leading_dimension);
  v1::Chunk& chunk = *request.add_payload();
  chunk.set_operand(operand);
  chunk.set_plane(name);
  chunk.set_data(std::move(matrix).TakeBytes());
}

void AddOperand(v1::OperandName name, Matrix data, std::optional<Matrix> scales,
                v1::Operand& operand, v1::MatmulRequest& request) {
  operand.mutable_inline_();
  AddPlane(name, v1::DATA, std::move(data), *operand.mutable_data(), request);
  if (scales) AddPlane(name, v1::SCALES, *std::move(scales), *operand.mutable_scales(), request);
}

absl::Status BadResponse(absl::string_view why) {
  return absl::InternalError(absl::StrCat("the server's response is malformed: ", why));
}

absl::StatusOr<MatrixFormat> ResultFormat(const v1::Plane& plane, const ExpectedResult& expected) {
  MatrixFormat format;
  const absl::StatusOr<DataType> type = FromWire(plane.type());
  if (!type.ok()) return type.status();
  const absl::StatusOr<Order> order = FromWire(plane.order());
  if (!order.ok()) return order.status();
  format.type = *type;
  format.order = *order;
  format.rows = plane.rows();
  format.columns = plane.columns();
  format.leading_dimension = plane.leading_dimension();
  if (format.rows != expected.rows || format.columns != expected.columns ||
      format.order != expected.order || format.type != expected.type.value_or(format.type)) {
    MatrixFormat wanted = format;
    wanted.rows = expected.rows;
    wanted.columns = expected.columns;
    wanted.order = expected.order;
    wanted.type = expected.type.value_or(format.type);
    wanted.leading_dimension = 0;
    return BadResponse(
        absl::StrCat("D is ", ToString(format), ", but ", ToString(wanted), " was asked for"));
  }
  return format;
}

// The payload as one string.
absl::StatusOr<std::string> Assemble(v1::MatmulResponse& response) {
  std::vector<v1::Chunk*> chunks;
  for (v1::Chunk& chunk : *response.mutable_payload()) {
    if (chunk.operand() != v1::D || chunk.plane() != v1::DATA) {
      return BadResponse("a chunk belongs to something else than the data of D");
    }
    chunks.push_back(&chunk);
  }
  std::stable_sort(chunks.begin(), chunks.end(), [](const v1::Chunk* a, const v1::Chunk* b) {
    return a->offset_bytes() < b->offset_bytes();
  });
  std::uint64_t position = 0;
  for (const v1::Chunk* chunk : chunks) {
    if (chunk->offset_bytes() != position) {
      return BadResponse(absl::StrCat("a chunk begins at byte ", chunk->offset_bytes(),
                                      " where byte ", position, " comes next"));
    }
    position += chunk->data().size();
  }
  if (chunks.size() == 1) return std::move(*chunks[0]->mutable_data());
  std::string bytes;
  bytes.reserve(position);
  for (const v1::Chunk* chunk : chunks) bytes += chunk->data();
  return bytes;
}

}  // namespace

absl::StatusOr<v1::MatmulRequest> EncodeRequest(MatmulInputs inputs, const MatmulOptions& options) {
  v1::MatmulRequest request;
  v1::MatmulHeader& header = *request.mutable_header();
  SetHeader(options, header);
  AddOperand(v1::A, std::move(inputs.a), std::move(inputs.a_scales), *header.mutable_a(), request);
  AddOperand(v1::B, std::move(inputs.b), std::move(inputs.b_scales), *header.mutable_b(), request);
  if (inputs.c) {
    AddOperand(v1::C, *std::move(inputs.c), std::nullopt, *header.mutable_c(), request);
  }
  if (inputs.bias) {
    AddOperand(v1::BIAS, *std::move(inputs.bias), std::nullopt, *header.mutable_bias(), request);
  }
  constexpr std::size_t kProtobufLimit = std::numeric_limits<int>::max();
  if (const std::size_t size = request.ByteSizeLong(); size > kProtobufLimit) {
    return absl::InvalidArgumentError(absl::StrCat("the request would be a message of ", size,
                                                   " bytes, but one message holds ", kProtobufLimit,
                                                   " at most; split the product"));
  }
  return request;
}

grpc::ByteBuffer SerializeRequest(v1::MatmulRequest request) {
  using Holder = std::shared_ptr<v1::MatmulRequest>;
  const auto holder = std::make_shared<v1::MatmulRequest>(std::move(request));
  v1::MatmulRequest head;
  *head.mutable_header() = holder->header();
  std::string prefix = head.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (v1::Chunk& chunk : *holder->mutable_payload()) {
    v1::Chunk fields;
    fields.set_operand(chunk.operand());
    fields.set_plane(chunk.plane());
    prefix += ChunkPrefix(v1::MatmulRequest::kPayloadFieldNumber, fields, chunk.data().size());
    slices.emplace_back(prefix);
    prefix.clear();
    std::string& data = *chunk.mutable_data();
    slices.emplace_back(
        data.data(), data.size(), [](void* owner) { delete static_cast<Holder*>(owner); },
        new Holder(holder));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

ExpectedResult Expect(const MatmulInputs& inputs, const MatmulOptions& options) {
  const MatrixFormat& a = inputs.a.format();
  const MatrixFormat& b = inputs.b.format();
  ExpectedResult expected;
  expected.rows = options.transpose_a ? a.columns : a.rows;
  expected.columns = options.transpose_b ? b.rows : b.columns;
  expected.type = options.output_type;
  expected.order = options.output_order;
  return expected;
}

absl::StatusOr<EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options) {
  EncodedMatmul encoded;
  encoded.expected = Expect(inputs, options);
  absl::StatusOr<v1::MatmulRequest> request = EncodeRequest(std::move(inputs), options);
  if (!request.ok()) return request.status();
  encoded.request = SerializeRequest(*std::move(request));
  return encoded;
}

absl::StatusOr<Matrix> DecodeResult(v1::MatmulResponse& response, const ExpectedResult& expected) {
  const absl::StatusOr<MatrixFormat> format = ResultFormat(response.d(), expected);
  if (!format.ok()) return format.status();
  const absl::StatusOr<std::uint64_t> exact = SizeBytes(*format);
  if (!exact.ok()) return BadResponse(exact.status().message());
  absl::StatusOr<std::string> bytes = Assemble(response);
  if (!bytes.ok()) return bytes.status();
  // With the last line's padding the plane is a whole number of lines.
  MatrixFormat whole = *format;
  (whole.order == Order::kRowMajor ? whole.columns : whole.rows) = format->stride();
  const absl::StatusOr<std::uint64_t> padded = SizeBytes(whole);
  if (bytes->size() != *exact && !(padded.ok() && bytes->size() == *padded)) {
    return BadResponse(
        absl::StrCat(ToString(*format), " takes ", *exact, " bytes, but ", bytes->size(), " came"));
  }
  bytes->resize(*exact);
  return Matrix::Create(*format, *std::move(bytes));
}

}  // namespace gemmd::client
