#pragma once

namespace gemmd {

// Of the server, the client and the contract alike; as in CHANGELOG.md.
inline constexpr char kVersion[] = "0.2.0";

}  // namespace gemmd
