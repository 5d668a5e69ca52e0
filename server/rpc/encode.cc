#include "server/rpc/encode.h"

#include <memory>
#include <string>
#include <vector>

#include "proto/chunk_framing.h"
#include "server/rpc/wire_types.h"

namespace gemmd {
namespace {

double Us(TimeNs nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

// A slice that shares the piece's memory.
grpc::Slice SliceOf(const HostPiece& piece) {
  auto owner = std::make_unique<std::shared_ptr<void>>(piece.owner);
  return grpc::Slice(
      piece.data, piece.size_bytes,
      [](void* shared) { delete static_cast<std::shared_ptr<void>*>(shared); }, owner.release());
}

}  // namespace

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
  wire.set_plan(receipt.plan);
  wire.set_numerics_id(receipt.numerics_id);
  wire.set_determinism(ToWire(receipt.determinism));
  wire.set_batch_requests(receipt.batch_requests);
  wire.set_batch_rows(receipt.batch_rows);
  wire.set_flops(receipt.flops);
  wire.set_achieved_gflops(AchievedGflops(receipt));
  wire.set_payload_bytes_in(receipt.payload_bytes_in);
  wire.set_payload_bytes_out(receipt.payload_bytes_out);
  return wire;
}

grpc::ByteBuffer EncodeMatmulResponse(const Receipt& receipt, const MatrixLayout& layout,
                                      const HostBuffer& d, const std::string& handle) {
  v1::MatmulResponse head;
  *head.mutable_receipt() = EncodeReceipt(receipt);
  head.mutable_d()->set_type(ToWire(layout.type));
  head.mutable_d()->set_rows(layout.rows);
  head.mutable_d()->set_columns(layout.columns);
  head.mutable_d()->set_order(ToWire(layout.order));
  head.mutable_d()->set_leading_dimension(layout.leading_dimension);
  head.set_handle(handle);
  std::string bytes = head.SerializeAsString();
  if (!handle.empty()) {
    const grpc::Slice slice(bytes);
    return grpc::ByteBuffer(&slice, 1);
  }

  v1::Chunk chunk;
  chunk.set_operand(v1::D);
  const std::uint64_t size = layout.size_bytes();
  bytes += ChunkPrefix(v1::MatmulResponse::kPayloadFieldNumber, chunk, size);
  std::vector<grpc::Slice> slices = {grpc::Slice(bytes)};
  for (const HostPiece& piece : d) slices.push_back(SliceOf(piece));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd
