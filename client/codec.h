// Between the values of matmul.h and the messages of gemm.proto.
#pragma once

#include "absl/status/statusor.h"
#include "client/matmul.h"
#include "client/matrix.h"
#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/support/byte_buffer.h"

namespace gemmd::client {

// Consumes the inputs: their bytes move into the request, one Chunk a plane.
// INVALID_ARGUMENT where the message would pass the 2 GiB that protobuf can write.
absl::StatusOr<v1::MatmulRequest> EncodeRequest(MatmulInputs inputs, const MatmulOptions& options);

// The request as it goes over the wire. The payload is the message's own memory, which
// lives as long as gRPC needs it: no byte of a matrix is copied.
grpc::ByteBuffer SerializeRequest(v1::MatmulRequest request);

// What the result must be, as far as the request says.
struct ExpectedResult {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::optional<DataType> type;
  Order order = Order::kRowMajor;
};

ExpectedResult Expect(const MatmulInputs& inputs, const MatmulOptions& options);

// A request encoded once, to be sent as often as wanted: copies share its bytes.
struct EncodedMatmul {
  grpc::ByteBuffer request;
  ExpectedResult expected;
};

// Consumes the inputs; errors are those of EncodeRequest.
absl::StatusOr<EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options);

// Consumes the response's payload; where one chunk holds it all, nothing is copied.
//
// The server is believed about nothing: INTERNAL where D is not what was asked for, or
// where its chunks do not cover exactly the bytes of its plane (with or without the
// last line's padding), each once. Allocates no more than what was received.
absl::StatusOr<Matrix> DecodeResult(v1::MatmulResponse& response, const ExpectedResult& expected);

}  // namespace gemmd::client
