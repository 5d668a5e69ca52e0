// The speed of the way to a server from here, as its products would find it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gemmd::cli {

struct NetworkSpeed {
  double round_trip_us = 0;  // of a call with next to nothing in it
  // GB/s of payload; 0 where it was not measured.
  double upload_gbps = 0;
  double download_gbps = 0;
};

// Five small calls; then, unless it is 0, two products that carry `probe_bytes` up and two that
// carry as many down and compute next to nothing. Errors are the server's.
absl::StatusOr<NetworkSpeed> MeasureNetwork(client::Client* connection, std::uint64_t probe_bytes,
                                            const client::CallOptions& call);

}  // namespace gemmd::cli
