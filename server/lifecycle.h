// A server's life: start, serve, drain, end.
#pragma once

#include "server/options/config.pb.h"

namespace gemmd {

// Builds every layer, warms the device up, serves until SIGTERM or SIGINT, then drains:
// health turns NOT_SERVING, new requests get UNAVAILABLE, those that were let in finish, though
// their payload may still be coming, and so do uploads (drain.h). A second
// signal or the drain timeout ends the process at once. A lost device ends it within a
// second: health turns NOT_SERVING, what is in flight gets UNAVAILABLE. Returns the process's
// exit code (process.h).
//
// REQUIRES: called once in the process, which takes over SIGTERM and SIGINT.
int Serve(const config::ServerConfig& config);

}  // namespace gemmd
