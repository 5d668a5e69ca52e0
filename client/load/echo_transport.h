// Requests of a workload's sizes to the bare echo server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/channel.h"
#include "client/load/transport.h"

namespace gemmd::load {

struct EchoSizes {
  std::uint64_t request_bytes = 0;
  std::uint64_t answer_bytes = 0;
};

// One element a workload entry. Requests go over the channels in turn. An answer of
// another size is INTERNAL.
std::unique_ptr<Transport> MakeEchoTransport(const client::ChannelOptions& channel, int channels,
                                             const std::vector<EchoSizes>& sizes);

}  // namespace gemmd::load
