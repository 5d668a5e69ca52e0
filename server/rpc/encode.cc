#include "server/rpc/encode.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "proto/chunk_framing.h"
#include "server/rpc/wire_types.h"

namespace gemmd {
namespace {

double Us(TimeNs nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

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

void FreeDeleter::operator()(void* memory) const { std::free(memory); }

ResultBuffer AllocateResult(std::uint64_t bytes) {
  // Large results take huge pages: first touches of small ones would cost more than the
  // stores.
  constexpr std::uint64_t kCacheLine = 64;
  constexpr std::uint64_t kHugePage = 2 << 20;
  const std::uint64_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  ResultBuffer result(std::aligned_alloc(alignment, rounded));
  if (result != nullptr && alignment == kHugePage) {
    madvise(result.get(), rounded, MADV_HUGEPAGE);  // a hint: without it, small pages serve
  }
  return result;
}

void ClearPadding(const MatrixLayout& layout, void* d) {
  const auto line_bytes = static_cast<std::size_t>(layout.leading_dimension) *
                          static_cast<std::size_t>(SizeBits(layout.type)) / 8;
  const auto used_bytes = static_cast<std::size_t>(layout.inner()) *
                          static_cast<std::size_t>(SizeBits(layout.type)) / 8;
  if (line_bytes == used_bytes) return;
  for (std::int64_t line = 0; line + 1 < layout.outer(); ++line) {
    std::memset(static_cast<char*>(d) + line * line_bytes + used_bytes, 0, line_bytes - used_bytes);
  }
}

grpc::ByteBuffer EncodeMatmulResponse(const Receipt& receipt, const MatrixLayout& layout,
                                      ResultBuffer d) {
  v1::MatmulResponse head;
  *head.mutable_receipt() = EncodeReceipt(receipt);
  head.mutable_d()->set_type(ToWire(layout.type));
  head.mutable_d()->set_rows(layout.rows);
  head.mutable_d()->set_columns(layout.columns);
  head.mutable_d()->set_order(ToWire(layout.order));
  head.mutable_d()->set_leading_dimension(layout.leading_dimension);
  std::string bytes = head.SerializeAsString();

  v1::Chunk chunk;
  chunk.set_operand(v1::D);
  const std::uint64_t size = layout.size_bytes();
  bytes += ChunkPrefix(v1::MatmulResponse::kPayloadFieldNumber, chunk, size);
  void* const memory = d.release();
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(bytes),
                                             grpc::Slice(memory, size, std::free)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd
