// Tells whether a server would start with a configuration, without starting it: gemmd --check.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/options/config.pb.h"

namespace gemmd {

// Reads every file that the configuration names, as the server does when it starts. The error is
// the first that would keep it from starting. Warnings: what the server would warn of, and take.
absl::Status CheckFiles(const config::ServerConfig& config, std::vector<std::string>* warnings);

// Tells people on standard error what CheckFiles() finds. Returns the process's exit code.
int CheckConfig(const config::ServerConfig& config);

}  // namespace gemmd
