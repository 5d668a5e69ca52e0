// One server as the products of a client have it: private to client.cc.
#pragma once

#include <atomic>
#include <memory>

#include "client/calls/call_count.h"
#include "client/calls/operand_link.h"
#include "client/calls/refiller.h"
#include "client/calls/timer.h"
#include "client/channel.h"
#include "client/retry.h"
#include "client/stream/session_pool.h"
#include "grpcpp/generic/generic_stub.h"

namespace gemmd::client {

// The settings of all products of a client.
struct MatmulSettings {
  RetryPolicy retry;
  std::shared_ptr<Timer> timer;
  std::shared_ptr<CallCount> calls;
  int max_channels = 1;
  bool affinity_header = false;
};

// The state that all products on one server share. Thread-safe.
struct MatmulLink {
  MatmulLink(const ChannelOptions& channel_options, const OperandLink& operands, int streams)
      : stub(operands.channel),
        sessions(channel_options, operands.channel, streams),
        refiller(operands) {}

  grpc::GenericStub stub;
  SessionPool sessions;
  Refiller refiller;
  std::atomic<bool> can_stream = true;
  std::atomic<int> in_flight = 0;
  std::atomic<double> connection_bytes_per_s = 0;  // UpdateRate(); a lost update does no harm
};

}  // namespace gemmd::client
