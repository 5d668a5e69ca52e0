// Requests of a workload to a gemmd server: through the client library, or as clients of Triton and
// KServe send them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/load/results/findings.h"
#include "client/load/transport.h"
#include "client/load/transport/echo_transport.h"
#include "client/load/transport/protocol.h"
#include "client/load/workload.h"

namespace gemmd::load {

inline constexpr int kMaxSharedPayloads = 16;

struct MatmulTransportOptions {
  Protocol protocol = Protocol::kGemmd;
  client::ChannelOptions channel;
  int channels = 1;                                   // connections; requests go in turn
  int streams = 1;                                    // on each, of those that are streamed
  absl::Duration timeout = absl::InfiniteDuration();  // of entries without a deadline
  double verify_fraction = 0;                         // of the answers, chosen by index
  std::uint64_t seed = 1;                             // of operands and of what is verified
  // The payloads of one entry, sent in turn; fewer where they would pass payload_bytes together.
  int payloads = 4;
  std::uint64_t payload_bytes = 256 << 20;
  // The requests in flight. In shared memory each has a payload of its own, whatever its bytes, up
  // to kMaxSharedPayloads: with fewer, requests would wait here and not at the server.
  int in_flight = 4;
  // Unary calls that a connection carries at once, by the server's limit; 0: any number. gRPC would
  // keep the others back where nobody sees them, so they wait here, and that is a stage.
  std::uint64_t calls_per_connection = 0;
};

// Nothing is tried again: an error is counted, not hidden.
class MatmulTransport : public Transport {
 public:
  // Makes the operands and encodes them once, so that a request costs no copy of them, and
  // uploads those that are to be resident. Shared ones are registered, and one request at a time
  // uses each payload; the others wait for their turn. INVALID_ARGUMENT where a request is too
  // large for one message, or CheckOip() refuses it; what the server answers to an upload or a
  // registration.
  static absl::StatusOr<std::unique_ptr<MatmulTransport>> Create(
      const Workload& workload, const MatmulTransportOptions& options);

  // Returns the findings since the last call. REQUIRES: drained.
  virtual Findings TakeFindings() = 0;

  // The bytes that each entry puts on the wire, for the bare echo.
  virtual std::vector<EchoSizes> sizes() const = 0;
};

}  // namespace gemmd::load
