// Any message of the wire contract as JSON, and its parts as people read them. Fields
// that the contract gains appear in --json by themselves.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace gemmd::cli {

// Every field under its own name, unset ones with their defaults (unset messages are
// left out). Numbers are numbers; enumerators are in lower case; a Duration `x` is `x_s`
// in seconds; bytes are hexadecimal.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// "COPY_IN" is "copy-in".
std::string Word(absl::string_view enumerator);

double Seconds(const google::protobuf::Duration& duration);

// "1h2m3s", whole seconds.
std::string Human(const google::protobuf::Duration& duration);

// A name that others gave, in printable ASCII: a terminal obeys other bytes.
std::string Shown(absl::string_view name);

// "64.0 MiB".
std::string HumanBytes(std::uint64_t bytes);

// One decimal, as all microseconds are shown.
std::string Microseconds(double us);

}  // namespace gemmd::cli
