// The server's options: defaults, then a textproto file, then flags; all checked.
#pragma once

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "server/options/config.pb.h"

namespace gemmd {

// A configuration that is only to be checked (--check).
struct ToCheck {
  config::ServerConfig config;
};

// The request of the command line: to serve with a configuration, to check it, or to print a text
// (--help, --version, --print-config) and end.
using CommandLine = std::variant<config::ServerConfig, ToCheck, std::string>;

// INVALID_ARGUMENT: an unknown flag or field, a value that is not of its type, out of
// its range or not among its choices; the message names the flag, value and range.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// Checks ranges and choices of every field.
absl::Status Validate(const config::ServerConfig& config);

}  // namespace gemmd
