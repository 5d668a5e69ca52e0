// Bad input gets a clear error naming the field, its value and the limit. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"

namespace gemmd {

// Fixed limits: going over one is INVALID_ARGUMENT, whatever the load.
struct RequestLimits {
  std::uint64_t dimension = 2147483647;  // rows, columns or leading dimension of a plane
  std::uint64_t request_bytes = 0;       // all operands and the result together
  std::uint64_t result_bytes = 0;        // of D, which one message carries
};

// The problem that the call's header states; what it promises is in kernels/problem.h.
// INVALID_ARGUMENT: see above. UNIMPLEMENTED: a part of the contract that is not built.
absl::StatusOr<Problem> ValidateHeader(const MatmulCall& call, const RequestLimits& limits);

// The operands' bytes, each in one piece. Pieces that came as one chunk are views of it;
// others are gathered into `gathered`.
struct Payload {
  const void* operands[kOperandCount] = {};  // by OperandName; null where there is none
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  std::vector<std::vector<char>> gathered;
  std::uint64_t bytes = 0;
};

// INVALID_ARGUMENT: the chunks of some plane do not cover its bytes exactly once, or a
// scale is negative, infinite or no number.
// REQUIRES: `problem` is what ValidateHeader() made of the call.
absl::StatusOr<Payload> CollectPayload(const MatmulCall& call, const Problem& problem);

}  // namespace gemmd
