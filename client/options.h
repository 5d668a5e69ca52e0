// The options of a client, and of each of its calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/calls/timer.h"
#include "client/channel.h"
#include "client/fleet/fleet.h"
#include "client/fleet/resolve.h"
#include "client/retry.h"
#include "client/route.h"
#include "client/wire/trace_headers.h"

namespace gemmd::client {

// The choice among several servers; docs/several-servers.md explains it.
struct FleetOptions {
  FleetPolicy policy;
  // Asked on a thread of the client's own, and once where it is made.
  Resolve resolve = ResolveByHost;
  absl::Duration look_pause = absl::Seconds(1);  // between two questions, at least
  std::function<absl::Time()> now = absl::Now;
};

struct ClientOptions {
  ChannelOptions channel;
  // Several servers, instead of channel.target; all else of `channel` is for each of them. An entry
  // is a target, or dns:///NAME[:PORT] for every address that NAME has at the time. A list that
  // ServerTargets() refuses shows as INVALID_ARGUMENT in the first call. Empty: channel.target.
  std::vector<std::string> servers;
  FleetOptions fleet;
  // Calls about an operand that has a digest say it as the header gemmd-affinity, for a proxy that
  // spreads calls by it; products of such operands then go in one call each, unless the route says
  // otherwise.
  bool affinity_header = false;
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
  // The one of several servers that it goes to, by its name, and to no other; empty: any.
  std::string server = {};
  // The one that it goes to first, if that one serves; empty: as the client chooses.
  std::string first = {};
  // Those that it goes to only where no other serves, as if they had failed.
  std::vector<std::string> avoided = {};
};

}  // namespace gemmd::client
