// A server's life: start, serve, drain, end.
#pragma once

#include "server/options/config.pb.h"

namespace gemmd {

inline constexpr int kExitOk = 0;
inline constexpr int kExitCannotStart = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDrainCutShort = 3;
inline constexpr int kExitDeviceLost = 4;

// Builds every layer, warms the device up, serves until SIGTERM or SIGINT, then drains:
// health turns NOT_SERVING, new requests get UNAVAILABLE, admitted ones finish. A second
// signal or the drain timeout ends the process at once. A lost device ends it within a
// second: health turns NOT_SERVING, what is in flight gets UNAVAILABLE. Returns the process's
// exit code.
//
// REQUIRES: called once in the process, which takes over SIGTERM and SIGINT.
int Serve(const config::ServerConfig& config);

}  // namespace gemmd
