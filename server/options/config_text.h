// A configuration as text: its options by their flags, and all of it as a file.
#pragma once

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "server/options/config.pb.h"

namespace gemmd {

// "--limits.message-bytes": the fields that lead to an option, by their names.
std::string FlagName(const std::vector<const google::protobuf::FieldDescriptor*>& path);

// A textproto file for --config that says the same, with every option; those that nobody set are
// marked. There are no secrets among options: they name the files that have them.
std::string ConfigText(const config::ServerConfig& config);

// The flags of the options that have another value in `after`.
std::vector<std::string> DifferingFlags(const config::ServerConfig& before,
                                        const config::ServerConfig& after);

}  // namespace gemmd
