// Operands in memory shared with the server, and who may use them when.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/types.h"
#include "base/sync/mutex.h"
#include "client/matmul.h"
#include "client/wire/codec.h"
#include "client/wire/inline_operand.h"
#include "grpcpp/channel.h"

namespace gemmd::load {

// A and B in a region of their own, and room for D, which `encoded` names.
struct SharedPayload {
  std::shared_ptr<const client::EncodedMatmul> encoded;
  char* d = nullptr;
  std::uint64_t d_bytes = 0;
};

// Copies A and B there. Errors are SharedRegion::Create()'s. REQUIRES: the result's type is
// `output`.
absl::StatusOr<SharedPayload> Share(const std::shared_ptr<grpc::Channel>& channel,
                                    const client::InlineOperand& a, const client::InlineOperand& b,
                                    client::MatmulOptions options, DataType output);

}  // namespace gemmd::load
