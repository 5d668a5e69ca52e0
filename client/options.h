// The options of a client, and of each of its calls.
#pragma once

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "client/calls/timer.h"
#include "client/channel.h"
#include "client/retry.h"
#include "client/route.h"
#include "client/wire/trace_headers.h"

namespace gemmd::client {

struct ClientOptions {
  ChannelOptions channel;
  RouteOptions route;
  // Streams on the one connection that requests of one channel take in turn.
  int streams = 1;
  RetryPolicy retry;
  std::shared_ptr<Timer> timer;  // between attempts; gRPC's alarms if null
};

struct CallOptions {
  // For the whole call, its retries included. The server sees it and may refuse at
  // once what it cannot finish in time.
  absl::Duration timeout = absl::InfiniteDuration();
  std::optional<RouteOptions> route;  // the client's unless given
  TraceHeaders trace;
};

}  // namespace gemmd::client
