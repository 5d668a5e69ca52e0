// Findings of a transport about its answers, beside the replies.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gemmd::load {

struct Findings {
  std::uint64_t verified = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
  std::map<std::string, std::string> first_errors;  // messages by status code's name
};

}  // namespace gemmd::load
