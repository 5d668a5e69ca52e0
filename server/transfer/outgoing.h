// The messages that a session sends over its streams, as values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/observe/receipt.h"

namespace gemmd {

// Each as the message of its name in gemmd.v1.MatmulStreamResponse.
struct SessionOpened {
  std::string session;
};
struct SessionJoined {};
struct RequestAccepted {
  std::uint64_t request_id = 0;
};
struct RequestFinished {
  std::uint64_t request_id = 0;
  absl::Status status;
  // Set with OK alone:
  Receipt receipt;
  MatrixLayout d;
  HostBuffer payload;  // all of D's bytes, or none: they come as chunks, or are elsewhere
  std::string handle;  // of a result that stays, which has no payload
};
struct ResultChunk {
  std::uint64_t request_id = 0;
  std::uint64_t offset = 0;
  HostBuffer bytes;  // shares the result's memory
};
using Outgoing =
    std::variant<SessionOpened, SessionJoined, RequestAccepted, RequestFinished, ResultChunk>;

// Those of a result that it carries.
inline std::uint64_t PayloadBytes(const Outgoing& message) {
  const HostBuffer* payload = nullptr;
  if (const auto* finished = std::get_if<RequestFinished>(&message)) payload = &finished->payload;
  if (const auto* chunk = std::get_if<ResultChunk>(&message)) payload = &chunk->bytes;
  std::uint64_t bytes = 0;
  if (payload == nullptr) return bytes;
  for (const HostPiece& piece : *payload) bytes += piece.size_bytes;
  return bytes;
}

}  // namespace gemmd
