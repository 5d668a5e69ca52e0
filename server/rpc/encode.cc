#include "server/rpc/encode.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/rpc/wire_types.h"

namespace gemmd {
namespace {

using google::protobuf::internal::WireFormatLite;

double Us(TimeNs nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

std::uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

std::size_t TagAndLengthSize(int field, std::uint64_t length) {
  using google::protobuf::io::CodedOutputStream;
  return CodedOutputStream::VarintSize32(BytesTag(field)) + CodedOutputStream::VarintSize64(length);
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

void FreeDeleter::operator()(void* memory) const { std::free(memory); }

ResultBuffer AllocateResult(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 64;
  return ResultBuffer(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
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

  // Then, by hand, payload { operand: D data: <size bytes> } up to the data itself.
  v1::Chunk chunk;
  chunk.set_operand(v1::D);
  const std::string chunk_head = chunk.SerializeAsString();
  const std::uint64_t size = layout.size_bytes();
  const std::uint64_t chunk_size =
      chunk_head.size() + TagAndLengthSize(v1::Chunk::kDataFieldNumber, size) + size;
  {
    google::protobuf::io::StringOutputStream appended(&bytes);
    google::protobuf::io::CodedOutputStream out(&appended);
    out.WriteTag(BytesTag(v1::MatmulResponse::kPayloadFieldNumber));
    out.WriteVarint64(chunk_size);
    out.WriteString(chunk_head);
    out.WriteTag(BytesTag(v1::Chunk::kDataFieldNumber));
    out.WriteVarint64(size);
  }
  void* const memory = d.release();
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(bytes),
                                             grpc::Slice(memory, size, std::free)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd
