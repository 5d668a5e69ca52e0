// From results to the wire's messages.
#pragma once

#include <memory>

#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/receipt.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "kernels/gemm.h"
#include "server/observe/receipt.h"

namespace gemmd {

v1::Receipt EncodeReceipt(const Receipt& receipt);

struct FreeDeleter {
  void operator()(void* memory) const;
};
// Memory of a result, aligned to 64 bytes.
using ResultBuffer = std::unique_ptr<void, FreeDeleter>;

// Null if there is no memory. Bytes are unspecified.
ResultBuffer AllocateResult(std::uint64_t bytes);

// Zeroes the bytes between the layout's lines.
void ClearPadding(const MatrixLayout& layout, void* d);

// A serialized gemmd.v1.MatmulResponse whose payload is d's own memory: no byte of the
// result is copied. The response keeps the memory until gRPC has sent it.
grpc::ByteBuffer EncodeMatmulResponse(const Receipt& receipt, const MatrixLayout& layout,
                                      ResultBuffer d);

}  // namespace gemmd
