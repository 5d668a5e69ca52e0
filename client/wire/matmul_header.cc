#include "client/wire/matmul_header.h"

#include "client/wire/wire_types.h"

namespace gemmd::client {
namespace {

void SetDestination(const Destination& destination, v1::MatmulHeader& header) {
  if (const auto* const kept = std::get_if<KeepResult>(&destination)) {
    v1::KeepResult& wire = *header.mutable_keep_result();
    if (kept->lease) SetDuration(*kept->lease, wire.mutable_lease());
  } else if (const auto* const place = std::get_if<SharedPlace>(&destination)) {
    *header.mutable_output() = place->memory;
  }
}

void SetBatch(const Batch& batch, v1::StridedBatch& wire) {
  wire.set_count(batch.count);
  wire.set_a_stride(batch.a_stride);
  wire.set_b_stride(batch.b_stride);
  wire.set_c_stride(batch.c_stride);
  wire.set_bias_stride(batch.bias_stride);
  wire.set_output_stride(batch.output_stride);
  wire.mutable_row_ends()->Add(batch.row_ends.begin(), batch.row_ends.end());
}

}  // namespace

void SetHeader(const MatmulOptions& options, v1::MatmulHeader& header) {
  header.set_transpose_a(options.transpose_a);
  header.set_transpose_b(options.transpose_b);
  header.set_alpha(options.alpha);
  header.set_beta(options.beta);
  header.set_activation(ToWire(options.activation));
  if (options.output_type) header.set_output_type(ToWire(*options.output_type));
  header.set_output_order(ToWire(options.output_order));
  header.set_output_leading_dimension(options.output_leading_dimension);
  if (options.accumulate_type) header.set_accumulate_type(ToWire(*options.accumulate_type));
  header.set_determinism(ToWire(options.determinism));
  header.set_kernel(options.kernel);
  header.set_priority(options.priority);
  if (options.verification_vectors != 0) {
    header.mutable_verification()->set_vectors(options.verification_vectors);
  }
  SetDestination(options.destination, header);
  if (options.batch) SetBatch(*options.batch, *header.mutable_batch());
}

}  // namespace gemmd::client
