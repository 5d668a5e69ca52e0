#include "server/rpc/oip/infer_response.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "inference/grpc_service.pb.h"
#include "proto/chunk_framing.h"
#include "server/rpc/codec/encode.h"
#include "server/rpc/codec/message_around.h"
#include "server/rpc/oip/datatypes.h"

namespace gemmd {
namespace {

using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

double Us(TimeNs nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

// The receipt as parameters: "receipt_queue_us" is the time of which the stage alone is the cause,
// as Attribute() charges it.
void AddReceipt(const Receipt& receipt, ModelInferResponse* response) {
  auto& parameters = *response->mutable_parameters();
  const auto set = [&parameters](absl::string_view name) -> inference::InferParameter& {
    return parameters[absl::StrCat("receipt_", name)];
  };
  const Attribution attribution = Attribute(receipt);
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    inference::InferParameter& us = set(absl::StrCat(Name(receipt.spans[i].stage), "_us"));
    us.set_double_param(us.double_param() + Us(attribution.exposed[i]));
  }
  set("request_id").set_uint64_param(receipt.request_id);
  set("total_us").set_double_param(Us(attribution.total));
  set("unattributed_us").set_double_param(Us(attribution.unattributed));
  set("device").set_string_param(receipt.device);
  set("kernel").set_string_param(receipt.kernel);
  set("plan").set_string_param(DescribePlan(receipt.kernel, receipt.plan));
  set("numerics_id").set_string_param(receipt.numerics_id);
  set("batch_requests").set_uint64_param(receipt.batch_requests);
  set("batch_rows").set_uint64_param(receipt.batch_rows);
  if (receipt.verification_residual.has_value()) {
    set("verification_residual").set_double_param(*receipt.verification_residual);
  }
}

// Everything but the bytes of D, which come last.
std::string HeadOf(const InferAnswer& answer, const Receipt& receipt, const MatrixLayout& layout,
                   std::uint64_t d_bytes) {
  ModelInferResponse response;
  response.set_model_name(answer.model);
  response.set_model_version(std::string(kModelVersion));
  response.set_id(answer.id);
  if (answer.wants_receipt) AddReceipt(receipt, &response);
  if (answer.wants_final_response) {
    (*response.mutable_parameters())["triton_final_response"].set_bool_param(true);
  }
  auto* const d = response.add_outputs();
  d->set_name("D");
  d->set_datatype(std::string(DatatypeName(layout.type)));
  for (const std::int64_t each : answer.shape) d->add_shape(each);
  if (answer.shared.has_value()) {
    auto& parameters = *d->mutable_parameters();
    parameters["shared_memory_region"].set_string_param(answer.shared->region);
    parameters["shared_memory_offset"].set_uint64_param(answer.shared->offset);
    parameters["shared_memory_byte_size"].set_uint64_param(answer.shared->bytes);
  }
  return response.SerializeAsString() +
         FieldPrefix(ModelInferResponse::kRawOutputContentsFieldNumber, d_bytes);
}

}  // namespace

grpc::ByteBuffer EncodeInferResponse(const InferAnswer& answer, const Receipt& receipt,
                                     const MatrixLayout& layout, const HostBuffer& d) {
  return MessageAround(HeadOf(answer, receipt, layout, SizeOf(d)), d);
}

grpc::ByteBuffer EncodeStreamInferResponse(const InferAnswer& answer, const Receipt& receipt,
                                           const MatrixLayout& layout, const HostBuffer& d) {
  const std::uint64_t d_bytes = SizeOf(d);
  const std::string head = HeadOf(answer, receipt, layout, d_bytes);
  return MessageAround(
      FieldPrefix(ModelStreamInferResponse::kInferResponseFieldNumber, head.size() + d_bytes) +
          head,
      d);
}

grpc::ByteBuffer EncodeStreamInferError(const InferAnswer& answer, const absl::Status& status) {
  ModelStreamInferResponse response;
  // Clients hand their callers the text alone, which therefore says whose it is.
  const std::string whose =
      answer.id.empty() ? "" : absl::StrCat("[request id: ", Quoted(answer.id), "] ");
  response.set_error_message(absl::StrCat(whose, absl::StatusCodeToString(status.code()), ": ",
                                          std::string(status.message())));
  ModelInferResponse& failed = *response.mutable_infer_response();
  failed.set_model_name(answer.model);
  failed.set_id(answer.id);
  if (answer.wants_final_response) {
    (*failed.mutable_parameters())["triton_final_response"].set_bool_param(true);
  }
  return MessageAround(response.SerializeAsString(), {});
}

}  // namespace gemmd
