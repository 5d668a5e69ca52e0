#pragma once

namespace gemmd {

// As in CHANGELOG.md.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace gemmd
