// The one conversion between gRPC's status and Abseil's.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace gemmd::client {

// Keeps code and message, with two exceptions. CANCELLED becomes UNAVAILABLE: nothing here cancels,
// and a gRPC server does so to what reaches it in the instant of its shutdown. gRPC's own refusal
// of a message over the receiver's limit is RESOURCE_EXHAUSTED, though trying again cannot help. It
// becomes INVALID_ARGUMENT, the contract's code for anything over a fixed limit, and says the size,
// the limit, and where that limit can be read. Details are kept, see details.h. If no connection
// could be made, the message ends with what gRPC's words mean for TLS, if they mean anything,
// IsUnreachable() (details.h) is true, and IsLasting() too where trying again does not help; a
// message that is most likely a proxy's says so.
absl::Status FromGrpc(const grpc::Status& status);

// UNAVAILABLE, of a call that ended with OK and without its answer: gRPC 1.51 drops an answer that
// it has not given out yet when the connection ends right behind it.
absl::Status AnswerWasLost();

}  // namespace gemmd::client
