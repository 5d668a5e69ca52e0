// A server's life: start, serve, drain, end.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "server/options/config.pb.h"
#include "server/options/options.h"

namespace gemmd {

// The options that the process has, read anew.
using ReadOptions = std::function<absl::StatusOr<CommandLine>()>;

// Builds every layer, warms the device up, serves until SIGTERM, SIGINT or a call of Drain, then
// drains:
// health turns NOT_SERVING, new requests get UNAVAILABLE, those that were let in finish, though
// their payload may still be coming, and so do uploads (drain.h). A second
// signal or the drain timeout ends the process at once. A lost device ends it within a
// second: health turns NOT_SERVING, what is in flight gets UNAVAILABLE. SIGHUP reads the options,
// the policy and the files of TLS anew; of the options those change that reload (config.proto), and
// the log names the others that would. Returns the process's exit code (process.h).
//
// REQUIRES: called once in the process, which takes over SIGTERM and SIGINT.
int Serve(const config::ServerConfig& config, const ReadOptions& read_options);

}  // namespace gemmd
