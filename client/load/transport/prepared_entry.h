// The requests of one workload entry, encoded before the load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/answer_check.h"
#include "client/load/transport/echo_transport.h"
#include "client/load/transport/infer_message.h"
#include "client/load/transport/matmul_transport.h"
#include "client/load/transport/places.h"
#include "client/load/transport/shared_payload.h"
#include "client/load/workload.h"
#include "client/options.h"
#include "client/wire/codec.h"

namespace gemmd::load {

struct PreparedPayload {
  // One of the two, as the protocol is.
  std::shared_ptr<const client::EncodedMatmul> encoded;
  std::shared_ptr<const EncodedInfer> infer;
  std::unique_ptr<AnswerCheck> check;  // null where nothing is verified
  std::optional<SharedPayload> shared;
};

struct PreparedEntry {
  std::vector<PreparedPayload> payloads;
  std::unique_ptr<Places> turns;  // of payloads; null: any number of requests may use one
  std::size_t tenant = 0;         // of a lane's clients
  client::CallOptions call;
  EchoSizes sizes;
};

// The client's options for all requests of one tenant.
client::ClientOptions ClientOptionsFor(const MatmulTransportOptions& options,
                                       const std::string& tenant);

// Draws and encodes the operands, and uploads or registers those that stay. Errors are those of
// MatmulTransport::Create().
absl::StatusOr<PreparedEntry> PrepareEntry(const WorkloadEntry& entry,
                                           const MatmulTransportOptions& options,
                                           std::uint64_t seed);

}  // namespace gemmd::load
