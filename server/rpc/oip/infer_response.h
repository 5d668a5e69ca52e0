// Answers of the Open Inference Protocol, built around the result's own memory.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/observe/receipt.h"
#include "server/rpc/oip/infer_request.h"

namespace gemmd {

// A serialized ModelInferResponse, whose raw_output_contents is d's own memory: no byte of the
// result is copied. The response keeps the memory until gRPC has sent it. An empty d went into
// shared memory. REQUIRES: `layout` is tight and row-major.
grpc::ByteBuffer EncodeInferResponse(const InferAnswer& answer, const Receipt& receipt,
                                     const MatrixLayout& layout, const HostBuffer& d);

// That, as the infer_response of a serialized ModelStreamInferResponse.
grpc::ByteBuffer EncodeStreamInferResponse(const InferAnswer& answer, const Receipt& receipt,
                                           const MatrixLayout& layout, const HostBuffer& d);

// A serialized ModelStreamInferResponse that says what was wrong with a request. `status` is as
// ToPublic() gives it, and not OK.
grpc::ByteBuffer EncodeStreamInferError(const InferAnswer& answer, const absl::Status& status);

}  // namespace gemmd
