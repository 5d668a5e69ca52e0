// Writes gRPC's own log lines to the server's log.
#pragma once

namespace gemmd {

// Makes gRPC's log lines of ours, of severity WARNING. Clients cause most of them, so that no more
// than ten are written in a second; the next one tells how many were left out.
void RedirectGrpcLog();

}  // namespace gemmd
