// Products as requests and answers of the Open Inference Protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/types.h"
#include "client/load/workload.h"
#include "client/matmul.h"
#include "client/wire/inline_operand.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "inference/grpc_service.pb.h"
#include "proto/payload_codec.h"

namespace gemmd::load {

// A request that can be sent, again and again, with an id or without.
struct EncodedInfer {
  std::vector<grpc::Slice> slices;  // of a ModelInferRequest without an id; they keep the operands
  std::uint64_t bytes = 0;          // of the message
  client::MatrixFormat d;           // to be expected
  Determinism determinism = Determinism::kBatchInvariant;
};

// The operands' bytes stay where they are. `resident` is the name of B on the server; empty: B goes
// along. INVALID_ARGUMENT where it is too large for one message. REQUIRES: CheckOip() of a workload
// with the entry is OK.
absl::StatusOr<std::shared_ptr<const EncodedInfer>> EncodeInfer(const WorkloadEntry& entry,
                                                                const client::InlineOperand& a,
                                                                const client::InlineOperand& b,
                                                                const std::string& resident);

// The message, with that id unless it is empty. Copies no operand.
grpc::ByteBuffer InferMessage(const EncodedInfer& request, const std::string& id);

// D, and the server's receipt as far as the answer's parameters have it. INTERNAL: the answer
// contradicts itself or the request.
absl::StatusOr<client::Product> DecodeInfer(const inference::ModelInferResponse& response,
                                            const PayloadViews& raw, const EncodedInfer& request);

// The status that a stream's error_message tells: "CODE: text", after "[request id: ...] " if that
// comes first. UNKNOWN where it names no code.
absl::Status StreamedError(const std::string& error_message);

}  // namespace gemmd::load
