// Parameters of requests of the Open Inference Protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/map.h"
#include "inference/grpc_service.pb.h"
#include "server/admission/matmul_call.h"

namespace gemmd {

using InferParameters = google::protobuf::Map<std::string, inference::InferParameter>;

// The wishes of a request's parameters that are no part of the product.
struct InferOptions {
  std::optional<bool> transpose_b;     // absent: as the model has it
  bool has_beta = false;               // beta was given
  std::uint64_t queue_timeout_us = 0;  // 0: none
  bool wants_receipt = false;          // as parameters of the answer
  bool wants_final_response = false;   // a stream's answers say that they are the last ones
};

// Reads the parameters of a ModelInferRequest into the call. INVALID_ARGUMENT: one is unknown, of
// another type, or out of range; names it, its value and the limit.
absl::Status ReadParameters(const InferParameters& parameters, MatmulCall* call,
                            InferOptions* options);

// The place of a tensor in shared memory.
struct SharedTensor {
  std::string region;  // the name under which it was registered
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Reads the parameters of an input or an output, which `tensor` names: "input 'A'". Nothing: it
// has none. Errors as above.
absl::Status ReadTensorParameters(absl::string_view tensor, const InferParameters& parameters,
                                  std::optional<SharedTensor>* shared);

}  // namespace gemmd
