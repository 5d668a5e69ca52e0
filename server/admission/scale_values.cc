#include "server/admission/scale_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace gemmd {

absl::Status CheckScaleValues(absl::string_view field, const float* scales, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (scales[i] >= 0 && std::isfinite(scales[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, "[", i, "] is ", scales[i], "; a scale must be finite and at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace gemmd
