#include "server/rpc/codec/encode.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/chunk_framing.h"
#include "server/rpc/codec/message_around.h"
#include "server/rpc/codec/status.h"
#include "server/rpc/codec/wire_types.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

double Us(TimeNs nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

v1::Plane EncodePlane(const MatrixLayout& layout) {
  v1::Plane plane;
  plane.set_type(ToWire(layout.type));
  plane.set_rows(layout.rows);
  plane.set_columns(layout.columns);
  plane.set_order(ToWire(layout.order));
  plane.set_leading_dimension(layout.leading_dimension);
  return plane;
}

grpc::ByteBuffer Encode(const SessionOpened& opened) {
  v1::MatmulStreamResponse message;
  message.mutable_opened()->set_session(opened.session);
  return MessageAround(message.SerializeAsString(), {});
}

grpc::ByteBuffer Encode(const SessionJoined&) {
  v1::MatmulStreamResponse message;
  message.mutable_joined();
  return MessageAround(message.SerializeAsString(), {});
}

grpc::ByteBuffer Encode(const RequestAccepted& accepted) {
  v1::MatmulStreamResponse message;
  message.mutable_accepted()->set_request_id(accepted.request_id);
  return MessageAround(message.SerializeAsString(), {});
}

// A Finished as that field of its message, but for the payload's bytes, which come last.
std::string FinishedBefore(int field, const RequestFinished& finished) {
  using Finished = v1::MatmulStreamResponse::Finished;
  const absl::Status status = ToPublic(finished.status);
  Finished message;
  message.set_request_id(finished.request_id);
  message.set_code(static_cast<std::uint32_t>(status.code()));
  message.set_message(std::string(status.message()));
  v1::MissingOperands missing = EncodeMissing(status);
  if (missing.ByteSizeLong() != 0) *message.mutable_missing() = std::move(missing);
  message.set_retry_after_ms(static_cast<std::uint64_t>(RetryAfterMs(status).value_or(0)));
  if (status.ok()) {
    *message.mutable_receipt() = EncodeReceipt(finished.receipt);
    *message.mutable_d() = EncodePlane(finished.d);
    message.set_handle(finished.handle);
  }
  std::string head = message.SerializeAsString();
  const std::uint64_t payload_bytes = SizeOf(finished.payload);
  if (payload_bytes != 0) {
    v1::Chunk chunk;
    chunk.set_operand(v1::D);
    head += ChunkPrefix(Finished::kPayloadFieldNumber, chunk, payload_bytes);
  }
  return FieldPrefix(field, head.size() + payload_bytes) + head;
}

grpc::ByteBuffer Encode(const RequestFinished& finished) {
  return MessageAround(FinishedBefore(v1::MatmulStreamResponse::kFinishedFieldNumber, finished),
                       finished.payload);
}

grpc::ByteBuffer Encode(const ResultChunk& result) {
  v1::Chunk chunk;
  chunk.set_request_id(result.request_id);
  chunk.set_operand(v1::D);
  chunk.set_offset_bytes(result.offset);
  return MessageAround(
      ChunkPrefix(v1::MatmulStreamResponse::kChunkFieldNumber, chunk, SizeOf(result.bytes)),
      result.bytes);
}

}  // namespace

std::string DescribePlan(const std::string& kernel, const std::string& plan) {
  const Kernel* const found = BuiltinRegistry().Find(kernel);
  if (found == nullptr || !found->traits().only_by_name) return plan;
  return absl::StrCat(plan, plan.empty() ? "" : "; ", found->traits().description);
}

