#pragma once

namespace gemmd {

// The version of server, client and contract alike, as CHANGELOG.md has it.
inline constexpr char kVersion[] = "0.2.0";

}  // namespace gemmd
