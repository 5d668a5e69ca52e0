#include "client/load/transport/infer_message.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/load/transport/protocol.h"
#include "client/result.h"
#include "client/wire/message.h"
#include "proto/chunk_framing.h"

namespace gemmd::load {
namespace {

using client::BadResponse;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

std::string ModelOf(const WorkloadEntry& entry, const std::string& resident) {
  if (!resident.empty()) return absl::StrCat("linear/", resident);
  return absl::StrCat("matmul_", absl::AsciiStrToLower(DatatypeName(entry.a.type)));
}

void SetParameters(const WorkloadEntry& entry, bool transpose_b, ModelInferRequest* request) {
  auto& parameters = *request->mutable_parameters();
  parameters["receipt"].set_bool_param(true);
  if (transpose_b) parameters["transpose_b"].set_bool_param(true);
  const client::MatmulOptions& options = entry.options;
  if (options.output_type) {
    parameters["output_type"].set_string_param(std::string(DatatypeName(*options.output_type)));
  }
  if (!options.kernel.empty()) parameters["kernel"].set_string_param(options.kernel);
  if (options.determinism != Determinism::kBatchInvariant) {
    parameters["determinism"].set_string_param(std::string(Name(options.determinism)));
  }
  // 1 is the highest of three.
  if (options.priority == v1::PRIORITY_HIGH) parameters["priority"].set_int64_param(1);
  if (options.priority == v1::PRIORITY_LOW) parameters["priority"].set_int64_param(3);
}

// A matrix in column-major order is described as it lies: as its transpose.
void AddInput(const char* name, const client::MatrixFormat& format, ModelInferRequest* request) {
  auto* const input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(std::string(DatatypeName(format.type)));
  input->add_shape(static_cast<std::int64_t>(format.outer()));
  input->add_shape(static_cast<std::int64_t>(format.inner()));
}

struct StageName {
  absl::string_view name;
  v1::StageName stage;
};
constexpr StageName kStageNames[] = {
    {"decode", v1::DECODE}, {"admission", v1::ADMISSION}, {"receive", v1::RECEIVE},
    {"queue", v1::QUEUE},   {"copy_in", v1::COPY_IN},     {"compute", v1::COMPUTE},
    {"verify", v1::VERIFY}, {"copy_out", v1::COPY_OUT},   {"encode", v1::ENCODE},
};

// Absent ones are zero.
v1::Receipt ReceiptOf(const ModelInferResponse& response, const EncodedInfer& request) {
  const auto& parameters = response.parameters();
  const auto find = [&parameters](absl::string_view name) -> const inference::InferParameter& {
    const auto found = parameters.find(absl::StrCat("receipt_", name));
    return found == parameters.end() ? inference::InferParameter::default_instance()
                                     : found->second;
  };
  v1::Receipt receipt;
  for (const StageName& each : kStageNames) {
    const double us = find(absl::StrCat(each.name, "_us")).double_param();
    if (us == 0) continue;
    v1::Stage* const stage = receipt.add_stages();
    stage->set_name(each.stage);
    stage->set_exposed_us(us);
  }
  receipt.set_request_id(find("request_id").uint64_param());
  receipt.set_total_us(find("total_us").double_param());
  receipt.set_unattributed_us(find("unattributed_us").double_param());
  receipt.set_kernel(find("kernel").string_param());
  receipt.set_plan(find("plan").string_param());
  receipt.set_device(find("device").string_param());
  receipt.set_numerics_id(find("numerics_id").string_param());
  receipt.set_batch_requests(find("batch_requests").uint64_param());
  receipt.set_batch_rows(find("batch_rows").uint64_param());
  receipt.set_determinism(request.determinism == Determinism::kFast ? v1::FAST
                                                                    : v1::BATCH_INVARIANT);
  return receipt;
}

absl::Status CheckOutput(const ModelInferResponse& response, const client::MatrixFormat& d) {
  if (response.outputs_size() != 1 || response.raw_output_contents_size() != 1) {
    return BadResponse(absl::StrCat("it has ", response.outputs_size(), " outputs and ",
                                    response.raw_output_contents_size(),
                                    " raw contents, but one of each was asked for"));
  }
  const auto& output = response.outputs(0);
  if (output.name() != "D" || output.datatype() != DatatypeName(d.type) ||
      output.shape_size() != 2 || output.shape(0) != static_cast<std::int64_t>(d.rows) ||
      output.shape(1) != static_cast<std::int64_t>(d.columns)) {
    return BadResponse(absl::StrCat("output ", output.name(), " is ", output.datatype(), " [",
                                    absl::StrJoin(output.shape(), ","), "], but D of ",
                                    client::ToString(d), " was asked for"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const EncodedInfer>> EncodeInfer(const WorkloadEntry& entry,
                                                                const client::InlineOperand& a,
                                                                const client::InlineOperand& b,
                                                                const std::string& resident) {
  ModelInferRequest head;
  head.set_model_name(ModelOf(entry, resident));
  AddInput("A", entry.a, &head);
  const bool b_travels = resident.empty();
  if (b_travels) AddInput("B", entry.b, &head);
  SetParameters(entry, b_travels && entry.b.order == Order::kColumnMajor, &head);
  client::MessageWriter writer;
  writer.Append(head.SerializeAsString());
  const auto append = [&writer](const client::Matrix& matrix) {
    const std::uint64_t bytes = matrix.bytes().size();
    writer.Append(FieldPrefix(ModelInferRequest::kRawInputContentsFieldNumber, bytes));
    writer.Append(matrix.shared_bytes(), 0, bytes);
  };
  append(a.data);
  if (b_travels) append(b.data);
  constexpr std::uint64_t kProtobufLimit = std::numeric_limits<int>::max();
  if (writer.size() > kProtobufLimit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request takes ", writer.size(), " bytes; one message has at most ", kProtobufLimit));
  }
  auto request = std::make_shared<EncodedInfer>();
  request->bytes = writer.size();
  if (!std::move(writer).Finish().Dump(&request->slices).ok()) {
    return absl::InternalError("gRPC cannot read the slices of a request");
  }
  request->d.type = entry.output_type();
  request->d.rows = entry.m();
  request->d.columns = entry.n();
  request->determinism = entry.options.determinism;
  return request;
}

grpc::ByteBuffer InferMessage(const EncodedInfer& request, const std::string& id) {
  if (id.empty()) return {request.slices.data(), request.slices.size()};
  std::vector<grpc::Slice> slices;
  slices.reserve(request.slices.size() + 1);
  slices.emplace_back(absl::StrCat(FieldPrefix(ModelInferRequest::kIdFieldNumber, id.size()), id));
  slices.insert(slices.end(), request.slices.begin(), request.slices.end());
  return {slices.data(), slices.size()};
}

absl::StatusOr<client::Product> DecodeInfer(const ModelInferResponse& response,
                                            const PayloadViews& raw, const EncodedInfer& request) {
  if (absl::Status s = CheckOutput(response, request.d); !s.ok()) return s;
  const auto pieces = raw.of(response.raw_output_contents(0));
  const absl::StatusOr<std::uint64_t> size = client::SizeBytes(request.d);
  if (!size.ok()) return size.status();
  if (client::SizeOf(pieces) != *size) {
    return BadResponse(absl::StrCat(client::ToString(request.d), " takes ", *size, " bytes, but ",
                                    client::SizeOf(pieces), " came"));
  }
  client::Buffer buffer = client::Buffer::Allocate(*size);
  std::uint64_t at = 0;
  for (const absl::string_view piece : pieces) {
    if (!piece.empty()) std::memcpy(buffer.data() + at, piece.data(), piece.size());
    at += piece.size();
  }
  absl::StatusOr<client::Matrix> d =
      client::Matrix::Create(request.d, std::move(buffer).Freeze(*size));
  if (!d.ok()) return d.status();
  client::Product product;
  product.format = request.d;
  product.d = *std::move(d);
  product.receipt.server = ReceiptOf(response, request);
  return product;
}

absl::Status StreamedError(const std::string& error_message) {
  absl::string_view text = error_message;
  if (absl::StartsWith(text, "[request id: ")) {
    // An id may have brackets of its own, but those that are sent here are numbers.
    if (const std::size_t end = text.find("] "); end != absl::string_view::npos) {
      text.remove_prefix(end + 2);
    }
  }
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const auto each = static_cast<absl::StatusCode>(code);
    if (absl::ConsumePrefix(&text, absl::StrCat(absl::StatusCodeToString(each), ": "))) {
      return absl::Status(each, text);
    }
  }
  return absl::UnknownError(text);
}

}  // namespace gemmd::load
