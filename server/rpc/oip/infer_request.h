// From the requests of the Open Inference Protocol to calls of products. Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inference/grpc_service.pb.h"
#include "proto/payload_codec.h"
#include "server/admission/matmul_call.h"
#include "server/admission/validation.h"
#include "server/rpc/oip/infer_model.h"
#include "server/rpc/oip/infer_parameters.h"

namespace gemmd {

// The longest id of a request: it is kept for the answer.
inline constexpr std::size_t kMostIdBytes = 1024;

// The part of a request that its answer needs.
struct InferAnswer {
  std::string model;
  std::string id;
  std::vector<std::int64_t> shape;     // D's
  std::optional<SharedTensor> shared;  // where D goes; absent: into the answer
  bool wants_receipt = false;
  bool wants_final_response = false;
};

// A request as the call that it is.
struct InferProduct {
  MatmulCall call;  // without its caller
  // The bytes of its inline planes, in the message and in `typed`.
  std::vector<PayloadChunk> payload;
  std::uint64_t queue_timeout_us = 0;  // 0: none
  InferAnswer answer;

  // Typed contents as they would be raw, and a view of each. Neither moves with this.
  std::deque<std::string> typed;
  std::deque<absl::string_view> typed_views;
};

// The secret id of the caller's region of that name (server/regions). NOT_FOUND: it has none.
using FindRegion = absl::FunctionRef<absl::StatusOr<std::string>(const std::string& name)>;

// Maps a request to `model`, whose raw contents are those of `raw`. Admission checks the call as
// any other. INVALID_ARGUMENT: names the input, output or parameter, its value and the limit; and
// the errors of `find_region`. REQUIRES: `model` is what FindModel() found of its name.
absl::StatusOr<InferProduct> MapRequest(const inference::ModelInferRequest& request,
                                        const PayloadViews& raw, const InferModel& model,
                                        const RequestLimits& limits, FindRegion find_region);

}  // namespace gemmd
