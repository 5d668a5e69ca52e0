// Encodes the messages of a session as bytes.
#pragma once

#include "absl/time/time.h"
#include "client/stream/session_state.h"
#include "grpcpp/support/byte_buffer.h"

namespace gemmd::client {

// A MatmulStreamRequest around the planes' own memory. A deadline becomes what is left of it
// `now`, at least 1 us.
grpc::ByteBuffer StreamMessage(const Outgoing& outgoing, absl::Time now);

}  // namespace gemmd::client