v1::Receipt EncodeReceipt(const Receipt& receipt) {
  v1::Receipt wire;
  const Attribution attribution = Attribute(receipt);
  wire.set_request_id(receipt.request_id);
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    v1::Stage* stage = wire.add_stages();
    stage->set_name(ToWire(receipt.spans[i].stage));
    stage->set_start_us(Us(receipt.spans[i].start - receipt.arrival));
    stage->set_end_us(Us(receipt.spans[i].end - receipt.arrival));
    stage->set_exposed_us(Us(attribution.exposed[i]));
  }
  wire.set_total_us(Us(attribution.total));
  wire.set_unattributed_us(Us(attribution.unattributed));
  wire.set_device(receipt.device);
  wire.set_kernel(receipt.kernel);
  wire.set_plan(DescribePlan(receipt.kernel, receipt.plan));
  wire.set_numerics_id(receipt.numerics_id);
  wire.set_determinism(ToWire(receipt.determinism));
  wire.set_batch_requests(receipt.batch_requests);
  wire.set_batch_rows(receipt.batch_rows);
  wire.set_products(receipt.products);
  wire.set_flops(receipt.flops);
  wire.set_achieved_gflops(AchievedGflops(receipt));
  wire.set_payload_bytes_in(receipt.payload_bytes_in);
  wire.set_payload_bytes_out(receipt.payload_bytes_out);
  wire.set_shared_bytes_in(receipt.shared_bytes_in);
  wire.set_shared_bytes_out(receipt.shared_bytes_out);
  wire.set_copied_bytes_in(receipt.copied_bytes_in);
  wire.set_copied_bytes_out(receipt.copied_bytes_out);
  wire.set_landed_bytes(receipt.landed_bytes);
  wire.set_evicted_bytes(receipt.evicted_bytes);
  v1::PredictedTimes* const predicted = wire.mutable_predicted();
  predicted->set_copy_in_us(receipt.predicted.copy_in_us);
  predicted->set_compute_us(receipt.predicted.compute_us);
  predicted->set_copy_out_us(receipt.predicted.copy_out_us);
  predicted->set_device_us(receipt.predicted.device_us);
  if (receipt.verification_residual.has_value()) {
    wire.set_verification_residual(*receipt.verification_residual);
  }
  if (receipt.error_bound.has_value()) wire.set_error_bound(*receipt.error_bound);
  if (receipt.joules.has_value()) wire.set_joules(*receipt.joules);
  return wire;
}

v1::EstimateResponse EncodeEstimate(const MatmulEstimate& estimate, double caller_gflops) {
  v1::EstimateResponse wire;
  const Plan& plan = estimate.offer.plan;
  const Cost& cost = estimate.offer.cost;
  wire.set_kernel(plan.kernel->traits().name);
  wire.set_plan(DescribePlan(plan.kernel->traits().name, ToString(plan.config)));
  wire.set_receive_us(estimate.receive_us);
  wire.set_queue_us(estimate.queue_us);
  wire.set_copy_us(cost.copy_in_us + cost.copy_out_us);
  wire.set_compute_us(cost.compute_us);
  wire.set_send_us(estimate.send_us);
  wire.set_device(estimate.offer.served.device->traits().name);
  wire.set_numerics_id(plan.numerics_id);
  wire.set_determinism(ToWire(plan.kernel->traits().determinism));
  wire.set_copy_in_us(cost.copy_in_us);
  wire.set_copy_out_us(cost.copy_out_us);
  wire.set_device_us(cost.device_us);
  wire.set_total_us(estimate.total_us());
  if (caller_gflops > 0) {
    wire.set_caller_us(estimate.flops() / (caller_gflops * 1e3));
    wire.set_offload_is_faster(wire.total_us() < wire.caller_us());
  }
  wire.set_receive_is_measured(estimate.receive_is_measured);
  wire.set_send_is_measured(estimate.send_is_measured);
  wire.set_receive_bytes(estimate.receive_bytes);
  wire.set_send_bytes(estimate.send_bytes);
  wire.set_flops(estimate.flops());
  return wire;
}

grpc::ByteBuffer EncodeMatmulResponse(const Receipt& receipt, const MatrixLayout& layout,
                                      const HostBuffer& d, const std::string& handle) {
  v1::MatmulResponse head;
  *head.mutable_receipt() = EncodeReceipt(receipt);
  *head.mutable_d() = EncodePlane(layout);
  head.set_handle(handle);
  // D stays here, or went into the client's shared memory.
  if (d.empty()) return MessageAround(head.SerializeAsString(), {});
  v1::Chunk chunk;
  chunk.set_operand(v1::D);
  return MessageAround(head.SerializeAsString() +
                           ChunkPrefix(v1::MatmulResponse::kPayloadFieldNumber, chunk, SizeOf(d)),
                       d);
}

grpc::ByteBuffer EncodeStreamResponse(absl::Span<const Outgoing> message, bool accepts_batches) {
  if (!accepts_batches || !std::holds_alternative<RequestFinished>(message.front())) {
    return std::visit([](const auto& each) { return Encode(each); }, message.front());
  }
  std::uint64_t bytes = 0;
  std::vector<grpc::Slice> slices = {grpc::Slice()};  // the batch's length is known last
  for (const Outgoing& outgoing : message) {
    const auto& finished = std::get<RequestFinished>(outgoing);
    const std::string before =
        FinishedBefore(v1::MatmulStreamResponse::Batch::kFinishedFieldNumber, finished);
    bytes += before.size() + SizeOf(finished.payload);
    slices.emplace_back(before);
    for (const HostPiece& piece : finished.payload) slices.push_back(SliceOf(piece));
  }
  slices.front() = grpc::Slice(FieldPrefix(v1::MatmulStreamResponse::kBatchFieldNumber, bytes));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd
