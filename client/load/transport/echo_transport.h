// Requests of a workload's sizes to the bare echo server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/channel.h"
#include "client/load/transport.h"

namespace gemmd::load {

struct EchoSizes {
  std::uint64_t request_bytes = 0;
  std::uint64_t answer_bytes = 0;
  // True: a request goes not as one call but as messages on open streams, of at most chunk_bytes in
  // either direction, over `stripes` connections.
  bool streamed = false;
  std::uint64_t chunk_bytes = 1 << 20;
  int stripes = 1;
  // The server works so long before it answers, on one request at a time; zero: not at all. Not
  // for those that are streamed.
  std::chrono::microseconds work{0};
};

struct EchoOptions {
  client::ChannelOptions channel;
  int channels = 1;  // requests go over them in turn
  int streams = 1;   // on each, of those that are streamed
};

// One element a workload entry. An answer of another size is INTERNAL.
std::unique_ptr<Transport> MakeEchoTransport(const EchoOptions& options,
                                             const std::vector<EchoSizes>& sizes);

}  // namespace gemmd::load
