#include "kernels/landing/transpose_entries.h"
#include "kernels/landing/transpose_launch.h"

namespace gemmd::landing {

absl::Status EmulatedTranspose(const Transposition& transposition, const LaunchTarget& target) {
  return LaunchChecked(transposition, target);
}

}  // namespace gemmd::landing
