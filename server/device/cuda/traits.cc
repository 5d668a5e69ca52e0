#include "server/device/cuda/traits.h"

#include "absl/strings/str_cat.h"

namespace gemmd {

DeviceTraits TraitsOf(const CudaProperties& properties) {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCuda;
  traits.name = absl::StrCat("cuda:", properties.ordinal);
  traits.ordinal = properties.ordinal;
  traits.model = properties.name;
  traits.compute_capability = 10 * properties.major + properties.minor;
  traits.compute_units = properties.multi_processor_count;
  return traits;
}

}  // namespace gemmd
