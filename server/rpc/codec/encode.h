// Encodes results as the wire's messages.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/receipt.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "kernels/gemm.h"
#include "server/admission/admission.h"
#include "server/device/host_buffer.h"
#include "server/observe/receipt.h"
#include "server/transfer/outgoing.h"

namespace gemmd {

// A plan as clients read it: a kernel that serves by name alone says what it is, too, that it gives
// up accuracy or that no card has run it. `kernel` need not be one of this build.
std::string DescribePlan(const std::string& kernel, const std::string& plan);

v1::Receipt EncodeReceipt(const Receipt& receipt);

// `caller_gflops` is 0 if unknown.
v1::EstimateResponse EncodeEstimate(const MatmulEstimate& estimate, double caller_gflops);

// A serialized gemmd.v1.MatmulResponse whose payload is d's own memory: no byte of the
// result is copied. The response keeps the memory until gRPC has sent it. An empty d has no
// payload: it stays, and has a handle, or went into shared memory.
grpc::ByteBuffer EncodeMatmulResponse(const Receipt& receipt, const MatrixLayout& layout,
                                      const HostBuffer& d, const std::string& handle = {});

// A serialized gemmd.v1.MatmulStreamResponse, in the same way. To a client that accepts batches
// every RequestFinished goes in one, the first too: it tells that the server takes batches.
// REQUIRES: `message` is one that MatmulSession::NextMessage() gave, and not empty.
grpc::ByteBuffer EncodeStreamResponse(absl::Span<const Outgoing> message, bool accepts_batches);

}  // namespace gemmd
