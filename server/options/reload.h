// The options that SIGHUP changes in a server that runs: those that config.proto marks.
#pragma once

#include "server/options/config.pb.h"

namespace gemmd {

// Gives them the values that they have in `read`, defaults too. All other options stay.
void TakeReloading(const config::ServerConfig& read, config::ServerConfig* config);

}  // namespace gemmd
