// The client's version: of the library and of the command line.
#pragma once

namespace gemmd::client {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace gemmd::client
