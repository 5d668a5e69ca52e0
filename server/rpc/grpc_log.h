// Writes gRPC's own log lines to the server's log.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gemmd {

// Makes gRPC's log lines of ours, of severity WARNING: its errors, and that it ends a connection,
// which it tells those alone who ask for everything. Clients cause most of them, so that no more
// than ten are written in a second; the next one tells how many were left out.
void RedirectGrpcLog();

// An end of a connection that gRPC itself made, as its log tells it in a line below errors.
struct TransportEnd {
  absl::string_view peer;  // empty: not told
  std::string why;
};
// None: the line tells of something else.
std::optional<TransportEnd> ReadTransportEnd(absl::string_view message);

}  // namespace gemmd
