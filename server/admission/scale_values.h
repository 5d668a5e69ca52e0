// What scales may be.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// INVALID_ARGUMENT, naming `field` and the index: a scale is negative, which no quantizer makes
// and so is a mistake, infinite or no number.
absl::Status CheckScaleValues(absl::string_view field, const float* scales, std::uint64_t count);

}  // namespace gemmd
